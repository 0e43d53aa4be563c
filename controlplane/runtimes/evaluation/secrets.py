"""The suite ``secrets``: texts with and without credentials, and whether redaction takes exactly the credentials.

A folder with ``make_samples.py``, which prints labelled texts as JSON lines for a ``--seed``: ``{"id", "label"
(secret|clean), "text", "secret", "spans"}``. They are composed while the suite runs and never stored, so that no file
holds anything shaped like a credential. No runtime and no model is involved; the scanner is the installation's.
"""

import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from controlplane.core.redaction import SecretScanner, StreamRedactor, default_scanner, redact_text
from controlplane.runtimes.evaluation.results import CaseResult, SuiteResult
from controlplane.runtimes.evaluation.running import CaseError
from controlplane.runtimes.interface import AgentRuntime

SEEDS: Final = range(10)
_COMPOSER: Final = "make_samples.py"
_COMPOSING_S: Final = 60
_FULL_SHARE: Final = 0.99
_LONGEST_REST: Final = 7  # characters of a value that may be left standing together


@dataclass(frozen=True, slots=True)
class Sample:
    """One text; ``spans`` are where its credential stands, ``[start, end)`` in characters. A clean one has none."""

    id: str
    text: str
    secret: str
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of one text. ``rules`` names what was found, never the value."""

    found: bool
    covered: bool
    changed: bool
    same_in_chunks: bool
    rules: frozenset[str]
    seconds: float

    def passes(self, sample: Sample) -> bool:
        """Return whether the credential went whole, or nothing of a clean text."""
        right = self.covered if sample.secret else not self.changed
        return right and self.same_in_chunks


def run_secrets(_runtime: AgentRuntime, path: Path) -> SuiteResult:
    """Return how the scanner does on the texts of the composer in ``path``, over the ten seeds of :data:`SEEDS`.

    Totals are ``recall`` (share of texts with a credential in which something of it is found), ``full_cover`` (share in
    which at least 99 % of it is found and, after redaction, no eight characters of it stand together), ``false_alarms``
    (how many clean texts of all seeds changed) and ``cut_differs`` (how many texts came out otherwise when cut into two
    chunks at some position). ``score`` is the recall. A case is one kind of text; it passes when it does so each time.

    Raises:
        CaseError: the folder has no composer, or what that prints cannot be read.
    """
    judged = [(sample, judge(sample, default_scanner())) for seed in SEEDS for sample in _compose(path, seed)]
    by_id: dict[str, list[tuple[Sample, Verdict]]] = defaultdict(list)
    for sample, verdict in judged:
        by_id[sample.id].append((sample, verdict))
    secret = [verdict for sample, verdict in judged if sample.secret]
    clean = [verdict for sample, verdict in judged if not sample.secret]
    if not secret or not clean:
        raise CaseError(f"{_COMPOSER} composes no text with, or no text without a credential")
    recall = sum(verdict.found for verdict in secret) / len(secret)
    totals: dict[str, float] = {
        "recall": recall,
        "full_cover": sum(verdict.covered for verdict in secret) / len(secret),
        "false_alarms": sum(verdict.changed for verdict in clean),
        "cut_differs": sum(not verdict.same_in_chunks for _, verdict in judged),
    }
    cases = [_case(name, rows) for name, rows in by_id.items()]
    return SuiteResult("secrets", "rules", cases, recall, totals)


def judge(sample: Sample, scanner: SecretScanner) -> Verdict:
    """Return what ``scanner`` finds in a text, and what redaction makes of it whole and cut at every position."""
    began = time.perf_counter()
    findings = scanner.scan(sample.text)
    redacted = redact_text(sample.text)
    seconds = time.perf_counter() - began
    reached = [
        sum(max(0, min(end, finding.end) - max(start, finding.start)) for finding in findings)
        for start, end in sample.spans
    ]
    lengths = [end - start for start, end in sample.spans]
    return Verdict(
        found=any(reached),
        covered=sum(reached) >= _FULL_SHARE * sum(lengths) and not _rest_stands(sample.secret, redacted),
        changed=bool(findings) or redacted != sample.text,
        same_in_chunks=all(_in_two(sample.text, cut) == redacted for cut in range(len(sample.text) + 1)),
        rules=frozenset(finding.rule for finding in findings),
        seconds=seconds,
    )


def _rest_stands(secret: str, text: str) -> bool:
    size = _LONGEST_REST + 1
    return any(secret[start : start + size] in text for start in range(len(secret) - _LONGEST_REST))


def _in_two(text: str, cut: int) -> str:
    stream = StreamRedactor()
    return stream.feed(text[:cut]) + stream.feed(text[cut:]) + stream.close()


def _case(name: str, rows: Sequence[tuple[Sample, Verdict]]) -> CaseResult:
    passed = sum(verdict.passes(sample) for sample, verdict in rows)
    rules = sorted({rule for _, verdict in rows for rule in verdict.rules})
    reasons = [
        f"{count} of {len(rows)} seeds: {told}"
        for told, count in (
            ("the credential is not covered", sum(bool(s.secret) and not v.covered for s, v in rows)),
            ("a clean text changed", sum(not s.secret and v.changed for s, v in rows)),
            ("cutting the text changes the result", sum(not v.same_in_chunks for _, v in rows)),
        )
        if count
    ]
    return CaseResult(
        name,
        passed == len(rows),
        sum(verdict.seconds for _, verdict in rows) / len(rows),
        "the credential" if rows[0][0].secret else "nothing",
        ", ".join(rules) or "nothing",
        reasons,
        {"seeds_passed": passed},
    )


def _compose(path: Path, seed: int) -> list[Sample]:
    composer = path / _COMPOSER
    if not composer.is_file():
        raise CaseError(f"{path} holds no {_COMPOSER}")
    command = [sys.executable, "-I", str(composer), "--seed", str(seed)]
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=_COMPOSING_S)  # noqa: S603 (the operator's own folder)
    except (OSError, subprocess.SubprocessError) as error:
        raise CaseError(f"{_COMPOSER} does not run ({type(error).__name__})") from None
    return [_sample(line, number) for number, line in enumerate(done.stdout.splitlines(), 1)]


def _sample(line: bytes, number: int) -> Sample:
    """Return one line of the composer. No error repeats the line: it may hold what looks like a credential."""
    try:
        row: Mapping[str, Any] = orjson.loads(line)
        spans = tuple((int(start), int(end)) for start, end in row["spans"])
        sample = Sample(row["id"], row["text"], row["secret"] or "", spans)
        agrees = row["label"] == ("secret" if sample.secret and spans else "clean")
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        agrees = False
    if not agrees:
        raise CaseError(f"{_COMPOSER}, line {number}: this is no labelled text")
    return sample
