"""Redaction of a text that arrives in pieces. The whole-text functions use the same machine, so both always agree.

Text flows through stages, each a function of the text alone and not of how it was cut into chunks:
lines (long ones in pieces) → private keys → rules of one line → Secret manifests → values below their label.
What is held back is bounded: at most one line, or one piece of a long line, and what a stage holds.
"""

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

from controlplane.core.redaction.blocks import BlockTracker
from controlplane.core.redaction.findings import Finding, merge_findings
from controlplane.core.redaction.line import Line
from controlplane.core.redaction.lines import HOLDS_KNOWN, SPANS_LINES, Candidates, occurrences, rules_for, scan_line
from controlplane.core.redaction.manifests import CompactSecrets, ManifestTracker
from controlplane.core.redaction.privatekeys import PrivateKeys, end_of
from controlplane.core.redaction.values import is_distinctive

LINE_LIMIT = 65_536
_BLOCK_SIZE = 16_384
_MOST_KNOWN = 32
_ROUNDS = 8

_SOFT_CUT = re.compile(r"[\s,;}&]")
# Where a value may follow its label, a private key its header, or a command its flag: no place to cut.
_CONTEXT = re.compile(
    r"pass|pwd|secret|token|key|auth|cred|bearer|basic|cookie|begin|curl|mysql|redis|login|user|identified|data|kind|://",
    re.IGNORECASE,
)
_MOST_TRIES = 256
_NO_TOKEN = re.compile(r"[^A-Za-z0-9+/=_.~%\\-]")
_RUN = re.compile(r"""[^\s"'`<>,;&]*+""")


def cut_point(text: str) -> tuple[int, bool]:
    """Where to cut the first piece off a line longer than `LINE_LIMIT`, and whether that is inside a token.

    It depends on the first `LINE_LIMIT` characters alone. Best is between two JSON objects, then a place with nothing
    before it that a value could follow, then behind a value; else the last character that no token has; else, inside an
    endless token, the limit.
    """
    least = LINE_LIMIT // 2
    if (between := text.rfind("},", least, LINE_LIMIT)) >= 0:
        return between + 2, False
    soft = [match.end() for match in _SOFT_CUT.finditer(text, least, LINE_LIMIT)]
    for position in soft[: -_MOST_TRIES - 1 : -1]:
        if _CONTEXT.search(text, max(0, position - 97), position - 1) is None:
            return position, False
    behind = max(text.rfind(mark, least, LINE_LIMIT) for mark in ",;&}")
    if behind >= 0:
        return behind + 1, False
    if soft:
        return soft[-1], False
    others = [match.end() for match in _NO_TOKEN.finditer(text, least, LINE_LIMIT)]
    return (others[-1], False) if others else (LINE_LIMIT, True)


class Machine:
    """The stages, and the buffer before them."""

    def __init__(self, known: Mapping[str, str] | None = None) -> None:
        """`known`: values that are findings wherever they stand, with their rules."""
        self.findings: list[Finding] = []  # in characters of the whole text
        self._out: list[str] = []
        self._buffer: list[str] = []
        self._buffered = 0
        self._offset = 0  # of the next character to process, in the whole text
        self._inside_line = False  # the next character continues a long line
        self._run_on: str | None = None  # the rule of a value that a hard cut divided
        self._known = deque(islice((known or {}).items(), _MOST_KNOWN), maxlen=_MOST_KNOWN)  # (value, rule)
        self._fresh: list[str] = []  # values first seen in the line at work
        self._keys = PrivateKeys()
        self._compact = CompactSecrets()
        self._manifests = ManifestTracker(self._redact)
        self._blocks = BlockTracker(self._redact)

    def feed(self, chunk: str) -> str:
        """Accept more text; answers the redacted text that is settled."""
        self._buffer.append(chunk)
        self._buffered += len(chunk)
        if "\n" not in chunk and self._buffered <= LINE_LIMIT:
            return ""
        text = "".join(self._buffer)
        end = text.rfind("\n") + 1
        position = 0
        while position < end:
            stop = text.rfind("\n", position, position + _BLOCK_SIZE) + 1 or text.index("\n", position) + 1
            self._process(text[position:stop])
            position = stop
        while len(text) - position > LINE_LIMIT:
            cut, hard = cut_point(text[position : position + LINE_LIMIT])
            self._process_piece(text[position : position + cut], hard=hard)
            position += cut
        rest = text[position:]
        self._buffer, self._buffered = [rest], len(rest)
        return self._drain()

    def close(self) -> str:
        """The redacted rest of the text."""
        rest = "".join(self._buffer)
        self._buffer, self._buffered = [], 0
        if rest:
            self._process(rest)
        for line in self._keys.flush():
            self._pass_rules(line, self._mask_of(line.text), [])
        for line in self._manifests.flush():
            self._pass_blocks(line)
        for line in self._blocks.flush():
            self._emit(line)
        return self._drain()

    @property
    def known(self) -> dict[str, str]:
        """The distinctive values found last, with their rules."""
        return dict(self._known)

    def _drain(self) -> str:
        text = "".join(self._out)
        self._out.clear()
        return text

    @property
    def _busy(self) -> bool:
        return self._manifests.busy or self._busy_beside_manifests

    @property
    def _busy_beside_manifests(self) -> bool:
        return self._run_on is not None or self._blocks.busy or self._keys.busy or self._compact.busy

    def _process(self, block: str) -> None:
        """Process whole lines; the last may lack its line break at the end of the text."""
        candidates = Candidates(block, (value for value, _ in self._known))
        position = 0
        while position < len(block):
            if not self._busy and (start := candidates.next(position)) != position:
                start = len(block) if start is None else start
                self._skip(block[position:start])
                position = start
                continue
            stop = block.find("\n", position)
            stop, ending = (len(block), "") if stop < 0 else (stop, "\n")
            self._fresh = []
            self._process_line(block[position:stop], ending, candidates.mask(position))
            position = stop + len(ending)
            for value in self._fresh:
                candidates.add_known(value, position)

    def _process_line(self, text: str, ending: str, mask: int) -> None:
        position = 0
        while len(text) - position > LINE_LIMIT:
            cut, hard = cut_point(text[position : position + LINE_LIMIT])
            self._process_piece(text[position : position + cut], hard=hard)
            position += cut
        if position:
            text = text[position:]
            mask = self._mask_of(text)
        self._step(text, ending, mask, hard=False)

    def _process_piece(self, text: str, *, hard: bool) -> None:
        mask = self._mask_of(text)
        if mask or self._busy:
            self._step(text, "", mask, hard=hard)
        else:
            self._skip(text)

    def _mask_of(self, text: str) -> int:
        return rules_for(text) | (HOLDS_KNOWN if any(value in text for value, _ in self._known) else 0)

    def _skip(self, text: str) -> None:
        """Pass on text that no stage looks at."""
        self._out.append(text)
        self._offset += len(text)
        self._inside_line = not text.endswith("\n")

    def _step(self, text: str, ending: str, mask: int, *, hard: bool) -> None:
        """Lead one line, or a piece of a long one, through the stages."""
        found: list[Finding] = []
        if not self._busy:
            if not mask & (SPANS_LINES | HOLDS_KNOWN) and not self._blocks.concerns(text):
                found = scan_line(text, mask)
                if not found:
                    self._skip(text + ending)
                    return
        elif not mask and self._manifests.ignores(text) and not self._busy_beside_manifests:
            self._skip(text + ending)
            return
        line = Line(text, self._offset, ending, continues=self._inside_line)
        self._offset += len(text) + len(ending)
        self._inside_line = not ending
        if self._run_on is not None:
            length = end_of(_RUN, text, 0)
            line.swallow_start(self._run_on, length)
            self._run_on = None
        if not (self._keys.busy or self._keys.concerns(text)):
            self._pass_rules(line, mask, found)
        else:
            self._pass_key(line, mask)
        if hard and not self._keys.busy:
            self._run_on = line.last_rule

    def _pass_key(self, line: Line, mask: int) -> None:
        text = line.text
        for ready in self._keys.take(line):
            self._pass_rules(ready, mask if ready.text == text else self._mask_of(ready.text), [])

    def _pass_rules(self, line: Line, mask: int, found: list[Finding]) -> None:
        """`found`: what the rules have found already, if they have read the line."""
        if mask & SPANS_LINES or self._compact.busy:
            if not line.continues:
                self._compact.start_line()
            found = self._compact.scan(line.text, ends=bool(line.ending))
        if mask or found:
            self._redact(line, found, mask)
        if mask & HOLDS_KNOWN:
            self._redact_known(line)
        if mask & SPANS_LINES or self._manifests.busy:
            for ready in self._manifests.take(line):
                self._pass_blocks(ready)
        else:
            self._pass_blocks(line)

    def _redact_known(self, line: Line) -> None:
        known = [
            Finding(rule, start, start + len(value))
            for value, rule in self._known
            for start in occurrences(line.text, value)
        ]
        self._redact(line, merge_findings(known))

    def _pass_blocks(self, line: Line) -> None:
        if self._blocks.busy or self._blocks.concerns(line.text) or line.opens_block:
            for ready in self._blocks.take(line):
                self._emit(ready)
        else:
            self._emit(line)

    def _emit(self, line: Line) -> None:
        self._out += (line.text, line.ending)
        for mark in line.marks:
            if mark.start == mark.end and self.findings:
                self.findings[-1] = replace(self.findings[-1], end=mark.last)
            else:
                self.findings.append(Finding(mark.rule, mark.first, mark.last))

    def _redact(self, line: Line, found: list[Finding], mask: int = 0) -> None:
        """Replace what was found in `line` and go on until nothing more is.

        A marker changes what stands beside it (a boundary appears, a value ends), so that one pass could leave a line
        in which a second would find more; and redaction must be idempotent.
        """
        for _ in range(_ROUNDS):
            found = found or scan_line(line.text, mask)
            if not found:
                return
            for finding in found:
                self._note(line.text[finding.start : finding.end], finding.rule)
            line.replace(found)
            found, mask = [], rules_for(line.text)
        if scan_line(line.text, mask):
            line.replace([Finding("unstable-line", 0, len(line.text))])

    def _note(self, value: str, rule: str) -> None:
        """Remember a distinctive value: it goes wherever it stands again, with a label or without."""
        if is_distinctive(value) and all(value != known for known, _ in self._known):
            self._known.append((value, rule))
            self._fresh.append(value)


class StreamRedactor:
    """`redact_text` for a text that arrives in chunks: the same result wherever they are cut.

    Memory is bounded, whatever arrives: a line, or 64 KiB of a longer one, and 64 KiB of a manifest whose kind is not
    yet known are held back; nothing of a private key is emitted once its header was seen. One instance serves one text.
    """

    def __init__(self) -> None:
        self._machine = Machine()
        self._rules: set[str] = set()

    def feed(self, chunk: str) -> str:
        """Accept the next chunk; answers redacted text that no later chunk can change."""
        return self._noting(self._machine.feed(chunk))

    def close(self) -> str:
        """The redacted rest. Call it once, after the last chunk."""
        return self._noting(self._machine.close())

    def _noting(self, text: str) -> str:
        self._rules.update(finding.rule for finding in self._machine.findings)
        del self._machine.findings[:-1]  # the last may still grow
        return text

    @property
    def rules(self) -> frozenset[str]:
        """The names of the rules that have found something so far."""
        return frozenset(self._rules)
