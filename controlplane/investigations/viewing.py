"""Who watches a thread from outside Django: the credentials of a plain ASGI connection, and what they may see.

Event streams, WebSockets and the ``/investigate`` of OpenSRE share it. Credentials are kept, so that the permission can
be checked again while a connection is open.
"""

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

import orjson
from django.conf import settings
from django.http.cookie import parse_cookie
from django.http.request import split_domain_port, validate_host

from controlplane.access.actors import actor_for_bearer, actor_for_session_cookie
from controlplane.access.authentication import TEAM_TOKEN_HEADER, bearer_of
from controlplane.access.limits.guard import bearer_actor, limit_actor
from controlplane.core import errors, refusals
from controlplane.core.actor import Actor, Channel
from controlplane.core.rest import PROBLEM
from controlplane.investigations.selectors import is_starter, thread_get

T = TypeVar("T")
Scope = MutableMapping[str, Any]
Send = Callable[[Any], Awaitable[None]]
Receive = Callable[[], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Credentials:
    """What the request carries."""

    bearer: str | None = field(repr=False)
    session: str | None = field(repr=False)
    address: str | None

    def first_actor(self) -> Actor:
        """Return who this is; for the opening of a connection, which counts tokens that are refused.

        Raises:
            NotAuthenticated: nobody.
            TooManyRequests: ``rate_limited``.
        """
        if self.bearer is not None:
            return bearer_actor(self.bearer, channel=Channel.API, address=self.address)
        return self.actor()

    def actor(self) -> Actor:
        """Return who this is now.

        Raises:
            NotAuthenticated: nobody (any more).
        """
        if self.bearer is not None:
            return actor_for_bearer(self.bearer, channel=Channel.API, address=self.address)
        if self.session:
            actor = actor_for_session_cookie(self.session, channel=Channel.WEB, address=self.address)
            if actor is not None:
                return actor
        raise errors.NotAuthenticated


@dataclass(frozen=True, slots=True)
class Viewer:
    """A reader that may see the thread; ``starter`` also sees what is addressed to its starter alone."""

    thread_id: UUID
    organization_id: UUID
    starter: bool


def asked_by(credentials: Credentials, route: str, use: Callable[[Actor], T]) -> T:
    """Return what ``use`` makes of who asks, and count the request; a refusal is noted. Not from an event loop.

    Args:
        credentials: of the connection.
        route: the name of what is asked, for the record.
        use: what is asked.

    Raises:
        NotAuthenticated, TooManyRequests: nobody, or too often.
        AppError: what ``use`` raises.
    """
    actor: Actor | None = None
    try:
        actor = credentials.first_actor()
        limit_actor("requests", actor)
        return use(actor)
    except errors.AppError as error:
        refusal = refusals.refusal_of(
            status=error.status,
            route=route,
            actor=actor,
            error=error,
            code=error.code,
            channel=Channel.API,
            address=credentials.address,
        )
        if write := refusals.note(refusal):
            write()
        raise


def viewer_open(credentials: Credentials, thread_id: UUID, route: str) -> Viewer:
    """Return the viewer of a connection that opens; see :func:`asked_by`.

    Raises:
        NotAuthenticated, NotFound, TooManyRequests: it may not.
    """
    return asked_by(credentials, route, lambda actor: viewer_of(actor, thread_id))


def viewer_again(credentials: Credentials, thread_id: UUID) -> Viewer:
    """Return the viewer of a connection that is open already.

    Raises:
        NotAuthenticated, NotFound: it may not any more.
    """
    return viewer_of(credentials.actor(), thread_id)


def viewer_of(actor: Actor, thread_id: UUID) -> Viewer:
    """Return the actor as a viewer of a thread.

    Raises:
        NotFound: it does not see the thread.
    """
    thread = thread_get(actor, thread_id)
    return Viewer(thread.pk, thread.organization_id, is_starter(actor, thread))


def credentials_of(scope: Scope) -> Credentials:
    """Return what an ASGI connection carries: a token in its headers, a session's cookie, the client's address."""
    client = scope.get("client")
    cookies = parse_cookie(header_of(scope, b"cookie"))
    return Credentials(
        bearer=bearer_of(header_of(scope, b"authorization"), header_of(scope, TEAM_TOKEN_HEADER.lower().encode())),
        session=cookies.get(settings.SESSION_COOKIE_NAME),
        address=client[0] if client else None,
    )


def header_of(scope: Scope, name: bytes) -> str:
    """Return the first header called ``name`` (lower case), ``""`` without one."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def require_known_host(scope: Scope) -> None:
    """Hold a connection to what Django's own middleware demands of every other route.

    Raises:
        MalformedRequest: ``host_not_allowed``.
    """
    domain, _ = split_domain_port(header_of(scope, b"host"))
    if not domain or not validate_host(domain, settings.ALLOWED_HOSTS):
        raise errors.MalformedRequest("This host is not served here.", code="host_not_allowed")


class MethodNotAllowed(errors.AppError):
    """``headers`` say what is."""

    status, default_code, title = 405, "method_not_allowed", "Method not allowed"


async def disconnected(receive: Receive) -> None:
    """Return once the client of a request has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_problem(send: Send, error: errors.AppError) -> None:
    """Answer an HTTP request with a problem document."""
    headers = [(b"content-type", PROBLEM.encode())]
    headers += [(name.lower().encode(), value.encode()) for name, value in error.headers.items()]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": orjson.dumps(error.as_problem())})
