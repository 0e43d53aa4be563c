"""Every address × everybody: exactly the documented answer, and none that tells what is there.

An address without a row in :mod:`controlplane.route_table`, or a row without its address, fails here.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, TypeVar

from django.test import TestCase
from django.urls import URLPattern, URLResolver, get_resolver
from typing_extensions import override

from controlplane.investigations import stream
from controlplane.investigations.agui import application as agui
from controlplane.investigations.opensre import stream as opensre
from controlplane.route_table import ROUTES, RULE_WORDS, Route, Rule
from tests.access.isolation.calls import Knocking
from tests.access.isolation.expected import DEAD, FOREIGN, SIGN_IN, expected, is_hidden
from tests.access.isolation.world import Objects, build

#: Tried over a real server in test_asgi.py.
_ASGI_ONLY: Final = frozenset(
    {
        "api/v1/threads/{thread_id}/stream",
        "ws/threads/{thread_id}",
        "investigate",
        "api/v1/agui",
        "api/v1/agui/info",
        "api/v1/agui/agent/{agent}/run",
        "api/v1/agui/agent/{agent}/connect",
        "api/v1/agui/agent/{agent}/stop/{thread_id}",
    }
)
_NAMED: Final = re.compile(r"<(?:\w+:)?(\w+)>")
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
#: Those for whom an object that is not theirs must look like none: with rights elsewhere, few, or over all of it.
_CURIOUS: Final = (
    "owner",
    "admin",
    "viewer",
    "reviewer",
    "member without a role",
    "admin of a sibling team",
    "admin token of a sibling team",
    "admin token of a child team",
    "team token",
    "admin token",
    "viewing as the team, by token",
    "admin token of another organization",
)


def addresses(resolver: URLResolver | None = None, prefix: str = "") -> Iterator[tuple[str, URLPattern]]:
    """Yield every address of the project with its pattern."""
    for pattern in (resolver or get_resolver()).url_patterns:
        path = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from addresses(pattern, path)
        else:
            yield _NAMED.sub(r"{\1}", path), pattern


def is_administration(path: str) -> bool:
    return path.startswith("admin/") and path not in LISTED - {"admin/"}


LISTED: Final = {route.path for route in ROUTES}
TABLE: Final = [route for route in ROUTES if route.method != "*" and route.path not in _ASGI_ONLY]
ADMINISTRATION: Final = sorted({path for path, _ in addresses() if is_administration(path)})
NAMING: Final = [route for route in TABLE if "{" in route.path and route.rule not in {Rule.PUBLIC, Rule.CALLER}]


def name(route: Route) -> str:
    return f"{route.method} /{route.path}"


# ---- the table is whole ---------------------------------------------------------------------------------------------


def test_table__every_address_has_a_row__and_every_row_an_address() -> None:
    found = {path for path, _ in addresses() if not is_administration(path)}
    filled = {path: f"/{path}".replace("{thread_id}", "0" * 36).replace("{agent}", "payments") for path in _ASGI_ONLY}
    plain = {
        path
        for path, address in filled.items()
        if stream.matches(address) or agui.matches(address) or opensre.matches(address) or path.startswith("ws/")
    }
    assert found | plain == {route.path for route in ROUTES if route.method != "*"}
    assert len({(route.method, route.path) for route in ROUTES}) == len(ROUTES)
    assert set(RULE_WORDS) == set(Rule)


def test_table__rest_methods__are_those_of_the_views() -> None:
    served = {
        (method, path)
        for path, pattern in addresses()
        if (view := getattr(pattern.callback, "cls", None)) is not None
        for method in _METHODS
        if hasattr(view, method.lower())
    }
    rest = [route for route in TABLE if route.path.startswith("api/v1/") or route.rule == Rule.OWN_TEAM]
    assert served == {(route.method, route.path) for route in rest}


class Isolation(TestCase):
    """The world is made once a class; each request runs in a savepoint of its own that is rolled back."""

    knocking: Knocking

    @classmethod
    @override
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.knocking = Knocking(build())


C = TypeVar("C", bound=type[Isolation])


def one_test_for_each(subjects: Sequence[Any], label: Callable[[Any], str]) -> Callable[[C], C]:
    """Give a class one test for each subject: pytest makes no parameters for classes of unittest."""

    def decorate(cls: C) -> C:
        for subject in subjects:
            setattr(cls, f"test_address[{label(subject)}]", lambda self, subject=subject: self.check(subject))
        return cls

    return decorate


class TestMethods(Isolation):
    """What a view does not serve."""

    def test_methods_that_are_not_listed__405(self) -> None:
        callers = self.knocking.world.callers
        listed = {(route.method, route.path) for route in TABLE}
        found = {
            (method, route.path): self.knocking.knock(
                route,
                callers["team token" if route.rule == Rule.OWN_TEAM else "owner"],
                self.knocking.world.here,
                method=method,
            ).status
            for route in TABLE
            for method in _METHODS
            if (method, route.path) not in listed and route.path not in {"", "admin/login/"}
        }
        assert {key: status for key, status in found.items() if status != 405} == {}


# ---- everybody gets what is documented ------------------------------------------------------------------------------


@one_test_for_each(TABLE, name)
class TestEverybodyGetsWhatIsDocumented(Isolation):
    def check(self, route: Route) -> None:
        world = self.knocking.world
        callers = [*world.callers.values(), world.scoped(route.action)]
        if route.path == "api/v1/schema":  # a second each; it looks at nothing of the request but its form
            callers = callers[::8]
        answers = {caller.name: self.knocking.knock(route, caller, world.here).answer for caller in callers}
        documented: dict[str, Any] = {caller.name: expected(route, caller) for caller in callers}
        if route.path == "metrics":  # who comes through a proxy is not on this machine
            documented |= {caller.name: 404 for caller in callers if caller.headers}
        if name(route) in {"GET /login/", "GET /login/{org}"}:
            documented |= {caller.name: 302 for caller in callers if caller.person and caller.name not in DEAD}
            documented["operator"] = "administration"
        assert answers == documented


@one_test_for_each(ADMINISTRATION, str)
class TestAdministrationIsForOperatorsAlone(Isolation):
    def check(self, path: str) -> None:
        world = self.knocking.world
        concrete = re.sub(r"\{\w+\}", "1", path)
        concrete = re.sub(r"\^\(\?P<app_label>(\w+).*\)/\$", r"\1/", concrete)
        route = Route("GET", re.sub(r"\(\?P<url>.*", "nothing", concrete), Rule.OPERATOR)
        answers = {
            caller.name: self.knocking.knock(route, caller, world.here).answer for caller in world.callers.values()
        }
        if path == "admin/logout/":  # sign-out asks nobody who they are
            assert set(answers.values()) == {"administration", 405}
            return
        assert answers.pop("operator") != SIGN_IN
        assert set(answers.values()) == {SIGN_IN}, answers


class TestHeadersThatNameSomebody(Isolation):
    def test_they_change_nothing(self) -> None:
        """The tables of everybody say it status by status; this says it body by body."""
        world = self.knocking.world
        plain = {
            "nobody": "nobody, headers say owner",
            "viewer": "viewer, headers say owner",
            "admin token of a sibling team": "sibling team, headers name this one",
        }
        for route in TABLE:
            if route.path == "metrics" or route.method != "GET":
                continue
            for without, spoofing in plain.items():
                told = [self.knocking.knock(route, world.callers[one], world.here).body for one in (without, spoofing)]
                assert told[0] == told[1], (name(route), spoofing)


# ---- nothing tells what is there ------------------------------------------------------------------------------------


@one_test_for_each(NAMING, name)
class TestForeignObjectsLookLikeNone(Isolation):
    """In the other organization's place, and by its id in one's own place."""

    def check(self, route: Route) -> None:
        world = self.knocking.world
        mixed = [replace(world.here, names=objects.names) for objects in (world.foreign, world.nowhere)]
        pairs = [(world.foreign, world.nowhere)] if "{org}" in route.path else []
        pairs += [(mixed[0], mixed[1])] if _names_object(route) else []
        for caller in (world.callers[one] for one in _CURIOUS):
            for there, nowhere in pairs:
                if caller.name not in FOREIGN:  # they are at home there
                    _assert_alike(self.knocking, route, caller, there, nowhere)


@one_test_for_each(NAMING, name)
class TestWhatOneMayNotSeeAtHomeLooksLikeNone(Isolation):
    def check(self, route: Route) -> None:
        world = self.knocking.world
        for caller in (world.callers[one] for one in _CURIOUS):
            nowhere = world.nowhere if caller.name in FOREIGN else replace(world.nowhere, org=world.here.org)
            if is_hidden(route, caller):
                _assert_alike(self.knocking, route, caller, world.here, nowhere)


def _assert_alike(knocking: Knocking, route: Route, caller: Any, there: Objects, nowhere: Objects) -> None:
    heard = [knocking.knock(route, caller, objects) for objects in (there, nowhere)]
    if heard[0].answer == heard[1].answer == SIGN_IN:
        return
    assert heard[0].answer == heard[1].answer, (name(route), caller.name)
    assert _unnamed(heard[0], there) == _unnamed(heard[1], nowhere), (name(route), caller.name)


def _unnamed(heard: Any, objects: Objects) -> Any:
    """Return what is told without the names that the caller itself put into the address."""
    text = repr(heard.told)
    for one in sorted({*objects.names.values(), objects.org, objects.node}, key=len, reverse=True):
        if len(one) > 3:
            text = text.replace(one, "")
    return text


def _names_object(route: Route) -> bool:
    return bool(set(re.findall(r"\{(\w+)\}", route.path)) - {"org", "node", "slug", "kind", "name", "version"})
