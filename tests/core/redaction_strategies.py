"""Hypothesis strategies: texts made of what the rules look for, and JSON documents around them."""

from hypothesis import strategies as st

from tests.core.redaction_samples import ALNUM, DASHES

_WORDS = [
    *(
        "password",
        "DB_PASSWORD",
        "token",
        "secret",
        "apiKey",
        "api key",
        "Authorization",
        "Cookie",
        "Set-Cookie",
        "kind",
    ),
    *("Secret", "data", "stringData", "apiVersion", "v1", "name", "value", "passphrase", "client-key-data", "curl -u "),
    *(
        "user:",
        "--password ",
        "Bearer ",
        "Basic ",
        " is ",
        " was ",
        " for alice is ",
        "expired",
        "swordfish",
        "${X}",
        "<x>",
    ),
    *(
        "[redacted:password]",
        "[redacted:x]",
        "a,b;c&d",
        "QUJDREVG",
        "****",
        "hooks.slack.com/services/",
        "login ",
        "osre_team_",
    ),
]
_MARKS = [
    *(
        "=",
        ":",
        ": ",
        " ",
        "  ",
        "\t",
        '"',
        "'",
        "`",
        '\\"',
        "\\n",
        "\\",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        ",",
        ";",
        "&",
        "|",
    ),
    *("*", "<", ">", "/", "@", "://", "postgres://u:", "?sig=", "é", "\u0130", "\u00a0", "\r\n", "\r"),
]
_LINES = [
    *("\n", "\n  ", "\n    ", "\n- ", "\n---\n", "apiVersion: v1\n", "kind: Secret\n", "kind: ConfigMap\n", "data:\n"),
    *("  a: QUJD\n", "  b: QUJDREVGR0g=\n", "stringData:\n", ": |\n", "password: |\n  ", "password:\n", "MIIE\n"),
    *('"kind":"Secret",', '"data":{"a":"QUJD"},', '"apiVersion":"v1",', f"{DASHES}BEGIN PRIVATE KEY{DASHES}"),
    *(
        f"{DASHES}END PRIVATE KEY{DASHES}",
        f"{DASHES}BEGIN RSA PRIVATE KEY{DASHES}\n",
        "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC",
    ),
]


def _values() -> st.SearchStrategy[str]:
    alphanumeric = st.text(ALNUM, min_size=6, max_size=40)
    prefixed = st.builds("".join, st.tuples(st.sampled_from(["ghp_", "AKIA", "eyJ", "sk-", "hvs."]), alphanumeric))
    return st.one_of(alphanumeric, prefixed, st.text(ALNUM + "/+=!@#(),;", min_size=6, max_size=24))


def texts() -> st.SearchStrategy[str]:
    """Texts in which labels, quotes, values, markers and line breaks meet in every order."""
    part = st.one_of(st.sampled_from(_WORDS), st.sampled_from(_MARKS), st.sampled_from(_LINES), _values())
    return st.lists(part, max_size=30).map("".join)


def documents() -> st.SearchStrategy[object]:
    """JSON documents with telling keys."""
    keys = st.one_of(st.sampled_from(_WORDS), st.text(max_size=4))
    leaves = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts())
    return st.recursive(
        leaves,
        lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(keys, inner, max_size=5)),
        max_leaves=12,
    )
