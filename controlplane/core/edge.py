"""What stands before every ASGI application: whose word on addresses counts, and which pages may open a WebSocket."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import urlsplit

import structlog
from django.conf import settings
from django.http.request import split_domain_port, validate_host
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

log = structlog.get_logger(__name__)

Application = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]
#: Close code; one sent before the handshake is accepted reaches the client as HTTP 403 (ASGI, WebSocket close).
REFUSED: Final = 4403


def behind_proxies(application: Any) -> Any:
    """Return ``application`` with the client's address and scheme taken from ``TRUSTED_PROXIES``, and from nobody else.

    Of the addresses in ``X-Forwarded-For`` the last one that is no trusted proxy counts: a client may write what it
    likes before that. Without trusted proxies the header is not read at all.
    """
    trusted = list(settings.TRUSTED_PROXIES)
    return ProxyHeadersMiddleware(application, trusted_hosts=trusted) if trusted else application


class SameOrigin:
    """Refuses a WebSocket that a page of another site opens.

    ``Origin`` must name the host that the request is sent to, or one of ``CSRF_TRUSTED_ORIGINS``, as for forms. A
    client that is no browser sends none and has no cookies of anybody: it may, with a token.
    """

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        headers = dict(scope["headers"])
        if _is_allowed(headers, scope.get("scheme", "ws")):
            await self._application(scope, receive, send)
            return
        log.warning("websocket.origin_refused")
        await receive()
        await send({"type": "websocket.close", "code": REFUSED})


def _is_allowed(headers: dict[bytes, bytes], scheme: str) -> bool:
    host = headers.get(b"host", b"").decode("latin-1")
    domain, _ = split_domain_port(host)
    if not domain or not validate_host(domain, settings.ALLOWED_HOSTS):
        return False
    origin = headers.get(b"origin")
    if origin is None:
        return b"cookie" not in headers
    text = origin.decode("latin-1").lower()
    if text in settings.CSRF_TRUSTED_ORIGINS:
        return True
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    # Behind a proxy that ends TLS and is not trusted, the page is on https where the socket looks like ws.
    return (
        parts.netloc == host.lower()
        and parts.scheme in {"http", "https"}
        and not (scheme == "wss" and parts.scheme == "http")
    )
