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
from tests.access.isolation.expected import BOUND, DEAD, expected
from tests.access.isolation.world import SPOOFED, Caller, Objects, World, build
from tests.support.server import Server, serving

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


@pytest.mark.parametrize("path", ["/ws/threads/x", "/ws/", "/", "/api/v1/me"])
def test_websocket__there_is_none_yet__closed_before_it_opens(path: str) -> None:
    """Whoever adds one adds its rows here."""

    async def answer(headers: list[tuple[bytes, bytes]]) -> dict[str, Any]:
        scope = {"type": "websocket", "path": path, "headers": headers, "query_string": b"", "subprotocols": []}
        communicator: Any = ApplicationCommunicator(make_application(), scope)  # type: ignore[no-untyped-call]
        await communicator.send_input({"type": "websocket.connect"})
        message: dict[str, Any] = await communicator.receive_output(timeout=5)
        return message

    spoofed = [(key.lower().encode(), value.encode()) for key, value in SPOOFED.items()]
    for headers in ([], spoofed, [(b"origin", b"https://evil.example.com")]):
        assert asyncio.run(answer(headers))["type"] == "websocket.close"
