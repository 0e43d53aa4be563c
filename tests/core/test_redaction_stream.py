"""Redaction of a text in chunks equals redaction of the whole, in bounded memory."""

import base64
import json
from collections.abc import Iterable
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controlplane.core.redaction import StreamRedactor, apply_findings, default_scanner, redact_text, stream
from tests.core.redaction_samples import DASHES, Maker, benign, everything
from tests.core.redaction_strategies import texts

MAKE = Maker(21)


def in_chunks(chunks: Iterable[str]) -> str:
    redactor = StreamRedactor()
    return "".join([redactor.feed(chunk) for chunk in chunks] + [redactor.close()])


def test_stream__sample_cut_in_two_anywhere__same_as_whole() -> None:
    for sample in everything(1):
        if sample.name.endswith(("-2", "-3", "-4", "-5")):
            continue  # the same values in other frames
        whole = redact_text(sample.text)
        step = 1 if len(sample.text) < 400 else 7
        for cut in range(0, len(sample.text) + 1, step):
            assert in_chunks([sample.text[:cut], sample.text[cut:]]) == whole, (sample.name, cut)


def test_stream__sample_character_by_character__same_as_whole() -> None:
    joined = "\n".join([*benign(1), *(sample.text for sample in everything(1))])
    assert in_chunks(joined) == redact_text(joined)


@given(texts(), st.lists(st.integers(0, 300), max_size=6))
@settings(deadline=None)
def test_stream__any_text_any_cuts__same_as_whole(text: str, cuts: list[int]) -> None:
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    assert in_chunks(text[left:right] for left, right in pairwise(edges)) == redact_text(text)


@given(st.lists(texts(), max_size=6).map("".join), st.integers(1, 60))
@settings(deadline=None)
def test_stream__lines_longer_than_the_limit__same_as_whole(text: str, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream, "LINE_LIMIT", 80)
        patch.setattr(stream, "_BLOCK_SIZE", 64)
        chunks = [text[start : start + size] for start in range(0, len(text), size)]
        redacted = redact_text(text)
        assert in_chunks(chunks) == redacted
        assert apply_findings(text, default_scanner().scan(text)) == redacted


@pytest.mark.parametrize("size", [1, 7, 64, 4096])
def test_stream__private_key__nothing_of_its_body_is_emitted(size: int) -> None:
    block, body = MAKE.pem("RSA PRIVATE KEY", 4000)
    text = f"before\nkey: {block} after\nlast"
    redactor = StreamRedactor()
    emitted = ""
    for start in range(0, len(text), size):
        emitted += redactor.feed(text[start : start + size])
        assert not [line for line in body.split("\n") if line[:12] in emitted]
    assert emitted + redactor.close() == "before\nkey: [redacted:private-key] after\nlast"
    assert redactor.rules == {"private-key"}


def test_stream__private_key_that_never_ends__stays_swallowed_in_bounded_memory() -> None:
    redactor = StreamRedactor()
    emitted = redactor.feed(f"{DASHES}BEGIN PRIVATE KEY{DASHES}\n")
    for _ in range(2000):
        emitted += redactor.feed(MAKE.b64(48) + "\n")
    assert emitted + redactor.close() == "[redacted:private-key]\n"


@pytest.mark.parametrize("alphabet", ["abc def ghi, ", "abcdefgh", '{"a":"b"},'])
def test_stream__one_endless_line__held_back_by_a_bound(alphabet: str) -> None:
    redactor = StreamRedactor()
    fed = emitted = 0
    piece = alphabet * (8192 // len(alphabet))
    for _ in range(100):
        fed += len(piece)
        emitted += len(redactor.feed(piece))
        assert fed - emitted <= 2 * stream.LINE_LIMIT
    assert emitted + len(redactor.close()) == fed


def test_stream__long_line_of_json__credentials_found_wherever_pieces_end() -> None:
    generator = Maker(3).random
    tokens = [f"a1{MAKE.chars(24)}" for _ in range(1500)]
    rows = [
        {"n": generator.randrange(999), "note": "x" * generator.randrange(90), "api_token": token} for token in tokens
    ]
    text = json.dumps(rows)
    assert len(text) > 2 * stream.LINE_LIMIT
    redacted = redact_text(text)
    assert not [token for token in tokens if token in redacted]
    assert len(json.loads(redacted)) == len(rows)
    assert in_chunks(text[start : start + 5000] for start in range(0, len(text), 5000)) == redacted


def test_stream__value_longer_than_the_limit__one_marker() -> None:
    value = MAKE.b64(3 * stream.LINE_LIMIT)
    text = f"a\n  client-key-data: {value}\nb: 1"
    assert redact_text(text) == "a\n  client-key-data: [redacted:labelled-key]\nb: 1"
    assert apply_findings(text, default_scanner().scan(text)) == redact_text(text)


def test_stream__list_of_secrets_as_text__no_value_is_left() -> None:
    encoded = [base64.b64encode(MAKE.chars(15).encode()).decode() for _ in range(1500)]
    items = [{"apiVersion": "v1", "data": {"user": value}, "kind": "Secret"} for value in encoded]
    api = {"kind": "SecretList", "apiVersion": "v1", "items": [{"data": {"user": value}} for value in encoded]}
    yaml = "apiVersion: v1\nitems:\n" + "".join(
        f"- apiVersion: v1\n  data:\n    user: {value}\n  kind: Secret\n  metadata:\n    name: x\n" for value in encoded
    )
    for text in (json.dumps({"items": items}), json.dumps(api), json.dumps(api, indent=1), yaml):
        redacted = redact_text(text)
        assert not [value for value in encoded if value in redacted]
        assert in_chunks(text[start : start + 9999] for start in range(0, len(text), 9999)) == redacted


def test_stream__manifest_cut_off_before_its_kind__treated_as_a_secret() -> None:
    value = base64.b64encode(MAKE.chars(30).encode()).decode()
    head = f"apiVersion: v1\ndata:\n  a: {value}\n"
    assert value not in redact_text(head)
    assert value in redact_text(f"{head}kind: ConfigMap\n")
    assert value in redact_text(f"data:\n  a: {value}\n")


def test_stream__manifest_that_never_tells_its_kind__held_back_by_a_bound() -> None:
    redactor = StreamRedactor()
    fed = redactor.feed("apiVersion: v1\ndata:\n")
    size = 0
    for _ in range(3000):
        line = f"  k: {MAKE.b64(48)}\n"
        size += len(line)
        fed += redactor.feed(line)
    assert "[redacted:kubernetes-secret]" in fed
    assert size > 2 * 65_536
    assert "k: [redacted:kubernetes-secret]\n" in redactor.close() + fed


def test_stream__value_found_once__goes_from_later_lines() -> None:
    value = MAKE.chars(20) + "7q"
    assert value not in in_chunks([f"API_TOKEN={value}\n", "and then ", value[:5], value[5:], " again\n"])
