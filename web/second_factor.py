"""Between the password and the code: who has shown the first and not yet the second. Nobody is signed in meanwhile."""

import time
from dataclasses import dataclass
from typing import Final

from django.http import HttpRequest

from controlplane.access.accounts import Account, account_find
from controlplane.access.backends import passwords_allowed

_KEY: Final = "second_factor"
LIFETIME_S: Final = 300


@dataclass(frozen=True, slots=True)
class Pending:
    """Whose code is waited for, and where to go then."""

    user: Account
    next: str


def ask(request: HttpRequest, user: Account, *, next_path: str) -> None:
    """Note that ``user`` has shown the password; the session gets a new key and holds nothing else."""
    request.session.flush()
    request.session[_KEY] = {
        "user": str(user.pk),
        "password": user.get_session_auth_hash(),  # a password changed meanwhile makes this worthless
        "at": int(time.time()),
        "next": next_path,
    }


def pending(request: HttpRequest) -> Pending | None:
    """Return whose code this browser is asked for; ``None`` without one, an old one, or where passwords are closed."""
    noted = request.session.get(_KEY)
    if not isinstance(noted, dict) or time.time() - noted["at"] > LIFETIME_S:
        request.session.pop(_KEY, None)
        return None
    user = account_find(noted["user"])
    if user is None or user.get_session_auth_hash() != noted["password"] or not passwords_allowed(user):
        request.session.pop(_KEY, None)
        return None
    return Pending(user, noted["next"])
