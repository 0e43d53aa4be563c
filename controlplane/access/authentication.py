"""Who calls the REST API: a bearer token or a Django session, both ending in the same :class:`Actor`."""

from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request
from typing_extensions import override

from controlplane.access.actors import actor_for_session, person_named
from controlplane.access.limits.guard import bearer_actor
from controlplane.access.models import User
from controlplane.core.actor import Actor, Channel
from controlplane.core.api import actor_of
from controlplane.core.errors import PermissionDenied
from controlplane.core.refusals import carry_actor

__all__ = [
    "BearerAuthentication",
    "IsAuthenticatedActor",
    "Principal",
    "SessionActorAuthentication",
    "actor_of",
    "bearer_of",
    "require_reading",
]

CHALLENGE: Final = 'Bearer realm="opensre"'
TEAM_TOKEN_HEADER: Final = "X-OpenSRE-Team-Token"  # noqa: S105 (a header's name)


@dataclass(frozen=True, slots=True)
class Principal:
    """What DRF calls ``request.user``. Code of the project reads the actor instead, see :func:`actor_of`."""

    actor: Actor

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def is_anonymous(self) -> bool:
        return False

    @property
    def is_active(self) -> bool:
        return True

    @property
    def pk(self) -> UUID | None:
        return self.actor.user_id

    @override
    def __str__(self) -> str:
        return self.actor.label


def bearer_of(authorization: str, team_token: str) -> str | None:
    """Return the token in ``Authorization`` (RFC 6750, section 2.1) or ``X-OpenSRE-Team-Token``, else ``None``.

    Another scheme than Bearer is not for us: a proxy's Basic credential may travel beside a session. An empty or
    malformed bearer is a credential nevertheless, and will be refused.
    """
    scheme, _, credential = authorization.strip().partition(" ")
    if scheme.lower() == "bearer":
        return credential.strip()
    return team_token.strip() or None


class BearerAuthentication(BaseAuthentication):
    """An access token. One that is presented and not valid ends in 401, whatever session there is besides."""

    @override
    def authenticate(self, request: Request) -> tuple[Principal, Actor] | None:
        token = bearer_of(request.headers.get("Authorization", ""), request.headers.get(TEAM_TOKEN_HEADER, ""))
        if token is None:
            return None
        actor = bearer_actor(token, channel=Channel.API, address=request.META.get("REMOTE_ADDR"))
        carry_actor(request._request, actor)  # noqa: SLF001 (as below)
        return Principal(actor), actor

    @override
    def authenticate_header(self, _request: Request) -> str:
        return CHALLENGE


class SessionActorAuthentication(SessionAuthentication):
    """A signed-in person. Unsafe methods need the CSRF token: the cookie travels with requests of other sites too."""

    @override
    def authenticate(self, request: Request) -> Any:
        plain = request._request  # noqa: SLF001 (DRF keeps Django's request there, its own session authentication does the same)
        user = plain.user
        if not isinstance(user, User) or not user.is_active:
            return None
        address = request.META.get("REMOTE_ADDR")
        carry_actor(plain, person_named(user, channel=Channel.WEB, address=address))  # as whom another site may speak
        self.enforce_csrf(request)
        actor = actor_for_session(plain.session, user, channel=Channel.WEB, address=address)
        carry_actor(plain, actor)
        return Principal(actor), actor


class IsAuthenticatedActor(BasePermission):
    """Every endpoint needs a caller; what it may do is decided by selectors and services.

    One who views as a team reads alone. Its scopes open nothing else; that no endpoint writes for it all the same, or
    makes a dry run by POST, is settled here for those yet to be written too.
    """

    @override
    def has_permission(self, request: Request, _view: Any) -> bool:
        if not isinstance(request.auth, Actor):
            return False
        require_reading(request.auth, request.method)
        return True


def require_reading(actor: Actor, method: str | None) -> None:
    """Refuse whatever may write when ``actor`` views as a team.

    Raises:
        PermissionDenied: ``read_only``.
    """
    if actor.impersonator is not None and method not in SAFE_METHODS:
        raise PermissionDenied("You are viewing as a team: that is for reading only.", code="read_only")


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # untyped registration hook
    target_class = BearerAuthentication
    name = "token"

    @override
    def get_security_definition(self, _auto_schema: Any) -> dict[str, str]:
        return {
            "type": "http",
            "scheme": "bearer",
            "bearerFormat": "osre_team_… | osre_admin_… | osre_user_… | osre_view_…",
        }


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # untyped registration hook
    target_class = SessionActorAuthentication
    name = "session"

    @override
    def get_security_definition(self, _auto_schema: Any) -> dict[str, str]:
        return {"type": "apiKey", "in": "cookie", "name": settings.SESSION_COOKIE_NAME}
