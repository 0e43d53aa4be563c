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
_BEGIN: Final = re.compile(r"\brun\s+(?:the\s+)?action\s", re.IGNORECASE)
#: What may stand before a command in its sentence; anything else ("don't", "they said") makes it no command.
_POLITE: Final = re.compile(
    r"(?:\d|please|pls|kindly|now|then|ok|okay|yes|so|and|just|also|first|next|go ahead|let's|lets|[\s,*-])*",
    re.IGNORECASE,
)
_POLITE_CHARS: Final = 80
_SENTENCE_END: Final = re.compile(r"[.!?;\n]")
_ARGUMENT: Final = re.compile(
    r"(?<![\w.-])(?P<name>[\w.-]{1,100})\s*=\s*(?:\"(?P<quoted>[^\"]*)\"|(?P<plain>[^\s,;\"]+))"
)


@dataclass(frozen=True, slots=True)
class Command:
    """An action to run, with its arguments as they were written."""

    action: str
    arguments: Mapping[str, str]


def command_in(words: str) -> Command | None:
    """Return the action that ``words`` tell to run: ``run action NAME with a=b, c="d e"``; ``None`` for anything else.

    A question about an action is none, nor are words that tell of one: the command begins its sentence, after nothing
    but a polite word.
    """
    begins = (one.start() for one in _BEGIN.finditer(words) if _begins_sentence(words, one.start()))
    found = next((match for begin in begins if (match := _COMMAND.match(words, begin))), None)
    if found is None or is_a_question(words):
        return None
    arguments = {
        one["name"].lower(): one["quoted"] if one["quoted"] is not None else one["plain"].rstrip(".")
        for one in _ARGUMENT.finditer(found["arguments"] or "")
    }
    return Command(found["action"].lower(), arguments)


def _begins_sentence(words: str, at: int) -> bool:
    before = words[max(at - _POLITE_CHARS, 0) : at]
    *ended, here = _SENTENCE_END.split(before)
    return bool(ended or at <= _POLITE_CHARS) and _POLITE.fullmatch(here) is not None
