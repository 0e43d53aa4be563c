"""Recorded evidence, ``snapshot/1``: from a folder, from a request, and as a source that answers queries."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from controlplane.core.errors import FieldError, InvalidInput, invalid
from controlplane.core.text import shown_token
from controlplane.runtimes.sources.folders import (
    MAX_FILES,
    MAX_TOTAL_BYTES,
    SOURCE_NAME,
    announced_sources,
    read_folder,
)

FORMAT: Final = "snapshot/1"
_MEMBERS: Final = ("format", "alert", "scenario", "sources", "unreadable")
_REASON_CHARS: Final = 500


def snapshot_from_folder(path: Path) -> dict[str, Any]:
    """Return the evidence recorded in a folder.

    Only ``alert.json``, ``scenario.json`` and ``evidence/*.json`` are opened. Links, pipes, devices, files of more than
    8 MiB (or beyond 8 MiB together, or the 200th), text that is not strict JSON in UTF-8: each is named in
    ``unreadable`` with the reason, so that the report can say what is missing.

    Returns:
        ``{"format": "snapshot/1", "alert": object | None, "scenario": object | None, "sources": {name: JSON},
        "unreadable": {file: reason}}``

    Raises:
        InvalidInput: ``evidence_not_found``, ``evidence_not_a_folder`` or ``evidence_empty`` (nothing could be read).
    """
    folder = read_folder(path)
    return {
        "format": FORMAT,
        "alert": folder.alert,
        "scenario": folder.scenario,
        "sources": folder.sources,
        "unreadable": folder.unreadable,
    }


def snapshot_validate(value: object) -> dict[str, Any]:
    """Return evidence given inline, with every member present.

    Raises:
        InvalidInput: ``evidence_not_inline`` for anything but an object (a path above all: files are read only by the
            command line), ``evidence_too_large`` beyond 8 MiB of JSON, else ``invalid_evidence`` with one error, at its
            JSON Pointer, for each rule broken.
    """
    if not isinstance(value, Mapping):
        raise invalid(
            "/evidence",
            "evidence_not_inline",
            f'Evidence is an object {{"format": "{FORMAT}", "sources": {{…}}}}, given inline; never a path or a text.',
        )
    errors = list(_broken_rules(value))
    if errors:
        raise InvalidInput("The evidence breaks the rules of snapshot/1.", code="invalid_evidence", errors=errors)
    size = _encoded_bytes(value)
    if size > MAX_TOTAL_BYTES:
        detail = f"The evidence has {size:,} bytes of JSON; at most {MAX_TOTAL_BYTES:,} are accepted."
        raise invalid("/evidence", "evidence_too_large", detail)
    return {
        "format": FORMAT,
        "alert": value.get("alert"),
        "scenario": value.get("scenario"),
        "sources": dict(value.get("sources") or {}),
        "unreadable": dict(value.get("unreadable") or {}),
    }


def missing_sources(snapshot: Mapping[str, Any]) -> dict[str, str]:
    """Return what the evidence should hold and does not, each with the reason: unreadable files, absent sources."""
    missing = {str(name): str(reason) for name, reason in (snapshot.get("unreadable") or {}).items()}
    sources = snapshot.get("sources") or {}
    for name in announced_sources(snapshot.get("scenario")):
        if name not in sources and f"evidence/{name}.json" not in missing:
            missing[name] = "is announced as available, but is not there"
    return missing


def _broken_rules(value: Mapping[Any, Any]) -> Iterator[FieldError]:
    if value.get("format") != FORMAT:
        yield FieldError("/evidence/format", "unknown_format", f'The format must be "{FORMAT}".')
    for member in value:
        if member not in _MEMBERS:
            detail = f"Unknown member; known are {', '.join(_MEMBERS)}."
            yield FieldError(f"/evidence/{shown_token(member)}", "unknown_member", detail)
    for member in ("alert", "scenario"):
        if not isinstance(value.get(member), Mapping | None):
            yield FieldError(f"/evidence/{member}", "not_an_object", "This must be an object or null.")
    yield from _broken_source_rules(value.get("sources"))
    unreadable = value.get("unreadable")
    if not isinstance(unreadable, Mapping | None):
        yield FieldError("/evidence/unreadable", "not_an_object", "This must be an object: file name to reason.")
    elif unreadable:
        if len(unreadable) > MAX_FILES:
            yield FieldError("/evidence/unreadable", "too_many", f"At most {MAX_FILES} files can be named.")
        elif any(not isinstance(reason, str) or len(reason) > _REASON_CHARS for reason in unreadable.values()):
            detail = f"Each reason must be a text of at most {_REASON_CHARS} characters."
            yield FieldError("/evidence/unreadable", "invalid_reason", detail)


def _broken_source_rules(sources: object) -> Iterator[FieldError]:
    if not isinstance(sources, Mapping | None):
        yield FieldError("/evidence/sources", "not_an_object", "This must be an object: source name to its content.")
        return
    if sources and len(sources) > MAX_FILES:
        yield FieldError(
            "/evidence/sources", "too_many", f"There are {len(sources)} sources; at most {MAX_FILES} may be."
        )
        return
    for name in sources or ():
        if not isinstance(name, str) or SOURCE_NAME.fullmatch(name) is None:
            detail = "A source's name has 1 to 64 characters of a-z, 0-9, _, . and -."
            yield FieldError(f"/evidence/sources/{shown_token(name)}", "invalid_name", detail)


def _encoded_bytes(value: Mapping[Any, Any]) -> int:
    try:
        return len(json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode())
    except RecursionError:
        raise invalid("/evidence", "nesting_too_deep", "The evidence is nested too deeply.") from None
    except (TypeError, ValueError):  # NaN, an unpaired surrogate, no JSON type
        raise invalid("/evidence", "invalid_evidence", "The evidence is not standard JSON.") from None
