"""Passwords of local accounts."""

from django.contrib.auth.hashers import make_password
from django.db import transaction

from controlplane.access.lockout import locks_lift
from controlplane.access.models import User
from controlplane.access.passwords import clean_password
from controlplane.access.selectors import signed_in_by_link
from controlplane.access.services.people import audit_account
from controlplane.access.services.sessions import sessions_end
from controlplane.core.actor import Actor
from controlplane.core.errors import Conflict, PermissionDenied, invalid


@transaction.atomic
def password_change(*, actor: Actor, user: User, current: str, new: str, keep_session: str | None = None) -> None:
    """Change one's own password, and sign every other browser out.

    Raises:
        InvalidInput: ``wrong_password``; ``password`` for one against the rules; ``password_same``.
    """
    if not user.check_password(current):
        raise invalid("/current", "wrong_password", "This is not your password.")
    if current == new:
        raise invalid("/password", "password_same", "The new password is the old one.")
    user.password = make_password(clean_password(new, user))
    user.save(update_fields=["password"])
    sessions_end(actor=actor, user=user, except_key=keep_session)
    audit_account(actor, "user.change_password", user)


def account_confirm(*, user: User, current: str, session_key: str) -> None:
    """Check that the person asks for another way into its own account, and not whoever has got hold of its browser.

    Args:
        current: the password as typed.
        session_key: of the browser; an account without a password is confirmed by a one-time link.

    Raises:
        InvalidInput: ``wrong_password``.
        PermissionDenied: ``link_needed``.
    """
    if not user.has_usable_password():
        if not signed_in_by_link(user, session_key):
            raise PermissionDenied("Sign in by a one-time link to link an identity.", code="link_needed")
    elif not user.check_password(current):
        raise invalid("/current", "wrong_password", "This is not your password.")


@transaction.atomic
def password_choose(*, actor: Actor, user: User, new: str, keep_session: str) -> None:
    """Give one's own account its first password, in the browser that a one-time link has signed in.

    Whoever invited or helped the person has handed the link over; a session got in another way is not enough, or
    somebody who has taken one over could make it a way in for good.

    Raises:
        PermissionDenied: ``link_needed``.
        Conflict: ``has_password``: that is changed, not chosen.
        InvalidInput: ``password``.
    """
    user = User.objects.select_for_update(no_key=True).get(pk=user.pk)
    if user.has_usable_password():
        raise Conflict("This account has a password already.", code="has_password")
    if not signed_in_by_link(user, keep_session):
        raise PermissionDenied("Sign in by a one-time link to choose a password.", code="link_needed")
    user.password = make_password(clean_password(new, user))
    user.save(update_fields=["password"])
    sessions_end(actor=actor, user=user, except_key=keep_session)
    audit_account(actor, "user.choose_password", user)


@transaction.atomic
def password_set(*, actor: Actor, user: User, password: str) -> None:
    """Set somebody's password for the installation's operator, end its sessions and lift its locks.

    Raises:
        InvalidInput: ``password``.
    """
    user.password = make_password(clean_password(password, user))
    user.save(update_fields=["password"])
    sessions_end(actor=actor, user=user)
    locks_lift(user.username)
    audit_account(actor, "user.reset_password", user)


@transaction.atomic
def account_unlock(*, actor: Actor, user: User) -> int:
    """Lift every lock on a username; return how many records of failed attempts were forgotten."""
    lifted = locks_lift(user.username)
    audit_account(actor, "user.unlock", user, after={"records": lifted})
    return lifted
