"""Server-sent events from bytes, however they are cut (WHATWG HTML, section 9.2.6), read tolerantly and bounded."""

from dataclasses import dataclass, field
from typing import Final

MAX_FRAME_BYTES: Final = 16 * 1024 * 1024
_BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Frame:
    """One event: its ``event:`` (empty when there was none) and its ``data:`` lines, joined by a line feed."""

    event: str
    data: str


@dataclass(slots=True)
class SseParser:
    """Any split of the same bytes gives the same frames.

    Lines end with LF, CR or CRLF; comments and unknown fields are skipped. A frame of more than ``max_bytes`` is
    dropped and counted in ``oversized``, without ever being held.
    """

    max_bytes: int = MAX_FRAME_BYTES
    oversized: int = 0
    _line: bytearray = field(default_factory=bytearray)
    _data: list[bytes] = field(default_factory=list)
    _event: bytes = b""
    _size: int = 0
    _after_cr: bool = False
    _first: bool = True
    _dropping: bool = False

    def feed(self, chunk: bytes) -> list[Frame]:
        """Return the frames that ``chunk`` completes."""
        if self._after_cr and chunk:
            self._after_cr = False
            chunk = chunk.removeprefix(b"\n")
        self._after_cr = chunk.endswith(b"\r") or (self._after_cr and not chunk)
        *lines, rest = chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        frames = []
        for line in lines:
            self._hold(line)
            frame = self._end_line()
            if frame is not None:
                frames.append(frame)
        self._hold(rest)
        return frames

    def end(self) -> list[Frame]:
        """Return the frame that only lacks its blank line at the end of the stream; one cut inside a line is lost."""
        if self._line:
            return []
        frame = self._end_line()
        return [] if frame is None else [frame]

    def _hold(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self.max_bytes:
            self._dropping = True
            self._data.clear()
            # What is kept of the line only tells whether it is blank.
            self._line[:] = b":"
        else:
            self._line += part

    def _end_line(self) -> Frame | None:
        line = bytes(self._line)
        self._line.clear()
        if self._first:
            self._first = False
            line = line.removeprefix(_BOM)
        if not line:
            return self._end_frame()
        if self._dropping:
            self._size = self.max_bytes  # a blank line must still be told from a further one
            return None
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        else:
            self._size -= len(line)  # comments may come for hours without a frame
            if name == b"event":
                self._event = value[:100]
        return None

    def _end_frame(self) -> Frame | None:
        frame = None
        if self._dropping:
            self.oversized += 1
        elif self._data:
            frame = Frame(self._event.decode("utf-8", "replace"), b"\n".join(self._data).decode("utf-8", "replace"))
        self._data.clear()
        self._event, self._size, self._dropping = b"", 0, False
        return frame
