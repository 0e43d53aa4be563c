"""Redaction of whole texts."""

from collections.abc import Mapping
from functools import cache

from controlplane.core.redaction.findings import Finding, SecretScanner
from controlplane.core.redaction.lines import SPANS_LINES, rules_for, scan_line
from controlplane.core.redaction.stream import Machine

_SHORT = 16_384  # longer texts are searched block by block anyway


class WholeText:
    """What a run of the rules over a whole text gave."""

    def __init__(self, text: str, known: Mapping[str, str]) -> None:
        machine = Machine(known)
        self.text = machine.feed(text) + machine.close()
        self.findings: list[Finding] = machine.findings
        self.known = machine.known


def run_rules(text: str, known: Mapping[str, str]) -> WholeText | None:
    """Run the rules over `text`, where `known` values (with their rules) are findings too; None: there is nothing."""
    if len(text) <= _SHORT and not any(value in text for value in known):
        mask = rules_for(text)
        if not mask or ("\n" not in text and not mask & SPANS_LINES and not scan_line(text, mask)):
            return None
    return WholeText(text, known)


class RuleScanner:
    """The engine made of our own rules."""

    def scan(self, text: str) -> list[Finding]:
        """See `SecretScanner.scan`."""
        whole = run_rules(text, {})
        return whole.findings if whole else []


@cache
def default_scanner() -> SecretScanner:
    """The scanner behind every function of this package."""
    return RuleScanner()


def redact_text_with_rules(text: str) -> tuple[str, frozenset[str]]:
    """`redact_text`, and the names of the rules that found something."""
    whole = run_rules(text, {})
    if whole is None:
        return text, frozenset()
    return whole.text, frozenset(finding.rule for finding in whole.findings)


def redact_text(text: str) -> str:
    """`text` with every credential replaced by a marker; the same string where there is none."""
    return redact_text_with_rules(text)[0]
