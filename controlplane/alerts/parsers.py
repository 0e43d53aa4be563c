"""Reading the body of an alert source: JSON with a bound of its own, lenient where senders are odd."""

import re
from typing import Final

MAX_BODY_BYTES: Final = 8 * 1024 * 1024
#: An escape of a JSON string: a surrogate with its partner if it has one, or any other.
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2})?|u[dD][c-fC-F][0-9a-fA-F]{2}|.)", re.DOTALL
)
_REPLACEMENT: Final = rb"\ufffd"


def paired(raw: bytes) -> bytes:
    """Return a JSON text whose escaped surrogates all come in pairs; it is no longer than before."""
    lowered = rb"\ud" in raw or rb"\uD" in raw
    return _ESCAPE.sub(_with_partner, raw) if lowered else raw


def _with_partner(match: re.Match[bytes]) -> bytes:
    escape = match.group()
    return _REPLACEMENT if len(escape) == len(_REPLACEMENT) else escape
