"""Credentials in HTTP and URLs: authorization headers, cookies, user information, authenticated links."""

import re
from collections.abc import Iterator

from controlplane.core.redaction.findings import Finding
from controlplane.core.redaction.values import (
    is_basic_pair,
    is_benign,
    is_benign_word,
    is_mixed,
    is_placeholder_text,
    is_quantity,
    is_reference,
    is_wordy,
    looks_random,
)

# Everything up to the end of the header: the quote that closes it, an escaped line break, or the end of the line.
_REST = r"""(?:[^"'\\\n]|\\(?![nrtu"'\\]))"""

_AUTHORIZATION = re.compile(
    r"""authorization(?:\\{0,7}["'\]]|\*\*)?\s{0,8}(?:=>|[:=])\s{0,8}(?:\*\*\s)?(?:\\{0,7}["'\[]){0,2}
        (?P<first>[^\s"'`\\,;]{1,8192}+)(?:[ \t]{1,4}(?P<second>[^\s"'`\\,;]{1,65536}+))?""",
    re.VERBOSE,
)
_HEADER_REST = re.compile(_REST + "*+")
# Schemes of one credential, and schemes whose parameters carry signature and key (RFC 7616, AWS SigV4).
_ONE = {
    "bearer",
    "basic",
    "token",
    "apikey",
    "api-key",
    "splunk",
    "geniekey",
    "ssws",
    "negotiate",
    "ntlm",
    "key",
    "bot",
    "dpop",
}
_MANY = {"digest", "aws4-hmac-sha256", "oauth", "hmac", "signature", "sharedkey", "sharedkeylite", "hmac-sha256"}


def find_authorization(line: str, lower: str) -> Iterator[Finding]:
    """`Authorization: Bearer …` and every other scheme, in header, JSON, flag or environment form (RFC 9110 §11.6)."""
    for match in _AUTHORIZATION.finditer(lower):
        scheme, first = match["first"], line[match.start("first") : match.end("first")]
        credential = line[match.start("second") : match.end("second")] if match["second"] else ""
        if scheme in _MANY and credential:
            rest = _HEADER_REST.match(line, match.start("second"))
            if rest and not is_reference(rest.group()):
                yield Finding("authorization-header", rest.start(), rest.start() + len(rest.group().rstrip()))
        elif scheme in _ONE and credential:
            if not is_benign(credential) and not is_placeholder_text(credential) and "realm=" not in credential:
                yield Finding("authorization-header", match.start("second"), match.end("second"))
        elif not is_benign(first) and looks_random(first):
            yield Finding("authorization-header", match.start("first"), match.end("first"))


_BASIC = re.compile(r"basic[ \t]{1,4}(?P<v>[a-z0-9+/]{8,}+={0,2})")
_REGISTRY_AUTH = re.compile(r"""auth(?:\\{0,7}["'])?\s{0,4}[:=]\s{0,4}(?:\\{0,7}["'])?(?P<v>[a-z0-9+/]{8,}+={0,2})""")


def find_basic(line: str, lower: str) -> Iterator[Finding]:
    """`Basic <base64 of user:password>` without its header, and the `auth` member of registry configurations."""
    for pattern in (_BASIC, _REGISTRY_AUTH):
        for match in pattern.finditer(lower):
            before = lower[match.start() - 1 : match.start()]
            if not before.isalnum() and is_basic_pair(line[match.start("v") : match.end("v")]):
                yield Finding("basic-auth", match.start("v"), match.end("v"))


_COOKIE = re.compile(
    r"""cookies?(?:\\{0,7}["'\]]|\*\*)?(?:\s{0,8}(?:=>|[:=])\s{0,8}|[ ](?=["']))(?:\\{0,7}["'\[]){0,2}
        (?P<v>[a-z0-9_.$\-]{1,80}+=(?:[^"'\\\n]|\\(?![nrtu"'\\]))*+)""",
    re.VERBOSE,
)
_SESSION_NAME = re.compile(r"sess|sid$|auth|token|jwt|csrf|xsrf|remember|login|ticket", re.IGNORECASE)


def find_cookies(line: str, lower: str) -> Iterator[Finding]:
    """`Cookie: …` as a whole and the value of `Set-Cookie: name=value; …` (RFC 6265), when a value is a credential."""
    for match in _COOKIE.finditer(lower):
        start, end = match.span("v")
        pairs = line[start:end].split(";")
        if lower.endswith("set-", 0, match.start()):
            name, _, value = pairs[0].partition("=")
            if is_session_cookie(name, value):
                yield Finding("cookie", start + len(name) + 1, start + len(pairs[0]))
        elif any(is_session_cookie(*pair.strip().partition("=")[::2]) for pair in pairs):
            yield Finding("cookie", start, start + len(line[start:end].rstrip()))


def is_session_cookie(name: str, value: str) -> bool:
    """Whether the cookie `name` with `value` can be a credential: by its name, or by a random-looking value."""
    value = value.strip()
    if not value or is_benign(value):
        return False
    if _SESSION_NAME.search(name):
        return len(value) >= 4 and not is_wordy(value)
    return len(value) >= 12 and looks_random(value)


_USERINFO = re.compile(
    r"""(?<=:)(?:\\?/){2}(?P<user>[^\s:/?\#@"'<>\\]{0,256}+)(?::(?P<v>[^\s/?\#"'<>\\]*+(?<!:)))?""",
    re.VERBOSE,
)
# A password that was not percent-encoded may hold "/", "?" or "#".
_RAW_USERINFO = re.compile(r"""[^\s"'<>\\@]{1,256}+@(?=[A-Za-z0-9\[])""")
_PORT = re.compile(r"\d{1,5}(?:[/?#,;)\]]|$)")
_JDBC_ORACLE = re.compile(r"jdbc:oracle:\w{1,10}:[^\s/@:]{1,80}/(?P<v>[^\s@\"']{1,256})@", re.IGNORECASE)


def find_userinfo(line: str, _lower: str) -> Iterator[Finding]:
    """`scheme://user:password@host` (RFC 3986 §3.2.1), also without user (`redis://:…@`), and a token as user."""
    if "@" not in line:
        return
    for match in _USERINFO.finditer(line):
        if match["v"] is None:
            yield from _find_token_user(line, match)
            continue
        start, password = match.start("v"), match["v"]
        if "@" in password:
            password = password[: password.rindex("@")]
        elif _PORT.match(line, start):
            continue
        elif raw := _RAW_USERINFO.match(line, start):
            password = raw.group()[:-1]
        else:
            continue
        if password and not is_reference(password) and not _is_documentation(match["user"], password):
            yield Finding("url-password", start, start + len(password))
    for match in _JDBC_ORACLE.finditer(line):
        if not is_benign(match["v"]):
            yield Finding("url-password", match.start("v"), match.end("v"))


def _is_documentation(user: str, password: str) -> bool:
    """`user:password@`, `username:***@`: an example of the form, not a password."""
    named = is_benign_word(password) and (is_benign_word(user) or password.isupper())
    return named or set(password) <= set("*xX.")


def _find_token_user(line: str, match: re.Match[str]) -> Iterator[Finding]:
    user = match["user"]
    if line[match.end() : match.end() + 1] != "@" or len(user) < 16:
        return
    if looks_random(user) and not is_quantity(user):
        yield Finding("url-token", match.start("user"), match.end("user"))


_CREDENTIAL_PAIR = re.compile(
    r"""(?<![a-z])(?:cred(?:ential)?s?|login|user(?:name)?/pass(?:word)?)
        (?:[ ](?:is|are|for[ ]\S{1,40}))?[ ]?[:=]?[ \t]{1,4}
        (?P<user>[\w.@-]{1,60}+)[ ]?[:/][ ]?(?P<v>[^\s"'`,;/]{6,128}+)(?![/\w])""",
    re.VERBOSE,
)


def find_credential_pairs(line: str, lower: str) -> Iterator[Finding]:
    """ "creds are admin / …", "login: admin:…"."""
    for match in _CREDENTIAL_PAIR.finditer(lower):
        value = line[match.start("v") : match.end("v")].rstrip(".)")
        if is_mixed(value, 8) and not is_benign(value):
            yield Finding("password", match.start("v"), match.start("v") + len(value))
