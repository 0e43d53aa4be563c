"""The rules applied to one line, and which lines of a block any rule must look at."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from controlplane.core.redaction.fields import LABEL_LITERALS, find_labelled
from controlplane.core.redaction.findings import MARKER_PATTERN, Finding, merge_findings
from controlplane.core.redaction.headers import (
    find_authorization,
    find_basic,
    find_cookies,
    find_credential_pairs,
    find_userinfo,
)
from controlplane.core.redaction.manifests import MANIFEST_LITERALS
from controlplane.core.redaction.privatekeys import KEY_LITERALS
from controlplane.core.redaction.values import is_distinctive
from controlplane.core.redaction.vendors import (
    VENDOR_RULES,
    Rule,
    find_bearer,
    find_curl_user,
    find_short_flags,
    find_sql_passwords,
)

# The order is the precedence of names where findings overlap: what names the vendor comes before what a label tells.
RULES: tuple[Rule, ...] = (
    *VENDOR_RULES,
    Rule(("://", ":\\/\\/", "jdbc:oracle"), find_userinfo),
    Rule(("authorization",), find_authorization),
    Rule(("basic ", "_auth", 'auth"', "auth\\"), find_basic),
    Rule(("cookie",), find_cookies),
    Rule(("curl ", "wget "), find_curl_user),
    Rule(("mysql", "mariadb", "sshpass", "redis-cli", "--from-literal", "login "), find_short_flags),
    Rule(("bearer",), find_bearer),
    Rule(LABEL_LITERALS, find_labelled),
    Rule(("identified ", "password"), find_sql_passwords),
    Rule(("cred", "login", "/pass"), find_credential_pairs),
)
# Bits beside those of the rules: the line may be part of something that spans lines; a known value stands in it.
SPANS_LINES = 1
HOLDS_KNOWN = 2
_FIRST_RULE = 2


class _Literal(NamedTuple):
    text: str
    rules: int
    longer: "tuple[_Literal, ...]"  # literals that contain this one: absent where it is


def _literal_forest() -> tuple[_Literal, ...]:
    masks: dict[str, int] = dict.fromkeys((*MANIFEST_LITERALS, *KEY_LITERALS), SPANS_LINES)
    for bit, rule in enumerate(RULES, start=_FIRST_RULE):
        for literal in rule.literals:
            masks[literal] = masks.get(literal, 0) | 1 << bit
    parents = {
        text: max((other for other in masks if other != text and other in text), key=len, default="") for text in masks
    }

    def below(parent: str) -> tuple[_Literal, ...]:
        return tuple(_Literal(text, masks[text], below(text)) for text in masks if parents[text] == parent)

    return below("")


_LITERALS = _literal_forest()


def lowered(text: str) -> str:
    """`text` in lower case with every character at its place (a few, such as U+0130, would become two)."""
    lower = text.lower()
    return (
        lower if len(lower) == len(text) else "".join(low if len(low := char.lower()) == 1 else char for char in text)
    )


def _present(lower: str, literals: tuple[_Literal, ...] = _LITERALS) -> list[_Literal]:
    """The literals that stand in `lower`. What lacks "pass" is not searched for "password"."""
    present = [literal for literal in literals if literal.text in lower]
    for literal in tuple(present):
        if literal.longer:
            present += _present(lower, literal.longer)
    return present


def rules_for(text: str) -> int:
    """The rules, as bits, whose literals stand in `text`; and `SPANS_LINES`."""
    mask = 0
    for literal in _present(lowered(text)):
        mask |= literal.rules
    return mask


@lru_cache(maxsize=1024)
def _rules_in(mask: int) -> tuple[Rule, ...]:
    return tuple(rule for bit, rule in enumerate(RULES, start=_FIRST_RULE) if mask >> bit & 1)


_MOST_REPEATED = 64


def scan_line(line: str, mask: int) -> list[Finding]:
    """The credentials in one line, by the rules in `mask`; a distinctive value is found wherever it stands again."""
    lower = lowered(line)
    found = [finding for rule in _rules_in(mask) for finding in rule.find(line, lower)]
    if not found:
        return found
    markers = [match.span() for match in MARKER_PATTERN.finditer(line)] if "[redacted:" in line else []
    merged = merge_findings(_whole(finding, markers) for finding in found) if markers else merge_findings(found)
    values = {line[finding.start : finding.end]: finding.rule for finding in merged[:_MOST_REPEATED]}
    repeats = [
        Finding(rule, start, start + len(value))
        for value, rule in values.items()
        if is_distinctive(value)
        for start in occurrences(line, value)
    ]
    if len(repeats) > len(values):
        merged = merge_findings([*merged, *repeats])
    return [finding for finding in merged if _has_content(line[finding.start : finding.end])]


def occurrences(text: str, value: str, start: int = 0) -> Iterator[int]:
    """Where `value` stands in `text`, from `start`, without overlaps."""
    while (start := text.find(value, start)) >= 0:
        yield start
        start += len(value)


def _whole(finding: Finding, markers: list[tuple[int, int]]) -> Finding:
    """`finding`, widened so that it cuts no marker in two."""
    start, end = finding.start, finding.end
    before = bisect_right(markers, start, key=lambda span: span[0]) - 1
    if before >= 0 and markers[before][1] > start:
        start = markers[before][0]
    last = bisect_right(markers, end - 1, key=lambda span: span[0]) - 1
    if last >= 0 and markers[last][1] > end:
        end = markers[last][1]
    return Finding(finding.rule, start, end)


def _has_content(value: str) -> bool:
    """Whether anything but markers and punctuation stands in `value`."""
    if "[redacted:" not in value:
        return not value.isspace()
    return any(char.isalnum() for char in MARKER_PATTERN.sub("", value))


class Candidates:
    """The lines of a block that some rule or known value must look at, in order."""

    def __init__(self, block: str, known: Iterable[str]) -> None:
        self._block = block
        self._masks: dict[int, int] = {}
        lower = lowered(block)
        for literal in _present(lower):
            self._add(lower, literal.text, literal.rules, 0)
        for value in known:
            self._add(block, value, HOLDS_KNOWN, 0)
        self._starts = list(self._masks)
        heapify(self._starts)

    def _add(self, text: str, literal: str, bits: int, position: int) -> list[int]:
        """Note the lines with `literal`; answers those that were not noted before."""
        masks, added = self._masks, []
        while (position := text.find(literal, position)) >= 0:
            start = text.rfind("\n", 0, position) + 1
            if start not in masks:
                added.append(start)
            masks[start] = masks.get(start, 0) | bits
            position = text.find("\n", position)
            if position < 0:
                break
        return added

    def add_known(self, value: str, position: int) -> None:
        """Ask for the lines from `position` on in which `value` stands."""
        for start in self._add(self._block, value, HOLDS_KNOWN, position):
            heappush(self._starts, start)

    def next(self, position: int) -> int | None:
        """The start of the first such line at or after `position`."""
        while self._starts and self._starts[0] < position:
            heappop(self._starts)
        return self._starts[0] if self._starts else None

    def mask(self, start: int) -> int:
        """The rules to try on the line at `start`."""
        return self._masks.get(start, 0)
