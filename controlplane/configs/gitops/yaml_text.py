"""YAML that says one thing: what a file holds is what every reader of YAML takes it for, and nothing can blow up.

Values are those of JSON. A plain scalar that YAML 1.1 and 1.2 read differently (``yes``, ``012``, ``1:30``, a date) is
refused, with the way to write it. Tags, merge keys, duplicate keys, several documents and recursive aliases are refused
too; aliases are counted, and so is what they expand to.
"""

import math
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

import yaml
from typing_extensions import override

MAX_BYTES: Final = 1024 * 1024
MAX_ALIASES: Final = 100
MAX_VALUES: Final = 100_000
MAX_NESTING: Final = 80

_INTEGER: Final = re.compile(r"[-+]?[0-9]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_WORDS: Final[dict[str, bool | None]] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_TAG: Final = "tag:yaml.org,2002:"
_TAGS: Final = {bool: "bool", int: "int", float: "float", str: "str", type(None): "null"}
_YAML_1_1: Final = yaml.resolver.Resolver()
_LOADER: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
if TYPE_CHECKING:
    _SafeDumper = yaml.SafeDumper
else:
    # libyaml where PyYAML was built with it, as in every wheel: an export of 10,000 nodes in seconds, not in a minute.
    _SafeDumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class YamlError(ValueError):
    """The text is refused; the message says why and at which line, and quotes no value."""


@dataclass(frozen=True, slots=True)
class _Built:
    """A value with the number of values in it, itself included."""

    value: Any
    count: int


def load(text: str) -> Any:
    """Return the JSON value of a YAML text.

    Raises:
        YamlError: for anything else than one document of plain JSON values; see the module.
    """
    if len(text) > MAX_BYTES:
        raise YamlError(f"The file has more than {MAX_BYTES} characters.")
    try:
        return _Reader(text).document()
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise YamlError(f"Line {line}: this is not YAML.") from None
    except (yaml.YAMLError, RecursionError, UnicodeError):
        raise YamlError("This is not YAML that can be read here.") from None


class _Reader:
    """Builds values from parser events, so that tags and aliases are seen as they are written."""

    def __init__(self, text: str) -> None:
        self._events: Iterator[Any] = yaml.parse(text, Loader=_LOADER)
        self._anchors: dict[str, _Built] = {}
        self._aliases = 0
        self._total = 0

    def document(self) -> Any:
        next(self._events)  # the stream's start
        event = next(self._events)
        if isinstance(event, yaml.StreamEndEvent):
            return None
        built = self._value(next(self._events), 1)
        next(self._events)  # the document's end
        event = next(self._events)
        if not isinstance(event, yaml.StreamEndEvent):
            self._refuse(event, "one file holds one document.")
        return built.value

    def _value(self, event: Any, depth: int) -> _Built:
        if depth > MAX_NESTING:
            self._refuse(event, f"the nesting is deeper than {MAX_NESTING} levels.")
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        if event.tag is not None:
            self._refuse(event, "tags (!…) are not accepted.")
        self._count(event, 1)
        if isinstance(event, yaml.ScalarEvent):
            built = _Built(self._scalar(event), 1)
        elif isinstance(event, yaml.SequenceStartEvent):
            built = self._sequence(depth)
        else:
            built = self._mapping(depth)
        if event.anchor is not None:
            self._anchors[event.anchor] = built
        return built

    def _sequence(self, depth: int) -> _Built:
        items: list[Any] = []
        count = 1
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            built = self._value(event, depth + 1)
            items.append(built.value)
            count += built.count
        return _Built(items, count)

    def _mapping(self, depth: int) -> _Built:
        members: dict[str, Any] = {}
        count = 1
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(event)
            if key in members:
                self._refuse(event, "this key appears twice in one mapping.")
            built = self._value(next(self._events), depth + 1)
            members[key] = built.value
            count += built.count
        return _Built(members, count)

    def _key(self, event: Any) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            self._refuse(event, "a key is a string.")
        if event.tag is not None or event.anchor is not None:
            self._refuse(event, "a key has neither a tag nor an anchor.")
        if event.implicit[0] and event.value == "<<":
            self._refuse(event, "merge keys (<<) are not accepted; a node inherits from those above it.")
        key = self._scalar(event)
        if not isinstance(key, str):
            self._refuse(event, "a key is a string; put it in quotes.")
        return key

    def _alias(self, event: Any) -> _Built:
        self._aliases += 1
        if self._aliases > MAX_ALIASES:
            self._refuse(event, f"there are more than {MAX_ALIASES} aliases.")
        built = self._anchors.get(event.anchor)
        if built is None:
            self._refuse(event, "this alias names nothing that is complete here.")
        self._count(event, built.count)
        return _Built(deepcopy(built.value), built.count)

    def _count(self, event: Any, count: int) -> None:
        self._total += count
        if self._total > MAX_VALUES:
            self._refuse(event, f"there are more than {MAX_VALUES} values.")

    def _scalar(self, event: Any) -> Any:
        text = event.value
        if not event.implicit[0]:
            return text
        value = _plain(text)
        if isinstance(value, _Unreadable):
            self._refuse(event, value.why)
        tag = _YAML_1_1.resolve(yaml.ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]  # no annotations
        if tag != _TAG + _TAGS[type(value)]:
            self._refuse(
                event,
                "readers of YAML take this for different things: put a text in quotes, write a boolean as "
                "true or false, an integer without leading zeros, another number as 1.5 or 1.0e+3.",
            )
        return value

    def _refuse(self, event: Any, why: str) -> NoReturn:
        raise YamlError(f"Line {event.start_mark.line + 1}: {why}")


@dataclass(frozen=True, slots=True)
class _Unreadable:
    why: str


def _plain(text: str) -> Any:
    """Return what YAML 1.2's core schema takes a plain scalar for."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        digits = text.lstrip("+-")
        if len(digits) > 1 and digits[0] == "0":
            return _Unreadable("an integer has no leading zeros; put a text in quotes.")
        return int(text) if len(digits) <= 20 else _Unreadable("an integer must fit into 64 bits.")
    if _FLOAT.fullmatch(text):
        number = float(text)
        return number if math.isfinite(number) else _Unreadable("this number is out of range.")
    return text


class _Dumper(_SafeDumper):
    """Writes JSON values; texts of several lines as literal blocks; no aliases."""

    @override
    def ignore_aliases(self, data: Any) -> bool:
        return True


class _QuotingDumper(_Dumper):
    """Writes every text in double quotes, with escapes: for what the emitter's other styles would change."""


def _readable(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(f"{_TAG}str", value, style="|" if "\n" in value else None)


def _quoted(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar(f"{_TAG}str", value, style='"')


_Dumper.add_representer(str, _readable)
_QuotingDumper.add_representer(str, _quoted)
# What only YAML 1.2 takes for a number is written in quotes as well.
_Dumper.add_implicit_resolver(f"{_TAG}float", re.compile(rf"^(?:{_FLOAT.pattern})$"), list("-+.0123456789"))


def dump(value: Any, *, sort_keys: bool = True) -> str:
    """Return a JSON value as YAML that :func:`load` reads back exactly.

    Raises:
        ValueError: the value is no JSON value, or has an unpaired surrogate.
    """
    for dumper in (_Dumper, _QuotingDumper):
        text = yaml.dump(
            value, Dumper=dumper, allow_unicode=True, sort_keys=sort_keys, width=110, default_flow_style=False
        )
        try:
            if identical(load(text), value):
                return str(text)
        except YamlError:
            continue
    raise ValueError("This cannot be written as YAML.")


def identical(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal with their types."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(identical(item, right[key]) for key, item in left.items())
    if isinstance(left, list):
        return len(left) == len(right) and all(map(identical, left, right))
    return bool(left == right)
