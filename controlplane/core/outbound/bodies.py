"""Bodies of answers, decoded within a bound: a few compressed bytes may stand for gigabytes."""

import zlib
from typing import Final

#: The one content encoding that is asked for. Source: RFC 9110, section 8.4.1.3.
ACCEPTED: Final = "gzip"
_GZIP: Final = frozenset({"gzip", "x-gzip"})


class BodyError(Exception):
    """A body is larger than is read (``too_large``) or not encoded as was asked for (``protocol_error``)."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(code)


class BoundedBody:
    """Takes a body in pieces and keeps at most ``max_bytes`` of it, however it is encoded.

    Args:
        encoding: the ``Content-Encoding`` header. Only gzip was asked for; others, and several one over another, are
            refused rather than tried.
        max_bytes: of the decoded body.

    Raises:
        BodyError: ``protocol_error`` for another encoding.
    """

    def __init__(self, encoding: str, max_bytes: int) -> None:
        named = encoding.strip().lower()
        if named not in ("", "identity") and named not in _GZIP:
            raise BodyError("protocol_error")
        self._inflate = _inflator() if named in _GZIP else None
        self._max_bytes = max_bytes
        self._body = bytearray()

    @property
    def content(self) -> bytes:
        """The body so far, decoded."""
        return bytes(self._body)

    def feed(self, part: bytes) -> None:
        """Take the next piece.

        Raises:
            BodyError: ``too_large`` as soon as the bound is passed, ``protocol_error`` for broken gzip.
        """
        if self._inflate is None:
            self._body += part
        while self._inflate is not None and part and len(self._body) <= self._max_bytes:
            if self._inflate.eof:  # another member of the same stream (RFC 1952, section 2.2)
                self._inflate = _inflator()
            try:
                self._body += self._inflate.decompress(part, self._max_bytes + 1 - len(self._body))
            except zlib.error:
                raise BodyError("protocol_error") from None
            part = self._inflate.unconsumed_tail or self._inflate.unused_data
        if len(self._body) > self._max_bytes:
            raise BodyError("too_large")


def _inflator() -> "zlib._Decompress":
    return zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
