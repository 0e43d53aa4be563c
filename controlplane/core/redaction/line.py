"""A line that remembers where its markers came from."""

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

from controlplane.core.redaction.findings import Finding, marker


class Mark(NamedTuple):
    """A marker in a line (`start` to `end`) and the characters of the whole text it stands for (`first` to `last`).

    A marker of no length continues the value that ended the line before.
    """

    start: int
    end: int
    first: int
    last: int
    rule: str

    def moved(self, shift: int) -> "Mark":
        """The marker, `shift` characters further on in the line."""
        return self._replace(start=self.start + shift, end=self.end + shift)


class Line:
    """A logical line: text in which markers already stand for what was removed.

    `origin` is the offset of its first character in the whole text; `ending` the line break that follows, or nothing at
    the end of the text and between the pieces of a long line; `continues` marks every piece but a line's first.
    """

    __slots__ = ("continues", "ending", "marks", "opens_block", "origin", "text")

    def __init__(self, text: str, origin: int, ending: str, *, continues: bool = False) -> None:
        self.text, self.origin, self.ending, self.continues = text, origin, ending, continues
        self.opens_block = False  # the block scalar below is a Secret's
        self.marks: list[Mark] = []

    def replace(self, found: Iterable[Finding]) -> None:
        """Put a marker in the place of each finding (in characters of `text`; sorted, non-overlapping)."""
        parts: list[str] = []
        marks: list[Mark] = []
        old = iter((*self.marks, None))
        mark = next(old)
        position = length = 0
        for finding in found:
            while mark is not None and mark.end <= finding.start:
                marks.append(mark.moved(length - position))
                mark = next(old)
            while mark is not None and mark.start < finding.end:
                mark = next(old)  # the finding covers it
            kept, replacement = self.text[position : finding.start], marker(finding.rule)
            parts += (kept, replacement)
            start = length + len(kept)
            length = start + len(replacement)
            first, last = self.original(finding.start), self.original(finding.end, after=True)
            marks.append(Mark(start, length, first, last, finding.rule))
            position = finding.end
        while mark is not None:
            marks.append(mark.moved(length - position))
            mark = next(old)
        parts.append(self.text[position:])
        self.text, self.marks = "".join(parts), marks

    def original(self, position: int, *, after: bool = False) -> int:
        """The offset in the whole text of `text[position]`; `after` for the end of a span, before a marker."""
        index = bisect_right(self.marks, position, key=lambda mark: mark.start + (after and mark.end > mark.start)) - 1
        if index < 0:
            return self.origin + position
        mark = self.marks[index]
        if position >= mark.end:
            return mark.last + position - mark.end
        return mark.first if position == mark.start else mark.last

    def swallow(self, end: int, ending: str) -> None:
        """Let the last marker, which stands at the end of the text, reach to the offset `end` of the whole text."""
        self.marks[-1] = self.marks[-1]._replace(last=end)
        self.ending = ending

    def swallow_start(self, rule: str, length: int) -> None:
        """Drop the first `length` characters: they go on with the value that ended the piece before."""
        self.marks = [Mark(0, 0, self.origin, self.origin + length, rule)]
        self.text = self.text[length:]
        self.origin += length

    def append(self, text: str) -> None:
        """Add what follows the original of the last marker."""
        self.text += text

    @property
    def last_rule(self) -> str | None:
        """The rule of the marker that ends the text, if one does."""
        return self.marks[-1].rule if self.marks and self.marks[-1].end == len(self.text) else None
