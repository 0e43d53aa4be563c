"""Values that a label gives away: `DB_PASSWORD=…`, `"apiKey": "…"`, `--token …`, "the password for alice is …"."""

import re
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache

from controlplane.core.redaction.findings import Finding
from controlplane.core.redaction.values import (
    is_benign,
    is_benign_word,
    is_descriptive,
    is_location,
    is_mixed,
    is_passphrase,
    is_placeholder_text,
    is_quantity,
    is_resource_name,
    is_wordy,
    looks_random,
)


class Label(Enum):
    """How sure a label alone makes us. The value is the rule's name."""

    PASSWORD = "password"  # people choose them, so any value that is not plainly something else counts
    SECRET = "labelled-secret"  # machines make them; resource names under such a label are common
    KEY = "labelled-key"  # "routing key", "service key": only a random-looking value counts


_PASSWORD_ENDINGS = ("password", "passwd", "passphrase", "passcode", "passwort", "pwd")
_PASSWORD_WORDS = {"pass", "pw", "psw", "storepass", "keypass", "dbpass", "sshpass", "userpass", "pgpass", "smtppass"}
_SECRET_WORDS = {
    *("secret", "token", "credential", "apikey", "accesskey", "secretkey", "privatekey", "authtoken", "accesstoken"),
    *("refreshtoken", "bearer", "jwt", "authkey", "clientsecret", "connectionstring", "cookie", "authorization"),
    *("accountkey", "sharedaccesskey", "signingkey", "encryptionkey", "sessiontoken", "securitytoken"),
}
_STRONG_KEYS = {"api", "access", "secret", "private", "encryption", "signing", "master", "auth", "hmac", "deploy"}
_WEAK_KEYS = {
    *("account", "app", "application", "service", "storage", "client", "consumer", "license", "licence", "ingest"),
    *("ingestion", "integration", "routing", "webhook", "subscription", "admin", "root", "session", "shared", "server"),
    *("datadog", "dd", "pagerduty", "openai", "anthropic", "stripe", "sendgrid", "newrelic", "relic", "grafana"),
    *("splunk", "azure", "function", "host", "tls", "ssl", "ssh", "rsa", "aes", "pgp", "gpg", "kms", "events", "write"),
}
_PAIRED = {("connection", "string"), ("conn", "str"), ("conn", "string"), ("set", "cookie"), ("password", "hash")}
# "next page token", "token" of a language model: a position or a count, not a credential.
_NOT_A_TOKEN = {
    *("page", "next", "previous", "prev", "continuation", "continue", "cursor", "cancellation", "cancel", "eos", "bos"),
    *("pad", "unk", "mask", "stop", "start", "fencing", "design", "num", "max", "min", "total", "prompt", "completion"),
    *(
        "input",
        "output",
        "cached",
        "per",
        "sync",
        "watch",
        "scroll",
        "sampling",
        "of",
        "n",
        "is",
        "has",
        "no",
        "resume",
    ),
}
# Words after the noun that leave the meaning: token_value, client_key_data, password_old, secret_2.
_TRAILING = {
    *("value", "val", "string", "plain", "plaintext", "raw", "base64", "b64", "data", "pem", "old", "new", "previous"),
    *("current", "primary", "secondary", "binary", "text"),
}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_NOUN = re.compile(r"pass|pwd|pw|secret|token|key|auth|cred|bearer|jwt|cookie|conn|psw", re.IGNORECASE)


@lru_cache(maxsize=4096)
def _classify(label: str) -> Label | None:
    words = [word.lower() for word in _WORD.findall(label)]
    while len(words) > 1 and (words[-1].isdigit() or words[-1] in _TRAILING):
        words.pop()
    if not words:
        return None
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last.endswith(_PASSWORD_ENDINGS) or last in _PASSWORD_WORDS:
        return Label.PASSWORD
    pair = (before, last)
    if pair in _PAIRED or pair == ("pass", "word") or pair == ("pass", "phrase"):
        return Label.PASSWORD if before == "pass" else Label.SECRET
    singular = last[:-1] if last.endswith("s") else last
    if singular in _SECRET_WORDS or last.endswith(("authtoken", "apitoken", "apikey", "secretkey", "accesskey")):
        return None if before in _NOT_A_TOKEN and singular == "token" else Label.SECRET
    if singular == "key":
        return Label.SECRET if before in _STRONG_KEYS else Label.KEY if before in _WEAK_KEYS else None
    return None


def classify_label(label: str) -> Label | None:
    """What kind of secret the name `label` names, in snake, camel or kebab case; None for any other name."""
    if len(label) > 100 or _NOUN.search(label) is None:
        return None
    return _classify(label)


def is_secret_under(label: Label, value: str, *, strict: bool, quoted: bool) -> bool:
    """Whether `value` is the secret that `label` names.

    `strict` is for places where nothing but a value stands (environment, JSON member, flag), so that a chosen or
    short secret counts too; elsewhere (prose, YAML) it must look made by a machine. `quoted` rules out code.
    """
    if is_benign(value):
        return False
    if label is Label.PASSWORD:
        if len(value) < 3 or is_location(value) or not (len(value) > 5 or any(char.isalnum() for char in value)):
            return False
        if not quoted and is_placeholder_text(value):
            return False
        if not strict and ("_" in value or not value.islower()) and is_wordy(value) and classify_label(value) is label:
            return False  # user_password, ChallengePassword: a variable of that name
        return strict or quoted or not (is_quantity(value) and len(value) < 6)
    if label is Label.SECRET and strict:
        plain = is_wordy(value) or is_resource_name(value) or is_location(value) or is_placeholder_text(value)
        return len(value) >= 6 and not plain and not (is_quantity(value) and len(value) < 12)
    return looks_random(value)


# An unquoted value: up to white space or a quote. A comma, semicolon or ampersand ends it where another pair or nothing
# follows, an escaped line break (the text is inside a JSON string) always does.
BARE = r"""(?:[^\s"'`<>\\,;&]|[,;&](?![\s"'\\]|$|[A-Za-z_][\w.\ -]{0,60}[=:])|\\(?![nrtu"'\\/]))+"""
# A quoted value: in plain quotes a backslash escapes; in escaped quotes (a string inside a string) the same escape ends it.
_QUOTED = re.compile(
    r"""(?P<quote>["'`])(?P<text>(?:(?!(?P=quote))[^\\]|\\.)*+)(?P=quote)
      | (?P<escaped>\\{1,15}["'])(?P<inner>(?:(?!(?<!\\)(?P=escaped)).)*+)(?P=escaped)""",
    re.VERBOSE,
)
_OPENING_QUOTE = re.compile(r"""\\{0,15}["'`]""")
_CLOSED_BEFORE = re.compile(r"[,;.:)\]}|]*(?:\s|$)")
_MOST_UNCLOSED = 256
_BARE = re.compile(BARE)

_FIELD = re.compile(
    r"""(?<![A-Za-z0-9_.\-])(?P<label>[A-Za-z0-9_.\-]{1,100}+)(?P<close>\\{0,7}["'`\]]{1,3}|\*{1,2}|)
        [ \t]{0,16}(?P<sep>[=-]>|:=|:{1,2}|={1,2}|>(?=[^\s<>]))(?P<gap>[ \t\u00a0]{0,64}(?:\*\*[ ]?|__[ ]?)?)""",
    re.VERBOSE,
)
_BEFORE_KEY = re.compile(r"([A-Za-z]{2,20})[ \t]{1,3}$")
_ENVIRONMENT = re.compile(r"[A-Z][A-Z0-9_]*")
_TRAILING_PUNCTUATION = ".,;:?*|"
_CLOSERS = {")": "(", "]": "[", "}": "{"}


def trim_bare(value: str) -> str:
    """`value` without the punctuation of the sentence or bracket it stands in."""
    while value:
        last = value[-1]
        if MARKERISH.search(value):
            return value
        if last in _TRAILING_PUNCTUATION or (last in _CLOSERS and value.count(_CLOSERS[last]) < value.count(last)):
            value = value[:-1]
        else:
            return value
    return value


MARKERISH = re.compile(r"\[redacted:[a-z-]{1,40}\]$")


def read_value(line: str, position: int, *, adjoining: bool = False) -> tuple[int, int, bool] | None:
    """The value that starts at `position`: `(start, end, quoted)`, or None where nothing stands.

    A quote that is not closed reaches to the end of the line, if that is near: a cut-off value is still one.
    `adjoining`: a quote here touches the label, and may close what the label stands in ("'New password:' is shown").
    """
    if match := _QUOTED.match(line, position):
        group = "text" if match["quote"] else "inner"
        if adjoining and _CLOSED_BEFORE.match(match[group]):
            return None
        return match.start(group), match.end(group), True
    if match := _OPENING_QUOTE.match(line, position):
        position = match.end()
        if adjoining and _CLOSED_BEFORE.match(line, position):
            return None
        if len(line) - position <= _MOST_UNCLOSED:
            return position, len(line), True
    if match := _BARE.match(line, position):
        return match.start(), match.start() + len(trim_bare(match.group())), False
    return None


def find_fields(line: str) -> Iterator[Finding]:
    """`label = value`, `label: value` and their kin, with the label quoted, escaped or bare."""
    for match in _FIELD.finditer(line):
        label = field_label(line, match["label"], match.start())
        if label is None or not _separates(line, match):
            continue
        adjoining = not match["close"] and not match["gap"]
        if (value := read_value(line, match.end(), adjoining=adjoining)) is not None:
            yield from _judge_field(line, match, label, value)
    if line.lstrip().startswith("|"):
        yield from _find_in_row(line)


def _separates(line: str, match: re.Match[str]) -> bool:
    """Whether what looks like a separator is one: ">" only after "<label", "]:" not after a selector "[type=label]"."""
    before = line[max(0, match.start() - 2) : match.start()]
    if match["sep"].strip() == ">":
        return before[-1:] in ("<", ":") and before != "P<"
    return not (match["close"] == "]" and before[-1:] == "=")


def _judge_field(line: str, match: re.Match[str], label: Label, value: tuple[int, int, bool]) -> Iterator[Finding]:
    begin, end, quoted = value
    member = '"' in match["close"] and quoted
    environment = match["sep"] == "=" and _ENVIRONMENT.fullmatch(match["label"].strip("-.")) is not None
    if not (quoted or member or environment):
        if match["sep"] != "=" and _starts_sentence(line[begin:end], line[end : end + 2]):
            if label is Label.PASSWORD and is_passphrase(rest := line[begin:].rstrip(" \t\r.")):
                yield Finding(label.value, begin, begin + len(rest))
            return
        if '"' in match["close"] and is_wordy(line[begin:end]):
            return  # a bare word beside a quoted key is a variable
        begin, end = _without_code(line, begin, end, label)
    if is_secret_under(label, line[begin:end], strict=member or environment, quoted=quoted):
        yield Finding(label.value, begin, end)


_MACHINE_MADE = re.compile(r"[(\[{]?(?P<v>[^()\[\]{}]+)")


def _without_code(line: str, begin: int, end: int, label: Label) -> tuple[int, int]:
    """Cut a bare value where it turns into code: at a bracket (machines make none), after `null,`."""
    if label is not Label.PASSWORD and (match := _MACHINE_MADE.match(line, begin, end)):
        begin, end = match.span("v")
    head = re.split(r"[,;]", line[begin:end], maxsplit=1)[0]
    return (begin, begin + len(head)) if is_benign_word(head) else (begin, end)


def field_label(line: str, name: str, start: int) -> Label | None:
    """What the name at `line[start:]` names, with the word before it where it says little alone ("api key:")."""
    if start and line[start - 1] == "\\" and name[0] in "nrt":
        name = name[1:]  # an escaped line break before the label
    if name.lower() in ("key", "keys", "secret", "token") and (
        before := _BEFORE_KEY.search(line[max(0, start - 24) : start])
    ):
        return classify_label(f"{before[1]}_{name}")
    if name.lower() == "authorization":
        return None  # the header rules know its schemes
    return classify_label(name)


def _starts_sentence(word: str, following: str) -> bool:
    """Whether `word` is followed by more words, so that the colon opened a sentence ("password: must contain …")."""
    return len(following) == 2 and following[0] in " \t" and following[1].isalpha() and word.isalpha()


def _find_in_row(line: str) -> Iterator[Finding]:
    """`| password | value |`: the cell after the label's cell."""
    position = 0
    cells: list[tuple[int, int]] = []
    for cell in line.split("|"):
        left = position + len(cell) - len(cell.lstrip())
        cells.append((left, max(left, position + len(cell.rstrip()))))
        position += len(cell) + 1
    for (left, right), (begin, end) in zip(cells, cells[1:], strict=False):
        label = classify_label(line[left:right].strip("`*").replace(" ", "_"))
        value = line[begin:end].strip("`*")
        if label and value and " " not in value and is_secret_under(label, value, strict=False, quoted=False):
            begin += line[begin:end].index(value)
            yield Finding(label.value, begin, begin + len(value))


_FLAG = re.compile(r"(?<![\w-])--?(?P<label>[A-Za-z][A-Za-z0-9_.-]{1,60}+)[ \t]{1,4}(?![-=|>])")


def find_flags(line: str) -> Iterator[Finding]:
    """`--password value`, `--api-key "value"`."""
    for match in _FLAG.finditer(line):
        label = classify_label(match["label"])
        if label and (value := read_value(line, match.end())):
            begin, end, quoted = value
            text = line[begin:end]
            sentence = not quoted and _starts_sentence(text, line[end : end + 2]) and is_descriptive(text)
            if not sentence and is_secret_under(label, text, strict=True, quoted=quoted):
                yield Finding(label.value, begin, end)


_PAIR = re.compile(
    r"""(?<![A-Za-z])(?:name|key|variable|parameterkey)(?:\\{0,7}["'])?[ \t]{0,4}[:=][ \t]{0,4}\\{0,7}["']?(?P<label>[A-Za-z0-9_.\-]{2,100}+)
        \\{0,7}["']?[ \t]{0,4}(?:,[ \t]{0,8}|[ \t]{1,8})(?:\\{0,7}["'])?(?:parameter)?value(?:\\{0,7}["'])?[ \t]{0,4}[:=][ \t]{0,4}""",
    re.VERBOSE | re.IGNORECASE,
)


def find_pairs(line: str) -> Iterator[Finding]:
    """`{"name": "DB_PASSWORD", "value": "…"}` on one line, and the attribute form of it."""
    for match in _PAIR.finditer(line):
        label = classify_label(match["label"])
        if label and (value := read_value(line, match.end())):
            begin, end, quoted = value
            if is_secret_under(label, line[begin:end], strict=True, quoted=quoted):
                yield Finding(label.value, begin, end)


_PROSE = re.compile(
    r"""(?<![A-Za-z0-9_\-])(?P<label>pass(?:word|phrase|code|wd)s?|pass[ ](?:word|phrase)|pwd|pw|secret|token|credentials?
          |(?:[a-z]{2,16}[ _-])?key|apikey)(?![A-Za-z0-9_])
        (?P<filler>[ \t]+(?:for|of|to|on|at|in|from|i|we|you|they|he|she|that|which)(?:[ \t]+[\w@./'-]{1,60}+){1,6}?)?
        (?:(?P<link>[ \t\u00a0]+(?:is|was|are|were|will[ ]be|became|has[ ]been|equals)
              (?:[ ](?:now|still|currently|just|set[ ]to|changed[ ]to|reset[ ]to))?[ \t\u00a0]*[:=]?
            |[ \t]+(?:(?:set|changed|reset|rotated|updated)[ ])?to
            |[ \t]*[:=])(?P<gap>[ \t\u00a0]+(?:\*\*|__)?)
          |(?P<bare>[ \t]+))""",
    re.VERBOSE | re.IGNORECASE,
)


def find_in_prose(line: str) -> Iterator[Finding]:
    """What people write: "password is …", "the token I used is …", "with password …", a passphrase in quotes."""
    for match in _PROSE.finditer(line):
        label = classify_label(match["label"].replace(" ", "_").replace("-", "_"))
        if label is None:
            continue
        value = read_value(line, match.end())
        if value is None or value[0] == value[1]:
            continue
        begin, end, quoted = value
        if _is_prose_secret(label, line, begin, end, quoted, match):
            if not quoted and label is Label.PASSWORD and is_passphrase(rest := line[begin:].rstrip(" \t\r.")):
                end = begin + len(rest)
            yield Finding(label.value, begin, end)


def _is_prose_secret(label: Label, line: str, begin: int, end: int, quoted: bool, match: re.Match[str]) -> bool:
    text = line[begin:end]
    if is_benign(text) or is_location(text) or (not quoted and is_placeholder_text(text)):
        return False
    link = (match["link"] or "").strip()
    if link in (":", "=") and not match["filler"]:
        return False  # a field, already judged as one
    if match["bare"]:  # "with password hunter2": only what could be nothing else
        return (
            label is Label.PASSWORD and " " not in text and (quoted or is_mixed(text, 8)) and not is_resource_name(text)
        )
    if label is not Label.PASSWORD:
        return looks_random(text) or (quoted and is_passphrase(text))
    if quoted:
        return " " not in text or not is_benign_word(text.split()[0])
    if is_mixed(text):
        return True
    if link.endswith("to"):
        return False  # "reset the password to continue"
    if is_passphrase(line[begin:].rstrip(" \t\r.")):
        return True
    ends_clause = re.match(r"[.!?,;)]?(?:\s*$|\s+[A-Z(])|[,;)]", line[end : end + 4]) is not None
    return text.isalpha() and len(text) >= 4 and ends_clause and not is_descriptive(text)
