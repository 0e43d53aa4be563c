"""An alert made fit to be kept: bounded, redacted, printable, and saying what was cut.

Whatever a source puts into labels and annotations is data: it is kept as text, and nothing here reads it for anything
else. Texts are bounded generously before redaction, which so costs no more than they do, and exactly after it, so that
no credential is cut into something that no rule recognises.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

import orjson

from controlplane.core.redaction import redact_json, redact_text

MAX_ALERTS: Final = 20
MAX_MEMBERS: Final = 50
MAX_TEXT: Final = 4_000
MAX_NAME: Final = 100
MAX_NOTES: Final = 20
MAX_VALUES: Final = 400
"""How many members of a vendor's own body are kept."""
MAX_BYTES: Final = 512 * 1024
"""The largest document that is kept, in bytes of JSON."""
_RAW_TEXT: Final = 16_384
_RAW_WORD: Final = 4_096
_DEEPEST: Final = 10
_CUT: Final = " … [cut]"
#: Tried in turn until the document is small enough: characters of a text, single alerts. The last one always fits.
_STEPS: Final = ((MAX_TEXT, MAX_ALERTS), (1_000, MAX_ALERTS), (200, MAX_ALERTS), (200, 5), (60, 1))
#: Kept however many others there are.
_FIRST_NAMES: Final = (
    "alertname", "severity", "team", "service", "service_name", "app", "job", "namespace", "deployment", "pod",
    "instance", "node", "cluster", "summary", "description", "message", "runbook_url",
)  # fmt: skip


@dataclass(slots=True)
class Notes:
    """What was left out, in words, at most :data:`MAX_NOTES` lines."""

    lines: list[str] = field(default_factory=list)
    more: int = 0

    def add(self, line: str) -> None:
        if len(self.lines) < MAX_NOTES:
            self.lines.append(line)
        else:
            self.more += 1

    def listed(self) -> list[str]:
        return [*self.lines, f"{self.more:,} more cuts"] if self.more else list(self.lines)


def one_line(text: str, limit: int) -> str:
    """Return ``text``, already redacted, as one printable line of at most ``limit`` characters."""
    head = text[: limit * 4]
    line = " ".join("".join(character if character.isprintable() else " " for character in head).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def bounded_text(text: str, where: str, notes: Notes) -> str:
    """Return ``text`` as it is redacted: printable by both databases, generously bounded."""
    clean = text.replace("\x00", "\ufffd")
    if not clean.isascii():
        clean = clean.encode("utf-8", "replace").decode("utf-8")
    if len(clean) > MAX_TEXT:
        notes.add(f"{where} has {len(clean):,} characters; {MAX_TEXT:,} are kept")
    if len(clean) <= _RAW_TEXT:
        return clean
    # The last word may be half a credential, which no rule would know: it goes.
    head, space, _ = clean[:_RAW_TEXT].rpartition(" ")
    return head if space and len(head) > _RAW_TEXT - _RAW_WORD else clean[:_RAW_TEXT]


def bounded_members(members: Mapping[str, str], where: str, notes: Notes) -> dict[str, str]:
    """Return labels or annotations, the telling ones first where there are too many."""
    names: Iterable[str] = members
    if len(members) > MAX_MEMBERS:
        notes.add(f"{where} has {len(members):,} members; {MAX_MEMBERS} are kept")
        first = [name for name in _FIRST_NAMES if name in members]
        rest = (name for name in members if name not in _FIRST_NAMES)
        names = [*first, *islice(rest, MAX_MEMBERS - len(first))]
    kept: dict[str, str] = {}
    for name in names:
        shown = bounded_text(name, f"a name in {where}", notes)
        kept[shown] = bounded_text(members[name], f"{where}/{redact_text(shown[:MAX_NAME])}", notes)
    return kept


def bounded_value(value: Any, notes: Notes) -> Any:
    """Return a JSON value of any shape as it is redacted: not too deep, not too many members, its texts bounded."""
    return _Bounding(notes).value(value, _DEEPEST)


class _Bounding:
    """Walks a value with one budget of members for all of it."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._left = MAX_VALUES
        self._said = False

    def value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return bounded_text(value, "a text of the original", self._notes)
        if not isinstance(value, dict | list):
            return value
        if depth == 0:
            return self._cut("deeper values")
        if isinstance(value, list):
            return [self.value(item, depth - 1) for item in islice(value, self._take(len(value)))]
        taken = islice(value.items(), self._take(len(value)))
        return {bounded_text(str(name), "a name", self._notes): self.value(item, depth - 1) for name, item in taken}

    def _take(self, wanted: int) -> int:
        given = min(wanted, self._left)
        self._left -= given
        if given < wanted:
            self._cut(f"all but {MAX_VALUES} members")
        return given

    def _cut(self, what: str) -> str:
        if not self._said:
            self._said = True
            self._notes.add(f"of the original, {what} are left out")
        return "… [cut]"


def redacted(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the whole document redacted and within :data:`MAX_BYTES`; ``intake.cut`` says what it lost."""
    clean: Any = redact_json(document)
    fitted: dict[str, Any] = {}
    for limit, alerts in _STEPS:
        fitted = _fit(clean, limit)
        fitted["alerts"] = fitted["alerts"][:alerts]
        if len(fitted["alerts"]) < len(clean["alerts"]) or limit < MAX_TEXT:
            line = f"the whole was too large: texts of {limit:,} characters and {len(fitted['alerts'])} alerts are kept"
            fitted["intake"]["cut"] = [line, *fitted["intake"]["cut"]]
        fitted["intake"]["alerts_kept"] = len(fitted["alerts"])
        if len(orjson.dumps(fitted)) <= MAX_BYTES:
            break
    return fitted


def _fit(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return value if len(value) <= limit else value[:limit] + _CUT
    if isinstance(value, dict):
        return {(name[:MAX_NAME] if len(name) > MAX_NAME else name): _fit(item, limit) for name, item in value.items()}
    return [_fit(item, limit) for item in value] if isinstance(value, list) else value
