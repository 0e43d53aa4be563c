"""A change of a configuration as people read it: place by place, before → after, inherited values named as such."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from controlplane.configs.merge import Source
from controlplane.configs.pointers import Operation, decode

_LONG: Final = 2_000
_NOTHING: Final = "not set"


@dataclass(frozen=True, slots=True)
class Side:
    """A value before or after. ``origin`` says where it comes from if the node's own document does not hold it."""

    value: str
    origin: str = ""
    nothing: bool = False


@dataclass(frozen=True, slots=True)
class ChangeRow:
    """One place that changes. ``sign``: ``+`` set here, ``~`` changed here, ``−`` no longer set here.

    ``effect`` marks a place that the document does not name and that changes because of another.
    """

    pointer: str
    sign: str
    words: str
    before: Side
    after: Side
    effect: bool = False
    yours: bool = False


def change_rows(
    own: Sequence[Operation],
    effective: Iterable[Operation] = (),
    sources: Mapping[str, Source] | None = None,
) -> list[ChangeRow]:
    """Return a row for each place that changes.

    Args:
        own: the difference of the node's own document.
        effective: the difference of its effective configuration, where it is known: it tells what was inherited before
            and what is inherited from now on.
        sources: of the effective configuration before, to name who an inherited value comes from.
    """
    seen = {operation["pointer"]: operation for operation in effective}
    rows = [_row(operation, seen.get(operation["pointer"]), sources or {}) for operation in own]
    named = {operation["pointer"] for operation in own}
    rows += [_effect(operation, sources or {}) for pointer, operation in seen.items() if pointer not in named]
    return rows


def plain_rows(operations: Iterable[Operation], *, yours: frozenset[str] = frozenset()) -> list[ChangeRow]:
    """Return the rows of a difference of two documents; ``yours`` are pointers to mark as changed by the reader too."""
    return [
        ChangeRow(
            pointer=operation["pointer"],
            sign=sign,
            words=words,
            before=_side(operation, "before"),
            after=_side(operation, "after"),
            yours=operation["pointer"] in yours,
        )
        for operation in operations
        for sign, words in [_sign(operation)]
    ]


def value_words(value: Any) -> str:
    """Return a value as JSON, cut where it is very long."""
    text = json.dumps(value, ensure_ascii=False, indent=2 if isinstance(value, list | dict) and value else None)
    if isinstance(value, list) and len(text) < 100:
        text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONG else f"{text[:_LONG]} … ({len(text)} characters)"


def _row(own: Operation, effective: Operation | None, sources: Mapping[str, Source]) -> ChangeRow:
    sign, words = _sign(own)
    before, after = _side(own, "before"), _side(own, "after")
    if "before" not in own:
        # Nothing effective changed: what was inherited is what is set now.
        known = effective if effective is not None else {"before": own["after"]}
        before = _inherited(known, "before", sources.get(own["pointer"]))
    if "after" not in own:
        known = effective if effective is not None else {"after": own["before"]}
        source = sources.get(own["pointer"])
        after = _inherited(known, "after", source.shadowed[0] if source and source.shadowed else None)
    return ChangeRow(own["pointer"], sign, words, before, after)


def _effect(operation: Operation, sources: Mapping[str, Source]) -> ChangeRow:
    sign, words = {"+": ("+", "inherited again"), "−": ("−", "hidden by this change")}.get(
        _sign(operation)[0], ("~", "changes with it")
    )
    before = _inherited(operation, "before", sources.get(operation["pointer"]))
    return ChangeRow(operation["pointer"], sign, words, before, _inherited(operation, "after", None), effect=True)


def _sign(operation: Operation) -> tuple[str, str]:
    if "before" not in operation:
        return "+", "set here"
    return ("~", "changed") if "after" in operation else ("−", "no longer set here")


def _side(operation: Mapping[str, Any], name: str) -> Side:
    return Side(value_words(operation[name])) if name in operation else Side(_NOTHING, nothing=True)


def _inherited(operation: Mapping[str, Any], name: str, source: Any) -> Side:
    if name not in operation:
        return Side(_NOTHING, nothing=True)
    return Side(value_words(operation[name]), f"inherited from {source.node}" if source else "inherited")


def touches(pattern: Sequence[str], pointer: str) -> bool:
    """Return whether a policy's pattern and a changed place are the same, above or below one another."""
    return all(part in ("*", token) for part, token in zip(pattern, decode(pointer), strict=False))
