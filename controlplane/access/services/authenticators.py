"""Authenticator apps and recovery codes of local accounts."""

import time

from django.conf import settings
from django.db import transaction

from controlplane.access import totp
from controlplane.access.models import Authenticator, RecoveryCode, User
from controlplane.access.services.people import audit_account
from controlplane.core import clock
from controlplane.core.actor import Actor
from controlplane.core.errors import Conflict, invalid

WRONG = "This code is not right, or has been used already. Wait for the next one."


@transaction.atomic
def authenticator_begin(*, user: User) -> str:
    """Return the secret of a new authenticator of ``user``, which asks for nothing until it is confirmed.

    Raises:
        Conflict: ``authenticator_exists``: a confirmed one is removed first.
    """
    if Authenticator.objects.select_for_update().filter(user=user, confirmed_at__isnull=False).exists():
        raise Conflict("There is an authenticator app already. Remove it first.", code="authenticator_exists")
    secret = totp.new_secret()
    sealed, version = totp.seal(secret)
    Authenticator.objects.update_or_create(
        user=user, defaults={"secret": sealed, "pepper_version": version, "last_step": 0}
    )
    return secret


@transaction.atomic
def authenticator_confirm(*, actor: Actor, user: User, code: str) -> list[str]:
    """Confirm the authenticator by its first code, and return recovery codes, which are shown this once.

    Raises:
        Conflict: ``no_authenticator``: none was begun, or it is confirmed already.
        InvalidInput: ``wrong_code``.
    """
    pending = Authenticator.objects.filter(user=user, confirmed_at__isnull=True)
    if not pending.select_for_update().exists():
        raise Conflict("There is nothing to confirm. Begin again.", code="no_authenticator")
    if not _use_code(user, code, confirmed=False):
        raise invalid("/code", "wrong_code", WRONG)
    pending.update(confirmed_at=clock.now())
    codes = _make_recovery_codes(user)
    audit_account(actor, "authenticator.add", user)
    return codes


def authenticator_check(*, user: User, code: str) -> bool:
    """Use up a code of the person's confirmed authenticator; false for a wrong one, or one used before.

    One conditional UPDATE on the row decides, so of two sign-ins with one code one succeeds.
    """
    return _use_code(user, code, confirmed=True)


def recovery_code_redeem(*, user: User, code: str) -> bool:
    """Use up a recovery code; false for an unknown or used one."""
    digests = [totp.recovery_digest(user.pk, code, version) for version in settings.TOKEN_PEPPERS]
    unused = RecoveryCode.objects.filter(user=user, digest__in=digests, used_at__isnull=True)
    return unused.update(used_at=clock.now()) == 1


@transaction.atomic
def recovery_codes_renew(*, actor: Actor, user: User, code: str) -> list[str]:
    """Return new recovery codes in the place of all earlier ones.

    Raises:
        InvalidInput: ``wrong_code``.
    """
    if not authenticator_check(user=user, code=code):
        raise invalid("/code", "wrong_code", WRONG)
    codes = _make_recovery_codes(user)
    audit_account(actor, "recovery_codes.renew", user)
    return codes


@transaction.atomic
def authenticator_remove(*, actor: Actor, user: User, code: str | None = None) -> None:
    """Remove the authenticator and its recovery codes. The person shows a code; the installation itself need not.

    Raises:
        InvalidInput: ``wrong_code``.
        Conflict: ``no_authenticator``.
    """
    if code is not None and not (
        authenticator_check(user=user, code=code) or recovery_code_redeem(user=user, code=code)
    ):
        raise invalid("/code", "wrong_code", WRONG)
    RecoveryCode.objects.filter(user=user).delete()
    deleted, _ = Authenticator.objects.filter(user=user).delete()
    if not deleted:
        raise Conflict("There is no authenticator app.", code="no_authenticator")
    audit_account(actor, "authenticator.remove", user)


def _use_code(user: User, code: str, *, confirmed: bool) -> bool:
    found = Authenticator.objects.filter(user=user, confirmed_at__isnull=not confirmed).first()
    if found is None:
        return False
    try:
        secret = totp.unseal(found.secret, found.pepper_version)
    except totp.SecretUnreadable:
        return False
    step = totp.matching_step(secret, code, time.time())
    if step is None:
        return False
    changes = {"last_step": step}
    if found.pepper_version != max(settings.TOKEN_PEPPERS):  # so that an old pepper can be removed one day
        changes["secret"], changes["pepper_version"] = totp.seal(secret)  # type: ignore[assignment]  # text and number
    return Authenticator.objects.filter(pk=user.pk, last_step__lt=step).update(**changes) == 1


def _make_recovery_codes(user: User) -> list[str]:
    RecoveryCode.objects.filter(user=user).delete()
    version = max(settings.TOKEN_PEPPERS)
    codes = [totp.new_recovery_code() for _ in range(totp.RECOVERY_CODES)]
    RecoveryCode.objects.bulk_create(
        RecoveryCode(user=user, digest=totp.recovery_digest(user.pk, code, version), pepper_version=version)
        for code in codes
    )
    return codes
