"""Personal data of others: what goes, and what only looks like it."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.redaction.personal import PERSONAL_KINDS, Personal, find_personal, luhn_valid, redact_personal


def with_check_digit(digits: str) -> str:
    return next(digits + last for last in "0123456789" if luhn_valid(digits + last))


CARD = with_check_digit("411111222233344")


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("ask jane.doe@example.com first", "ask [redacted:email] first"),
        ("<j_d+oncall@mail.example.co.uk>, twice", "<[redacted:email]>, twice"),
        ("write to ops@example.org.", "write to [redacted:email]."),
        ("her number is +49 (0)30 901820-17 now", "her number is [redacted:phone] now"),
        ("page +14155550132", "page [redacted:phone]"),
        ("tel: 030 90182017", "tel: [redacted:phone]"),
        ("call me at (415) 555-0132 tonight", "call me at [redacted:phone] tonight"),
        (f"card {CARD} was charged", "card [redacted:payment-card] was charged"),
        (f"{CARD[:4]} {CARD[4:8]} {CARD[8:12]} {CARD[12:]}", "[redacted:payment-card]"),
        ("-".join((CARD[:4], CARD[4:8], CARD[8:12], CARD[12:])), "[redacted:payment-card]"),
    ],
)
def test_redact_personal__data_of_a_person__goes_whole(text: str, redacted: str) -> None:
    assert redact_personal(text) == redacted
    assert redact_personal(redacted) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "git clone git@github.com:acme/infra.git",
        "ssh deploy@bastion.prod.internal:22",
        "postgres://reader@db.prod.internal/orders",
        "image registry.acme.io/checkout@sha256:1f",
        "@app.route in main.py, user@localhost",
        "at 2026-12-01T14:20:59+01:00 the pod restarted",
        "1764598859123 ms since the epoch",
        "restart 10.0.12.7:8080, took 415 555 ms",
        "+12% on 2026-12-01, +300 ms",
        "call 3 of 12 failed with exit code 137",
        "arn:aws:rds:us-east-1:123456789012:db:orders-primary",
        "order 4111112222333440 was lost" if not luhn_valid("4111112222333440") else "order 4111112222333441 was lost",
        "4444 4444 4444 4444",
        "resourceVersion: 918273645",
    ],
)
def test_redact_personal__something_else__stays(text: str) -> None:
    assert redact_personal(text) == text


def test_redact_personal__own_address__stays_and_others_go() -> None:
    text = "Jane@Example.com and john@example.com"
    assert redact_personal(text, own={"jane@example.com"}) == "Jane@Example.com and [redacted:email]"


def test_redact_personal__kinds__only_those() -> None:
    text = "jane@example.com, +14155550132"
    assert redact_personal(text, {Personal.PHONE}) == "jane@example.com, [redacted:phone]"
    assert redact_personal(text, ()) == text


@given(st.text(alphabet="a1.@+ -()4[]:redct", max_size=80), st.sets(st.sampled_from(PERSONAL_KINDS)))
def test_redact_personal__any_text__idempotent_and_in_order(text: str, kinds: set[Personal]) -> None:
    once = redact_personal(text, kinds)
    assert redact_personal(once, kinds) == once
    findings = find_personal(text, kinds)
    assert all(first.end <= second.start for first, second in pairwise(findings))


@given(st.from_regex(r"\A[0-9]{12,18}\Z"), st.integers(min_value=0), st.integers(1, 9))
def test_luhn_valid__one_digit_changed__is_refused(digits: str, place: int, by: int) -> None:
    number = with_check_digit(digits)
    place %= len(number)
    changed = number[:place] + str((int(number[place]) + by) % 10) + number[place + 1 :]
    assert luhn_valid(number)
    assert not luhn_valid(changed)


@pytest.mark.parametrize("piece", ["a.", "1 ", "+1-", "a@", "1-", "call ", "(("])
def test_redact_personal__endless_repetition__linear(piece: str) -> None:
    text = piece * 50_000
    began = time.perf_counter()
    redact_personal(text)
    assert time.perf_counter() - began < 2
