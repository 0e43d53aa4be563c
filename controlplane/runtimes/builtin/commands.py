"""What a person tells the built-in runtime to do, in so many words."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from controlplane.runtimes.builtin.questions import is_a_question

_COMMAND: Final = re.compile(
    r"\brun\s+(?:the\s+)?action\s+[`\"']?(?P<action>[a-z][a-z0-9_-]{0,49})[`\"']?(?:\s+with\s+(?P<arguments>.+))?",
    re.IGNORECASE | re.DOTALL,
)
_ARGUMENT: Final = re.compile(r"(?P<name>[a-z][a-z0-9_]{0,39})\s*=\s*(?:\"(?P<quoted>[^\"]*)\"|(?P<plain>[^\s,;\"]+))")


@dataclass(frozen=True, slots=True)
class Command:
    """An action to run, with its arguments as they were written."""

    action: str
    arguments: Mapping[str, str]


def command_in(words: str) -> Command | None:
    """Return the action that ``words`` tell to run: ``run action NAME with a=b, c="d e"``; ``None`` for anything else.

    A question about an action is none.
    """
    found = _COMMAND.search(words)
    if found is None or is_a_question(words):
        return None
    arguments = {
        one["name"]: one["quoted"] if one["quoted"] is not None else one["plain"].rstrip(".")
        for one in _ARGUMENT.finditer(found["arguments"] or "")
    }
    return Command(found["action"].lower(), arguments)
