"""Codes of an authenticator app (TOTP, RFC 6238) and recovery codes: making, storing, comparing.

A secret must be readable to compare a code with, so it is stored encrypted (Fernet) under a key made from a numbered
pepper, which is not in the database. Recovery codes are stored as digests, like tokens.
"""

import base64
import secrets
from typing import Final

import pyotp
import segno
from cryptography.fernet import Fernet, InvalidToken
from django.conf import settings

from controlplane.access import tokens

ISSUER: Final = "OpenSRE"
STEP_S: Final = 30
#: A code of the step before and after is taken too: clocks differ, and people type slowly (RFC 6238, section 5.2).
DRIFT: Final = (0, -1, 1)
RECOVERY_CODES: Final = 10
_READABLE: Final = "abcdefghjkmnpqrstuvwxyz23456789"


class SecretUnreadable(Exception):
    """The pepper under which a secret was stored has been removed."""


def new_secret() -> str:
    """Return a secret of 160 bits, as RFC 4226 asks for in section 4, in base32."""
    return pyotp.random_base32()


def seal(secret: str) -> tuple[str, int]:
    """Return a secret encrypted, and the version of the pepper it was done with."""
    version = tokens.current_pepper()
    return _fernet(version).encrypt(secret.encode()).decode(), version


def unseal(sealed: str, version: int) -> str:
    """Return the secret of :func:`seal`.

    Raises:
        SecretUnreadable: the pepper is gone, or the row was changed.
    """
    if version not in settings.TOKEN_PEPPERS:
        raise SecretUnreadable
    try:
        return _fernet(version).decrypt(sealed.encode()).decode()
    except InvalidToken:
        raise SecretUnreadable from None


def matching_step(secret: str, code: str, now: float) -> int | None:
    """Return the time step whose code this is, ``None`` for none near ``now``. Constant time for each step."""
    digits = "".join(code.split())
    if not (digits.isascii() and digits.isdigit() and len(digits) == 6):
        return None
    step = int(now // STEP_S)
    totp = pyotp.TOTP(secret)
    matches = [step + drift for drift in DRIFT if secrets.compare_digest(totp.generate_otp(step + drift), digits)]
    return matches[0] if matches else None


def provisioning_uri(secret: str, username: str) -> str:
    """Return the ``otpauth://`` URI that authenticator apps read."""
    return pyotp.TOTP(secret).provisioning_uri(name=username, issuer_name=ISSUER)


def qr_image(text: str) -> str:
    """Return ``text`` as a QR code: a ``data:`` URI of an SVG, black on white whatever the page's colours."""
    return segno.make(text, error="m").svg_data_uri(scale=5, border=3, dark="#000", light="#fff")


def readable_secret(secret: str) -> str:
    """Return a secret in groups of four, for typing it in."""
    return " ".join(secret[start : start + 4] for start in range(0, len(secret), 4))


def new_recovery_code() -> str:
    """Return a random code of 49 bits, such as ``k3vpm-92xqt``."""
    return "-".join("".join(secrets.choice(_READABLE) for _ in range(5)) for _ in range(2))


def recovery_digest(user_id: object, code: str, version: int) -> str:
    """Return what is stored of a recovery code; blanks, hyphens and capitals do not matter."""
    text = "".join(character for character in code.lower() if character in _READABLE)
    return tokens.peppered(f"recovery:{user_id}:{text}", version)


def _fernet(version: int) -> Fernet:
    key = bytes.fromhex(tokens.peppered("key:totp", version))
    return Fernet(base64.urlsafe_b64encode(key))
