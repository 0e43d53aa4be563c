"""The settings that the JSON Schema of a document knows, for people who set one: place, type, meaning."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from controlplane.configs.patterns import matches
from controlplane.configs.pointers import PointerSyntaxError, decode, encode_token
from controlplane.configs.sections import DocumentSchema

_DEPTH: Final = 5


@dataclass(frozen=True, slots=True)
class Setting:
    """``pointer`` has ``*`` where any name stands."""

    pointer: str
    takes: str
    description: str

    @property
    def section(self) -> str:
        return self.pointer.split("/")[1]


@lru_cache(maxsize=1)
def known_settings() -> tuple[Setting, ...]:
    """Return every known setting in the schema's order, sections of named things with ``*``."""
    schema = DocumentSchema.model_json_schema()
    return tuple(_settings(schema, "", schema.get("$defs", {}), 0))


def setting_at(pointer: str) -> Setting | None:
    """Return the known setting that a pointer names, ``None`` for none."""
    try:
        path = decode(pointer)
    except PointerSyntaxError:
        return None
    for setting in known_settings():
        pattern = decode(setting.pointer)
        if len(pattern) == len(path) and matches(pattern, path):
            return setting
    return None


def _settings(schema: Mapping[str, Any], pointer: str, defs: Mapping[str, Any], depth: int) -> Iterator[Setting]:
    if depth > _DEPTH:
        return
    for name, raw in schema.get("properties", {}).items():
        yield from _setting(raw, f"{pointer}/{encode_token(name)}", defs, depth)


def _setting(raw: Mapping[str, Any], place: str, defs: Mapping[str, Any], depth: int) -> Iterator[Setting]:
    inner = _inner(raw, defs)
    below = inner.get("additionalProperties")
    if inner.get("properties"):
        yield from _settings(inner, place, defs, depth + 1)
    elif isinstance(below, Mapping) and _inner(below, defs).get("properties"):
        yield from _settings(_inner(below, defs), f"{place}/*", defs, depth + 2)
    else:
        description = raw.get("description") or inner.get("description") or ""
        # Descriptions of classes are for who reads the code.
        yield Setting(place, _takes(inner), "" if "``" in description else description)


def _inner(raw: Mapping[str, Any], defs: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow ``$ref`` and leave the ``null`` of "may be left out" aside."""
    if "$ref" in raw:
        return _inner(defs.get(raw["$ref"].rpartition("/")[2], {}), defs)
    choices = [_inner(one, defs) for one in raw.get("anyOf", ()) if one.get("type") != "null"]
    return max(choices, key=lambda one: len(one.get("properties", ())), default=raw)


def _takes(schema: Mapping[str, Any]) -> str:
    if "enum" in schema or "const" in schema:
        return "one of " + ", ".join(map(str, schema.get("enum", [schema.get("const")])))
    kind = schema.get("type", "any value")
    words = {"integer": "whole number", "array": "list", "string": "text", "boolean": "true or false"}.get(kind, kind)
    low, high = schema.get("minimum"), schema.get("maximum")
    return f"{words} {low}–{high}" if low is not None and high is not None else str(words)
