"""A client of ``/ws/threads/{id}`` as its documentation has clients be."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from django.conf import settings
from django.test import Client
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from controlplane.access.models import User
from tests.support.server import Server

PATIENCE_S = 15.0


class Socket:
    """An open connection; what came is in ``events``, ``acks``, ``errors`` and ``others``."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.events: list[dict[str, Any]] = []
        self.acks: list[dict[str, Any]] = []
        self.errors: list[dict[str, Any]] = []
        self.others: list[dict[str, Any]] = []

    def hello(self, after: int = 0) -> "Socket":
        self.say(type="hello", after=after)
        return self

    def say(self, **message: Any) -> None:
        self.connection.send(json.dumps(message))

    def command(self, **message: Any) -> dict[str, Any]:
        """Send a command and return its acknowledgement."""
        count = len(self.acks)
        self.say(**message)
        self.read(until=lambda socket: len(socket.acks) > count)
        return self.acks[-1]

    def read(self, *, until: Callable[["Socket"], Any]) -> None:
        """Read until ``until(self)`` is true."""
        while not until(self):
            message = json.loads(self.connection.recv(timeout=PATIENCE_S))
            if "seq" in message:
                self.events.append(message)
            else:
                {"ack": self.acks, "error": self.errors}.get(message["type"], self.others).append(message)

    def close_code(self) -> tuple[int, str]:
        """Read until the server closes, and return code and reason."""
        try:
            self.read(until=lambda _socket: False)
        except ConnectionClosed as closed:
            return (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (1006, "")
        raise AssertionError("it goes on")

    def seqs(self) -> list[int]:
        return [event["seq"] for event in self.events]


def url_of(server: Server, thread_id: UUID | str) -> str:
    return f"{server.url.replace('http', 'ws', 1)}/ws/threads/{thread_id}"


@contextmanager
def socket_of(
    server: Server,
    thread_id: UUID | str,
    token: str | None = None,
    *,
    headers: dict[str, str] | None = None,
    **options: Any,
) -> Iterator[Socket]:
    """Open a connection for the length of the block; ``hello`` is still to be said."""
    bearer = {"Authorization": f"Bearer {token}"} if token else {}
    defaults = {"max_size": None, "max_queue": None, "open_timeout": PATIENCE_S, "close_timeout": 1}
    both = bearer | (headers or {})
    with connect(url_of(server, thread_id), additional_headers=both, **(defaults | options)) as connection:
        yield Socket(connection)


def refusal(
    server: Server, thread_id: UUID | str, token: str | None = None, **options: Any
) -> tuple[int, dict[str, Any]]:
    """Return status and problem document of a refused handshake; ``(101, {})`` for one that is accepted."""
    try:
        with socket_of(server, thread_id, token, **options):
            return 101, {}
    except InvalidStatus as refused:
        body = refused.response.body or b""
        return refused.response.status_code, json.loads(body) if body.startswith(b"{") else {}


def session_cookie(user: User) -> dict[str, str]:
    """Return the header of a browser in which ``user`` has signed in."""
    browser = Client()
    browser.force_login(user)
    name = settings.SESSION_COOKIE_NAME
    return {"Cookie": f"{name}={browser.cookies[name].value}"}
