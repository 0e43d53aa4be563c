"""Reading a folder of recorded evidence that nobody vouches for.

The folder may hold anything: links that lead elsewhere, pipes that block, devices, files without end. Everything is
opened relative to a folder already open, never by a path put together from names, and never through a link.
"""

import os
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from controlplane.core.errors import AppError, invalid
from controlplane.core.strict_json import parse_json

MAX_FILE_BYTES: Final = 8 * 1024 * 1024
MAX_TOTAL_BYTES: Final = 8 * 1024 * 1024
MAX_FILES: Final = 200
SOURCE_NAME: Final = re.compile(r"[a-z0-9_.-]{1,64}")

_MAX_ENTRIES: Final = 10_000  # of a folder, looked at
_MAX_REASONS: Final = 100
_POINTER: Final = "/evidence"
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


@dataclass(slots=True)
class Folder:
    """What was read of a folder: ``sources`` by name, and why each other file was not, by its name."""

    alert: Mapping[str, Any] | None = None
    scenario: Mapping[str, Any] | None = None
    sources: dict[str, Any] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)

    def refuse(self, name: str, reason: str) -> None:
        """Note that ``name`` was not read; after a hundred, the rest is summed up."""
        if len(self.unreadable) < _MAX_REASONS or name in self.unreadable:
            self.unreadable[printable(name)] = reason
        else:
            self.unreadable["…"] = "further files could not be read"


class UnreadableError(Exception):
    """A file cannot be read; the text says why, in words for a person."""


def read_folder(path: Path) -> Folder:
    """Read ``alert.json``, ``scenario.json`` and ``evidence/*.json`` of ``path``; no other file is opened.

    Raises:
        InvalidInput: ``evidence_not_found``, ``evidence_not_a_folder`` or ``evidence_empty``, for the whole folder.
    """
    root = _open_root(path)
    try:
        folder, room = Folder(), [MAX_TOTAL_BYTES]
        folder.alert = _read_object(folder, root, "alert.json", room)
        folder.scenario = _read_object(folder, root, "scenario.json", room)
        _read_sources(folder, root, room)
    finally:
        os.close(root)
    if folder.alert is None and folder.scenario is None and not folder.sources:
        why = "; ".join(f"{name} {reason}" for name, reason in list(folder.unreadable.items())[:5])
        told = f": {why}" if why else ""
        raise invalid(_POINTER, "evidence_empty", f"The folder holds no evidence that can be read{told}.")
    return folder


def printable(name: str) -> str:
    """Return a file's name as it may be shown: bytes that are no text and control characters escaped, not too long."""
    shown = name.encode("utf-8", "backslashreplace").decode("utf-8")
    shown = "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in shown)
    return shown if len(shown) <= 100 else shown[:99] + "…"


def _open_root(path: Path) -> int:
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK | os.O_CLOEXEC)
    except NotADirectoryError:
        raise invalid(_POINTER, "evidence_not_a_folder", "The evidence must be a folder, and this is none.") from None
    except PermissionError:
        raise invalid(_POINTER, "evidence_not_found", "The evidence folder may not be read by this process.") from None
    except (OSError, ValueError):  # ValueError: a NUL in the path
        raise invalid(_POINTER, "evidence_not_found", "There is no such evidence folder.") from None


def _read_object(folder: Folder, root: int, name: str, room: list[int]) -> Mapping[str, Any] | None:
    try:
        value = _read_file(root, name, room)
    except FileNotFoundError:
        return None
    except UnreadableError as error:
        folder.refuse(name, str(error))
        return None
    if isinstance(value, dict):
        return value
    folder.refuse(name, "is not a JSON object")
    return None


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
                folder.sources[name.removesuffix(".json")] = _read_file(evidence, name, room)
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
        return os.open("evidence", _FLAGS | os.O_DIRECTORY, dir_fd=root)
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


def _read_file(parent: int, name: str, room: list[int]) -> Any:
    """Return the JSON of a file, taking its size off ``room[0]``.

    Raises:
        FileNotFoundError: there is none.
        UnreadableError: it is no ordinary file, too large, or not strict JSON.
    """
    raw = _read_bytes(parent, name, room[0])
    room[0] -= len(raw)
    try:
        return parse_json(raw, max_bytes=MAX_FILE_BYTES)
    except AppError as error:
        raise UnreadableError(error.detail.replace("The body", "the file", 1).rstrip(".")) from None


def _read_bytes(parent: int, name: str, room: int) -> bytes:
    try:
        kind = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
        _refuse_special(kind)
        descriptor = os.open(name, _FLAGS, dir_fd=parent)
    except FileNotFoundError:
        raise
    except OSError:
        raise UnreadableError("may not be read") from None
    try:
        opened = os.fstat(descriptor)
        _refuse_special(opened.st_mode)  # once more: the name may lead to another file by now
        if opened.st_size > MAX_FILE_BYTES:
            raise UnreadableError(f"has {opened.st_size:,} bytes; at most {MAX_FILE_BYTES:,} are read")
        limit = min(MAX_FILE_BYTES, room)
        chunks: list[bytes] = []
        taken = 0
        while taken <= limit and (chunk := os.read(descriptor, min(1 << 20, limit + 1 - taken))):
            chunks.append(chunk)
            taken += len(chunk)
    except OSError:
        raise UnreadableError("could not be read to its end") from None
    finally:
        os.close(descriptor)
    if taken > MAX_FILE_BYTES:
        raise UnreadableError(f"has more than {MAX_FILE_BYTES:,} bytes")
    if taken > limit:
        raise UnreadableError(f"is left out: the folder's files have more than {MAX_TOTAL_BYTES:,} bytes together")
    return b"".join(chunks)


def _refuse_special(mode: int) -> None:
    if stat.S_ISLNK(mode):
        raise UnreadableError("is a link; links are not followed")
    if stat.S_ISDIR(mode):
        raise UnreadableError("is a folder")
    if not stat.S_ISREG(mode):
        raise UnreadableError("is not an ordinary file")
