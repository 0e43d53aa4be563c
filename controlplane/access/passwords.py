"""The rules of a password, and how one is made for somebody."""

import secrets
from typing import Final

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError

from controlplane.access.models import User
from controlplane.core.errors import invalid

#: Without the letters and digits that people mix up when they read them out.
_READABLE: Final = "abcdefghjkmnpqrstuvwxyz23456789"


def clean_password(password: str, user: User, *, pointer: str = "/password") -> str:
    """Return a password that keeps ``AUTH_PASSWORD_VALIDATORS``.

    Raises:
        InvalidInput: ``password``, naming the rules; the password is never quoted.
    """
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise invalid(pointer, "password", " ".join(error.messages)) from None
    return password


def new_password() -> str:
    """Return a random password of 99 bits that can be read out: four groups of five."""
    return "-".join("".join(secrets.choice(_READABLE) for _ in range(5)) for _ in range(4))
