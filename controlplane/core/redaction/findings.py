"""What a scan reports, how reports of several engines become one, and the marker that replaces a finding."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

MARKER_PATTERN = re.compile(r"\[redacted:[a-z][a-z-]{0,39}\]")


@dataclass(frozen=True, slots=True)
class Finding:
    """Where a credential stands in a text: `text[start:end]`, in characters. It names the rule, never the value."""

    rule: str
    start: int
    end: int


class SecretScanner(Protocol):
    """One detection engine."""

    def scan(self, text: str) -> list[Finding]:
        """The credentials in `text`, sorted by position, none overlapping another."""
        ...


class UnionScanner:
    """Several engines as one: what any of them finds is found."""

    def __init__(self, engines: Sequence[SecretScanner]) -> None:
        """Where findings overlap, the name of the engine that stands first in `engines` is reported."""
        self._engines = tuple(engines)

    def scan(self, text: str) -> list[Finding]:
        """See `SecretScanner.scan`."""
        return merge_findings(finding for engine in self._engines for finding in engine.scan(text))


def merge_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Sorted, non-overlapping findings that cover the same characters; the name given first wins an overlap."""
    merged: list[tuple[int, Finding]] = []
    for rank, finding in sorted(enumerate(findings), key=lambda item: (item[1].start, item[1].end)):
        if finding.end <= finding.start:
            continue
        if not merged or finding.start >= merged[-1][1].end:
            merged.append((rank, finding))
            continue
        best, last = merged[-1]
        rule = last.rule if best < rank else finding.rule
        merged[-1] = (min(best, rank), Finding(rule, last.start, max(last.end, finding.end)))
    return [finding for _, finding in merged]


def marker(rule: str) -> str:
    """The text that stands for a removed value. Its shape is what `MARKER_PATTERN` recognises."""
    return f"[redacted:{rule}]"


def apply_findings(text: str, findings: Iterable[Finding]) -> str:
    """`text` with each finding (sorted, non-overlapping) replaced by its marker."""
    parts: list[str] = []
    position = 0
    for finding in findings:
        parts += (text[position : finding.start], marker(finding.rule))
        position = finding.end
    parts.append(text[position:])
    return "".join(parts)
