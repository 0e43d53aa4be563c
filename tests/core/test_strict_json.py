import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.errors import AppError, MalformedRequest
from controlplane.core.strict_json import MAX_NESTING, parse_json

LIMIT = 1_000_000
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
texts = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(scalars | texts, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=8)


def code_of(raw: bytes, max_bytes: int = LIMIT) -> str:
    with pytest.raises(AppError) as caught:
        parse_json(raw, max_bytes=max_bytes)
    return caught.value.code


@given(values)
def test_parse_json__whatever_json_writes__is_read_back(value: object) -> None:
    assert parse_json(json.dumps(value).encode(), max_bytes=LIMIT) == value
    assert parse_json(json.dumps(value, ensure_ascii=False).encode(), max_bytes=LIMIT) == value


@given(st.binary(max_size=200) | st.text("[]{}:,\"'0123456789.eE+-truefalsn \\", max_size=120).map(str.encode))
def test_parse_json__any_bytes__are_read_as_json_does_or_refused(raw: bytes) -> None:
    if len(raw) > 100:
        assert code_of(raw, 100) == "payload_too_large"
        return
    try:
        value = parse_json(raw, max_bytes=100)
    except MalformedRequest:
        return
    assert value == json.loads(raw)


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (b"", "malformed_json"),
        (b"{", "malformed_json"),
        (b"{'a': 1}", "malformed_json"),
        (b'{"a": NaN}', "malformed_json"),
        (b"[Infinity]", "malformed_json"),
        (b"[-Infinity]", "malformed_json"),
        (b"[1e999]", "number_out_of_range"),
        (b"[18446744073709551616]", "number_out_of_range"),
        (b"[-9223372036854775809]", "number_out_of_range"),
        (b'{"a": 1} x', "malformed_json"),
        (b"\xff\xfe", "malformed_json"),
        (b'"\\ud800"', "malformed_json"),
        (b'{"\\udfff": 1}', "malformed_json"),
        (b"9" * 5000, "malformed_json"),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "duplicate_key"),
        (b"[" * (MAX_NESTING + 1) + b"]" * (MAX_NESTING + 1), "nesting_too_deep"),
        (b"[" * 100_000, "nesting_too_deep"),
    ],
)
def test_parse_json__not_strict_json__is_refused_with_its_code(raw: bytes, code: str) -> None:
    assert code_of(raw) == code


def test_parse_json__nesting_at_the_limit__is_read() -> None:
    raw = b"[" * MAX_NESTING + b"]" * MAX_NESTING
    assert json.dumps(parse_json(raw, max_bytes=LIMIT)).encode() == raw


def test_parse_json__one_byte_over_the_limit__is_too_large() -> None:
    assert parse_json(b"[1,2]", max_bytes=5) == [1, 2]
    assert code_of(b"[1,2]", max_bytes=4) == "payload_too_large"


@pytest.mark.parametrize("raw", [b'{"password": "hunter2", oops}', b'{"password": "hunter2\xff"}', b'["hunter2", NaN]'])
def test_parse_json__an_error__quotes_no_value(raw: bytes) -> None:
    with pytest.raises(MalformedRequest) as caught:
        parse_json(raw, max_bytes=LIMIT)
    assert "hunter2" not in caught.value.detail
    assert caught.value.__cause__ is None
