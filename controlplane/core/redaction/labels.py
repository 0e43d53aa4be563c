"""Which names name a secret, and what counts as the secret under such a name."""

import re
from enum import Enum
from functools import lru_cache

from controlplane.core.redaction.values import (
    is_benign,
    is_location,
    is_placeholder_text,
    is_quantity,
    is_resource_name,
    is_wordy,
    looks_random,
)


class Label(Enum):
    """How sure a label alone makes us. The value is the rule's name."""

    # People choose them, so any value that is not plainly something else counts.
    PASSWORD = "password"  # noqa: S105 -- a rule's name
    # Machines make them; names of resources under such a label are common.
    SECRET = "labelled-secret"  # noqa: S105 -- a rule's name
    # "routing key", "service key": only a value that looks random counts.
    KEY = "labelled-key"


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
_PAIRS = ("pass word", "pass phrase", "connection string", "conn string", "conn str", "set cookie", "password hash")
_PAIRED = {tuple(pair.split()) for pair in _PAIRS}
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
    *("base", "current", "primary", "secondary", "binary", "text"),
}
MOST_LABEL = 100
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


_IDENTIFIER = re.compile(r"(?=.*(?:_|[a-z0-9][A-Z]))[A-Za-z_][A-Za-z0-9_]{0,40}(?:\.[A-Za-z_][A-Za-z0-9_]{0,40}){0,4}")


@lru_cache(maxsize=4096)
def _classify(label: str) -> Label | None:
    words = [word.lower() for word in _WORD.findall(label)]
    while len(words) > 1 and (words[-1].isdigit() or words[-1] in _TRAILING) and (words[-2], words[-1]) not in _PAIRED:
        words.pop()
    if not words:
        return None
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last.endswith(_PASSWORD_ENDINGS) or last in _PASSWORD_WORDS:
        return Label.PASSWORD
    if (before, last) in _PAIRED:
        return Label.PASSWORD if before == "pass" else Label.SECRET
    singular = last.removesuffix("s")
    if singular in _SECRET_WORDS or last.endswith(("authtoken", "apitoken", "apikey", "secretkey", "accesskey")):
        return None if before in _NOT_A_TOKEN and singular == "token" else Label.SECRET
    if singular == "key":
        return Label.SECRET if before in _STRONG_KEYS else Label.KEY if before in _WEAK_KEYS else None
    return None


def classify_label(label: str) -> Label | None:
    """What kind of secret the name `label` names, in snake, camel or kebab case; None for any other name."""
    return _classify(label) if len(label) <= MOST_LABEL else None


def is_secret_under(label: Label, value: str, *, strict: bool, quoted: bool) -> bool:
    """Whether `value` is the secret that `label` names.

    `strict` is for places where nothing but a value stands (environment, JSON member, flag), so that a chosen or
    short secret counts too; elsewhere (prose, YAML) it must look made by a machine. `quoted` rules out code.
    """
    least = 3 if label is Label.PASSWORD else 6 if strict else 8
    if len(value) < least or is_benign(value, listed=strict):
        return False
    if not strict and _IDENTIFIER.fullmatch(value) and classify_label(value):
        return False  # user_password, ChallengePassword, x509.PrivateKey: the name of a variable or a type
    if label is Label.PASSWORD:
        return _may_be_chosen(value, strict=strict, quoted=quoted)
    if label is Label.SECRET and strict:
        plain = is_wordy(value) or is_resource_name(value) or is_location(value) or is_placeholder_text(value)
        return not plain and not (is_quantity(value) and len(value) < 12)
    return looks_random(value) and not (label is Label.KEY and ":" in value)  # "user:1234:cart" is a key of a cache


def _may_be_chosen(value: str, *, strict: bool, quoted: bool) -> bool:
    """Whether `value` can be a password that someone chose: anything but a path or code."""
    if is_location(value) or not (len(value) > 5 or any(char.isalnum() for char in value)):
        return False
    if not quoted and is_placeholder_text(value):
        return False
    return strict or quoted or not (is_quantity(value) and len(value) < 6)
