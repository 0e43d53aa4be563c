"""Redaction of whole texts."""

from collections.abc import Mapping
from functools import cache

from controlplane.core.redaction.findings import Finding, SecretScanner
from controlplane.core.redaction.lines import rules_for
from controlplane.core.redaction.stream import Machine


class WholeText:
    """What a run of the rules over a whole text gave."""

    def __init__(self, text: str, known: Mapping[str, str]) -> None:
        machine = Machine(known)
        self.text = machine.feed(text) + machine.close()
        self.findings: list[Finding] = machine.findings
        self.known = machine.known


def run_rules(text: str, known: Mapping[str, str]) -> WholeText | None:
    """Run the rules over `text`, where `known` values (with their rules) are findings too; None: there is nothing."""
    if rules_for(text) or any(value in text for value in known):
        return WholeText(text, known)
    return None


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
