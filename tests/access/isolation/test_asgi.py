"""The routes that no Django view serves, over a real server: streams, the runtime's configuration, WebSockets."""

import asyncio
from collections.abc import Iterator
from typing import Any

import httpx
import orjson
import pytest
from asgiref.testing import ApplicationCommunicator
from django.conf import settings

from controlplane.asgi import make_application
from controlplane.core.permissions import Action
from controlplane.route_table import ROUTES, Route
from tests.access.isolation.expected import BOUND, DEAD, FOREIGN, expected
from tests.access.isolation.world import SPOOFED, Caller, Objects, World, build
from tests.support.server import Server, serving
from tests.support.sockets import refusal, session_cookie, socket_of

pytestmark = pytest.mark.django_db(transaction=True)

STREAM = next(route for route in ROUTES if route.path.endswith("/stream"))


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


def status(server: Server, route: Route, caller: Caller, objects: Objects) -> tuple[int, str]:
    """Return the status and, of a refusal, the body."""
    headers = caller.headers | ({"Authorization": f"Bearer {caller.token}"} if caller.token else {})
    if caller.person is not None:
        cookie = caller.client().cookies[settings.SESSION_COOKIE_NAME].value
        headers |= {"Cookie": f"{settings.SESSION_COOKIE_NAME}={cookie}"}
    with httpx.stream("GET", server.url + objects.fill(route.path), headers=headers, timeout=20) as response:
        return response.status_code, "" if response.status_code == 200 else response.read().decode()


def everybody(world: World) -> list[Caller]:
    return [*world.callers.values(), world.scoped(Action.RUN_READ)]


def test_stream__everybody__gets_what_is_documented_and_no_more_is_told(server: Server) -> None:
    world = build()
    callers = [caller for caller in everybody(world) if not caller.view_as]  # test_impersonation.py has that one
    found = {caller.name: status(server, STREAM, caller, world.here) for caller in callers}
    assert {name: answer for name, (answer, _) in found.items()} == {
        caller.name: expected(STREAM, caller) for caller in callers
    }
    for name, (answer, body) in found.items():
        if answer == 404:
            caller = next(one for one in callers if one.name == name)
            for objects in (world.nowhere, world.foreign):
                foreign = status(server, STREAM, caller, objects)
                assert foreign == (404, body) or (foreign[0] == 200 and "another organization" in name), name


AGUI = [route for route in ROUTES if route.path.startswith("api/v1/agui/")]


def agui_status(server: Server, route: Route, caller: Caller, objects: Objects) -> tuple[int, str]:
    """Return the status of an AG-UI call and, of a refusal, the body."""
    headers = caller.headers | ({"Authorization": f"Bearer {caller.token}"} if caller.token else {})
    url = server.url + objects.fill(route.path.replace("{agent}", "{node}"))
    messages = [{"id": "m", "role": "user", "content": "why?"}]
    thread = "new" if route.path.endswith("/run") else objects.names["thread_id"]
    body = {"threadId": thread, "runId": f"run of {caller.name}", "messages": messages}
    content = None if route.method == "GET" else orjson.dumps(body)
    with httpx.stream(route.method, url, headers=headers, content=content, timeout=20) as response:
        return response.status_code, "" if response.status_code == 200 else response.read().decode()


@pytest.mark.parametrize("route", AGUI, ids=lambda route: route.path)
def test_agui__everybody__gets_what_is_documented_by_token_alone(server: Server, route: Route) -> None:
    world = build()
    callers = [caller for caller in [*world.callers.values(), world.scoped(route.action)] if not caller.view_as]
    found = {caller.name: agui_status(server, route, caller, world.here) for caller in callers}
    wanted = {caller.name: expected(route, caller) if caller.token else 401 for caller in callers}
    if route.path.endswith("/connect"):
        wanted["viewing as the team, by token"] = 200  # joining reads, whatever its method
    if route.path.endswith("/run"):
        wanted["admin token of another organization"] = 200  # the name of an agent means a team of one's own
    assert {name: answer for name, (answer, _) in found.items()} == wanted
    for name, (answer, body) in found.items():
        if answer in (404, 422):
            caller = next(one for one in callers if one.name == name)
            assert agui_status(server, route, caller, world.nowhere) == (answer, body), name


@pytest.mark.parametrize("path", ["api/v1/config/me", "api/v1/config/me/effective"])
def test_own_configuration__hot_route__answers_everybody_as_the_view_does(server: Server, path: str) -> None:
    world = build()
    route = next(one for one in ROUTES if one.path == path)
    callers = [*world.callers.values(), world.scoped(Action.CONFIG_READ)]
    callers = [caller for caller in callers if not caller.view_as]
    found = {caller.name: status(server, route, caller, world.here)[0] for caller in callers}
    assert found == {caller.name: expected(route, caller) for caller in callers}
    assert {name for name, answer in found.items() if answer == 200} == BOUND - {"viewing as the team, in a browser"}
    assert {name for name, answer in found.items() if answer == 401} == DEAD


SOCKET = next(route for route in ROUTES if route.path.startswith("ws/"))
INVESTIGATE = next(route for route in ROUTES if route.path == "investigate")


def handshake(server: Server, caller: Caller, objects: Objects, origin: str | None = None) -> tuple[int, Any]:
    """Return the status of a handshake and, of a refusal, the problem document."""
    headers, options = dict(caller.headers), {}
    if caller.person is not None:
        headers |= session_cookie(caller.person)
        options["origin"] = origin or server.url  # what the caller's own browser sends
    return refusal(server, objects.names["thread_id"], caller.token or None, headers=headers, **options)


def test_socket__everybody__gets_what_is_documented_and_no_more_is_told(server: Server) -> None:
    world = build()
    callers = [caller for caller in everybody(world) if not caller.view_as]
    found = {caller.name: handshake(server, caller, world.here) for caller in callers}
    assert {name: answer for name, (answer, _) in found.items()} == {
        caller.name: expected(SOCKET, caller) for caller in callers
    }
    for caller in callers:
        if found[caller.name][0] == 404:
            for objects in (world.nowhere, world.foreign):
                foreign = handshake(server, caller, objects)
                assert foreign == found[caller.name] or (foreign[0] == 101 and caller.name in FOREIGN), caller.name


def test_socket__page_of_another_site__refused_whoever_is_signed_in(server: Server) -> None:
    world = build()
    for caller in everybody(world):
        if caller.person is not None and not caller.view_as:
            assert handshake(server, caller, world.here, "https://evil.example.com")[0] == 403, caller.name


def test_socket__everybody__asks_for_no_more_than_over_rest(server: Server) -> None:
    """Whoever may read opens one; what is asked over it is answered as its REST address answers."""
    world = build()
    asked: dict[str, tuple[str, dict[str, Any]]] = {
        "message": ("messages", {"text": "look here"}),
        "answer": ("answers", {"request_id": "q", "answers": {"question_0": "yes"}}),
        "interrupt": ("interrupt", {}),
    }
    for caller in everybody(world):
        if caller.view_as or expected(SOCKET, caller) != 101:
            continue
        headers = caller.headers | (session_cookie(caller.person) if caller.person else {})
        origin = {"origin": server.url} if caller.person else {}
        thread_id = world.here.names["thread_id"]
        with socket_of(server, thread_id, caller.token or None, headers=headers, **origin) as socket:
            socket.hello()
            for kind, (name, body) in asked.items():
                ack = socket.command(type=kind, id=f"{caller.name} {kind}", **body)
                status = 202 if ack["ok"] else ack["error"]["status"]
                route = next(row for row in ROUTES if row.path == f"api/v1/threads/{{thread_id}}/{name}")
                may = expected(route, caller)
                assert (status == 403) == (may == 403), (caller.name, kind, status)


def test_investigate__everybody__gets_what_is_documented(server: Server) -> None:
    world = build()
    callers = [caller for caller in [*world.callers.values(), world.scoped(Action.RUN_CREATE)] if not caller.view_as]
    found: dict[str, int] = {}
    for caller in callers:
        headers = caller.headers | ({"Authorization": f"Bearer {caller.token}"} if caller.token else {})
        headers |= session_cookie(caller.person) if caller.person else {}
        # Each a name of its own: who may starts a run, which would keep the next one out.
        body = {"prompt": "why?", "thread_id": f"x {caller.name}"}
        with httpx.stream("POST", f"{server.url}/investigate", json=body, headers=headers, timeout=20) as response:
            found[caller.name] = response.status_code
    assert found == {caller.name: expected(INVESTIGATE, caller) for caller in callers}


@pytest.mark.parametrize("path", ["/ws/threads/x", "/ws/", "/", "/api/v1/me"])
def test_websocket__no_such_address__closed_before_it_opens(path: str) -> None:
    async def answer(headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
        scope = {"type": "websocket", "path": path, "headers": headers, "query_string": b"", "subprotocols": []}
        communicator: Any = ApplicationCommunicator(make_application(), scope)  # type: ignore[no-untyped-call]
        await communicator.send_input({"type": "websocket.connect"})
        message: dict[str, Any] = await communicator.receive_output(timeout=5)
        return message

    host = (b"host", b"localhost")
    spoofed = [(key.lower().encode(), value.encode()) for key, value in SPOOFED.items()]
    for headers in ([], [host], [host, *spoofed], [host, (b"origin", b"https://evil.example.com")]):
        assert asyncio.run(answer(headers))["type"] == "websocket.close"
