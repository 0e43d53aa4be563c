"""What the rules find, and what they leave alone."""

import dataclasses
import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core.redaction import (
    Finding,
    UnionScanner,
    apply_findings,
    default_scanner,
    marker,
    merge_findings,
    redact_text,
    redact_text_with_rules,
)
from tests.core.redaction_samples import DASHES, Maker, Sample, benign, everything
from tests.core.redaction_strategies import texts

SEEDS = (1, 2)
SAMPLES = [everything(seed) for seed in SEEDS]


def pieces(value: str, size: int = 8) -> list[str]:
    """Every stretch of `size` characters of `value` (the whole of a shorter one)."""
    return [value[start : start + size] for start in range(max(1, len(value) - size + 1))]


@pytest.mark.parametrize(
    "samples", list(zip(*SAMPLES, strict=True)), ids=lambda samples: samples[0].name.replace(" ", "_")
)
def test_redact_text__credential__no_piece_of_it_is_left(samples: tuple[Sample, ...]) -> None:
    for sample in samples:
        redacted, rules = redact_text_with_rules(sample.text)
        assert not [piece for piece in pieces(sample.value) if piece in redacted]
        assert rules & set(sample.rules.split())
        assert redact_text(redacted) == redacted
        assert apply_findings(sample.text, default_scanner().scan(sample.text)) == redacted
        assert default_scanner().scan(redacted) == []


@pytest.mark.parametrize("seed", SEEDS)
def test_redact_text__what_stands_around_a_credential__stays(seed: int) -> None:
    value = Maker(seed).chars(14)
    assert redact_text(f"checkout reads postgres://app:{value}@db:5432/orders?ssl=1, ok") == (
        "checkout reads postgres://app:[redacted:url-password]@db:5432/orders?ssl=1, ok"
    )
    assert redact_text(f'{{"user":"a","password":"{value}","host":"db"}}') == (
        '{"user":"a","password":"[redacted:password]","host":"db"}'
    )
    assert redact_text(f"tool?access_token=a1{value}&page=2") == "tool?access_token=[redacted:labelled-secret]&page=2"


@pytest.mark.parametrize("seed", range(4))
def test_redact_text__look_alikes__are_left_alone(seed: int) -> None:
    changed = [text for text in benign(seed) if redact_text(text) != text or default_scanner().scan(text)]
    assert changed == []


def test_redact_text__value_seen_with_its_label__goes_where_it_stands_again() -> None:
    value = Maker(5).chars(12) + "7x"
    redacted = redact_text(f"{value} is it? the password is {value}\nand later {value} again")
    assert value not in redacted


def test_redact_text__nothing_found__answers_the_same_string() -> None:
    text = "a pod restarted\n" * 2000
    assert redact_text(text) == text
    assert redact_text("") == ""


@pytest.mark.parametrize(
    "text", ["[redacted:password]", "password=[redacted:jwt]", "token: [redacted:labelled-secret],"]
)
def test_scan__marker__is_no_finding(text: str) -> None:
    assert default_scanner().scan(text) == []
    assert redact_text(text) == text


def test_scan__marker_inside_a_value__rest_of_the_value_goes_too() -> None:
    value = Maker(3).chosen()
    assert redact_text(f'password="[redacted:jwt]{value}"') == 'password="[redacted:password]"'


def test_finding__carries_positions_only() -> None:
    assert [field.name for field in dataclasses.fields(Finding)] == ["rule", "start", "end"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        Finding("jwt", 0, 1).start = 3  # type: ignore[misc]


def test_default_scanner__called_twice__is_the_same() -> None:
    assert default_scanner() is default_scanner()


def test_merge_findings__overlaps__joined_under_the_first_name() -> None:
    found = [Finding("b", 5, 9), Finding("a", 0, 6), Finding("c", 9, 12), Finding("d", 20, 20)]
    assert merge_findings(found) == [Finding("b", 0, 9), Finding("c", 9, 12)]
    assert apply_findings("0123456789abXY", merge_findings(found)) == f"{marker('b')}{marker('c')}XY"


def test_union_scanner__several_engines__find_what_any_finds() -> None:
    class Codename:
        def scan(self, text: str) -> list[Finding]:
            start = text.find("bluebird")
            return [Finding("codename", start, start + 8)] if start >= 0 else []

    value = Maker(4).chars(36)
    text = f"bluebird uses ghp_{value}"
    found = UnionScanner([default_scanner(), Codename()]).scan(text)
    assert [finding.rule for finding in found] == ["codename", "github-token"]
    assert apply_findings(text, found) == "[redacted:codename] uses [redacted:github-token]"


@given(texts())
@settings(deadline=None)
def test_redact_text__any_text__is_idempotent_and_agrees_with_scan(text: str) -> None:
    redacted = redact_text(text)
    assert redact_text(redacted) == redacted
    findings = default_scanner().scan(text)
    assert apply_findings(text, findings) == redacted
    edges = [edge for finding in findings for edge in (finding.start, finding.end)]
    assert edges == sorted(edges)
    assert all(0 <= finding.start < finding.end <= len(text) for finding in findings)


@given(st.text())
@settings(deadline=None)
def test_redact_text__any_characters__never_fail(text: str) -> None:
    assert redact_text(redact_text(text)) == redact_text(text)


_BEGIN = f"{DASHES}BEGIN RSA PRIVATE KEY{DASHES}"


@pytest.mark.parametrize(
    "unit",
    [
        *(
            "password",
            "password=",
            "password: ",
            'password "',
            "token is ",
            "the token i used is ",
            "a",
            " ",
            "=",
            "\\",
        ),
        *(
            '\\"',
            '"',
            "'",
            _BEGIN,
            f"{DASHES}BEGIN ",
            f"{_BEGIN}\nAAAA\n",
            "eyJabcdefghijklmnop.",
            "://",
            "https://a:b",
        ),
        *(
            "Authorization: ",
            "bearer ",
            "Cookie: a=b;",
            '"kind":"Secret","data":{"a":"b",',
            "curl -u a:b ",
            "mysql -x ",
        ),
        *("login ", "--password ", "[redacted:", "[redacted:x]", "${a:-", "{{", "<password>", "name: token value: "),
        *(
            "| password ",
            "AKIA",
            "https://hooks.slack.com/",
            "user/pass ",
            "key key ",
            "\u0130",
            "data:\n",
            "password:\n",
        ),
        *(
            "data:\n  a: QUJD\n",
            "stringData:\n  a: b\n",
            "password: |\n  x\n",
            "token: |\n",
            "password=a,b;c&d",
            "+",
            "aA1",
        ),
    ],
)
def test_redact_text__hostile_repetition__takes_linear_time(unit: str) -> None:
    text = (unit * (131_072 // len(unit) + 1))[:131_072]
    started = time.process_time()
    redact_text(text)
    # Linear is well under a second; quadratic would be minutes.
    assert time.process_time() - started < 8


def test_package__imported_alone__needs_no_django() -> None:
    code = "import sys, controlplane.core.redaction; sys.exit(any(name.startswith('django') for name in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=60).returncode == 0
