"""The credentials this installation has: which names it lets out at all, and their values.

A value comes from the process's environment or from a file ``<CREDENTIAL_FILES_DIR>/<NAME>``, as container platforms
mount secrets. What the process itself is configured with is never a credential, whatever the operator allows.
"""

import os
import stat
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

import structlog
from django.conf import settings

from controlplane.core.references import is_name

log = structlog.get_logger(__name__)

MAX_FILE_BYTES: Final = 64 * 1024
#: Read by libraries of the process without the settings' doing: PostgreSQL's client, Django, the model's client.
_OF_LIBRARIES: Final = ("PG*", "DJANGO_*", "ANTHROPIC_*")


def credential_allowed(name: str) -> bool:
    """Return whether the installation lets references name this: ``CREDENTIAL_ENV_ALLOW``, and no secret of its own."""
    if not is_name(name) or credential_protected(name):
        return False
    return any(fnmatchcase(name, pattern) for pattern in settings.CREDENTIAL_ENV_ALLOW)


def credential_protected(name: str) -> bool:
    """Return whether the name is one of the process's own variables, in any spelling of its letters' case."""
    upper = name.upper()
    return upper in settings.PROCESS_VARIABLES or any(fnmatchcase(upper, pattern) for pattern in _OF_LIBRARIES)


def credential_value(name: str) -> str | None:
    """Return the value of a credential, ``None`` when it is not allowed, not set, or empty.

    The environment goes before the file. Of a file the line ends at its end are left out; one that is larger than
    64 KiB, no regular file, or a link that leads out of the directory counts as not set, as does a value that is no
    UTF-8, and the log says why.
    """
    if not credential_allowed(name):
        return None
    return _from_environment(name) or _from_file(name) or None


def _from_environment(name: str) -> str | None:
    value = os.environ.get(name)
    try:
        # Python keeps other bytes as lone surrogates, which no JSON and no header can hold.
        return value if value is None or value.encode("utf-8") else None
    except UnicodeEncodeError:
        log.warning("credential.variable_not_read", credential=name, reason="no UTF-8")
        return None


def _from_file(name: str) -> str | None:
    if not settings.CREDENTIAL_FILES_DIR:
        return None
    try:
        content = _read(Path(settings.CREDENTIAL_FILES_DIR), name)
    except FileNotFoundError:
        return None
    except (OSError, _Unusable) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        log.warning("credential.file_not_read", credential=name, reason=reason)
        return None
    return content.rstrip("\r\n")


class _Unusable(Exception):
    """A file that is no credential; the text says why."""


def _read(directory: Path, name: str) -> str:
    root = directory.resolve(strict=True)
    path = (root / name).resolve(strict=True)  # Kubernetes mounts each secret as a link, inside the same directory
    if not path.is_relative_to(root):
        raise _Unusable("a link out of the directory")
    # O_NONBLOCK: a named pipe must not keep anybody waiting.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise _Unusable("no regular file")
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise _Unusable("larger than 64 KiB")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise _Unusable("no UTF-8") from None
