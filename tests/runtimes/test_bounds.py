import base64
import secrets

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.redaction import redact_text
from controlplane.runtimes.toolbox.bounds import Bounded, OutputBounder


def bound(text: str, limit: int = 2_048, *, pieces: int = 0, hint: str = "") -> Bounded:
    bounder = OutputBounder(limit, hint=hint)
    for start in range(0, len(text), pieces or len(text) or 1):
        bounder.feed(text[start : start + (pieces or len(text))])
    return bounder.finish()


def test_bounder__short_output__is_unchanged() -> None:
    assert bound("one\ntwo\n\nfour") == Bounded("one\ntwo\n\nfour", False, 13)


def test_bounder__long_output__keeps_head_matches_and_tail_in_order() -> None:
    lines = [f"row {number}" for number in range(5_000)]
    lines[2_500] = "connection REFUSED by peer"
    kept = bound("\n".join(lines), hint="Narrow by time.").text.split("\n")
    assert kept[0] == "row 0"
    assert kept[-1] == "row 4999"
    assert "line 2501: connection REFUSED by peer" in kept
    marker = next(line for line in kept if line.startswith("[… output cut: "))
    assert "1 lines of the whole have error words. Narrow by time.]" in marker


def test_bounder__marker__counts_what_is_left_out() -> None:
    lines = [f"{number:06}" for number in range(10_000)]
    result = bound("\n".join(lines))
    shown = [line for line in result.text.split("\n") if line.isdigit()]
    assert result.total_bytes == 69_999
    assert f"{10_000 - len(shown):,} lines" in result.text


def test_bounder__more_matches_than_room__stays_within_the_limit() -> None:
    result = bound("ERROR something failed badly\n" * 10_000)
    assert len(result.text.encode()) <= 2_048
    assert "10,000 lines of the whole have error words" in result.text


def test_bounder__one_endless_line__is_cut() -> None:
    result = bound("x" * 1_000_000, pieces=70_000)
    assert len(result.text.encode()) <= 2_048
    assert result.truncated
    assert result.total_bytes == 1_000_000


def test_bounder__secret_beside_every_cut__is_never_shown_in_part() -> None:
    secret = "ghp_" + secrets.token_hex(18)
    text = "\n".join(f"GET /x{'y' * (number % 61)} Authorization: Bearer {secret}" for number in range(400))
    for pieces in (37, 1_000, 70_000):
        result = bound(text, pieces=pieces)
        assert not any(secret[start : start + 8] in result.text for start in range(len(secret) - 7))


def test_bounder__private_key_in_the_tail__is_left_out() -> None:
    body = "\n".join(base64.b64encode(secrets.token_bytes(48)).decode() for _ in range(40))
    text = "row\n" * 3_000 + f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\nend"
    result = bound(text, pieces=1_500)
    assert result.text.endswith("end")
    assert not any(line in result.text for line in body.split("\n"))


@pytest.mark.parametrize("limit", [0, 100, 1_024])
def test_bounder__tiny_limit__still_answers_within_a_kibibyte(limit: int) -> None:
    assert len(bound("ERROR größer\n" * 500, limit).text.encode()) <= 1_024


@given(
    text=st.text(alphabet="ab ERROR\n\té€", max_size=6_000),
    pieces=st.integers(min_value=1, max_value=500),
    limit=st.integers(min_value=1_024, max_value=3_000),
)
def test_bounder__any_text_in_any_pieces__is_bounded_and_independent_of_the_pieces(
    text: str, pieces: int, limit: int
) -> None:
    whole = bound(text, limit)
    assert bound(text, limit, pieces=pieces) == whole
    assert len(whole.text.encode()) <= limit
    if not whole.truncated:
        assert whole.text == redact_text(text).removesuffix("\n")
