"""Values beside a label: `DB_PASSWORD=…`, `"apiKey": "…"`, `--token …`, "the password for alice is …"."""

import re
from collections.abc import Iterator
from itertools import pairwise

from controlplane.core.redaction.findings import Finding
from controlplane.core.redaction.labels import MOST_LABEL, Label, classify_label, is_secret_under
from controlplane.core.redaction.values import (
    is_benign,
    is_benign_word,
    is_descriptive,
    is_location,
    is_mixed,
    is_passphrase,
    is_placeholder_text,
    is_resource_name,
    is_wordy,
    looks_random,
)

LABEL_LITERALS = (
    "pass",
    "pwd",
    "secret",
    "token",
    "key",
    "cred",
    "jwt",
    "auth",
    "cookie",
    "conn",
    "bearer",
    "pw:",
    "pw=",
    "pw is",
)
_LABEL_CHARS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
# In lower case: from the noun to the end of its label.
_NOUN = re.compile(
    r"(?:pass|pwd|secret|token|key|cred|jwt|auth|cookie|conn|bearer|pw(?=[:=]|[ ]is))[a-z0-9_.\-]{0,80}+"
)
_SEPARATOR = re.compile(
    r"""(?P<close>\\{0,7}["'`\]]{1,3}|\*{1,2}|)[ \t]{0,16}(?P<sep>[=-]>|:=|%3[ADad]|:{1,2}|={1,2}|>(?=[^\s<>]))
        (?P<gap>[ \t\u00a0]{0,64}(?:\*\*[ ]?|__[ ]?)?)""",
    re.VERBOSE,
)
_ENVIRONMENT = re.compile(r"[A-Z][A-Z0-9_]*")

# An unquoted value: up to white space or a quote. A comma, semicolon or ampersand ends it where another pair or nothing
# follows, an escaped line break (the text is inside a JSON string) always does.
_BARE = re.compile(r"""(?:[^\s"'`<>\\,;&]|[,;&](?![\s"'\\]|$|[A-Za-z_][\w.\ -]{0,60}[=:])|\\(?![nrtu"'\\/]))++""")
# A quoted value: in plain quotes a backslash escapes; in escaped quotes (a string in a string) the same escape ends it.
_QUOTED = re.compile(
    r"""(?P<quote>["'`])(?P<text>(?:(?!(?P=quote))[^\\]|\\.)*+)(?P=quote)
      | (?P<escaped>\\{1,15}["'])(?P<inner>(?:(?!(?<!\\)(?P=escaped)).)*+)(?P=escaped)""",
    re.VERBOSE,
)
_OPENING_QUOTE = re.compile(r"""\\{0,15}["'`]""")
_CLOSED_BEFORE = re.compile(r"[,;.:)\]}|]*(?:\s|$)")
_MOST_UNCLOSED = 256
_MOST_JUDGED = 512  # a longer bare value is judged by its start: reading on for every label would be quadratic
_TRAILING = re.compile(r"[.,;:?*|)\]}]+$")


def read_value(line: str, position: int, *, adjoining: bool = False) -> tuple[int, int, bool] | None:
    """The value that starts at `position`: `(start, end, quoted)`, or None where nothing stands.

    A quote that is not closed reaches to the end of the line, if that is near: a cut-off value is still one.
    `adjoining`: a quote here touches the label, and may close what the label stands in ("'New password:' is shown").
    A bare value is read up to a bound; `complete_value` gives all of it.
    """
    if opening := _OPENING_QUOTE.match(line, position):
        if match := _QUOTED.match(line, position):
            begin, end = match.span("text" if match["quote"] else "inner")
            return None if adjoining and _CLOSED_BEFORE.match(line, begin, end) else (begin, end, True)
        position = opening.end()
        if adjoining and _CLOSED_BEFORE.match(line, position):
            return None
        if len(line) - position <= _MOST_UNCLOSED:
            return position, len(line), True
    if match := _BARE.match(line, position, position + _MOST_JUDGED):
        return position, _trimmed(line, position, match.end()), False
    return None


def complete_value(line: str, begin: int, end: int) -> int:
    """Where the bare value ends of which `read_value` answered the part from `begin` to `end`."""
    if end - begin < _MOST_JUDGED or (match := _BARE.match(line, end)) is None:
        return end
    return _trimmed(line, begin, match.end())


def _trimmed(line: str, begin: int, end: int) -> int:
    """The end of a bare value without the punctuation of the sentence or the bracket it stands in."""
    trailing = _TRAILING.search(line, max(begin, end - 64), end)
    if trailing is None:
        return end
    value = line[begin:end]
    while end > trailing.start():
        last = line[end - 1]
        opening = {")": "(", "]": "[", "}": "{"}.get(last)
        if opening is not None and value.count(opening) >= value.count(last):
            break  # it closes a bracket of the value itself, as a marker's does
        end -= 1
        value = value[:-1]
    return end


def field_label(line: str, name: str, start: int) -> Label | None:
    """What the name at `line[start:]` names, with the word before it where it says little alone ("api key:")."""
    if name.startswith("passwd") and line[start - 1 : start] == "/":
        return None  # the file /etc/passwd
    if start and line[start - 1] == "\\" and name[0] in "nrt":
        name = name[1:]  # an escaped line break before the label
    lower = name.lower()
    if lower in ("key", "keys", "secret", "token") and start:
        before = line[max(0, start - 24) : start].rstrip(" \t")
        word = before[len(before.rstrip(_LABEL_CHARS)) :]
        if word and len(before) < min(start, 24):
            return classify_label(f"{word}_{name}")
    return None if lower == "authorization" else classify_label(name)  # the header rules know its schemes


def find_labelled(line: str, lower: str) -> Iterator[Finding]:
    """Values beside a label, in fields, flags, pairs and prose."""
    done = 0
    for noun in _NOUN.finditer(lower):
        if noun.start() < done:
            continue
        left = max(0, noun.start() - MOST_LABEL)
        start = left + len(line[left : noun.start()].rstrip(_LABEL_CHARS))
        end = noun.end() - (len(noun.group()) - len(noun.group().rstrip(".-")))
        label = field_label(line, line[start:end], start)
        if label is None:
            continue
        for finding in _find_beside(label, line, lower, start, end):
            done = max(done, finding.end)
            yield finding
    if "|" in line and line.lstrip().startswith("|"):
        yield from _find_in_row(line)


def _find_beside(label: Label, line: str, lower: str, start: int, end: int) -> Iterator[Finding]:
    if separator := _SEPARATOR.match(line, end):
        return _find_in_field(label, line, start, end, separator)
    if (pair := _PAIR_VALUE.match(lower, end)) and _PAIR_NAME.search(lower[max(0, start - 48) : start]):
        return _find_strictly(label, line, pair.end())
    if line[end : end + 1].isspace():
        if line[start] == "-":
            return _find_after_flag(label, line, end)
        return _find_in_prose(label, line, lower, start, end)
    return iter(())


def _find_in_field(label: Label, line: str, start: int, end: int, separator: re.Match[str]) -> Iterator[Finding]:
    name, close = line[start:end], separator["close"]
    if not _separates(line, start, separator):
        return
    value = read_value(line, separator.end(), adjoining=not close and not separator["gap"])
    if value is None:
        return
    begin, stop, quoted = value
    member = '"' in close and quoted
    environment = separator["sep"] == "=" and _ENVIRONMENT.fullmatch(name.strip("-.")) is not None
    if not (quoted or member or environment):
        if separator["sep"] != "=" and _starts_sentence(line[begin:stop], line[stop : stop + 2]):
            if label is Label.PASSWORD and (rest := _passphrase_end(line, begin)):
                yield Finding(label.value, begin, rest)
            return
        if '"' in close and is_wordy(line[begin:stop]):
            return  # a bare word beside a quoted key is a variable
        begin, stop = _without_code(line, begin, stop, label)
        if name.lower() == "pass" and (is_resource_name(line[begin:stop]) or not is_mixed(line[begin:stop])):
            return  # "pass: smoke-test" is a result
    if is_secret_under(label, line[begin:stop], strict=member or environment, quoted=quoted):
        yield Finding(label.value, begin, stop if quoted else complete_value(line, begin, stop))


def _separates(line: str, start: int, separator: re.Match[str]) -> bool:
    """Whether what looks like a separator is one: ">" only after "<label", "]:" not after a selector "[type=label]"."""
    before = line[max(0, start - 2) : start]
    if separator["sep"] == ">":
        return before[-1:] in ("<", ":") and before != "P<"
    return not (separator["close"] == "]" and before[-1:] == "=")


def _starts_sentence(word: str, following: str) -> bool:
    """Whether `word` is followed by more words, so that the colon opened a sentence ("password: must contain …")."""
    return len(following) == 2 and following[0] in " \t" and following[1].isalpha() and word.isalpha()


def _passphrase_end(line: str, begin: int) -> int:
    """Where a passphrase of bare words from `begin` to the end of the line ends; 0 if there is none."""
    rest = line[begin : begin + 160].rstrip(" \t\r.")
    return begin + len(rest) if begin + 160 > len(line) and is_passphrase(rest) else 0


_LIST_END = re.compile("[,;]")
_MACHINE_MADE = re.compile(r"[(\[{]?(?P<v>[^()\[\]{}]+)")


def _without_code(line: str, begin: int, end: int, label: Label) -> tuple[int, int]:
    """Cut a bare value where it turns into code: at a bracket (machines make none), after `null,`."""
    if label is not Label.PASSWORD and line[begin] != "[" and (match := _MACHINE_MADE.match(line, begin, end)):
        begin, end = match.span("v")
    head = _LIST_END.search(line, begin, end)
    return (begin, head.start()) if head and is_benign_word(line[begin : head.start()]) else (begin, end)


def _find_in_row(line: str) -> Iterator[Finding]:
    """`| password | value |`: the cell after the label's cell."""
    position = 0
    cells: list[tuple[int, int]] = []
    for cell in line.split("|"):
        left = position + len(cell) - len(cell.lstrip(" \t`*"))
        cells.append((left, max(left, position + len(cell.rstrip(" \t`*\r")))))
        position += len(cell) + 1
    for (left, right), (begin, end) in pairwise(cells):
        label = classify_label(line[left:right].replace(" ", "_"))
        value = line[begin:end]
        if label and value and " " not in value and is_secret_under(label, value, strict=False, quoted=False):
            yield Finding(label.value, begin, end)


def _find_after_flag(label: Label, line: str, end: int) -> Iterator[Finding]:
    """`--password value`, `--api-key "value"`."""
    begin = end + len(line[end : end + 8]) - len(line[end : end + 8].lstrip(" \t"))
    word = line[begin : begin + 40].split(maxsplit=1)
    if not word or word[0][0] in "-=|>" or (len(word) > 1 and word[1][0].isalpha() and is_descriptive(word[0])):
        return iter(())  # nothing, the next flag, or a sentence about the flag
    return _find_strictly(label, line, begin)


_PAIR_NAME = re.compile(r"""(?:name|key|variable)(?:\\{0,15}["'])?[ \t]{0,4}[:=][ \t]{0,4}(?:\\{0,15}["'])?$""")
_PAIR_VALUE = re.compile(
    r"""(?:\\{0,15}["'])?[ \t]{0,4}(?:,[ \t]{0,8}|[ \t]{1,8}|(?<=[ \t]))(?:\\{0,15}["'])?(?:parameter)?value
        (?:\\{0,15}["'])?[ \t]{0,4}[:=][ \t]{0,4}""",
    re.VERBOSE,
)


def _find_strictly(label: Label, line: str, position: int) -> Iterator[Finding]:
    """The value at `position`, where nothing but a value stands: after a flag, or beside the name in a pair."""
    if value := read_value(line, position):
        begin, stop, quoted = value
        if is_secret_under(label, line[begin:stop], strict=True, quoted=quoted):
            yield Finding(label.value, begin, stop if quoted else complete_value(line, begin, stop))


_LINK = re.compile(
    r"""(?P<filler>[ \t\u00a0]+(?:for|of|to|on|at|in|from|i|we|you|they|he|she|that|which)
          (?:[ \t]+[\w@./'-]{1,60}+){1,6}?)?
        (?:(?P<link>[ \t\u00a0]+(?:is|was|are|were|will[ ]be|became|has[ ]been|equals)
              (?:[ ](?:now|still|currently|just|set[ ]to|changed[ ]to|reset[ ]to))?[ \t\u00a0]*[:=]?
            |[ \t]+(?:(?:set|changed|reset|rotated|updated)[ ])?to
            |[ \t]*[:=])(?:[ \t\u00a0]+(?:\*\*|__)?)
          |(?P<bare>[ \t\u00a0]+))""",
    re.VERBOSE,
)
_LEAST_ALONE = 8
_CLAUSE_END = re.compile(r"[.!?,;)]?(?:\s*$|\s+[A-Z(])|[,;)]")


def _find_in_prose(label: Label, line: str, lower: str, start: int, end: int) -> Iterator[Finding]:
    """What people write: "password is …", "the token I used is …", "with password …", a passphrase in quotes."""
    if lower[start:end] == "pass" or (link := _LINK.match(lower, end)) is None:
        return  # "pass" is the verb
    value = read_value(line, link.end())
    if value is None or value[0] == value[1]:
        return
    begin, stop, quoted = value
    if link["bare"] and stop - begin < _LEAST_ALONE:
        return
    if not quoted and label is Label.PASSWORD and link["link"] and (rest := _passphrase_end(line, begin)):
        yield Finding(label.value, begin, rest)
    elif _is_prose_secret(label, line, value, link):
        yield Finding(label.value, begin, stop if quoted else complete_value(line, begin, stop))


def _is_prose_secret(label: Label, line: str, value: tuple[int, int, bool], link: re.Match[str]) -> bool:
    begin, end, quoted = value
    text = line[begin:end]
    if is_benign(text) or is_location(text) or (not quoted and is_placeholder_text(text)):
        return False
    if link["bare"]:
        return _is_secret_alone(label, text, quoted=quoted)
    if label is not Label.PASSWORD:
        return looks_random(text) or (quoted and is_passphrase(text))
    if quoted:
        return " " not in text or not is_benign_word(text.split()[0])
    # "the password is swordfish." is one, "reset the password to continue" and "the password is weak" are none.
    ends_clause = not link["link"].endswith("to") and _CLAUSE_END.match(line, end) is not None
    return is_mixed(text) or (text.isalpha() and len(text) >= 4 and ends_clause and not is_descriptive(text))


def _is_secret_alone(label: Label, text: str, *, quoted: bool) -> bool:
    """ "with password hunter2", "set secret_key …": nothing but a space between, so only what could be nothing else."""
    if label is not Label.PASSWORD:
        return len(text) >= 16 and looks_random(text) and not (text.islower() or text.isupper())
    if " " in text:
        return quoted and is_passphrase(text)
    return not is_resource_name(text) and (quoted or is_mixed(text, _LEAST_ALONE))
