"""What the form of a configuration asks for: every known setting, from the JSON Schema and the catalogue."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final

from controlplane.configs.catalogue.definitions import FieldDefinition
from controlplane.configs.catalogue.integrations import INTEGRATIONS, integration_definition
from controlplane.configs.sections import DocumentSchema

#: Texts that may be longer than this are written in an area of several lines.
ONE_LINE: Final = 2_000
#: The settings that are alone in their section, on one page.
GENERAL: Final = "general"
#: Not set by people.
_LEFT_OUT: Final = frozenset({"preferences"})
_UNITS: Final = {"s": "seconds", "usd": "US dollars", "bytes": "bytes"}
_NAMES: Final = {
    "url": "URL", "api": "API", "mcp": "MCP", "mcps": "MCP servers", "id": "ID", "ids": "IDs", "github": "GitHub",
    "pagerduty": "PagerDuty", "incidentio": "incident.io", "repos": "repositories", "args": "arguments",
    "env": "environment",
}  # fmt: skip
_OF_TYPE: Final = {
    "string": "text", "url": "text", "integer": "whole", "number": "number", "boolean": "switch", "object": "pairs",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Spec:
    """One setting, by the key under which it stands.

    ``kind``: text, long (several lines), whole (number), number, switch, choice, lines (list of texts), pairs (names to
    texts), json; or ``group`` with ``fields``, ``map`` of named things with ``fields`` each, ``switches`` (names to on
    and off). ``plain``: the kind of the text that may stand in a group's place. Bounds are inclusive, but
    for ``low`` with ``above``.
    """

    name: str
    kind: str
    label: str
    help: str = ""
    low: float | None = None
    high: float | None = None
    above: bool = False
    choices: tuple[tuple[str, str], ...] = ()
    max_length: int | None = None
    fields: tuple["Spec", ...] = ()
    plain: str = ""
    required: bool = False
    secret: bool = False
    hint: str = ""


@lru_cache(maxsize=1)
def section_specs() -> Mapping[str, Spec]:
    """Return the pages of the form by name, in the schema's order; those with one setting are together in one."""
    schema = DocumentSchema.model_json_schema()
    specs = [one for one in _specs(schema, schema.get("$defs", {})) if one.name not in _LEFT_OUT]
    few = [one for one in specs if one.kind not in {"map", "switches", "group"} or _is_single(one)]
    general = Spec(GENERAL, "group", "General", "What starts, on what, and when again.", fields=tuple(few))
    return {one.name: one for one in (*(one for one in specs if one not in few), general)}


def entry_specs(section: str, kind: Any) -> tuple[Spec, ...]:
    """Return the settings of one named thing; of an integration those that the catalogue has for its ``kind``."""
    fields = section_specs()[section].fields
    if section != "integrations":
        return fields
    kinds = tuple((one.kind, one.title) for one in INTEGRATIONS.values())
    definition = integration_definition(kind) if isinstance(kind, str) else None
    known = {one.name: one for one in fields}
    chosen = replace(known["kind"], kind="choice", choices=kinds, help="What it is.")
    if definition is None:
        return (chosen, *(one for one in fields if one.name != "kind"))
    return (chosen, *_catalogued(definition.fields, known))


def label_of(name: str) -> str:
    """Return a key as people read it, with its unit: ``wall_clock_s`` is "Wall clock (seconds)"."""
    words = name.split("_")
    unit = _UNITS.get(words[-1]) if len(words) > 1 else None
    shown = " ".join(_NAMES.get(word, word) for word in (words[:-1] if unit else words))
    return f"{shown[:1].upper() if shown[:11] != 'incident.io' else 'i'}{shown[1:]}{f' ({unit})' if unit else ''}"


def _catalogued(fields: Iterable[FieldDefinition], known: Mapping[str, Spec]) -> Iterable[Spec]:
    groups: dict[str, list[Spec]] = {}
    listed: list[Spec | str] = []
    for one in fields:
        *parents, name = one.path
        group = parents[0] if parents else ""
        inside = {below.name: below for below in known[group].fields} if group in known else {} if group else known
        spec = _of_definition(one, name, inside.get(name))
        if not group:
            listed.append(spec)
        else:
            if group not in groups:
                listed.append(group)
            groups.setdefault(group, []).append(spec)
    return [
        one if isinstance(one, Spec) else Spec(one, "group", label_of(one), fields=tuple(groups[one])) for one in listed
    ]


def _of_definition(one: FieldDefinition, name: str, schema: Spec | None) -> Spec:
    flags = isinstance(one.example, Mapping) and all(isinstance(value, bool) for value in one.example.values())
    base = schema or Spec(name, "switches" if flags else _OF_TYPE[one.type], label_of(name))
    shown = one.default if one.default is not None else one.example
    words = "" if shown is None or isinstance(shown, dict | bool) else str(shown)
    prefix = "Default: " if one.default is not None else "For example "
    return replace(
        base,
        help=one.description,
        required=one.required,
        secret=one.secret,
        hint=f"{prefix}{words}" if words else "",
    )


def _is_single(spec: Spec) -> bool:
    return spec.kind == "group" and len(spec.fields) == 1 and not spec.plain


def _specs(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> list[Spec]:
    return [_spec(name, raw, defs) for name, raw in schema.get("properties", {}).items()]


def _spec(name: str, raw: Mapping[str, Any], defs: Mapping[str, Any]) -> Spec:
    choices = _alternatives(raw, defs)
    main = choices[0] if choices else {}
    words = raw.get("description") or main.get("description") or ""
    # Descriptions of classes are for who reads the code.
    spec = Spec(name, "json", label_of(name), "" if "``" in words else words)
    below = main.get("additionalProperties")
    if main.get("properties"):
        fields = tuple(_specs(main, defs))
        if len(fields) == 1:  # it has no heading of its own
            fields = (replace(fields[0], label=f"{spec.label}: {fields[0].label}"),)
        return replace(spec, kind="group", fields=fields, plain=_plain(choices[1:], fields))
    if isinstance(below, Mapping) and below.get("type") != "string":
        items = _alternatives(below, defs)
        if _takes(items, "boolean"):
            return replace(spec, kind="switches", help="" if "{" in spec.help else spec.help)
        return replace(spec, kind="map", fields=tuple(_specs(items[0], defs)))
    if main.get("type") == "object":
        return replace(spec, kind="pairs")
    return _scalar(spec, main, defs)


def _scalar(spec: Spec, main: Mapping[str, Any], defs: Mapping[str, Any]) -> Spec:
    allowed = main.get("enum", [main["const"]] if "const" in main else None)
    if allowed:
        return replace(spec, kind="choice", choices=tuple((one, one) for one in allowed))
    match main.get("type"):
        case "boolean":
            return replace(spec, kind="switch")
        case "integer" | "number" as kind:
            low = main.get("minimum", main.get("exclusiveMinimum"))
            above = "exclusiveMinimum" in main
            whole = "whole" if kind == "integer" else kind
            return replace(spec, kind=whole, low=low, above=above, high=main.get("maximum"))
        case "string":
            longest = main.get("maxLength")
            return replace(spec, kind="long" if longest and longest > ONE_LINE else "text", max_length=longest)
        case "array" if _takes(_alternatives(main.get("items", {}), defs), "string"):
            return replace(spec, kind="lines")
    return spec


def _alternatives(raw: Mapping[str, Any], defs: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return what may stand there, ``null`` aside, objects first."""
    if "$ref" in raw:
        return _alternatives(defs.get(raw["$ref"].rpartition("/")[2], {}), defs)
    if "anyOf" not in raw:
        return [] if raw.get("type") == "null" else [raw]
    found = [one for choice in raw["anyOf"] for one in _alternatives(choice, defs)]
    return sorted(found, key=lambda one: one.get("type") != "object")


def _takes(choices: Iterable[Mapping[str, Any]], kind: str) -> bool:
    return any(kind == one.get("type") or kind in one.get("type", ()) for one in choices)


def _plain(others: Iterable[Mapping[str, Any]], fields: tuple[Spec, ...]) -> str:
    if not _takes(others, "string"):
        return ""
    return fields[0].kind if fields[0].kind in {"text", "long"} else "long"
