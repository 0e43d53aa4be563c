"""The suite ``secrets``."""

from pathlib import Path

import pytest

from controlplane.core.redaction import Finding, default_scanner
from controlplane.runtimes.evaluation.running import CaseError
from controlplane.runtimes.evaluation.secrets import Sample, judge
from controlplane.runtimes.evaluation.suites import run_suite

COMPOSER = """
import argparse, json, random
options = argparse.ArgumentParser()
options.add_argument("--seed", type=int)
value = "".join(random.Random(options.parse_args().seed).choices("abcdefghkmnpqrstuvwxyz23456789", k=20))
text = "DB_PASSWORD=" + value
rows = [
    {"id": "pos-env", "label": "secret", "text": text, "secret": value, "spans": [[12, 32]]},
    {"id": "pos-word", "label": "secret", "text": "we met " + value, "secret": value, "spans": [[7, 27]]},
    {"id": "neg-00", "label": "clean", "text": "the password is rotated daily", "secret": None, "spans": []},
]
for row in rows:
    print(json.dumps(row))
"""


def test_secrets__composed_texts__shares_over_ten_seeds(tmp_path: Path) -> None:
    (tmp_path / "make_samples.py").write_text(COMPOSER)
    result = run_suite("secrets", tmp_path, runtime="builtin")
    assert result.totals == {"recall": 0.5, "full_cover": 0.5, "false_alarms": 0, "cut_differs": 0}
    assert result.score == 0.5
    assert {case.id: case.passed for case in result.cases} == {"pos-env": True, "pos-word": False, "neg-00": True}
    assert list(result.cases[1].reasons) == ["10 of 10 seeds: the credential is not covered"]


@pytest.mark.parametrize(
    ("composer", "words"),
    [
        (None, "holds no make_samples.py"),
        ("raise SystemExit(1)", "does not run"),
        ("print('no JSON, password=hunter2hunter2')", "line 1: this is no labelled text"),
        ('print(\'{"id": "x", "label": "secret", "text": "t", "secret": null, "spans": []}\')', "no labelled text"),
        ("", "composes no text"),
    ],
)
def test_secrets__folder_that_cannot_be_read__says_why_and_repeats_nothing(
    tmp_path: Path, composer: str | None, words: str
) -> None:
    if composer is not None:
        (tmp_path / "make_samples.py").write_text(composer)
    with pytest.raises(CaseError, match=words) as raised:
        run_suite("secrets", tmp_path, runtime="builtin")
    assert "hunter2" not in str(raised.value)


class Half:
    """A scanner that finds the first half of what it should."""

    def scan(self, text: str) -> list[Finding]:
        return [Finding(item.rule, item.start, (item.start + item.end) // 2) for item in default_scanner().scan(text)]


def test_judge__half_of_the_value__found_but_not_covered() -> None:
    value = "k3u" * 8
    sample = Sample("x", f"DB_PASSWORD={value}", value, ((12, 36),))
    verdict = judge(sample, Half())
    assert (verdict.found, verdict.covered, verdict.changed) == (True, False, True)
    assert judge(sample, default_scanner()).passes(sample)


def test_judge__clean_text__nothing_found_and_unchanged() -> None:
    sample = Sample("x", "token: <redacted>", "", ())
    verdict = judge(sample, default_scanner())
    assert (verdict.found, verdict.changed, verdict.rules) == (False, False, frozenset())
