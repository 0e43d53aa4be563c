"""The layout of our own: ``alert.json``, ``scenario.json`` and a JSON file for each source in ``evidence/``."""

import os
import re
import stat
from collections.abc import Iterable, Mapping
from typing import Any, Final

from controlplane.runtimes.sources.folders.files import (
    MAX_FILES,
    OPEN_FLAGS,
    Folder,
    UnreadableError,
    read_json,
    read_object,
)

SOURCE_NAME: Final = re.compile(r"[a-z0-9_.-]{1,64}")
_MAX_ENTRIES: Final = 10_000  # of a folder, looked at


def read_evidence(folder: Folder, root: int, room: list[int]) -> None:
    """Read the folder opened as ``root``; no other file of it is opened."""
    folder.alert = read_object(folder, root, "alert.json", room)
    folder.scenario = read_object(folder, root, "scenario.json", room)
    _read_sources(folder, root, room)


def _read_sources(folder: Folder, root: int, room: list[int]) -> None:
    try:
        evidence = _open_evidence(root)
    except UnreadableError as error:
        folder.refuse("evidence", str(error))
        return
    try:
        names = _source_files(folder, evidence)
        for name in names[:MAX_FILES]:
            try:
                folder.sources[name.removesuffix(".json")] = read_json(evidence, name, room)
            except FileNotFoundError:
                folder.refuse(f"evidence/{name}", "vanished while the folder was read")
            except UnreadableError as error:
                folder.refuse(f"evidence/{name}", str(error))
        if len(names) > MAX_FILES:
            folder.refuse("evidence/…", f"{len(names) - MAX_FILES} files are left out: at most {MAX_FILES} are read")
    finally:
        os.close(evidence)


def _open_evidence(root: int) -> int:
    try:
        kind = os.stat("evidence", dir_fd=root, follow_symlinks=False).st_mode
        if stat.S_ISLNK(kind):
            raise UnreadableError("is a link; links are not followed")
        if not stat.S_ISDIR(kind):
            raise UnreadableError("is not a folder")
        return os.open("evidence", OPEN_FLAGS | os.O_DIRECTORY, dir_fd=root)
    except FileNotFoundError:
        raise UnreadableError("does not exist") from None
    except OSError:
        raise UnreadableError("may not be read") from None


def _source_files(folder: Folder, evidence: int) -> list[str]:
    """Return the names of the files to read, those the scenario announces first; refuse the others."""
    found: list[str] = []
    with os.scandir(evidence) as entries:
        for count, entry in enumerate(entries):
            if count >= _MAX_ENTRIES:
                folder.refuse("evidence/…", f"has more than {_MAX_ENTRIES} entries; the rest was not looked at")
                break
            name = entry.name
            if name.startswith("."):
                continue
            if not name.endswith(".json"):
                folder.refuse(f"evidence/{name}", "is not read: only .json files are")
            elif SOURCE_NAME.fullmatch(name.removesuffix(".json")) is None:
                folder.refuse(f"evidence/{name}", "has a name with other characters than a-z, 0-9, _, . and -")
            else:
                found.append(name)
    announced = announced_sources(folder.scenario)
    return sorted(found, key=lambda name: (name.removesuffix(".json") not in announced, name))


def announced_sources(scenario: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Return the names of the sources that the scenario says are available."""
    listed = scenario.get("available_evidence") if scenario else None
    names: Iterable[Any] = listed if isinstance(listed, list) else ()
    return tuple(dict.fromkeys(name[:64] for name in names if isinstance(name, str) and name))[:MAX_FILES]
