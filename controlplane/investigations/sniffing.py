"""What a file is, by its bytes: a name and a header say whatever their sender likes."""

import zlib
from typing import Final

import orjson

from controlplane.core.errors import AppError, PayloadTooLarge, UnsupportedMediaType
from controlplane.core.redaction import redact_json, redact_text
from controlplane.core.strict_json import parse_json

TEXT: Final = "text/plain"
JSON: Final = "application/json"
#: Beginnings of the files that are taken as they are. Sources: the formats' specifications (PNG, GIF89a, JFIF, PDF).
_MAGIC: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
_GZIP: Final = b"\x1f\x8b"
_UTF8_MARK: Final = b"\xef\xbb\xbf"


def unpacked(content: bytes, *, limit: int) -> bytes:
    """Return what a gzip file holds, any other file as it is; never more than ``limit`` bytes are made of it.

    Raises:
        PayloadTooLarge: ``file_too_large``: it holds more.
        UnsupportedMediaType: ``file_damaged``: it is no gzip that can be read.
    """
    if not content.startswith(_GZIP):
        return content
    body, rest = b"", content
    while rest:  # each member of the file (RFC 1952, section 2.2)
        member = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        try:
            body += member.decompress(rest, limit + 1 - len(body))
        except zlib.error:
            raise _damaged() from None
        if len(body) > limit:
            raise PayloadTooLarge(f"Unpacked the file has more than {limit:,} bytes.", code="file_too_large")
        if not member.eof:
            raise _damaged()
        rest = member.unused_data
    if body.startswith(_GZIP):
        raise UnsupportedMediaType("A gzip inside a gzip is not unpacked.", code="type_not_allowed")
    return body


def _damaged() -> UnsupportedMediaType:
    return UnsupportedMediaType("The gzip file cannot be read.", code="file_damaged")


def sniff(content: bytes) -> str:
    """Return the media type of a file's bytes: an image, PDF, JSON, or text of any kind.

    HTML and SVG are text here: nothing is ever served as what a browser would run.

    Raises:
        UnsupportedMediaType: ``type_not_allowed``: anything else, archives and programs among it.
    """
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "image/webp"
    found = next((kind for magic, kind in _MAGIC if content.startswith(magic)), None)
    if found is not None:
        return found
    text = text_of(content)
    if text is None:
        detail = "Only text, JSON, PNG, JPEG, GIF, WebP and PDF are taken (text and JSON also as gzip)."
        raise UnsupportedMediaType(detail, code="type_not_allowed")
    return JSON if text.lstrip()[:1] in ("{", "[") and _closes(text) else TEXT


def _closes(text: str) -> bool:
    return text.rstrip()[-1:] in ("}", "]")


def text_of(content: bytes) -> str | None:
    """Return the text of a file in UTF-8, ``None`` where it is none: NUL and other control bytes are in no text."""
    try:
        text = content.removeprefix(_UTF8_MARK).decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if any(ord(sign) < 32 and sign not in "\t\n\r\f\x1b" for sign in set(text)) else text


def cleaned(content: bytes, media_type: str) -> bytes:
    """Return the bytes that are kept: of a text without its secrets; an image or PDF cannot be looked into."""
    if media_type not in (TEXT, JSON):
        return content
    text = text_of(content) or ""
    if media_type == JSON:
        try:
            return orjson.dumps(redact_json(parse_json(text.encode(), max_bytes=len(content) * 4)))
        except AppError:  # no JSON after all: kept as the text it is
            pass
    return redact_text(text).encode()
