"""Reading files of a folder that nobody vouches for.

The folder may hold anything: links that lead elsewhere, pipes that block, devices, files without end. Everything is
opened relative to a folder already open, never by a path put together from names, and never through a link.
"""

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from controlplane.core.errors import AppError, invalid
from controlplane.core.strict_json import parse_json

MAX_FILE_BYTES: Final = 8 * 1024 * 1024
MAX_TOTAL_BYTES: Final = 8 * 1024 * 1024
MAX_FILES: Final = 200

_MAX_REASONS: Final = 100
POINTER: Final = "/evidence"
OPEN_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


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


def printable(name: str) -> str:
    """Return a file's name as it may be shown: bytes that are no text and control characters escaped, not too long."""
    shown = name.encode("utf-8", "backslashreplace").decode("utf-8")
    shown = "".join(character if character.isprintable() else f"\\x{ord(character):02x}" for character in shown)
    return shown if len(shown) <= 100 else shown[:99] + "…"


def open_folder(path: Path) -> int:
    """Return a descriptor of the folder, for the caller to close.

    Raises:
        InvalidInput: ``evidence_not_found`` or ``evidence_not_a_folder``.
    """
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK | os.O_CLOEXEC)
    except NotADirectoryError:
        raise invalid(POINTER, "evidence_not_a_folder", "The evidence must be a folder, and this is none.") from None
    except PermissionError:
        raise invalid(POINTER, "evidence_not_found", "The evidence folder may not be read by this process.") from None
    except (OSError, ValueError):  # ValueError: a NUL in the path
        raise invalid(POINTER, "evidence_not_found", "There is no such evidence folder.") from None


def has_file(root: int, name: str) -> bool:
    """Return whether the folder opened as ``root`` has an entry of that name; whether it can be read is not said."""
    try:
        os.stat(name, dir_fd=root, follow_symlinks=False)
    except OSError:
        return False
    return True


def read_object(folder: Folder, root: int, name: str, room: list[int]) -> Mapping[str, Any] | None:
    """Return the JSON object in a file; ``None`` where there is none, with the reason noted in ``folder``."""
    try:
        value = read_json(root, name, room)
    except FileNotFoundError:
        return None
    except UnreadableError as error:
        folder.refuse(name, str(error))
        return None
    if isinstance(value, dict):
        return value
    folder.refuse(name, "is not a JSON object")
    return None


def read_json(parent: int, name: str, room: list[int]) -> Any:
    """Return the JSON of a file, taking its size off ``room[0]``.

    Raises:
        FileNotFoundError: there is none.
        UnreadableError: it is no ordinary file, too large, or not strict JSON.
    """
    raw = read_bytes(parent, name, room[0])
    room[0] -= len(raw)
    try:
        return parse_json(raw, max_bytes=MAX_FILE_BYTES)
    except AppError as error:
        raise UnreadableError(error.detail.replace("The body", "the file", 1).rstrip(".")) from None


def read_bytes(parent: int, name: str, room: int) -> bytes:
    """Return an ordinary file of the folder opened as ``parent``, of at most 8 MiB and at most ``room`` bytes.

    Raises:
        FileNotFoundError: there is none.
        UnreadableError: it is no ordinary file, too large, or may not be read.
    """
    try:
        kind = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
        _refuse_special(kind)
        descriptor = os.open(name, OPEN_FLAGS, dir_fd=parent)
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
