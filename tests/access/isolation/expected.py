"""What each caller may do, and what an address must answer it: written down here on its own, not computed by the code.

``docs/permissions.md`` says the same in words. Whoever changes a rule changes both, and says so.
"""

from typing import Final

from controlplane.core.permissions import RULES, Action
from controlplane.route_table import Route, Rule
from tests.access.isolation.requests import COMES_TO
from tests.access.isolation.world import Caller

SIGN_IN: Final = "sign-in"
ADMINISTRATION: Final = "administration"
Answer = int | str

DEAD: Final = frozenset(
    {
        "nobody",
        "nobody, headers say owner",
        "malformed token",
        "expired token",
        "revoked token",
        "token of a deactivated person",
        "browser of a deactivated person",
    }
)
FOREIGN: Final = frozenset({"owner of another organization", "admin token of another organization"})
#: Of the same organization, with a right of their own elsewhere: beside the team, and below it.
ELSEWHERE: Final = frozenset(
    {
        "admin of a sibling team",
        "admin token of a sibling team",
        "sibling team, headers name this one",
        "admin of a child team",
        "admin token of a child team",
    }
)
VIEWING: Final = frozenset({"viewing as the team, by token", "viewing as the team, in a browser"})
#: Bound to a node, not to a person.
BOUND: Final = frozenset(
    {
        "admin token of another organization",
        "admin token of a sibling team",
        "sibling team, headers name this one",
        "admin token of a child team",
        "team token",
        "admin token",
        *VIEWING,
    }
)

_VIEW: Final = {Action.NODE_READ, Action.CONFIG_READ, Action.RUN_READ}
_RESPOND: Final = _VIEW | {Action.RUN_CREATE, Action.RUN_CONTROL, Action.ALERT_INGEST}
_ADMINISTER: Final = _RESPOND | {
    Action.NODE_WRITE,
    Action.CONFIG_WRITE,
    Action.MEMBER_READ,
    Action.MEMBER_WRITE,
    Action.TOKEN_READ,
    Action.TOKEN_WRITE,
    Action.CREDENTIAL_GRANT,
    Action.AUDIT_READ,
    Action.IDENTITY_PROVIDER_READ,
}
#: Caller → what it may do on the team.
ABLE: Final[dict[str, set[Action]]] = {
    "viewer": _VIEW,
    "viewer, headers say owner": _VIEW,
    "viewing as the team, by token": _VIEW,
    "viewing as the team, in a browser": _VIEW,
    "responder": _RESPOND,
    "reviewer": _VIEW | {Action.REVIEW_DECIDE},
    "admin": _ADMINISTER | {Action.IMPERSONATE},
    "owner": _ADMINISTER | {Action.IMPERSONATE, Action.REVIEW_DECIDE, Action.IDENTITY_PROVIDER_WRITE},
    "team token": _RESPOND | {Action.CONFIG_RESOLVE},
    "admin token": _ADMINISTER | {Action.CONFIG_RESOLVE},
}
ON_ROOT: Final = frozenset({"owner"})


def able(caller: Caller, route: Route) -> set[Action]:
    """Return what a caller may do on the team."""
    if caller.name == "token without the scope":
        opens = RULES[route.action].scopes if route.action is not None else frozenset()
        return {Action.ALERT_INGEST} if "runs:read" in opens else {Action.NODE_READ, Action.RUN_READ}
    return ABLE.get(caller.name, set())


def expected(route: Route, caller: Caller) -> Answer:
    """Return the answer of an address, named on the team's objects, to a good request of a caller."""
    return _answer(route, caller, COMES_TO.get((route.method, route.path), route.status))


def is_hidden(route: Route, caller: Caller) -> bool:
    """Return whether a caller must not learn that the team's object is there."""
    return _answer(route, caller, 0) == 404


def _answer(route: Route, caller: Caller, done: int) -> Answer:
    if route.rule == Rule.PUBLIC:
        return done
    return _page(route, caller, done) if route.is_page else _rest(route, caller, done)


def _page(route: Route, caller: Caller, done: int) -> Answer:  # noqa: PLR0911 (one return for each rule reads as a table)
    name = caller.name
    if name in DEAD or caller.person is None:
        return SIGN_IN
    if route.rule == Rule.OPERATOR:
        return done if name == "operator" else SIGN_IN
    if route.rule == Rule.ACCOUNT:
        return 403 if name in VIEWING and route.path != "app/tokens/view-as/end" else done
    if name == "operator":
        return ADMINISTRATION
    if name in VIEWING and (route.method != "GET" or route.path == "app/evaluations"):
        return 403
    if route.rule == Rule.PERSON:
        return 200 if name == "member without a role" and route.path == "app/config" else done
    if name in FOREIGN:
        # A page is about one's own organization: there the names of nodes mean its own, and ids of here nothing.
        whole = route.rule in {Rule.PART, Rule.ROOT} and "{" not in route.path
        own = whole or (route.rule == Rule.NODE and route.path.count("{") < 2)
        return done if own else _team_unseen(route)
    if route.rule == Rule.ROOT and route.path == "app/members/invite":
        return done if name in ON_ROOT else 403
    return _inside(route, caller, done)


def _rest(route: Route, caller: Caller, done: int) -> Answer:  # noqa: PLR0911 (one return for each rule reads as a table)
    name = caller.name
    if name in DEAD:
        return 401
    if route.rule == Rule.OWN_TEAM:
        return _own_team(route, caller, done)
    if name in VIEWING and route.method != "GET":
        return 403
    if route.rule == Rule.CALLER:
        return done
    if route.rule == Rule.ROUTED:
        return _routed(route, caller, done)
    if route.rule == Rule.OWN_NODE:
        return done if name in BOUND else 403
    if name in FOREIGN or name == "operator":
        return _team_unseen(route)
    if route.rule == Rule.ORGANIZATION:
        return done
    return _inside(route, caller, done)


def _team_unseen(route: Route) -> int:
    return 422 if route.rule == Rule.TEAM else 404


def _inside(route: Route, caller: Caller, done: int) -> Answer:  # noqa: PLR0911 (one return for each rule reads as a table)
    """Return the answer to somebody of the organization."""
    name, can = caller.name, able(caller, route)
    match route.rule:
        case Rule.PART:
            return done if route.action in can or name in ELSEWHERE else 403
        case Rule.ROOT:
            return done if name in ON_ROOT else _root_unseen(route, name)
        case Rule.MEMBER:
            return _member(route, name, can, done)
        case Rule.TOKEN:
            if route.action in can:
                return done
            people = caller.person is not None or name == "token without the scope"
            return 403 if Action.NODE_READ in can and (not people or name in VIEWING) else 404
        case Rule.THREAD:
            return (done if route.action in can else 403) if Action.RUN_READ in can else 404
        case Rule.REVIEW:
            return done if route.action in can else 404
        case Rule.TEAM:
            return _team(route, can, done)
    if route.action in can:
        return done
    if route.path == "api/v1/orgs/{org}/nodes":
        return 403 if Action.NODE_READ in can else 422
    if (route.method, route.path[-7:]) == ("GET", "/tokens") and name not in BOUND and Action.NODE_READ in can:
        return done
    return 403 if Action.NODE_READ in can else 404


def _team(route: Route, can: set[Action], done: int) -> int:
    if route.action in can:
        return done
    return 403 if Action.NODE_READ in can else 422


def _own_team(route: Route, caller: Caller, done: int) -> int:
    """The protocol of OpenSRE: by the name of the team's investigation, with tokens alone."""
    if caller.person is not None:
        return 401
    if caller.name in FOREIGN:  # its token is of the organization, which has two teams
        return 422
    if caller.name in ELSEWHERE:  # to its own team the name means nothing yet
        return 200 if route.path in {"investigate", "threads/{thread_name}/active"} else 404
    return done if route.action in able(caller, route) else 403


def _routed(route: Route, caller: Caller, done: int) -> int:
    """An alert that is labelled with the team's name: it never leaves what the credential reaches."""
    if caller.name in FOREIGN:  # a team of theirs has that name too
        return done
    if caller.name in ELSEWHERE:
        if route.path == "api/v1/uploads":  # for no team yet: whoever starts investigations anywhere may
            return done
        return done if caller.name in BOUND else 422
    return done if route.action in able(caller, route) else 403


def _root_unseen(route: Route, name: str) -> int:
    if "404" in route.note:
        return 403 if name == "token without the scope" else 404
    return 403


def _member(route: Route, name: str, can: set[Action], done: int) -> int:
    if Action.MEMBER_READ not in can and name not in ELSEWHERE:
        return 403
    if route.note:
        return done if name in ON_ROOT else 404
    return done if route.action in can else 404
