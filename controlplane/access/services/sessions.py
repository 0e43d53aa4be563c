"""Signed-in browsers: beginning, listing and ending them, and what the log says of it."""

from datetime import datetime
from uuid import UUID

from django.contrib.sessions.models import Session
from django.db import OperationalError, transaction
from django.db.models import QuerySet

from controlplane.access import metrics
from controlplane.access.models import BrowserSession, User
from controlplane.access.revocations import rights_taken
from controlplane.access.services.people import audit_account
from controlplane.access.sessions import browser_label
from controlplane.audit.security import sign_in_record
from controlplane.core import clock
from controlplane.core.actor import Actor
from controlplane.core.db import impatient
from controlplane.core.errors import NotAuthenticated, NotFound


def sign_in_failed(*, username: str, method: str, address: str | None, reason: str) -> None:
    """Note a sign-in that was refused, in the security stream of the person's organization or of the installation.

    A username that nobody has is not noted: people type passwords into the wrong field.

    Args:
        username: as typed.
        method: a :class:`SignInMethod`, or what single sign-on calls itself.
        address: of the client.
        reason: stable code: ``wrong_password``, ``wrong_code``, ``locked``, ``rate_limited``.
    """
    metrics.sign_ins_total.labels(method, "refused").inc()
    user = User.objects.filter(username=username[:150].replace("\x00", "")).first() if username else None
    sign_in_record(
        ok=False,
        method=method,
        principal=f"user:{user.pk}" if user else "unknown",
        label=user.username if user else "",
        organization_id=user.organization_id if user else None,
        address=address,
        reason=reason,
    )


def session_begin(*, actor: Actor, user: User, session_key: str, method: str, user_agent: str = "") -> BrowserSession:
    """Note a browser that has just signed in, and forget those of the person whose sessions are gone.

    Raises:
        NotAuthenticated: the person has been deactivated since it showed who it is. A session that began then would be
            among none of those that ended, and be good again on the day of return.
    """
    now = clock.now()
    with transaction.atomic():
        if not User.objects.select_for_update(no_key=True).filter(pk=user.pk, is_active=True).exists():
            raise NotAuthenticated
        own = BrowserSession.objects.filter(user=user)
        own.exclude(session_key__in=Session.objects.filter(expire_date__gt=now).values("session_key")).delete()
        begun, _ = BrowserSession.objects.update_or_create(
            session_key=session_key,
            defaults={
                "user": user,
                "method": method,
                "address": actor.address or "",
                "browser": browser_label(user_agent),
                "created_at": now,
                "seen_at": now,
            },
        )
    metrics.sign_ins_total.labels(method, "ok").inc()
    sign_in_record(
        ok=True,
        method=method,
        principal=f"user:{user.pk}",
        label=user.username,
        organization_id=user.organization_id,
        address=actor.address,
    )
    return begun


def session_seen(*, session_key: str) -> None:
    """Note that a browser is in use. One UPDATE, left out when the database is busy."""
    try:
        with impatient():
            BrowserSession.objects.filter(session_key=session_key).update(seen_at=clock.now())
    except OperationalError:
        pass  # a statistic


def session_forget(*, session_key: str) -> None:
    """Forget a browser that has signed out."""
    BrowserSession.objects.filter(session_key=session_key).delete()


def sessions_open(user: User, *, now: datetime) -> "QuerySet[BrowserSession]":
    """Return the browsers in which a person is signed in, the latest used first."""
    live = Session.objects.filter(expire_date__gt=now).values("session_key")
    return BrowserSession.objects.filter(user=user, session_key__in=live)


@transaction.atomic
def session_end(*, actor: Actor, user: User, session_id: UUID) -> None:
    """Sign one of the person's browsers out.

    Raises:
        NotFound: it is not one of theirs.
    """
    found = BrowserSession.objects.filter(pk=session_id, user=user).first()
    if found is None:
        raise NotFound
    _end(BrowserSession.objects.filter(pk=found.pk))
    audit_account(actor, "session.end", user, after={"browser": found.browser, "address": found.address})
    rights_taken(user.organization_id)


@transaction.atomic
def sessions_end(*, actor: Actor, user: User, except_key: str | None = None) -> int:
    """Sign every browser of a person out, but for the one with ``except_key``; return how many."""
    ended = _end(BrowserSession.objects.filter(user=user).exclude(session_key=except_key or ""))
    if ended:
        audit_account(actor, "session.end_all", user, after={"browsers": ended})
        rights_taken(user.organization_id)
    return ended


def sessions_sweep() -> int:
    """Forget sessions that have run out, and the browsers that had them; return how many rows."""
    now = clock.now()
    swept = [
        Session.objects.filter(expire_date__lt=now).delete()[0],
        BrowserSession.objects.exclude(session_key__in=Session.objects.values("session_key")).delete()[0],
    ]
    return sum(swept)


def _end(browsers: "QuerySet[BrowserSession]") -> int:
    keys = list(browsers.values_list("session_key", flat=True))
    Session.objects.filter(session_key__in=keys).delete()
    deleted, _ = BrowserSession.objects.filter(session_key__in=keys).delete()
    return deleted
