"""Kubernetes Secret objects inside text: YAML and pretty JSON line by line, compact JSON within a line.

`kubectl` sorts members, so that `data` stands before the `kind` that tells what it is. The values of a map that may be
a Secret's are therefore held back until the kind is known, within a bound; past it, a map that looks like one is one.
Source: Kubernetes API reference, Secret v1 (`data` is base64, `stringData` is write-only plain text).
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from controlplane.core.redaction.findings import MARKER_PATTERN, Finding, merge_findings
from controlplane.core.redaction.line import Line

MANIFEST_LITERALS = ("apiversion", "data:", 'data":', "data\\", "kind: secret", '"secret', '\\"secret')
SECRET_RULE = "kubernetes-secret"  # noqa: S105 -- a rule's name
SECRET_KINDS = ("Secret", "SecretList")
_HELD_LIMIT = 65_536
_MOST_NESTED = 16

_MEMBER = re.compile(
    r"""(?P<lead>[ \t]*(?:-[ ]+)?)(?P<q>["']?)(?P<key>[A-Za-z0-9_./\-]{1,253}+)(?P=q)[ ]*:(?:[ ]+|$)(?P<value>.*)"""
)
_BLOCK_SCALAR = re.compile(r"[|>][-+0-9]{0,3}\s*$")
_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")


def _may_be_encoded(value: str) -> bool:
    """Whether `value` can stand in the `data` of a Secret: base64, or a marker already."""
    return _BASE64.fullmatch(MARKER_PATTERN.sub("", value)) is not None


@dataclass(slots=True)
class _Object:
    """An object that is being read: the column of its members, and what they have told."""

    column: int
    kind: str | None = None
    is_core: bool | None = None  # apiVersion is v1, where Secrets are; None: not seen
    undecided: bool = False  # its map may be a Secret's: `values` wait for the kind
    values: list[tuple[Line, Finding]] = field(default_factory=list)


class ManifestTracker:
    """Follows manifests over lines and redacts the values of Secrets; any other line passes through unchanged."""

    def __init__(self, redact: Callable[[Line, list[Finding]], None]) -> None:
        """`redact` replaces findings in a line."""
        self._redact = redact
        self._objects: list[_Object] = []  # the outermost first
        self._map_column: int | None = None  # of `data`, while its entries are read
        self._in_secret = False  # the entries are a Secret's
        self._list_column: int | None = None  # of the members of an enclosing SecretList
        self._held: list[Line] = []
        self._held_size = 0

    @property
    def busy(self) -> bool:
        """Whether the next line's meaning depends on the lines before."""
        return bool(self._objects)

    def ignores(self, text: str) -> bool:
        """Whether a line with `text` tells nothing: it stands deeper in an object than what does."""
        if not self._objects or self._map_column is not None or self._held:
            return False
        return text.startswith(" " * (self._objects[-1].column + 1))

    def take(self, line: Line) -> list[Line]:
        """Accept the next line; answers the lines that are ready to go on, in order."""
        if not line.continues:
            self._read(line)
        self._held.append(line)
        self._held_size += len(line.text)
        if any(item.undecided for item in self._objects):
            if line.ending and self._held_size <= _HELD_LIMIT:
                return []
            for item in self._objects:
                self._decide(item, secret=item.is_core is True)
        return self._release()

    def flush(self) -> list[Line]:
        """What is held at the end of the text."""
        self._leave_objects(0)
        return self._release()

    def _release(self) -> list[Line]:
        ready, self._held, self._held_size = self._held, [], 0
        return ready

    def _leave_objects(self, column: int) -> None:
        """The objects whose members stand at `column` or further right have ended."""
        while self._objects and self._objects[-1].column >= column:
            item = self._objects.pop()
            self._decide(item, secret=item.is_core is True)
            self._map_column = None
        if self._list_column is not None and self._list_column >= column:
            self._list_column = None

    def _decide(self, item: _Object, *, secret: bool) -> None:
        if not item.undecided:
            return
        item.undecided, values, item.values = False, item.values, []
        if secret:
            for line, finding in values:
                self._redact(line, [finding])
        if self._map_column == item.column:
            self._in_secret = secret

    def _read(self, line: Line) -> None:
        text = line.text
        bare = text.strip()
        if not bare:
            return
        indent = len(text) - len(text.lstrip())
        member = _MEMBER.match(text)
        if self._map_column is not None:
            if indent > self._map_column:
                self._read_entry(line, member)
                return
            self._map_column = None
        if bare == "---":
            self._leave_objects(0)
        elif self._objects:
            self._leave_ended(bare, indent, member)
        if member:
            self._read_member(member)

    def _leave_ended(self, bare: str, indent: int, member: re.Match[str] | None) -> None:
        """Leave the objects that a line with this indent cannot belong to; a list item starts a new one."""
        column = len(member["lead"]) if member else indent
        if column > indent:  # "- key: value"
            self._leave_objects(column)
        elif indent < self._objects[-1].column:
            self._leave_objects(indent + 1)
        if self._objects and member is None and indent == self._objects[-1].column and bare[0] not in "}]-#":
            self._leave_objects(indent)

    def _read_member(self, member: re.Match[str]) -> None:
        key, column = member["key"], len(member["lead"])
        value = member["value"].strip().rstrip(",").strip("\"'")
        current = self._objects[-1] if self._objects and self._objects[-1].column == column else None
        if key == "apiVersion":
            if current is not None and current.is_core is not None:
                self._leave_objects(column)
                current = None
            self._object_at(column, current).is_core = value == "v1"
        elif key == "kind" and (current is not None or value in SECRET_KINDS):
            current = self._object_at(column, current)
            current.kind = value
            self._decide(current, secret=value in SECRET_KINDS)
            if value == "SecretList":
                self._list_column = column
        elif key in ("data", "stringData") and value in ("", "{"):
            in_list = self._list_column is not None and column > self._list_column
            kind = current.kind if current else None
            is_secret = kind in SECRET_KINDS or in_list or key == "stringData"
            if is_secret or (kind is None and (current is not None or not self._objects)):
                current = self._object_at(column, current)
                current.undecided = current.undecided or not is_secret
                self._map_column, self._in_secret = column, is_secret

    def _object_at(self, column: int, current: _Object | None) -> _Object:
        if current is None:
            current = _Object(column)
            self._objects = [*self._objects[-_MOST_NESTED:], current]
        return current

    def _read_entry(self, line: Line, member: re.Match[str] | None) -> None:
        item = self._objects[-1]
        if member is None:
            self._decide(item, secret=False)
            return
        value = member["value"].rstrip().removesuffix(",")
        start = member.start("value")
        if value[:1] in ("'", '"'):
            closed = len(value) > 1 and value[-1] == value[0]
            start, value = start + 1, value[1:-1] if closed else value[1:]
        found = Finding(SECRET_RULE, start, start + len(value))
        if self._in_secret and _BLOCK_SCALAR.fullmatch(value):
            line.opens_block = True
        elif not MARKER_PATTERN.sub("", value):
            return
        elif self._in_secret:
            self._redact(line, [found])
        elif item.undecided and _may_be_encoded(value):
            item.values.append((line, found))
        else:
            self._decide(item, secret=False)


_QUOTE = r"\\{0,15}\""
_KIND = re.compile(rf"{_QUOTE}kind{_QUOTE}\s{{0,8}}:\s{{0,8}}{_QUOTE}(?P<kind>[A-Za-z]{{1,60}})\\{{0,15}}\"")
_MAP = re.compile(rf"{_QUOTE}(?P<key>data|stringData){_QUOTE}\s{{0,8}}:\s{{0,8}}\{{")
_CORE_BEFORE = re.compile(rf"{_QUOTE}apiVersion{_QUOTE}\s{{0,8}}:\s{{0,8}}{_QUOTE}v1{_QUOTE}\s{{0,8}},\s{{0,8}}$")
_KIND_BEFORE = re.compile(rf"{_KIND.pattern}\s{{0,8}},\s{{0,8}}$")
_ENTRY = re.compile(
    r"""\s{0,64}(?P<esc>\\{0,15})"[^"\\]{0,300}(?P=esc)"\s{0,8}:\s{0,8}(?P=esc)"
        (?P<value>(?:[^"\\]++|(?!(?P=esc)")\\.|(?!(?P=esc)")")*+)(?:(?P=esc)"\s{0,8},?|$)""",
    re.VERBOSE,
)


def _entries(text: str, position: int) -> Iterator[Finding]:
    """The values of the map whose members start at `position`."""
    while match := _ENTRY.match(text, position):
        yield Finding(SECRET_RULE, match.start("value"), match.end("value"))
        position = match.end()


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
        if self._inside:  # wherever in the map the piece before ended: all of it goes up to its brace
            end = text.find("}")
            self._inside = end < 0
            found.append(Finding(SECRET_RULE, 0, len(text) if end < 0 else end))
        last_brace = text.rfind("}")
        kinds = [(match.start(), match["kind"]) for match in _KIND.finditer(text)]
        for match in _MAP.finditer(text):
            entries = list(_entries(text, match.end()))
            if self._is_secret(text, match, kinds, [text[entry.start : entry.end] for entry in entries], ends=ends):
                found += (entry for entry in entries if MARKER_PATTERN.sub("", text[entry.start : entry.end]))
                self._inside = last_brace < (entries[-1].end if entries else match.end())
        if kinds:
            self._kind = kinds[-1][1]
        if ends:
            self.start_line()
        return merge_findings(found)

    def _is_secret(
        self, text: str, match: re.Match[str], kinds: list[tuple[int, str]], values: list[str], *, ends: bool
    ) -> bool:
        if match["key"] == "stringData":
            return True
        index = bisect_left(kinds, (match.start(), ""))
        before = kinds[index - 1][1] if index else self._kind
        after = kinds[index][1] if index < len(kinds) else None
        core = _CORE_BEFORE.search(text[max(0, match.start() - 192) : match.start()])
        if core and after and _KIND_BEFORE.search(core.string[: core.start()]) is None:
            return after in SECRET_KINDS  # sorted members: the kind follows
        if core and not before and not after and not ends:  # cut off before its kind: a map that looks like a Secret's
            return bool(values) and all(_may_be_encoded(value) for value in values)
        return before in SECRET_KINDS or (before is None and after in SECRET_KINDS)
