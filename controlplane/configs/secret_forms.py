"""Literal secrets that show only in the form they have in a document: the value after a flag, base64, a wrapped value.

Redaction reads texts and members as they stand; here a value is first brought into the form that redaction reads.
"""

import re
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator, Mapping
from typing import Any, Final

from controlplane.configs.pointers import Tokens
from controlplane.core.redaction import redact_json, redact_text
from controlplane.core.redaction.findings import MARKER_PATTERN

_FLAG: Final = re.compile(r"--?[A-Za-z][A-Za-z0-9_-]{0,60}")
_BASE64: Final = re.compile(r"(?<![A-Za-z0-9+/_-])[A-Za-z0-9+/_-]{24,}={0,2}(?![A-Za-z0-9+/_=-])")
_URL_SAFE: Final = str.maketrans("-_", "+/")
#: The member in which a value stands that is an object only because something else is said of it.
_WRAPPED: Final = "value"


def secrets_by_form(value: Any, path: Tokens) -> Iterator[tuple[Tokens, str]]:
    """Yield place and rule of each literal secret in a JSON value at ``path`` that its form hides."""
    if isinstance(value, str):
        if rule := _wrapped_rule(value, path) or _base64_rule(value):
            yield path, rule
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from secrets_by_form(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if index and isinstance(item, str) and (rule := _flag_rule(value[index - 1], item)):
                yield (*path, str(index)), rule
            yield from secrets_by_form(item, (*path, str(index)))


def _flag_rule(flag: Any, text: str) -> str:
    """Return the rule by which ``text`` is a secret as the argument of ``flag``: ``["--password", "…"]``."""
    if not isinstance(flag, str) or text.startswith("-") or not _FLAG.fullmatch(flag):
        return ""
    return _rule_of(redact_text(f"{flag}={text}"))


def _wrapped_rule(text: str, path: Tokens) -> str:
    """Return the rule by which ``{"password": {"value": "…"}}`` is the same as ``{"password": "…"}``."""
    if len(path) < 2 or path[-1] != _WRAPPED:
        return ""
    plain: Any = redact_json({path[-2]: text})
    redacted = plain.get(path[-2])
    return _rule_of(redacted) if isinstance(redacted, str) and redacted != text else ""


def _base64_rule(text: str) -> str:
    """Return the rule of a secret in the text that a piece of ``text`` is the base64 of."""
    for match in _BASE64.finditer(text):
        plain = _decoded(match.group())
        rule = _rule_of(redact_text(plain)) if plain else ""
        if rule:
            return rule
    return ""


def _decoded(piece: str) -> str:
    """Return the text that ``piece`` is the base64 of (RFC 4648, either alphabet), ``""`` when it is of none."""
    bare = piece.rstrip("=").translate(_URL_SAFE)
    try:
        text = b64decode(bare + "=" * (-len(bare) % 4), validate=True).decode("utf-8")
    except (Base64Error, UnicodeDecodeError):
        return ""
    return text if MARKER_PATTERN.search(text) is None else ""


def _rule_of(redacted: str) -> str:
    marker = MARKER_PATTERN.search(redacted)
    return marker.group()[len("[redacted:") : -1] if marker else ""
