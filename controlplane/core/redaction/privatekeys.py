"""Private key blocks over lines: PEM of any kind, OpenSSH, PGP and PuTTY, escaped on one line, wrapped, or cut off.

Nothing after a header goes on until the block has ended: at its footer, or at a line that cannot be part of a key.
Sources: RFC 7468 (textual encodings), RFC 1421 (encapsulated headers), RFC 9580 §6 (ASCII armour).
"""

import re

from controlplane.core.redaction.findings import Finding
from controlplane.core.redaction.line import Line

RULE = "private-key"
KEY_LITERALS = ("private",)
_MOST_BLANK_LINES = 4
_MOST_HEADER_LINES = 8

_SPACE = r"(?:[ _+]|%20)"
_KIND = rf"(?:[A-Z0-9]{{1,12}}{_SPACE}){{0,4}}PRIVATE{_SPACE}KEY(?:{_SPACE}BLOCK)?"
_BEGIN = re.compile(rf"-{{2,5}}\s?BEGIN{_SPACE}{_KIND}\s?-{{2,5}}|Private-Lines: ?\d{{1,4}}")
_END = re.compile(rf"-{{2,5}}\s?END{_SPACE}{_KIND}\s?-{{2,5}}|Private-MAC: ?[0-9a-f]{{1,128}}")
# What may follow a header on its line when the footer is missing: base64, line breaks escaped in one of many ways.
_INLINE = re.compile(
    r"""(?:[A-Za-z0-9+/=]|\\{1,15}[nrt/]|%[0-9A-Fa-f]{2}|[ \t]{1,8}(?=[A-Za-z0-9+/=]{16}|\\)
          |(?<=[nr])(?:Proc-Type|DEK-Info|Version|Comment):[^\\"'\n]{0,120})*+""",
    re.VERBOSE,
)
_BASE64 = re.compile(r"[A-Za-z0-9+/=]+")
_HEADER = re.compile(r"\s*[A-Z][A-Za-z-]{2,30}: ?[^\n]{0,200}")
_WRAPPING = " \t\r\n\"'`,;+\\()[]|>#*-:"
_ONLY_WRAPPING = re.compile(rf"[{re.escape(_WRAPPING)}]*+$")
_ESCAPED_BREAK = re.compile(r"(?:\\{1,15}[nrt])+$")
_LONG_RUN = 40


def end_of(pattern: re.Pattern[str], text: str, position: int) -> int:
    """Where the match of `pattern` at `position` ends; `position` itself where it does not match."""
    match = pattern.match(text, position)
    return match.end() if match else position


class PrivateKeys:
    """Replaces each block by one marker."""

    def __init__(self) -> None:
        self._open: Line | None = None
        self._blank: list[Line] = []
        self._column = 0
        self._lines = 0

    @staticmethod
    def concerns(text: str) -> bool:
        """Whether a block may start in `text`."""
        return "PRIVATE" in text or "Private-" in text

    @property
    def busy(self) -> bool:
        """Whether a block is open."""
        return self._open is not None

    def take(self, line: Line) -> list[Line]:
        """Accept the next line; answers those ready to go on. A block and what stands around it make one line."""
        if self._open is None:
            return [] if self._look_for_header(line, 0) else [line]
        open_line = self._open
        if (footer := _END.search(line.text)) is not None:
            return self._join(open_line, line, footer.end())
        if line.continues:
            end = end_of(_INLINE, line.text, 0)
            if not _ONLY_WRAPPING.match(line.text, end):
                return self._join(open_line, line, end)
            end = len(line.text)
        elif not line.text.strip():
            self._blank.append(line)
            return [] if len(self._blank) <= _MOST_BLANK_LINES else self.flush()
        elif not self._is_body(line.text):
            ready = self.flush()
            return ready if self._look_for_header(line, 0) else [*ready, line]
        self._lines += 1
        self._blank.clear()
        open_line.swallow(line.original(len(line.text), after=True), line.ending)
        return []

    def flush(self) -> list[Line]:
        """The line of the open block and the blank lines after it: the block has ended without a footer."""
        ready = [] if self._open is None else [self._open, *self._blank]
        self._open, self._blank = None, []
        return ready

    def _join(self, open_line: Line, line: Line, end: int) -> list[Line]:
        """The block ends inside `line`: what follows it there belongs to the block's line."""
        self._open, self._blank = None, []
        open_line.swallow(line.original(end, after=True), line.ending)
        position = len(open_line.text)
        open_line.append(line.text[end:])
        return [] if self._look_for_header(open_line, position) else [open_line]

    def _look_for_header(self, line: Line, position: int) -> bool:
        """Replace the blocks that start in `line` from `position` on; whether the last is still open."""
        text = line.text
        found: list[Finding] = []
        is_open, has_footer = False, True
        while (header := _BEGIN.search(text, position)) is not None:
            footer = _END.search(text, header.end()) if has_footer else None
            if footer is not None:
                end = footer.end()
            else:
                has_footer = False  # none further on either: looking again for each header would be quadratic
                end = end_of(_INLINE, text, header.end())
                if _ONLY_WRAPPING.match(text, end):
                    end, is_open = len(text), True
            found.append(Finding(RULE, header.start(), end))
            position = end
        if found:
            column = found[-1].start
            line.replace(found)
            if is_open:
                self._open, self._column, self._lines = line, column, 0
        return is_open

    def _is_body(self, text: str) -> bool:
        """Whether a line can be part of a key: base64, bare, quoted or behind a log prefix, or one of its headers."""
        if self._lines < _MOST_HEADER_LINES and _HEADER.fullmatch(text):
            return True
        content = _ESCAPED_BREAK.sub("", text.strip(_WRAPPING)).strip(_WRAPPING)
        if not content or _BASE64.fullmatch(content):
            return True
        last = re.split(r"[\s:|>]", content)[-1]
        same_column = text.rfind(last) == self._column and self._column > 0
        return (len(last) >= _LONG_RUN or same_column) and _BASE64.fullmatch(last) is not None
