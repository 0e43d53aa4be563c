"""Is this value a credential? Judgements on a value alone: references, masks, benign words, random-looking strings."""

import base64
import binascii
import re
from itertools import pairwise

from controlplane.core.redaction.findings import MARKER_PATTERN

# What stands for a value without being one: ${NAME}, $NAME, $1, $(command), {{ template }}, {name}, <placeholder>,
# %(name)s, %NAME%, :name, @name, ?. Of names that are not all capitals only those that say what they name: "$ecret" is
# more likely a password.
_REFERENCE = re.compile(
    r"""\$\{\{.{0,200}?\}\} | \{\{.{0,200}?\}\} | \{%.{0,200}?%\} | \$?\$\{[A-Za-z_][\w.]{0,100}\} | \$\([^()]{0,400}\)
      | \$(?:env:)?(?:[A-Z_][A-Z0-9_]{0,100}|\d{1,2})(?![A-Za-z0-9_])
      | \$(?=[A-Za-z_]{0,60}(?:[Pp]ass|[Pp]wd?|[Ss]ecret|[Tt]oken|[Kk]ey|[Aa]uth|[Cc]red|[Uu]ser|[Nn]ame|[Vv]al|[Jj]wt))
        [A-Za-z_]{1,100}(?![A-Za-z0-9_])
      | <[^<>\n]{0,200}> | %\(\w{1,60}\)s | %[A-Za-z_]\w{0,60}% | %[sdvq](?!\w)
      | \{[A-Za-z_]?[\w.]{0,60}\} | \[[A-Za-z_ ]{0,60}\]""",
    re.VERBOSE,
)
_DEFAULTED = re.compile(r"\$\{[A-Za-z_]\w{0,100}:?[-=?+](?P<default>[^{}]*)\}")
_BIND_PARAMETER = re.compile(r"[:@][A-Za-z_]\w{0,60}|\?|[:@]\d{1,3}")
_SCHEMES = {"bearer", "basic", "token", "apikey", "digest", "splunk", "geniekey", "ssws", "key"}
_SECRET_STORE = re.compile(
    r"(?:vault|op|sm|ssm|env|file|gcpsm|awssm|secretref|ref\+\w{1,30}|keyvault|k8s)(?::|://)[\w./:@#-]{1,300}"
    r"|arn:[\w-]{1,20}:[\w.:/*-]{1,300}|projects/[\w-]{1,60}/secrets/[\w./-]{1,200}|!(?:Ref|Sub|GetAtt|ImportValue)\b.*",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"\(?(?:[A-Za-z_]{1,40}\.)+[A-Za-z_]{1,40}"  # config.password
    r"|\(?[A-Za-z_][A-Za-z_.]{0,60}[(\[].*"  # getpass(, os.environ[
    r"|[A-Z][A-Z_]{2,40}_[A-Z_]{1,40}"  # YOUR_API_KEY: all capitals, several words
    r"|(?:SecretStr|SecretBytes|Optional|String|Text|Literal|Union|List|Dict|Vec|Final|Any|Buffer)\b.*",
)
_PATH = re.compile(r"(?:~|\.{1,2})?(?:/[a-z0-9@%+,_.-]{0,60}){1,20}|[A-Za-z]:\\[\w\\. -]{1,200}")
_PLAIN_URL = re.compile(r"[a-z][a-z0-9+.-]{1,20}://[^\s@]*")
_MASK = re.compile(r"[*\u2022\u25cf]{3}|^[xX*#_.-]{3,}$|^\*+$|^.{0,6}(?:\.{3,}|\u2026)$")
_QUANTITY = re.compile(
    r"[-+]?\d[\d.,:_/-]*\s?[A-Za-z%]{0,3}|\d{4}-\d{2}-\d{2}[T ][\d:.]{4,15}(?:Z|[+-]\d{2}:?\d{2})?|v\d+(?:\.[\w-]+)+"
)
_WORDS = re.compile(r"[A-Za-z]{1,24}(?:[-_./: ]{1,2}[A-Za-z]{1,24})*")
_NAME = re.compile(r"[a-z0-9]+(?:[-._/:][a-z0-9]+)+")
_NOT_MADE = re.compile(r"[\s(){}\[\],;<>|\"'`]")
_CAMEL_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_VOWEL = re.compile(r"[aeiouyAEIOUY]|^[A-Z]+$")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_PLACEHOLDER_WORD = re.compile(
    r"(?i)(?:^|[-_. ])(?:your|changeme|change|replace|placeholder|example|dummy|insert|redacted|here|fixme|tbd)"
    r"(?:$|[-_. ])"
)
_PARTICIPLE = re.compile(r"[a-z]{2,20}(?:ed|ing|able|ible)")
_ADJECTIVE = re.compile(r"[a-z]{3,20}(?:ent|ant|al|ive|ous|ful|less|ly|ary|ory|ic|en|est)")
_PUNCTUATION = " \t\r\n.,;:!?\"'`()[]{}<>*_-"

_STATES = """
    true false yes no on off y n t f none null nil undefined empty blank unset set missing absent present required
    optional enabled disabled valid invalid expired rotated revoked unknown default hidden masked redacted removed
    filtered changed updated incorrect wrong correct bad good weak strong failed failure denied ok okay success
    error n/a na generated auto automatic manual static dynamic opaque encrypted hashed sensitive confidential
    private public internal external same different new old stale fresh current previous next first last
    unauthorized inactive active unavailable available todo tbd fixme changeme
"""
_KINDS = """
    string str text password passwd pass passphrase secret secrets token tokens key keys int integer number bool
    boolean bytes object array bearer basic digest negotiate ntlm user username env environment vault file prompt
    stdin oauth oauth2 oidc jwt saml ldap kerberos sso mtls tls rbac abac webhook plaintext auth authentication
    authorization credential credentials header headers scheme realm field value type name id count length size
    limit scram-sha-256 scram-sha-1 md5 sha1 sha256 sha512 bcrypt rsa aes hmac await
"""
_FUNCTION_WORDS = """
    not here there the a an in on at to for from by of and or as is are was were be been being it its this that
    these those your my our their must should can cannot may might will would has have had do does did if when while
    where which who because only also still now then again already just too very more less please see check use
    using via per with without before after than but so unless until however read write any all each every other
    another one two three both either neither back out up down over under
"""
BENIGN_WORDS = frozenset((_STATES + _KINDS + _FUNCTION_WORDS).split())


def is_reference(value: str) -> bool:
    """Whether `value` names a credential kept elsewhere (`${NAME}`, `{{ x }}`, `<token>`, `vault:path`) or is a marker.

    A default in `${NAME:-default}` is part of the value: it is judged like any other.
    """
    stripped = value.strip()
    if not stripped:
        return True
    if stripped.startswith("$(") or _BIND_PARAMETER.fullmatch(stripped) or _SECRET_STORE.fullmatch(stripped):
        return True
    if "$" in stripped and (match := _DEFAULTED.fullmatch(stripped)):
        return is_benign(match["default"])
    rest = MARKER_PATTERN.sub("", stripped)
    rest, count = _REFERENCE.subn("", rest)
    if rest == stripped:
        return False
    if count and "<" in stripped and is_wordy(re.sub(r"[_\W]+", "_", rest)):
        return True  # "osre_team_<id>_<secret>": the form of a value, not one
    return not [
        word for word in re.split(r"[\s:/@.,;&|=+\"'()\\\[\]-]+", rest) if word and word.lower() not in _SCHEMES
    ]


def is_masked(value: str) -> bool:
    """Whether someone has hidden the value already: `****`, `xxxx`, `abc…`."""
    return _MASK.search(value) is not None


def is_benign_word(value: str) -> bool:
    """Whether `value` is a state, a type or a participle ("expired", "string", "rotated"), nothing kept secret."""
    word = value.strip(_PUNCTUATION).lower()
    return not word or word in BENIGN_WORDS or _PARTICIPLE.fullmatch(word) is not None


def is_benign(value: str, *, listed: bool = False) -> bool:
    """Whether `value` is empty, a reference, masked, or a benign word (with `listed` a known one, no participle)."""
    if is_reference(value) or is_masked(value):
        return True
    return value.strip(_PUNCTUATION).lower() in BENIGN_WORDS if listed else is_benign_word(value)


def is_descriptive(word: str) -> bool:
    """Whether a lower-case word after "password is" describes the password rather than being it."""
    return is_benign_word(word) or _ADJECTIVE.fullmatch(word.lower()) is not None


def is_placeholder_text(value: str) -> bool:
    """Whether `value` is words that ask for a value (`your-token-here`) or names one in code (`config.token`)."""
    if _CODE.fullmatch(value):
        return not _case_is_random(value)
    return _PLACEHOLDER_WORD.search(value) is not None and _WORDS.fullmatch(value.strip(_PUNCTUATION)) is not None


def is_location(value: str) -> bool:
    """Whether `value` is a file path or a URL without user information."""
    return _PATH.fullmatch(value) is not None or _PLAIN_URL.fullmatch(value) is not None


def is_quantity(value: str) -> bool:
    """Whether `value` is a number, with or without a unit, a time or a version."""
    return _QUANTITY.fullmatch(value) is not None


def is_wordy(value: str) -> bool:
    """Whether `value` is made of words in ordinary case: `orders-db`, `InvalidToken`, `auth failed`."""
    return _WORDS.fullmatch(value.strip("_-.!? ")) is not None and not _case_is_random(value)


def is_resource_name(value: str) -> bool:
    """Whether `value` is shaped like a Kubernetes or host name: lower-case parts, mostly of letters only."""
    if _NAME.fullmatch(value) is None or _UUID.fullmatch(value):
        return False
    parts = re.split(r"[-._/:]", value)
    letters = sum(len(part) for part in parts if part.isalpha())
    longest = max((len(part) for part in parts if not part.isalpha()), default=0)
    return longest <= 16 and 2 * letters >= len(value) - len(parts) + 1


def looks_random(value: str) -> bool:
    """Whether `value` looks made by a machine: at least eight characters, letters with digits or in random case."""
    if len(value) < 8 or _NOT_MADE.search(value):
        return False
    if _UUID.fullmatch(value):
        return True
    if is_quantity(value) or is_resource_name(value) or is_location(value) or is_placeholder_text(value):
        return False
    letters = any(char.isalpha() for char in value)
    if letters and any(char.isdigit() for char in value):
        return True
    return letters and _case_is_random(value)


def is_mixed(value: str, least: int = 6) -> bool:
    """Whether `value` is at least `least` long and not a plain word: letters with digits or symbols, or random case."""
    if len(value) < least or is_quantity(value) or is_location(value) or is_placeholder_text(value):
        return False
    if not any(char.isalpha() for char in value):
        return False
    if any(char.isdigit() for char in value):
        return True
    return not is_wordy(value) and (re.search(r"[!@#$%^&*+=~?]", value) is not None or _case_is_random(value))


def is_passphrase(words: str) -> bool:
    """Whether `words` is three to eight bare lower-case words without those that a sentence has."""
    parts = words.split()
    return 3 <= len(parts) <= 8 and all(
        part.isalpha() and part.islower() and len(part) <= 16 and part not in BENIGN_WORDS for part in parts
    )


def is_basic_pair(value: str) -> bool:
    """Whether `value` is base64 of `user:password` (RFC 7617)."""
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    user, separator, password = decoded.partition(":")
    return bool(separator and password) and (user + password).isprintable()


def is_distinctive(value: str) -> bool:
    """Whether `value` is so particular that the same string elsewhere in the text is the same credential."""
    return 8 <= len(value) <= 1024 and looks_random(value) and MARKER_PATTERN.search(value) is None


def _case_is_random(value: str) -> bool:
    """Whether upper and lower case change more often than in camel case, or leave parts that are no syllables."""
    changes = sum(1 for left, right in pairwise(value) if left.islower() and right.isupper())
    if len(value) < 8 or changes < 2:
        return False
    if 5 * changes >= len(value):
        return True
    parts = _CAMEL_PARTS.findall(value)
    return 7 * len(parts) >= 2 * len(value) and any(_VOWEL.search(part) is None for part in parts if len(part) > 2)
