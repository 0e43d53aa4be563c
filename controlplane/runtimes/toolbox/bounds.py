"""Keeping the useful part of an output of any size in bounded memory, with no secret in what is kept."""

import re
from collections import deque
from dataclasses import dataclass
from typing import Final

from controlplane.core.redaction import StreamRedactor

#: Words that mark a line worth keeping from the middle of a long output.
ERROR_WORDS: Final = re.compile(
    r"\b(?:error|err|fatal|panic|exception|traceback|critical|crit|emerg|fail(?:ed|ure|s)?|killed|oom\w*|denied|refused|"
    r"time[d]? ?out|unavailable|corrupt\w*|evicted|segfault|deadlock|no space left)\b",
    re.IGNORECASE,
)

# What a line with an error word holds in any case; looking for these is much cheaper than matching each line.
_STEMS: Final = (
    "err", "fatal", "panic", "exception", "traceback", "crit", "emerg", "fail", "killed", "oom", "denied", "refused",
    "timeout", "time out", "timed out", "timedout", "unavailable", "corrupt", "evicted", "segfault", "deadlock",
    "no space",
)  # fmt: skip
_LEAST_BYTES: Final = 1_024
_MARKER_BYTES: Final = 600
_LINE_CHARS: Final = 8_192  # a longer line counts as several


@dataclass(frozen=True, slots=True)
class Bounded:
    """The part that was kept. ``total_bytes`` is the size of the whole output in UTF-8, redacted."""

    text: str
    truncated: bool
    total_bytes: int


class OutputBounder:
    """Takes an output in pieces; keeps its head, its tail, and lines with error words between them.

    Everything is redacted as it passes, before a part of it is chosen, so that no cut can hide the beginning of a
    secret from the rules. Memory stays within a small multiple of ``limit_bytes`` and what the redaction holds back,
    however long the output is.
    """

    def __init__(self, limit_bytes: int, *, hint: str = "") -> None:
        self._limit = max(limit_bytes, _LEAST_BYTES)
        self._hint = hint
        content = self._limit - _MARKER_BYTES
        self._head_room = content // 2
        self._match_room = content // 4
        self._tail_limit = content - self._head_room - self._match_room
        self._head: list[str] = []
        self._matches: list[tuple[int, str]] = []
        self._tail: deque[tuple[int, str, int]] = deque()
        self._tail_bytes = 0
        self._head_open = True
        self._redactor = StreamRedactor()
        self._rest = ""  # of a line not yet at its end
        self._lines = 0
        self._matching = 0
        self._total = 0

    def feed(self, piece: str) -> None:
        """Take the next piece of the output, of any size."""
        self._take_text(self._redactor.feed(piece))

    def finish(self) -> Bounded:
        """Return what was kept, in at most the limit of UTF-8 bytes."""
        self._take_text(self._redactor.close())
        if self._rest:
            self._take(self._rest)
            self._rest = ""
        tail_start = self._tail[0][0] if self._tail else self._lines
        head, tail = self._head, [line for _, line, _ in self._tail]
        left_out = tail_start - len(head)
        if left_out <= 0:
            return self._fit("\n".join([*head, *tail]), truncated=False)
        kept = sum(_size(line) + 1 for line in (*head, *tail))
        marker = (
            f"[… output cut: {left_out:,} lines, about {max(self._total - kept, 0):,} of {self._total:,} bytes, are "
            f"left out here; {self._matching:,} lines of the whole have error words. "
            f"{self._hint or 'Narrow the query.'}"
        )
        matches = [f"line {number + 1}: {line}" for number, line in self._matches if number < tail_start]
        if matches:
            matches = ["[lines with error words from the part left out:]", *matches, "[… the end of the output:]"]
        return self._fit("\n".join([*head, marker[:480] + "]", *matches, *tail]), truncated=True)

    def _fit(self, text: str, *, truncated: bool) -> Bounded:
        # What is kept was counted line by line; only an output of one long line can still be above the limit.
        if _size(text) > self._limit:
            note = "\n[… cut]"
            text = text.encode("utf-8", "replace")[: self._limit - _size(note)].decode("utf-8", "ignore") + note
            truncated = True
        return Bounded(text, truncated, self._total)

    def _take_text(self, text: str) -> None:
        if not text:
            return
        self._total += _size(text)
        text = self._rest + text
        end = text.rfind("\n") + 1
        whole, self._rest = text[:end], text[end:]
        loud = _may_match(whole)
        for line in self._skipped(whole, loud=loud).split("\n")[:-1]:
            for start in range(0, len(line) or 1, _LINE_CHARS):
                self._take(line[start : start + _LINE_CHARS], loud=loud)
        while len(self._rest) > _LINE_CHARS:
            self._take(self._rest[:_LINE_CHARS])
            self._rest = self._rest[_LINE_CHARS:]

    def _skipped(self, whole: str, *, loud: bool) -> str:
        """Return lines less those that nothing can be kept of: past the head, without error words, before the tail."""
        room = len(whole) - self._tail_limit - 1
        start = whole.find("\n", room) + 1 if room > 0 else 0
        if loud or self._head_open or start in (0, len(whole)):
            return whole
        self._lines += whole.count("\n", 0, start)
        self._tail.clear()
        self._tail_bytes = 0
        return whole[start:]

    def _take(self, line: str, *, loud: bool = True) -> None:
        number, size = self._lines, _size(line) + 1
        self._lines += 1
        matching = loud and _may_match(line) and ERROR_WORDS.search(line) is not None
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
        while self._tail_bytes > self._tail_limit and len(self._tail) > 1:
            self._tail_bytes -= self._tail.popleft()[2]


def _may_match(text: str) -> bool:
    lowered = text.lower()
    return any(stem in lowered for stem in _STEMS)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
