"""Knocking at an address as somebody, and what of the answer may differ from one time to the next."""

import json
import re
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from django.db import transaction
from django.test import Client

from controlplane.access.limits.limiter import limiter
from controlplane.route_table import Route, Rule
from tests.access.isolation.expected import ADMINISTRATION, SIGN_IN, Answer
from tests.access.isolation.requests import BODIES, QUERIES
from tests.access.isolation.world import Caller, Objects, World
from tests.factories import make_user

#: Differ in every answer, whoever asks for what.
_CHANGING: Final = (
    re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}"),  # ids made now: the request's
    re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)"),  # when it was computed, used, looked at
    re.compile(r'name="csrfmiddlewaretoken" value="\w+"'),
)
_OWN_HEADERS: Final = frozenset({"X-Request-ID", "Set-Cookie", "Date"})


@dataclass(frozen=True)
class Heard:
    """An answer: its status or where it leads, its headers and body with what always changes taken out."""

    answer: Answer
    status: int
    headers: tuple[tuple[str, str], ...]
    body: str

    @property
    def told(self) -> tuple[Any, ...]:
        """What tells one object from another."""
        return (self.status, self.headers, self.body)


class Knocking:
    """Calls addresses of a world; nothing that a call does stays."""

    def __init__(self, world: World) -> None:
        self.world = world
        make_user(world.tree.root, None, username="spare")
        known = [*world.callers.values(), *world.scoped_callers]
        self._clients = {caller: caller.client() for caller in known}

    def knock(self, route: Route, caller: Caller, objects: Objects, *, method: str | None = None) -> Heard:
        """Send a good request of ``route``, named on ``objects``."""
        client = self._clients[caller]
        cookies = deepcopy(client.cookies)
        limiter.forget()
        try:
            with transaction.atomic():
                response = self._send(client, route, objects, method or route.method)
                body = b"".join(response) if getattr(response, "streaming", False) else response.content
                transaction.set_rollback(True)
        finally:
            client.cookies = cookies
        return _heard(response, body.decode(errors="replace"))

    def _send(self, client: Client, route: Route, objects: Objects, method: str) -> Any:
        path = objects.fill(route.path) + QUERIES.get((route.method, route.path), "")
        body = filled(BODIES.get((route.method, route.path), {}), objects)
        if method == "GET":
            return client.get(path)
        if method == "POST" and not route.path.startswith("api/") and route.rule != Rule.OWN_TEAM:
            return client.post(path, body)
        return client.generic(method, path, json.dumps(body), content_type="application/json")


def filled(value: Any, objects: Objects) -> Any:
    """Return a body with its placeholders filled."""
    if isinstance(value, str):
        return objects.fill(value)[1:]
    if isinstance(value, dict):
        return {key: filled(item, objects) for key, item in value.items()}
    return [filled(item, objects) for item in value] if isinstance(value, list) else value


def _heard(response: Any, body: str) -> Heard:
    target = response.headers.get("Location", "")
    answer: Answer = response.status_code
    if response.status_code == 302 and target.startswith(("/login/?", "/admin/login/?")):
        answer = SIGN_IN
    elif response.status_code == 302 and target == "/admin/":
        answer = ADMINISTRATION
    headers = tuple(sorted((key, masked(value)) for key, value in response.headers.items() if key not in _OWN_HEADERS))
    return Heard(answer, response.status_code, headers, masked(body))


def masked(text: str) -> str:
    """Return a text without what changes from answer to answer."""
    for pattern in _CHANGING:
        text = pattern.sub("-", text)
    return text
