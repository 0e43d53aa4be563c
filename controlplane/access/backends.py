"""Who may sign in by a password of ours."""

from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.http import HttpRequest
from typing_extensions import override

from controlplane.access.models import IdentityProvider, User


class LocalPasswordBackend(ModelBackend):
    """Django's password check, closed to members of an organization whose provider alone signs in.

    Sessions of every kind carry this backend's name: it also fetches the user of a session.
    """

    @override
    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **kwargs: Any
    ) -> User | None:
        """Return the person; ``None``, after the same work, for a wrong, deactivated or closed account alike."""
        user = super().authenticate(request, username=username, password=password, **kwargs)
        return user if isinstance(user, User) and passwords_allowed(user) else None


def passwords_allowed(user: User) -> bool:
    """Return whether a person may sign in by password: operators always, members unless their organization says no."""
    if user.organization_id is None:
        return True
    closed = IdentityProvider.objects.filter(organization_id=user.organization_id, enabled=True, password_sign_in=False)
    return not closed.exists()
