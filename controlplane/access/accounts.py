"""Accounts for the layers above, which do not import models: the type that services of accounts take, and its rows."""

from typing import TypeAlias
from uuid import UUID

from controlplane.access.models import User

#: A person's account, as sign-in and the page of one's own account hand it to services.
Account: TypeAlias = User


def account_of(user: object) -> Account | None:
    """Return the account of a request's ``user``; ``None`` for nobody."""
    return user if isinstance(user, User) else None


def account_find(account_id: UUID | str) -> Account | None:
    """Return an active account by its id."""
    return User.objects.filter(pk=account_id, is_active=True).first()
