"""The text of access tokens and what is stored of them.

A token reads ``osre_<kind>_<id>_<secret>_<crc32>``: the prefix lets secret scanners find it, the checksum lets a
mistyped one be refused without a query. Stored are the id and an HMAC-SHA256 under a numbered pepper that is not in the
database: a copy of the database alone verifies nothing. A secret of 256 random bits needs no slow hash (NIST SP
800-63B, section 5.1.1.2).
"""

import hashlib
import hmac
import re
import secrets
import string
import zlib
from dataclasses import dataclass, field
from typing import Final

from django.conf import settings

KINDS: Final = ("team", "admin", "user", "view")
ID_LENGTH: Final = 16
SECRET_LENGTH: Final = 43
_ALPHABET: Final = string.ascii_letters + string.digits
_PATTERN: Final = re.compile(
    rf"(osre_({'|'.join(KINDS)})_([0-9A-Za-z]{{{ID_LENGTH}}})_([0-9A-Za-z]{{{SECRET_LENGTH}}}))_([0-9a-f]{{8}})",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class TokenText:
    """The parts of a well-formed token."""

    kind: str
    public_id: str
    secret: str = field(repr=False)

    @property
    def plaintext(self) -> str:
        """The token as its holder presents it."""
        body = f"osre_{self.kind}_{self.public_id}_{self.secret}"
        return f"{body}_{_checksum(body)}"


def issue(kind: str) -> TokenText:
    """Return a new random token of ``kind`` (one of :data:`KINDS`)."""
    if kind not in KINDS:
        raise ValueError(f"a token's kind is one of {KINDS}")
    return TokenText(kind, random_text(ID_LENGTH), random_text(SECRET_LENGTH))


def parse(plaintext: str) -> TokenText | None:
    """Return the parts of a token, ``None`` for anything that is none, a wrong checksum included."""
    match = _PATTERN.fullmatch(plaintext)
    if match is None or not hmac.compare_digest(_checksum(match[1]), match[5]):
        return None
    return TokenText(kind=match[2], public_id=match[3], secret=match[4])


def token_digest(token: TokenText, pepper_version: int) -> str:
    """Return what is stored of ``token``: the HMAC (hexadecimal) of kind, id and secret under a pepper.

    Raises:
        KeyError: when ``TOKEN_PEPPERS`` has no such version.
    """
    return peppered(f"token:{token.kind}:{token.public_id}:{token.secret}", pepper_version)


def verify(token: TokenText, *, digest: str, pepper_version: int) -> bool:
    """Return whether ``digest`` is that of ``token``, in constant time; false when the pepper has been retired."""
    if pepper_version not in settings.TOKEN_PEPPERS:
        return False
    return hmac.compare_digest(token_digest(token, pepper_version), digest)


def verify_nothing(token: TokenText) -> None:
    """Spend the time of :func:`verify`: an unknown id must take as long as a wrong secret."""
    verify(token, digest="0" * 64, pepper_version=current_pepper())


def current_pepper() -> int:
    """Return the version of the pepper under which new secrets are stored."""
    return max(settings.TOKEN_PEPPERS)


def stale_text(token: TokenText, pepper_version: int) -> TokenText | None:
    """Return a verified token that is stored under an older pepper than the current one, ``None`` for any other."""
    return token if pepper_version < current_pepper() else None


def peppered(text: str, pepper_version: int) -> str:
    """Return the HMAC-SHA256 (hexadecimal) of ``text``, which begins with its use, such as ``link:``."""
    pepper: str = settings.TOKEN_PEPPERS[pepper_version]
    return hmac.new(pepper.encode(), text.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()


def random_text(length: int) -> str:
    """Return ``length`` random letters and digits: 5.95 bits each."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))


def _checksum(body: str) -> str:
    return f"{zlib.crc32(body.encode()):08x}"
