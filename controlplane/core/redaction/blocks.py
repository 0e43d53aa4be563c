"""Values on the lines after their label: block scalars, `password:` with the value below, name and value members."""

import re
from collections.abc import Callable

from controlplane.core.redaction.fields import field_label, read_value
from controlplane.core.redaction.findings import MARKER_PATTERN, Finding
from controlplane.core.redaction.labels import Label, is_secret_under
from controlplane.core.redaction.line import Line
from controlplane.core.redaction.manifests import SECRET_RULE
from controlplane.core.redaction.values import is_mixed, is_passphrase, is_reference, looks_random

_MOST_BLANK_LINES = 32
_OPENERS = (":", "=", "|", ">")
_BLOCK = re.compile(
    r"""(?P<lead>[ \t]*(?:-[ ]+)?)["']?(?P<label>[A-Za-z0-9_.\-]{1,100}+)["']?[ ]*:[ ]+(?:![\w!]{1,40}[ ]+)?"""
    r"""[|>][-+0-9]{0,3}[ \t\r]*(?:\#.*)?"""
)
_OPEN_LABEL = re.compile(
    r"""(?<![A-Za-z0-9_.\-])(?P<label>[A-Za-z0-9_.\-]{1,100}+)(?:\\{0,7}["'`\]]|\*{1,2})?(?:[ ]is)?"""
    r"""[ \t]{0,8}[:=][ \t*\r\\]{0,8}$"""
)
_NAME_MEMBER = re.compile(
    r"""[\s{]*(?:-[ ]+)?["']?(?:name|key)["']?[ ]*[:=][ ]*["']?(?P<label>[A-Za-z0-9_.\-]{1,100}+)["']?[ ]*,?[ \t\r]*""",
    re.IGNORECASE,
)
_VALUE_MEMBER = re.compile(r"""\s*(?:-[ ]+)?["']?value["']?[ ]*[:=][ ]*""", re.IGNORECASE)
_LONE_VALUE = re.compile(r"""[\s>*`]*(?P<quote>["'`]?)(?P<value>[^\s"'`]{3,4096}+)(?P=quote)[,;]?[\s*`]*""")


class BlockTracker:
    """Follows labels to the lines below them."""

    def __init__(self, redact: Callable[[Line, list[Finding]], None]) -> None:
        """`redact` replaces findings in a line."""
        self._redact = redact
        self._forget()
        self._open: Line | None = None  # the first line of a block; its marker swallows the others
        self._indent = 0
        self._blank: list[Line] = []

    @property
    def busy(self) -> bool:
        """Whether the next line's meaning depends on the lines before."""
        return self._open is not None or self._state is not None

    def _forget(self) -> None:
        self._state: str | None = None  # "block", "lone" or "member": what the next line may be
        self._label: Label | None = None
        self._blank_lines = 0

    def concerns(self, text: str) -> bool:
        """Whether a line with `text` may be about the lines after it."""
        tail = text.rstrip(" \t\r*\\")[-1:]
        return tail in _OPENERS or ": |" in text or ": >" in text or _NAME_MEMBER.fullmatch(text) is not None

    def take(self, line: Line) -> list[Line]:
        """Accept the next line; answers the lines that are ready to go on, in order."""
        ready: list[Line] = []
        if self._open is not None:
            if self._continues(self._open, line):
                return []
            ready = self.flush()
        if self._state is None:
            self._look_for_label(line)
        elif not line.text.strip() and self._blank_lines < _MOST_BLANK_LINES:
            self._blank_lines += 1
        else:
            state, label = self._state, self._label
            self._forget()
            if state == "block" and self._opens(line, label):
                self._open = line
                return ready
            if state == "lone" and label:
                self._redact_lone(line, label)
            elif state == "member" and label:
                self._redact_member(line, label)
            self._look_for_label(line)
        ready.append(line)
        return ready

    def flush(self) -> list[Line]:
        """What is held: the first line of a block and the blank lines after it."""
        ready = [self._open, *self._blank] if self._open is not None else []
        self._open, self._blank = None, []
        return ready

    def _continues(self, opened: Line, line: Line) -> bool:
        """Whether `line` belongs to the block that `opened` starts; if so, its marker swallows it."""
        text = line.text
        if not opened.ending:
            swallowed = True  # a further piece of the same long line
        elif not text.strip() and len(self._blank) < _MOST_BLANK_LINES:
            self._blank.append(line)
            return True
        else:
            swallowed = len(text) - len(text.lstrip()) > self._indent
        if swallowed:
            opened.swallow(line.original(len(text), after=True), line.ending)
            self._blank.clear()
        return swallowed

    def _look_for_label(self, line: Line) -> None:
        text = line.text
        tail = text.rstrip(" \t\r*\\")
        if line.opens_block and (member := re.match(r"[ \t]*(?:-[ ]+)?", text)):
            self._state, self._label, self._indent = "block", None, len(member.group())
        elif tail[-1:] in (":", "="):
            if match := _OPEN_LABEL.search(text, max(0, len(text) - 160)):
                self._expect("lone", field_label(text, match["label"], match.start()))
        elif match := _NAME_MEMBER.fullmatch(text):
            self._expect("member", field_label(text, match["label"], match.start("label")))
        elif match := _BLOCK.fullmatch(text):
            self._expect("block", field_label(text, match["label"], match.start("label")))
            self._indent = len(match["lead"])

    def _expect(self, state: str, label: Label | None) -> None:
        if label is not None:
            self._state, self._label, self._blank_lines = state, label, 0 if state != "member" else _MOST_BLANK_LINES

    def _opens(self, line: Line, label: Label | None) -> bool:
        """Whether `line` starts the block's content; if so its content is replaced."""
        text = line.text
        content = text.strip()
        indent = len(text) - len(text.lstrip())
        if indent <= self._indent or not MARKER_PATTERN.sub("", content):
            return False
        if label is not None:
            words = content.split()
            sentence = len(words) > 1 and all(word.strip(".,:;").isalpha() for word in words)
            if is_reference(content) or (sentence and not is_passphrase(content)):
                return False
            if label is Label.KEY and not looks_random(content):
                return False
        line.replace([Finding(label.value if label else SECRET_RULE, indent, len(text))])
        return True

    def _redact_lone(self, line: Line, label: Label) -> None:
        match = _LONE_VALUE.fullmatch(line.text)
        if match is None or match["value"].endswith(":") or match["value"][0] in "{[<":
            return
        value, quoted = match["value"], match["quote"] != ""
        if is_secret_under(label, value, strict=False, quoted=quoted) and (quoted or is_mixed(value)):
            self._redact(line, [Finding(label.value, match.start("value"), match.end("value"))])

    def _redact_member(self, line: Line, label: Label) -> None:
        if (match := _VALUE_MEMBER.match(line.text)) and (value := read_value(line.text, match.end())):
            begin, end, quoted = value
            if is_secret_under(label, line.text[begin:end], strict=True, quoted=quoted):
                self._redact(line, [Finding(label.value, begin, end)])
