"""Access tokens of senders that can only put them into an address: as the password of HTTP Basic (RFC 7617)."""

from typing import Any, Final

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.request import Request
from typing_extensions import override

from controlplane.access.authentication import BearerAuthentication, Principal
from controlplane.access.limits.guard import bearer_actor
from controlplane.alerts.verifying import basic_password
from controlplane.core.actor import Actor, Channel
from controlplane.core.refusals import carry_actor

#: What every access token begins with: another Basic credential may be a proxy's and is not for us.
_OURS: Final = "osre_"
CHALLENGES: Final = 'Bearer realm="opensre", Basic realm="opensre", charset="UTF-8"'


class BasicTokenAuthentication(BearerAuthentication):
    """``https://anything:osre_team_…@host/…``: the form in which Amazon SNS and others take a credential.

    They ask without it first and want to be told to (source: Amazon SNS, "Endpoint authorization").
    """

    @override
    def authenticate(self, request: Request) -> tuple[Principal, Actor] | None:
        scheme, _, credential = request.headers.get("Authorization", "").strip().partition(" ")
        token = basic_password(credential.strip()) if scheme.lower() == "basic" else ""
        if not token.startswith(_OURS):
            return None
        actor = bearer_actor(token, channel=Channel.API, address=request.META.get("REMOTE_ADDR"))
        carry_actor(request._request, actor)  # noqa: SLF001 (DRF keeps Django's request there)
        return Principal(actor), actor


class BasicTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # untyped registration hook
    target_class = BasicTokenAuthentication
    name = "basicToken"

    @override
    def get_security_definition(self, _auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "basic"}
