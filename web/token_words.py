"""What kinds of tokens, scopes and lifetimes are called on pages."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from controlplane.access.permissions import TEAM_TOKEN_SCOPES
from controlplane.core.permissions import PERSONAL_SCOPES

#: Kind → (what it is called, what it is for).
KIND_WORDS: Final[dict[str, tuple[str, str]]] = {
    "team": ("Team", "For an agent runtime or an alert source. Acts on one team or group and what is below it."),
    "admin": ("Admin", "For automation such as GitOps. May change configuration, tokens and members below its node."),
    "user": ("Personal", "Acts as you: with your roles, cut down to the scopes you tick. Ends with your account."),
    "view": ("View as team", "Reads what a team reads, for an hour at most. Begun under “View as team”."),
}
#: What the form offers → days; besides there are "" (as the organization says) and ``endless``.
LIFETIMES: Final[dict[str, int]] = {"7": 7, "30": 30, "90": 90, "180": 180, "365": 365}

#: Heading → scope → what it lets its holder do.
SCOPE_GROUPS: Final[dict[str, dict[str, str]]] = {
    "Configuration": {
        "config:read": "Read configuration; secrets stay references.",
        "config:resolve": "Get the values of granted credentials. For runtimes alone.",
        "config:write": "Change configuration.",
    },
    "Investigations": {
        "runs:create": "Start investigations.",
        "runs:read": "Read investigations of the team and their reports.",
        "runs:control": "Answer, steer and stop them.",
        "alerts:ingest": "Hand in alerts.",
    },
    "Knowledge": {
        "memory:read": "Recall what is remembered.",
        "memory:propose": "Propose memories.",
        "knowledge:read": "Read runbooks, episodes and topology.",
        "knowledge:write": "Change runbooks and topology.",
    },
    "Administration": {
        "reviews:decide": "Approve and reject. Personal tokens alone.",
        "admin:*": "Administer: nodes, members, tokens, credentials, audit. Not in team tokens.",
    },
}


@dataclass(frozen=True, slots=True)
class ScopeChoice:
    """A scope as the form offers it. ``usual``: team tokens have it unless told otherwise."""

    scope: str
    words: str
    usual: bool
    personal: bool
    checked: bool


def scopes_offered(
    groups: dict[str, dict[str, str]], ticked: Collection[str] | None
) -> list[tuple[str, list[ScopeChoice]]]:
    """Return the groups of scopes with what is ticked; nothing ticked takes the defaults of the kind."""
    chosen = frozenset(ticked or ())
    return [
        (
            heading,
            [
                ScopeChoice(scope, words, scope in TEAM_TOKEN_SCOPES, scope in PERSONAL_SCOPES, scope in chosen)
                for scope, words in scopes.items()
            ],
        )
        for heading, scopes in groups.items()
    ]
