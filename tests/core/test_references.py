"""References in texts: what is one, what is plain, what is refused; and the algebra of reading and writing them."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.references import (
    Escaped,
    MalformedReference,
    Part,
    Reference,
    is_name,
    parse,
    references_of,
    render,
    resolve,
)

NAMES = st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_]{0,12}\Z")
DEFAULTS = st.text(st.characters(exclude_characters="{}", exclude_categories=["Cs"]), max_size=12)
REFERENCES = st.builds(Reference, NAMES, st.none() | DEFAULTS)
ESCAPES = st.builds(Escaped, st.text(st.characters(exclude_characters="}", exclude_categories=["Cs"]), max_size=12))
#: Texts of many dollars and braces, of which few are references.
DOLLARS = st.lists(
    st.sampled_from(["$", "{", "}", "${", "$${", "A", "_1", ":-", " ", "é", "${A}", "${B:-x}", "$${C}"]), max_size=12
).map("".join)


def parsed(text: str) -> tuple[Part, ...] | None:
    try:
        return parse(text)
    except MalformedReference:
        return None


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", ()),
        ("plain", ("plain",)),
        ("${A}", (Reference("A"),)),
        ("${_a1}", (Reference("_a1"),)),
        ("Bearer ${A}", ("Bearer ", Reference("A"))),
        ("${A}${B}", (Reference("A"), Reference("B"))),
        ("x${A:-}y", ("x", Reference("A", ""), "y")),
        ("${A:-a $B $(c) :-d}", (Reference("A", "a $B $(c) :-d"),)),
        ("$${A}", (Escaped("A"),)),
        ("$${1 any thing ${}", (Escaped("1 any thing ${"),)),
        ("$$${A}", ("$", Escaped("A"))),
        ("$A $(A) $$A $", ("$A $(A) $$A $",)),
        ("pa$$w0rd${", ("pa$$w0rd${",)),  # example 30
        ("${A", ("${A",)),
        ("$${A", ("$${A",)),
        ("} ${A} ${", ("} ", Reference("A"), " ${")),
    ],
)
def test_parse__text__parts(text: str, parts: tuple[Part, ...]) -> None:
    assert parse(text) == parts
    assert render(parts) == text


@pytest.mark.parametrize(
    "text",
    [
        *("${}", "${1X}", "${A-B}", "${A.b}", "${ A}", "${A\n}", "${A:x}", "${é}", f"${{{'A' * 129}}}"),
        *("${A:-${B}}", "${A:-{}}", "${${A}}", "${A ${B}"),
    ],
)
def test_parse__closed_and_no_reference__malformed_and_not_quoted(text: str) -> None:
    with pytest.raises(MalformedReference) as caught:
        parse(f"secret-of-somebody {text}")
    assert str(caught.value) == "a reference is ${NAME} or ${NAME:-default}; $${ stands for a literal ${"


def test_resolve__value_with_a_reference__passed_through_literally() -> None:  # example 31
    asked: list[str] = []

    def value_of(reference: Reference) -> str:
        asked.append(reference.name)
        return "${OTHER} $${A} ${"

    assert resolve("a ${FIRST} b", value_of) == "a ${OTHER} $${A} ${ b"
    assert asked == ["FIRST"]


def test_resolve__one_reference_without_value__nothing_of_the_text_and_all_asked() -> None:
    asked: list[str] = []

    def value_of(reference: Reference) -> str | None:
        asked.append(reference.name)
        return None if reference.name == "B" else "value"

    assert resolve("${A}-${B}-${C}", value_of) is None
    assert asked == ["A", "B", "C"]


def test_resolve__escape__the_literal_reference_and_nobody_asked() -> None:
    assert resolve("$${NAME} and $${NAME:-x}", lambda _: pytest.fail("asked")) == "${NAME} and ${NAME:-x}"


def test_references_of__text__names_and_defaults_in_order() -> None:
    assert references_of("$${N} ${B:-1} ${A} ${B}") == (Reference("B", "1"), Reference("A"), Reference("B"))


def test_is_name__letters_digits_underscore__and_nothing_else() -> None:
    assert [is_name(text) for text in ("A", "_", "a1_", "A" * 128)] == [True] * 4
    assert [is_name(text) for text in ("", "1A", "A-B", "A\n", "../A", "É", "A" * 129)] == [False] * 7


@given(DOLLARS | st.text())
def test_parse__any_text__renders_back_to_itself(text: str) -> None:
    parts = parsed(text)
    assert parts is None or render(parts) == text


@given(st.lists(REFERENCES | ESCAPES | st.text("ab é", min_size=1), max_size=8))
def test_render__any_parts__parse_back_to_themselves(parts: list[Part]) -> None:
    joined: list[Part] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        else:
            joined.append(part)
    assert parse(render(joined)) == tuple(joined)


@given(st.text() | DOLLARS)
def test_resolve__no_closed_reference__unchanged(text: str) -> None:
    plain = text.replace("}", "")
    assert resolve(plain, lambda _: pytest.fail("asked")) == plain


@given(st.lists(st.text("ab$ ", min_size=1).map(lambda text: text.rstrip("$")) | NAMES.map(Reference), max_size=6))
def test_resolve__any_values__each_stands_where_its_reference_was_and_is_never_read(parts: list[Part]) -> None:
    hostile = "${A} $${B} ${C:-x} ${ }"
    expected = "".join(part if isinstance(part, str) else hostile for part in parts)
    assert resolve(render(parts), lambda _: hostile) == expected


def test_parse__many_openings__linear_time() -> None:
    began = time.process_time()
    assert parse("${" * 200_000) == ("${" * 200_000,)
    assert parse("}" + "${A" * 200_000) == ("}" + "${A" * 200_000,)
    assert len(parse("$${" + "${" * 200_000 + "}")) == 1
    assert time.process_time() - began < 2
