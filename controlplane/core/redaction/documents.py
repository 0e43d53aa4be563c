"""Redaction of JSON documents: what the text rules find in any string, and what the structure gives away."""

from collections.abc import Mapping
from typing import TypeAlias

from controlplane.core.redaction.findings import marker
from controlplane.core.redaction.labels import Label, classify_label
from controlplane.core.redaction.manifests import SECRET_KINDS, SECRET_RULE
from controlplane.core.redaction.texts import run_rules
from controlplane.core.redaction.values import (
    is_basic_pair,
    is_benign,
    is_distinctive,
    is_location,
    is_quantity,
    looks_random,
)

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"

MOST_LEVELS = 200
TOO_DEEP = "too-deep"
_NAME_KEYS = ("name", "key", "Name", "Key")
_VALUE_KEYS = ("value", "Value")
_LEAST_TEXT = 6  # label, separator and value
_MOST_REMEMBERED = 64
_MOST_CLEAN = 4096
_LEAST_NUMBER = 1000  # shorter numbers under "password" are lengths, ages and counts


def redact_json(value: object) -> JsonValue:
    """A copy of `value` without credentials.

    Strings and keys are read by the text rules. Besides, a string (of a password also a number) under a key that names
    a secret goes whole, unless it is a reference, empty, or a benign word; so does every value in `data` and
    `stringData` of a Kubernetes Secret, and the `value` of a pair whose `name` names a secret. A value that was found
    and is distinctive goes wherever it stands again in the document. Below 200 levels stands `[redacted:too-deep]`.
    Tuples become lists, and anything that JSON does not know becomes its redacted text. `value` is not changed.
    """
    return redact_json_with_rules(value)[0]


def redact_json_with_rules(value: object) -> tuple[JsonValue, frozenset[str]]:
    """`redact_json`, and the names of the rules that found something."""
    document = _Document({})
    redacted = document.walk(value)
    if document.values:
        # Once more, now that all values are known: one may stand without its label before it stands with it.
        document = _Document(document.values)
        redacted = document.walk(value)
    return redacted, frozenset(document.rules)


class _Document:
    """One walk over a document."""

    def __init__(self, known: Mapping[str, str]) -> None:
        self._known = dict(known)
        self.values: dict[str, str] = {}  # distinctive values found, and their rules
        self.rules: set[str] = set()
        self._clean: set[str] = set()  # short texts without findings: keys and states repeat a lot

    def walk(self, value: object, label: Label | None = None, level: int = 0, *, in_secret: bool = False) -> JsonValue:
        """The redacted copy of `value`, which stands under `label`; `in_secret` inside a SecretList.

        One frame a level, so that the bound on levels keeps the stack far from its limit.
        """
        if not isinstance(value, Mapping | list | tuple):
            return self._scalar(value, label)
        if level >= MOST_LEVELS:
            return self._mark(TOO_DEEP)
        if not isinstance(value, Mapping):
            items: list[JsonValue] = []
            for item in value:
                items += (self.walk(item, label, level + 1, in_secret=in_secret),)
            return items
        members: dict[str, JsonValue] = {}
        is_secret_object = in_secret or value.get("kind") in SECRET_KINDS
        pair_label = _label_of_pair(value)
        for name, item in value.items():
            key = name if isinstance(name, str) else str(name)
            if key == "stringData" or (key == "data" and is_secret_object):
                member = self._erase(item)
            else:
                item_label = pair_label if pair_label and key in _VALUE_KEYS else _label_of_key(key, item)
                member = self.walk(item, item_label, level + 1, in_secret=is_secret_object and key == "items")
            members[_unused(self._text(key), members)] = member
        return members

    def _scalar(self, value: object, label: Label | None) -> JsonValue:
        if isinstance(value, str):
            return self._string(value, label)
        if value is None or isinstance(value, bool | float):
            return value
        if isinstance(value, int):
            is_secret = label is Label.PASSWORD and abs(value) >= _LEAST_NUMBER
            return self._mark(Label.PASSWORD.value) if is_secret else value
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        return self._string(text, label)

    def _string(self, text: str, label: Label | None) -> str:
        if label is not None and _is_secret_member(label, text):
            if is_distinctive(text):
                self.values.setdefault(text, label.value)
            return self._mark(label.value)
        return self._text(text)

    def _text(self, text: str) -> str:
        if len(text) < _LEAST_TEXT or text in self._clean:
            return text
        whole = run_rules(text, self._known)
        if whole is None:
            if len(text) <= _MOST_REMEMBERED and len(self._clean) < _MOST_CLEAN:
                self._clean.add(text)
            return text
        self.rules.update(finding.rule for finding in whole.findings)
        self.values.update(whole.known)
        return whole.text

    def _erase(self, item: object) -> JsonValue:
        """Every value of a Secret's map, whatever it is."""
        if isinstance(item, Mapping):
            erased: dict[str, JsonValue] = {}
            for key, value in item.items():
                erased[_unused(self._text(str(key)), erased)] = None if value is None else self._erase_one(value)
            return erased
        return None if item is None else self._erase_one(item)

    def _erase_one(self, value: object) -> JsonValue:
        return value if value == "" else self._mark(SECRET_RULE)

    def _mark(self, rule: str) -> str:
        self.rules.add(rule)
        return marker(rule)


def _label_of_key(key: str, item: object) -> Label | None:
    if key in ("auth", "_auth"):
        return Label.SECRET if isinstance(item, str) and is_basic_pair(item) else None
    return classify_label(key)


def _label_of_pair(members: Mapping[object, object]) -> Label | None:
    """What `{"name": "DB_PASSWORD", "value": …}` names."""
    if not any(key in members for key in _VALUE_KEYS):
        return None
    names = (members.get(key) for key in _NAME_KEYS)
    return next((label for name in names if isinstance(name, str) and (label := classify_label(name))), None)


def _is_secret_member(label: Label, text: str) -> bool:
    if is_benign(text, listed=True) or is_location(text):
        return False
    if label is Label.KEY:
        return looks_random(text) and ":" not in text
    return label is Label.PASSWORD or not (is_quantity(text) and len(text) < 8)


def _unused(key: str, members: Mapping[str, JsonValue]) -> str:
    """`key`, or with a number where another key was redacted to the same text: no member is lost."""
    candidate, number = key, 1
    while candidate in members:
        number += 1
        candidate = f"{key} ({number})"
    return candidate
