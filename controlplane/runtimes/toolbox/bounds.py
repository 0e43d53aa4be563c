"""Keeping the useful part of an output of any size in bounded memory, with no secret in what is kept."""

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from controlplane.core.redaction import redact_text

#: Words that mark a line worth keeping from the middle of a long output.
ERROR_WORDS: Final = re.compile(
    r"\b(?:error|err|fatal|panic|exception|traceback|critical|crit|emerg|fail(?:ed|ure|s)?|killed|oom\w*|denied|refused|"
    r"time[d]? ?out|unavailable|corrupt\w*|evicted|segfault|deadlock|no space left)\b",
    re.IGNORECASE,
)

_LINE_CHARS: Final = 65_536  # a longer line is taken in pieces
_AROUND_CUT: Final = 2_048  # how many characters on each side of a cut decide whether it is safe
_CUT_TRIES: Final = 8
_KEY_BEGIN: Final = re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY")
_KEY_END: Final = re.compile(r"-----END [A-Z0-9 ]*PRIVATE KEY")
# Inside a key: base64 alone, base64 after a log prefix, or the headers of RFC 1421.
_KEY_LINE: Final = re.compile(r"^\s*[A-Za-z0-9+/=]*\s*$|[A-Za-z0-9+/=]{40,}\W*$|^\s*(?:Proc-Type|DEK-Info):")
_KEY_LEFT_OUT: Final = "[private key left out]"


@dataclass(frozen=True, slots=True)
class Bounded:
    """The part that was kept. ``total_bytes`` is the size of the whole output in UTF-8."""

    text: str
    truncated: bool
    total_bytes: int


class OutputBounder:
    """Takes an output in pieces; keeps its head, its tail, and lines with error words between them.

    Memory stays within a small multiple of ``limit_bytes`` (and 128 Ki characters) however long the output is. Cuts
    fall between lines; a longer line than 64 Ki characters is cut only where redaction finds the same on both sides as
    on the whole, so that no half of a secret is left that no rule recognises.
    """

    def __init__(self, limit_bytes: int, *, hint: str = "") -> None:
        self._limit = max(limit_bytes, 1_024)
        self._hint = hint
        content = self._limit - 600  # the markers' share
        self._head_room = content // 2
        self._match_room = content // 4
        self._tail_limit = content - self._head_room - self._match_room
        self._head: list[str] = []
        self._matches: list[tuple[int, str]] = []
        self._tail: deque[tuple[int, str, int]] = deque()
        self._tail_bytes = 0
        self._head_open = True
        self._buffer = ""
        self._in_key = False
        self._lines = 0
        self._matching = 0
        self._total = 0

    def feed(self, piece: str) -> None:
        """Take the next piece of the output, of any size."""
        self._total += _size(piece)
        lines = (self._buffer + piece).split("\n")
        self._buffer = lines.pop()
        for line in lines:
            self._take_all(line)
        while len(self._buffer) > 2 * _LINE_CHARS:
            part, self._buffer = _cut(self._buffer)
            self._take(part)

    def finish(self) -> Bounded:
        """Return what was kept, redacted, in at most the limit of UTF-8 bytes."""
        if self._buffer:
            self._take_all(self._buffer)
            self._buffer = ""
        tail_start = self._tail[0][0] if self._tail else self._lines
        head = redact_text("\n".join(self._head))
        tail = redact_text("\n".join(line for _, line, _ in self._tail))
        left_out = tail_start - len(self._head)
        if left_out <= 0:
            whole = "\n".join(part for part in (head, tail) if part)
            return self._fit(whole, truncated=False)
        matches = redact_text("\n".join(f"line {n + 1}: {line}" for n, line in self._matches if n < tail_start))
        kept = _size(head) + _size(tail)
        marker = (
            f"[… output cut: {left_out:,} lines, about {max(self._total - kept, 0):,} of {self._total:,} bytes, are "
            f"left out here; {self._matching:,} lines of the whole have error words. "
            f"{self._hint or 'Narrow the query.'}"
        )
        parts = [head, marker[:480] + "]"]
        if matches:
            parts += ["[lines with error words from the part left out:]", matches, "[… the end of the output:]"]
        return self._fit("\n".join(part for part in (*parts, tail) if part), truncated=True)

    def _fit(self, text: str, *, truncated: bool) -> Bounded:
        # Redaction may lengthen a line ("x" becomes "[redacted]"), so the limit is held once more at the very end.
        if _size(text) > self._limit:
            note = "\n[… cut]"
            text = text.encode("utf-8", "replace")[: self._limit - _size(note)].decode("utf-8", "ignore") + note
            truncated = True
        return Bounded(text, truncated, self._total)

    def _take_all(self, line: str) -> None:
        while len(line) > _LINE_CHARS:
            part, line = _cut(line)
            self._take(part)
        self._take(line)

    def _take(self, line: str) -> None:
        if self._in_key:
            self._in_key = _KEY_END.search(line) is None and _KEY_LINE.search(line) is not None
            if self._in_key or _KEY_END.search(line):
                return
        if "-----BEGIN" in line and (begin := _KEY_BEGIN.search(line)):
            self._in_key = _KEY_END.search(line, begin.end()) is None
            line = line[: begin.start()] + _KEY_LEFT_OUT
        number, size = self._lines, _size(line) + 1
        self._lines += 1
        matching = ERROR_WORDS.search(line) is not None
        self._matching += matching
        if self._head_open:
            if size <= self._head_room:
                self._head_room -= size
                self._head.append(line)
                return
            self._head_open = False
        if matching and size + 16 <= self._match_room:  # 16: its line number
            self._match_room -= size + 16
            self._matches.append((number, line))
        self._tail.append((number, line, size))
        self._tail_bytes += size
        while self._tail and self._tail_bytes > self._tail_limit:
            self._tail_bytes -= self._tail.popleft()[2]


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))


def _cut(line: str) -> tuple[str, str]:
    """Split an over-long line at a safe place at or before 64 Ki characters; what has no safe place is left out."""
    for place in _places(line):
        near = line[max(place - _AROUND_CUT, 0) : place + _AROUND_CUT]
        middle = min(place, _AROUND_CUT)
        if redact_text(near) == redact_text(near[:middle]) + redact_text(near[middle:]):
            return line[:place], line[place:]
    start, end = _LINE_CHARS - _AROUND_CUT, _LINE_CHARS + _AROUND_CUT
    return line[:start] + " [… part of a long line left out]", line[end:]


def _places(line: str) -> Iterator[int]:
    place = _LINE_CHARS
    for _ in range(_CUT_TRIES):
        found = max((line.rfind(mark, 0, place) for mark in (" ", ",", ";", "\t", '"')), default=-1)
        if found <= _LINE_CHARS - 8 * _AROUND_CUT:
            return
        yield found + 1
        place = found - _AROUND_CUT // 4
