"""Reading the body of an alert source: JSON with a bound of its own, lenient where senders are odd."""

import re
from collections.abc import Mapping
from typing import Any, Final

from rest_framework.parsers import BaseParser
from typing_extensions import override

from controlplane.core.errors import PayloadTooLarge
from controlplane.core.strict_json import parse_json

MAX_BODY_BYTES: Final = 8 * 1024 * 1024
#: An escape of a JSON string: a surrogate with its partner if it has one, or any other.
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}(?:\\u[dD][c-fC-F][0-9a-fA-F]{2})?|u[dD][c-fC-F][0-9a-fA-F]{2}|.)", re.DOTALL
)
_REPLACEMENT: Final = rb"\ufffd"


class AlertBodyParser(BaseParser):
    """``application/json`` of at most 8 MiB. An unpaired surrogate, which RFC 8259 permits, becomes U+FFFD."""

    media_type = "application/json"

    @override
    def parse(self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> Any:
        """Return the body's value, or ``None`` for an empty body."""
        raw = stream.read(MAX_BODY_BYTES + 1)
        if len(raw) > MAX_BODY_BYTES:
            detail = f"An alert has at most {MAX_BODY_BYTES} bytes (8 MiB) here; lower max_alerts of the receiver."
            raise PayloadTooLarge(detail)
        return parse_json(paired(raw), max_bytes=MAX_BODY_BYTES) if raw else None


def paired(raw: bytes) -> bytes:
    """Return a JSON text whose escaped surrogates all come in pairs; it is no longer than before."""
    lowered = rb"\ud" in raw or rb"\uD" in raw
    return _ESCAPE.sub(_with_partner, raw) if lowered else raw


def _with_partner(match: re.Match[bytes]) -> bytes:
    escape = match.group()
    return _REPLACEMENT if len(escape) == len(_REPLACEMENT) else escape
