"""Whose word on addresses counts, and which pages may open a WebSocket."""

import asyncio
from typing import Any

import pytest
from django.test import override_settings

from controlplane.core.edge import REFUSED, SameOrigin, behind_proxies


def client_of(trusted: list[str], peer: str, *forwarded: str, proto: str = "") -> tuple[str, str]:
    """Return address and scheme that an application behind the check sees."""
    seen: dict[str, Any] = {}

    async def application(scope: Any, _receive: Any, _send: Any) -> None:
        seen.update(scope)

    headers = [(b"x-forwarded-for", value.encode()) for value in forwarded]
    headers += [(b"x-forwarded-proto", proto.encode())] if proto else []
    scope = {"type": "http", "scheme": "http", "client": (peer, 4711), "headers": headers}
    with override_settings(TRUSTED_PROXIES=trusted):
        asyncio.run(behind_proxies(application)(scope, None, None))
    return seen["client"][0], seen["scheme"]


def test_address__no_trusted_proxy__headers_change_nothing() -> None:
    assert client_of([], "127.0.0.1", "198.51.100.1", proto="https") == ("127.0.0.1", "http")


def test_address__not_from_the_proxy__headers_change_nothing() -> None:
    assert client_of(["10.0.0.0/8"], "192.0.2.1", "198.51.100.1", proto="https") == ("192.0.2.1", "http")


def test_address__from_the_proxy__is_the_last_that_is_none() -> None:
    assert client_of(["10.0.0.0/8"], "10.0.0.1", "198.51.100.1", proto="https") == ("198.51.100.1", "https")
    # what the client itself wrote stands before what the proxy added
    assert client_of(["10.0.0.0/8"], "10.0.0.1", "203.0.113.9, 198.51.100.1, 10.0.0.2") == ("198.51.100.1", "http")
    assert client_of(["10.0.0.0/8"], "10.0.0.1", "203.0.113.9", "198.51.100.1") == ("198.51.100.1", "http")
    assert client_of(["2001:db8::/32"], "2001:db8::1", "2001:db9::5") == ("2001:db9::5", "http")


def open_websocket(*headers: tuple[bytes, bytes], scheme: str = "ws") -> str:
    """Return ``accepted`` or ``refused``."""
    sent: list[Any] = []

    async def application(_scope: Any, _receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {"type": "websocket", "scheme": scheme, "path": "/ws/threads/x", "headers": list(headers)}
    with override_settings(
        ALLOWED_HOSTS=["opensre.example", "localhost"], CSRF_TRUSTED_ORIGINS=["https://other.example"]
    ):
        asyncio.run(SameOrigin(application)(scope, receive, send))
    if sent == [{"type": "websocket.accept"}]:
        return "accepted"
    assert sent == [{"type": "websocket.close", "code": REFUSED}]
    return "refused"


HOST = (b"host", b"opensre.example:8000")
COOKIE = (b"cookie", b"opensre_session=x")


@pytest.mark.parametrize(
    ("origin", "outcome"),
    [
        (b"http://opensre.example:8000", "accepted"),
        (b"https://opensre.example:8000", "accepted"),
        (b"https://OpenSRE.example:8000", "accepted"),
        (b"https://other.example", "accepted"),
        (b"https://evil.example", "refused"),
        (b"https://opensre.example", "refused"),
        (b"https://opensre.example:8001", "refused"),
        (b"https://opensre.example.evil.example:8000", "refused"),
        (b"https://evil.example/opensre.example:8000", "refused"),
        (b"https://opensre.example:8000@evil.example", "refused"),
        (b"null", "refused"),
        (b"", "refused"),
        (b"file://", "refused"),
        (b"https://[", "refused"),
        (b"\xff\xfe", "refused"),
    ],
)
def test_websocket__origin__is_ours_or_named(origin: bytes, outcome: str) -> None:
    assert open_websocket(HOST, COOKIE, (b"origin", origin)) == outcome


def test_websocket__page_over_http_on_a_secure_socket__is_refused() -> None:
    assert open_websocket(HOST, COOKIE, (b"origin", b"http://opensre.example:8000"), scheme="wss") == "refused"


def test_websocket__no_origin__only_without_cookies() -> None:
    assert open_websocket(HOST) == "accepted"
    assert open_websocket(HOST, COOKIE) == "refused"


def test_websocket__foreign_host__is_refused() -> None:
    evil = (b"host", b"evil.example")
    assert open_websocket(evil, COOKIE, (b"origin", b"https://evil.example")) == "refused"
    assert open_websocket((b"origin", b"https://opensre.example")) == "refused"


def test_application__every_websocket__passes_the_check() -> None:
    from controlplane.asgi import make_application

    routes = make_application().application_mapping
    assert isinstance(routes["websocket"], SameOrigin)
