"""``docs/permissions.md`` and its JSON: the permission matrix as the code has it."""

from collections.abc import Iterable
from typing import Any, Final

from controlplane.access.permissions import TEAM_TOKEN_SCOPES
from controlplane.core.actor import Role
from controlplane.core.permission_words import ACTION_WORDS, ROLE_WORDS
from controlplane.core.permissions import (
    INCLUDES,
    PERSONAL,
    PERSONAL_SCOPES,
    READING,
    RULES,
    SCOPES,
    VIEW_SCOPES,
    Action,
    roles_that_allow,
)
from controlplane.route_table import ROUTES, RULE_WORDS, Route, Rule

COMMAND: Final = "manage.py permissions"
_ROLES: Final = (Role.VIEWER, Role.RESPONDER, Role.REVIEWER, Role.ADMIN, Role.OWNER)
_YES: Final = "●"

#: Kind of credential: what it is, what it acts by, where, and what it never does.
_CREDENTIALS: Final = (
    ("Session", "a person, signed in", "the person's roles", "where a role holds", "nothing beyond the roles"),
    ("Personal token", "a person", "roles ∩ scopes", "where a role holds", "make tokens of a person"),
    ("Team token", "a machine of a node", "scopes", "the subtree of its node", "`admin:*`, what people alone do"),
    ("Admin token", "a machine of a node", "scopes", "the subtree of its node", "what people alone do"),
    (
        "View of a team",
        "a person, as the team",
        "scopes that read",
        "the team",
        "write, resolve, decide; longer than 60 minutes",
    ),
    ("Operator", "the installation's operator", "the administration", "`/admin/`", "act in an organization"),
)
#: Rule → what everybody else gets, beside 401 (pages: to the sign-in) without a working credential.
_OTHERS: Final[dict[Rule, str]] = {
    Rule.PUBLIC: "—",
    Rule.CALLER: "—",
    Rule.PERSON: "operators: to the administration",
    Rule.ACCOUNT: "403 while viewing as a team",
    Rule.ORGANIZATION: "404",
    Rule.OWN_NODE: "403",
    Rule.NODE: "403 seen, 404 not seen",
    Rule.PART: "403; 404 of another organization",
    Rule.ROOT: "403; 404 of another organization",
    Rule.MEMBER: "403 reads no members; 404 not seen",
    Rule.TOKEN: "404 to people, 403 to machines that see the node, 404 not seen",
    Rule.TEAM: "403 seen, 422 not seen",
    Rule.ROUTED: "403; 422 not in reach",
    Rule.THREAD: "403 seen, 404 not seen",
    Rule.OWN_TEAM: "403; sessions 401; 404 another team's name",
    Rule.REVIEW: "404",
    Rule.OPERATOR: "to the sign-in",
}


def permission_data() -> dict[str, Any]:
    """Return the matrix as JSON has it."""
    return {
        "roles": {
            role.value: {
                "means": ROLE_WORDS[role],
                "includes": sorted(one.value for one in INCLUDES[role] - {role}),
                "actions": [action.value for action in Action if role in roles_that_allow(action)],
            }
            for role in _ROLES
        },
        "actions": {
            action.value: {
                "object": _object_of(action),
                "means": ACTION_WORDS[action],
                "scopes": sorted(RULES[action].scopes),
                "people_only": action in PERSONAL,
                "while_viewing_as_a_team": action in READING,
            }
            for action in Action
        },
        "scopes": {
            scope: {
                "opens": [action.value for action in Action if scope in RULES[action].scopes],
                "team_tokens": scope in TEAM_TOKEN_SCOPES,
                "personal_tokens_only": scope in PERSONAL_SCOPES,
                "view_of_a_team": scope in VIEW_SCOPES,
            }
            for scope in sorted(SCOPES)
        },
        "addresses": [
            {
                "method": route.method,
                "path": f"/{route.path}",
                "rule": route.rule.value,
                "action": route.action.value if route.action else None,
                "status": route.status,
                "others": _OTHERS[route.rule],
                "note": route.note,
            }
            for route in ROUTES
        ],
    }


def permission_document() -> str:
    """Return the Markdown of ``docs/permissions.md``."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterable[str]:
    yield "# Who may do what"
    yield ""
    yield f"Made by `{COMMAND}` from the code that decides; a test fails when this page is older than the code. Another"
    yield "test, `tests/access/isolation`, knocks at every address below as everybody and compares the answers with it."
    yield ""
    yield "What a caller may not see answers 404, exactly as what does not exist. What it sees and may not do answers"
    yield "403. No working credential answers 401; pages lead to the sign-in. Identity comes from a session or a token"
    yield "alone: no header of a client or a proxy says who somebody is."
    yield ""
    yield "## Roles"
    yield ""
    yield "A role is given on a node and holds for everything below it. See [members](members.md)."
    yield ""
    yield from _table(
        ["Role", "Means", "Includes"],
        [[f"`{role}`", ROLE_WORDS[role], _code(sorted(INCLUDES[role] - {role}))] for role in _ROLES],
    )
    yield "## Roles and actions"
    yield ""
    yield from _table(
        ["Object", "Action", "Means", *(f"`{role}`" for role in _ROLES), "By people alone"],
        [
            [
                _object_of(action),
                f"`{action}`",
                ACTION_WORDS[action],
                *(_mark(role in roles_that_allow(action)) for role in _ROLES),
                _mark(action in PERSONAL),
            ]
            for action in sorted(Action, key=lambda one: (_object_of(one), one.value))
        ],
    )
    yield "`config.resolve` comes with no role: credentials' values are for runtimes, by a token's scope."
    yield ""
    yield "## Scopes and actions"
    yield ""
    yield "A token does what any one of its scopes opens; a personal token only where its person's roles allow it too."
    yield "Nobody puts a scope into a token that the maker does not hold. See [tokens](tokens.md)."
    yield ""
    yield from _table(
        ["Scope", "Opens", "Team tokens by default", "Personal tokens alone", "View of a team"],
        [
            [
                f"`{scope}`",
                _code(action.value for action in Action if scope in RULES[action].scopes) or "reserved",
                _mark(scope in TEAM_TOKEN_SCOPES),
                _mark(scope in PERSONAL_SCOPES),
                _mark(scope in VIEW_SCOPES),
            ]
            for scope in sorted(SCOPES)
        ],
    )
    yield "## Kinds of credential"
    yield ""
    yield from _table(["Credential", "Is", "Acts by", "Where", "Never"], [list(row) for row in _CREDENTIALS])
    yield "## Rules of addresses"
    yield ""
    yield from _table(["Rule", "Who may", "Others"], [[rule.value, RULE_WORDS[rule], _OTHERS[rule]] for rule in Rule])
    yield "While somebody views as a team every method but GET answers 403."
    yield ""
    for title, chosen in (
        ("Addresses of the API", [route for route in ROUTES if not route.is_page and "app/" not in route.path]),
        ("Addresses of pages", [route for route in ROUTES if route.is_page or "app/" in route.path]),
    ):
        yield f"## {title}"
        yield ""
        yield from _table(
            ["Method", "Address", "Rule", "Action", "Answers", "Others", "Note"], [_row(route) for route in chosen]
        )


def _row(route: Route) -> list[str]:
    action = f"`{route.action}`" if route.action else ""
    status = "as Django's administration" if route.method == "*" else str(route.status)
    return [route.method, f"`/{route.path}`", route.rule.value, action, status, _OTHERS[route.rule], route.note]


def _table(heads: list[str], rows: Iterable[list[str]]) -> Iterable[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', '/') for cell in row)} |"
    yield ""


def _object_of(action: Action) -> str:
    return action.value.partition(".")[0].replace("_", " ")


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _mark(yes: bool) -> str:
    return _YES if yes else ""
