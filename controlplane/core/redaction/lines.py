"""The rules applied to one line, and which lines of a block any rule must look at."""

from collections.abc import Iterable, Iterator
from heapq import heapify, heappop, heappush

from controlplane.core.redaction.findings import MARKER_PATTERN, Finding, merge_findings
from controlplane.core.redaction.headers import (
    find_authorization,
    find_basic,
    find_cookies,
    find_credential_pairs,
    find_userinfo,
)
from controlplane.core.redaction.labels import find_fields, find_flags, find_in_prose, find_pairs
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

_LABELS = ("pass", "pwd", "secret", "token", "key", "cred", "jwt")

# The order is the precedence of names where findings overlap: what names the vendor comes before what a label tells.
RULES: tuple[Rule, ...] = (
    *VENDOR_RULES,
    Rule(("://", ":\\/\\/", "jdbc:oracle"), find_userinfo),
    Rule(("auth",), find_authorization),
    Rule(("basic", "auth"), find_basic),
    Rule(("cookie",), find_cookies),
    Rule(("curl ", "wget "), find_curl_user),
    Rule(("mysql", "mariadb", "sshpass", "redis-cli", "--from-literal", "login"), find_short_flags),
    Rule((*_LABELS, "auth", "conn", "bearer"), find_fields),
    Rule((*_LABELS, "auth"), find_flags),
    Rule(_LABELS, find_pairs),
    Rule(_LABELS, find_in_prose),
    Rule(("identified", "pass"), find_sql_passwords),
    Rule(("cred", "login", "user"), find_credential_pairs),
    Rule(("bearer",), find_bearer),
)


def _literal_masks() -> tuple[tuple[str, int], ...]:
    masks: dict[str, int] = dict.fromkeys((*MANIFEST_LITERALS, *KEY_LITERALS), 1)
    for bit, rule in enumerate(RULES, start=1):
        for literal in rule.literals:
            masks[literal] = masks.get(literal, 0) | 1 << bit
    return tuple(masks.items())


_LITERAL_MASKS = _literal_masks()
ALL_RULES = (1 << len(RULES) + 1) - 1


def lowered(text: str) -> str:
    """`text` in lower case with every character at its place (a few, such as U+0130, would become two)."""
    lower = text.lower()
    return (
        lower if len(lower) == len(text) else "".join(low if len(low := char.lower()) == 1 else char for char in text)
    )


def rules_for(text: str) -> int:
    """The set of rules (as bits) whose literals stand in `text`; bit 0 is for the stages that follow several lines."""
    lower = lowered(text)
    mask = 0
    for literal, bits in _LITERAL_MASKS:
        if literal in lower:
            mask |= bits
    return mask


def scan_line(line: str, mask: int = ALL_RULES) -> list[Finding]:
    """The credentials in one line, by the rules in `mask`; a distinctive value is found wherever it stands again."""
    found = [finding for bit, rule in enumerate(RULES, start=1) if mask >> bit & 1 for finding in rule.find(line)]
    if not found:
        return found
    markers = [match.span() for match in MARKER_PATTERN.finditer(line)]
    merged = merge_findings(_whole(line, finding, markers) for finding in found)
    repeats = [
        Finding(finding.rule, start, start + len(value))
        for finding in merged
        if is_distinctive(value := line[finding.start : finding.end])
        for start in occurrences(line, value)
        if start != finding.start
    ]
    merged = merge_findings([*merged, *repeats]) if repeats else merged
    return [finding for finding in merged if _has_content(line[finding.start : finding.end])]


def occurrences(text: str, value: str, start: int = 0) -> Iterator[int]:
    """Where `value` stands in `text`, from `start`, without overlaps."""
    while (start := text.find(value, start)) >= 0:
        yield start
        start += len(value)


def _whole(line: str, finding: Finding, markers: list[tuple[int, int]]) -> Finding:
    """`finding`, widened so that it cuts no marker in two."""
    start, end = finding.start, finding.end
    for left, right in markers:
        if left < end and right > start:
            start, end = min(start, left), max(end, right)
    return Finding(finding.rule, start, end)


def _has_content(value: str) -> bool:
    """Whether anything but markers and punctuation stands in `value`."""
    return any(char.isalnum() for char in MARKER_PATTERN.sub("", value)) or (
        "[redacted:" not in value and not value.isspace()
    )


class Candidates:
    """The lines of a block that some rule or known value must look at, in order."""

    def __init__(self, block: str, known: Iterable[str]) -> None:
        self._block = block
        self._masks: dict[int, int] = {}
        lower = lowered(block)
        for literal, bits in _LITERAL_MASKS:
            if literal in lower:
                self._add(lower, literal, bits, 0)
        for value in known:
            self._add(block, value, 0, 0)
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
        for start in self._add(self._block, value, 0, position):
            heappush(self._starts, start)

    def next(self, position: int) -> int | None:
        """The start of the first such line at or after `position`."""
        while self._starts and self._starts[0] < position:
            heappop(self._starts)
        return self._starts[0] if self._starts else None

    def mask(self, start: int) -> int:
        """The rules to try on the line at `start`."""
        return self._masks.get(start, 0)
