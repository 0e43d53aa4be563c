"""Records of operations: a catalogue of services, a list of incidents, and the services' logs as text.

The folder holds ``services.jsonl`` (name, description, status, owner), ``incidents.jsonl`` (id, service, title,
severity, status, times, summary) and ``logs/<service>.log``. Which runbook somebody filed with an incident is no
evidence of what happened, so that member is left out.
"""

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from controlplane.core.errors import AppError
from controlplane.core.strict_json import parse_json
from controlplane.runtimes.sources.folders.files import (
    MAX_FILES,
    OPEN_FLAGS,
    Folder,
    UnreadableError,
    read_bytes,
    read_object,
)

SERVICES: Final = "services.jsonl"
INCIDENTS: Final = "incidents.jsonl"
LOGS: Final = "logs"

_LOG_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}\.log")
_MOST_LINES: Final = 5_000
_MOST_ENTRIES: Final = 10_000
_KEPT: Final = {
    SERVICES: ("name", "description", "status", "owner"),
    INCIDENTS: ("id", "service", "title", "severity", "status", "opened_at", "resolved_at", "summary"),
}


def read_service_records(folder: Folder, root: int, room: list[int]) -> None:
    """Read the records of the folder opened as ``root``."""
    folder.alert = read_object(folder, root, "alert.json", room)
    for name, member in ((SERVICES, "services"), (INCIDENTS, "incidents")):
        try:
            folder.sources[member] = {member: list(_records(folder, name, _take(root, name, room)))}
        except FileNotFoundError:
            folder.refuse(name, "does not exist")
        except UnreadableError as error:
            folder.refuse(name, str(error))
    _read_logs(folder, root, room)


def _records(folder: Folder, name: str, raw: bytes) -> Iterator[Mapping[str, Any]]:
    lines = raw.splitlines()
    if len(lines) > _MOST_LINES:
        folder.refuse(name, f"has {len(lines):,} lines; the first {_MOST_LINES:,} are read")
    for number, line in enumerate(lines[:_MOST_LINES], start=1):
        if not line.strip():
            continue
        try:
            record = parse_json(line, max_bytes=1_000_000)
        except AppError as error:
            folder.refuse(f"{name}:{number}", error.detail.replace("The body", "the line", 1).rstrip("."))
            continue
        if isinstance(record, Mapping):
            yield {key: record[key] for key in _KEPT[name] if key in record}
        else:
            folder.refuse(f"{name}:{number}", "is not a JSON object")


def _read_logs(folder: Folder, root: int, room: list[int]) -> None:
    try:
        logs = os.open(LOGS, OPEN_FLAGS | os.O_DIRECTORY, dir_fd=root)
    except FileNotFoundError:
        folder.refuse(LOGS, "does not exist")
        return
    except OSError:
        folder.refuse(LOGS, "is no folder that may be read")
        return
    try:
        files = [_log_file(folder, logs, name, room) for name in _log_names(folder, logs)]
    finally:
        os.close(logs)
    folder.sources["service_logs"] = {"log_files": [found for found in files if found is not None]}


def _log_names(folder: Folder, logs: int) -> list[str]:
    with os.scandir(logs) as entries:
        names = sorted(entry.name for _, entry in zip(range(_MOST_ENTRIES), entries, strict=False))
    wanted = [name for name in names if _LOG_NAME.fullmatch(name)]
    if len(wanted) > MAX_FILES:
        folder.refuse(f"{LOGS}/…", f"{len(wanted) - MAX_FILES} files are left out: at most {MAX_FILES} are read")
    return wanted[:MAX_FILES]


def _log_file(folder: Folder, logs: int, name: str, room: list[int]) -> dict[str, str] | None:
    try:
        raw = _take(logs, name, room)
    except FileNotFoundError:
        folder.refuse(f"{LOGS}/{name}", "vanished while the folder was read")
    except UnreadableError as error:
        folder.refuse(f"{LOGS}/{name}", str(error))
    else:
        # A log may hold anything a program wrote; a byte that is no text is shown as one.
        return {"object": name.removesuffix(".log"), "text": raw.decode("utf-8", "replace").replace("\x00", "\ufffd")}
    return None


def _take(parent: int, name: str, room: list[int]) -> bytes:
    raw = read_bytes(parent, name, room[0])
    room[0] -= len(raw)
    return raw
