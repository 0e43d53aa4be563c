"""Kubernetes Secret objects inside text: YAML and pretty JSON line by line, compact JSON within a line.

`kubectl` sorts members, so that `data` stands before the `kind` that tells what it is. The values of a map that may be
a Secret's are therefore held back until the kind is known, within a bound; past it, a map that looks like one is one.
Source: Kubernetes API reference, Secret v1 (`data` is base64, `stringData` is write-only plain text).
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator

from controlplane.core.redaction.findings import MARKER_PATTERN, Finding
from controlplane.core.redaction.line import Line

MANIFEST_LITERALS = ("apiversion", "data:", 'data":', 'data\\', "kind: secret", '"secret', '\\"secret')
SECRET_RULE = "kubernetes-secret"
SECRET_KINDS = ("Secret", "SecretList")
_HELD_LIMIT = 65_536

_MEMBER = re.compile(
    r"""(?P<lead>[ \t]*(?:-[ ]+)?)(?P<q>["']?)(?P<key>[A-Za-z0-9_./\-]{1,253}+)(?P=q)[ ]*:(?:[ ]+|$)(?P<value>.*)"""
)
_BLOCK_SCALAR = re.compile(r"[|>][-+0-9]{0,3}\s*$")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def _may_be_encoded(value: str) -> bool:
    """Whether `value` can stand in the `data` of a Secret: base64, or a marker already."""
    return _BASE64.fullmatch(MARKER_PATTERN.sub("", value)) is not None


class ManifestTracker:
    """Follows manifests over lines and redacts the values of Secrets; any other line passes through unchanged."""

    def __init__(self, redact: Callable[[Line, list[Finding]], None]) -> None:
        """`redact` replaces findings in a line."""
        self._redact = redact
        self._held: list[Line] = []
        self._held_size = 0
        self._list_column: int | None = None  # column of the members of an enclosing SecretList
        self._leave_object()

    @property
    def busy(self) -> bool:
        """Whether the next line's meaning depends on the lines before."""
        return self._column is not None or self._list_column is not None or bool(self._held)

    def ignores(self, text: str) -> bool:
        """Whether a line with `text` tells nothing: it stands deeper in an object than what does."""
        if self._column is None or self._map_column is not None or self._held:
            return False
        return text.startswith(" " * (self._column + 1))

    def take(self, line: Line) -> list[Line]:
        """Accept the next line; answers the lines that are ready to go on, in order."""
        if not line.continues:
            self._read(line)
        self._held.append(line)
        self._held_size += len(line.text)
        if self._undecided:
            if line.ending and self._held_size <= _HELD_LIMIT:
                return []
            self._decide(secret=self._is_core is True)
        return self._release()

    def _release(self) -> list[Line]:
        ready, self._held, self._held_size = self._held, [], 0
        return ready

    def flush(self) -> list[Line]:
        """What is held at the end of the text."""
        self._leave_object()
        self._list_column = None
        return self._release()

    def _leave_object(self) -> None:
        if getattr(self, "_undecided", False):
            self._decide(secret=self._is_core is True)
        self._column: int | None = None  # where the members of the current object start
        self._kind: str | None = None
        self._is_core: bool | None = None  # apiVersion is v1, where Secrets are; None: not seen
        self._map_column: int | None = None
        self._is_secret = False
        self._undecided = False
        self._values: list[tuple[Line, Finding]] = []

    def _decide(self, *, secret: bool) -> None:
        self._undecided, self._is_secret = False, secret
        values, self._values = self._values, []
        if secret:
            for line, finding in values:
                self._redact(line, [finding])
        else:
            self._map_column = None

    def _read(self, line: Line) -> None:
        text = line.text
        bare = text.lstrip()
        indent = len(text) - len(bare)
        if not bare or (self._column is not None and self._map_column is None and indent > self._column):
            return  # deeper than what tells
        member = _MEMBER.match(text)
        if self._map_column is not None:
            if indent > self._map_column:
                self._read_entry(line, member)
                return
            if not self._undecided:
                self._map_column = None
        bare = bare.rstrip()
        if bare == "---" or (self._column is not None and self._ends_object(bare, indent, member)):
            self._leave_object()
        if self._list_column is not None and (bare == "---" or indent < self._list_column):
            self._list_column = None
        if member:
            self._read_member(member)

    def _ends_object(self, bare: str, indent: int, member: re.Match[str] | None) -> bool:
        column = self._column or 0
        if indent < column and not (member and len(member["lead"]) == column and indent == column):
            return True
        return indent == column and member is None and bare[0] not in "}]-#"

    def _read_member(self, member: re.Match[str]) -> None:
        key, column = member["key"], len(member["lead"])
        if self._column is not None and column != self._column:
            return
        value = member["value"].strip().rstrip(",").strip("\"'")
        if key == "apiVersion":
            if self._is_core is not None:
                self._leave_object()
            self._column, self._is_core = column, value == "v1"
        elif key == "kind" and (self._column is not None or value in SECRET_KINDS):
            self._column, self._kind = column, value
            if value == "SecretList":
                self._list_column = column
            if self._undecided:
                self._decide(secret=value in SECRET_KINDS)
                self._map_column = None
        elif key in ("data", "stringData") and value in ("", "{") and not self._undecided:
            in_list = self._list_column is not None and column > self._list_column
            known = self._kind in SECRET_KINDS or in_list or key == "stringData"
            if known or self._kind is None:
                self._column, self._map_column = column, column
                self._is_secret, self._undecided = known, not known

    def _read_entry(self, line: Line, member: re.Match[str] | None) -> None:
        if member is None:
            if self._undecided:
                self._decide(secret=False)
            return
        value = member["value"].rstrip()
        start = member.start("value")
        if value.endswith(","):
            value = value[:-1]
        if value[:1] in ("'", '"'):
            closed = len(value) > 1 and value[-1] == value[0]
            start, value = start + 1, value[1:-1] if closed else value[1:]
        if self._undecided:
            if not _may_be_encoded(value):
                self._decide(secret=False)
            elif MARKER_PATTERN.sub("", value):
                self._values.append((line, Finding(SECRET_RULE, start, start + len(value))))
        elif self._is_secret:
            if _BLOCK_SCALAR.fullmatch(value):
                line.opens_block = True
            elif MARKER_PATTERN.sub("", value):
                self._redact(line, [Finding(SECRET_RULE, start, start + len(value))])


_QUOTE = r"\\{0,15}\""
_KIND = re.compile(rf"{_QUOTE}kind{_QUOTE}\s{{0,8}}:\s{{0,8}}{_QUOTE}(?P<kind>[A-Za-z]{{1,60}})\\{{0,15}}\"")
_MAP = re.compile(rf"{_QUOTE}(?P<key>data|stringData){_QUOTE}\s{{0,8}}:\s{{0,8}}\{{")
_CORE_BEFORE = re.compile(rf"{_QUOTE}apiVersion{_QUOTE}\s{{0,8}}:\s{{0,8}}{_QUOTE}v1{_QUOTE}\s{{0,8}},\s{{0,8}}$")
_ENTRY = re.compile(
    r"""\s{0,64}(?P<esc>\\{0,15})"[^"\\]{0,300}(?P=esc)"\s{0,8}:\s{0,8}(?P=esc)"
        (?P<value>(?:[^"\\]++|(?!(?P=esc)")\\.|(?!(?P=esc)")")*+)(?:(?P=esc)"\s{0,8},?|$)""",
    re.VERBOSE,
)


class CompactSecrets:
    """Finds the values of Secrets in JSON that stands on one line, also escaped inside a string, also in pieces."""

    def __init__(self) -> None:
        self._kind: str | None = None
        self._inside = False  # a map of a Secret is not closed yet

    @property
    def busy(self) -> bool:
        """Whether the next piece of the line continues a Secret."""
        return self._inside or self._kind in SECRET_KINDS

    def start_line(self) -> None:
        """Forget the line before."""
        self._kind, self._inside = None, False

    def scan(self, text: str, *, ends: bool) -> list[Finding]:
        """The values in the next piece of the line; `ends` when it is the last one."""
        if not self.busy and "{" not in text:
            return []
        found: list[Finding] = []
        if self._inside:
            found += self._read_map(text, 0)
        kinds = [(match.start(), match["kind"]) for match in _KIND.finditer(text)]
        for match in _MAP.finditer(text):
            entries = list(self._entries(text, match.end()))
            if self._is_secret(text, match, kinds, [text[entry.start : entry.end] for entry in entries], ends=ends):
                found += self._read_map(text, match.end())
        if kinds:
            self._kind = kinds[-1][1]
        if ends:
            self.start_line()
        return [finding for finding in found if MARKER_PATTERN.sub("", text[finding.start : finding.end])]

    def _read_map(self, text: str, position: int) -> list[Finding]:
        entries = list(self._entries(text, position))
        end = entries[-1].end if entries else position
        self._inside = "}" not in text[end : end + 24]
        return entries

    def _entries(self, text: str, position: int) -> Iterator[Finding]:
        while match := _ENTRY.match(text, position):
            yield Finding(SECRET_RULE, match.start("value"), match.end("value"))
            position = match.end()

    def _is_secret(
        self, text: str, match: re.Match[str], kinds: list[tuple[int, str]], values: list[str], *, ends: bool
    ) -> bool:
        if match["key"] == "stringData":
            return True
        index = bisect_left(kinds, (match.start(), ""))
        before = kinds[index - 1][1] if index else self._kind
        after = kinds[index][1] if index < len(kinds) else None
        if _CORE_BEFORE.search(text[max(0, match.start() - 96) : match.start()]) and before not in SECRET_KINDS:
            # Sorted members: the kind follows. In a piece that ends before it, a map that looks like a Secret's is one.
            encoded = bool(values) and all(_may_be_encoded(value) for value in values)
            return after in SECRET_KINDS if after or ends else encoded
        return before in SECRET_KINDS or (before is None and after in SECRET_KINDS)
