"""How long investigations are kept: an organization's policy, holds, and the removal itself, a small batch at a time.

A thread goes whole: its log is never there in part, so no cursor is ever older than what is kept. A tombstone stays, so
that links say what became of it, and so does the audit log.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import structlog
from django.db import transaction
from django.db.models import Count, Exists, OuterRef, QuerySet

from controlplane.audit.services import audit_record
from controlplane.core import clock
from controlplane.core.actor import Actor, system_actor
from controlplane.core.errors import Conflict, InvalidInput, NotFound, invalid
from controlplane.core.permissions import Action
from controlplane.core.redaction import redact_text
from controlplane.investigations import metrics
from controlplane.investigations.models import (
    Artifact,
    Event,
    LegalHold,
    Message,
    ReportedRun,
    RetentionPolicy,
    Run,
    StoredFile,
    Thread,
    ThreadTombstone,
)
from controlplane.orgs.models import Node, Organization
from controlplane.orgs.selectors import node_require

log = structlog.get_logger(__name__)

FLOOR_DAYS: Final = 7
CEILING_DAYS: Final = 3_650
MAX_HOLDS: Final = 1_000
MAX_REASON_CHARS: Final = 500
BATCH_THREADS: Final = 50
BATCH_EVENTS: Final = 20_000
EVERY_S: Final = 600.0
#: How many batches one sweep removes of one organization: the rest waits for the next one.
BATCHES: Final = 10


@dataclass(frozen=True, slots=True)
class Keeping:
    """An organization's policy; ``None`` keeps for ever."""

    investigation_days: int | None = None
    alert_days: int | None = None
    hold: bool = False


# ---- the policy ------------------------------------------------------------------------------------------------------


def retention_get(*, actor: Actor, organization: Organization) -> Keeping:
    """Return the organization's policy.

    Raises:
        NotFound, PermissionDenied: the root's configuration is not the actor's to read.
    """
    node_require(actor=actor, action=Action.CONFIG_READ, node=_root(organization))
    return keeping_of(organization.pk)


def keeping_of(organization_id: UUID) -> Keeping:
    """Return a policy, for code that has been permitted to act on the organization."""
    row = RetentionPolicy.objects.filter(pk=organization_id).first()
    return Keeping() if row is None else Keeping(row.investigation_days, row.alert_days, row.hold)


@transaction.atomic
def retention_set(*, actor: Actor, organization: Organization, **fields: Any) -> Keeping:
    """Change the policy; what is not named stays.

    Args:
        actor: needs ``config.write`` on the root.
        organization: whose policy.
        fields: ``investigation_days`` and ``alert_days``, 7 to 3,650 or ``None`` for ever, and ``hold``.

    Raises:
        NotFound, PermissionDenied: the root's configuration is not the actor's to change.
        InvalidInput: ``nothing_to_change``, ``bad_days`` or ``not_a_boolean``.
    """
    node_require(actor=actor, action=Action.CONFIG_WRITE, node=_root(organization))
    if not fields:
        raise InvalidInput("Name at least one of investigation_days, alert_days, hold.", code="nothing_to_change")
    for name in ("investigation_days", "alert_days"):
        if name in fields:
            _check_days(name, fields[name])
    if not isinstance(fields.get("hold", False), bool):
        raise invalid("/hold", "not_a_boolean", "A hold is true or false.")
    row, _ = RetentionPolicy.objects.select_for_update().get_or_create(organization=organization)
    before = Keeping(row.investigation_days, row.alert_days, row.hold)
    for name, value in fields.items():
        setattr(row, name, value)
    row.save()
    after = Keeping(row.investigation_days, row.alert_days, row.hold)
    audit_record(
        actor=actor,
        organization_id=organization.pk,
        action="retention.change",
        object_kind="retention_policy",
        object_id=str(organization.pk),
        before=_as_dict(before),
        after=_as_dict(after),
    )
    return after


def _check_days(name: str, value: object) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int) or not FLOOR_DAYS <= value <= CEILING_DAYS:
        detail = f"Days are a whole number from {FLOOR_DAYS} to {CEILING_DAYS}, or null to keep for ever."
        raise invalid(f"/{name}", "bad_days", detail)


def _as_dict(keeping: Keeping) -> dict[str, Any]:
    return {
        "investigation_days": keeping.investigation_days,
        "alert_days": keeping.alert_days,
        "hold": keeping.hold,
    }


def _root(organization: Organization) -> Node:
    return Node.objects.get(organization=organization, parent__isnull=True)


# ---- holds -----------------------------------------------------------------------------------------------------------


def holds_list(*, actor: Actor, organization: Organization) -> list[LegalHold]:
    """Return the organization's holds, newest first.

    Raises:
        NotFound, PermissionDenied: the root's configuration is not the actor's to read.
    """
    node_require(actor=actor, action=Action.CONFIG_READ, node=_root(organization))
    return list(LegalHold.objects.filter(organization=organization))


@transaction.atomic
def hold_place(*, actor: Actor, organization: Organization, thread_id: UUID, reason: object = "") -> LegalHold:
    """Keep an investigation whatever the policy says, until it is let go. Nothing says whether there is one of that id.

    Raises:
        NotFound, PermissionDenied: the root's configuration is not the actor's to change.
        InvalidInput: ``reason`` is no text or longer than 500 characters.
        Conflict: ``too_many_holds``.
    """
    root = _root(organization)
    node_require(actor=actor, action=Action.CONFIG_WRITE, node=root)
    if not isinstance(reason, str) or len(reason) > MAX_REASON_CHARS:
        raise invalid("/reason", "bad_reason", f"A reason is a text of at most {MAX_REASON_CHARS} characters.")
    Node.objects.select_for_update(no_key=True).get(pk=root.pk)
    if LegalHold.objects.filter(organization=organization).count() >= MAX_HOLDS:
        raise Conflict(f"There are {MAX_HOLDS} holds already; hold the whole organization.", code="too_many_holds")
    words = redact_text(reason.replace("\x00", "\ufffd").strip())[:MAX_REASON_CHARS]
    held, made = LegalHold.objects.get_or_create(
        organization=organization, thread_id=thread_id, defaults={"reason": words, "by_label": actor.label[:200]}
    )
    if made:
        _audit_hold(actor, organization, thread_id, "retention.hold", words)
    return held


@transaction.atomic
def hold_release(*, actor: Actor, organization: Organization, thread_id: UUID) -> None:
    """Let go of a held investigation.

    Raises:
        NotFound, PermissionDenied: the root's configuration is not the actor's to change; it is not held.
    """
    node_require(actor=actor, action=Action.CONFIG_WRITE, node=_root(organization))
    if not LegalHold.objects.filter(organization=organization, thread_id=thread_id).delete()[0]:
        raise NotFound
    _audit_hold(actor, organization, thread_id, "retention.release", "")


def _audit_hold(actor: Actor, organization: Organization, thread_id: UUID, action: str, reason: str) -> None:
    audit_record(
        actor=actor,
        organization_id=organization.pk,
        action=action,
        object_kind="thread",
        object_id=str(thread_id),
        reason=reason,
    )


# ---- the removal -----------------------------------------------------------------------------------------------------


def reported_retire(organization_id: UUID, cutoff: datetime) -> int:
    """Remove up to a batch of the runs that agents elsewhere reported before ``cutoff``; return how many."""
    old = ReportedRun.objects.filter(organization_id=organization_id, created_at__lt=cutoff)
    ids = list(old.order_by("created_at").values_list("pk", flat=True)[: BATCH_THREADS * BATCHES])
    return ReportedRun.objects.filter(pk__in=ids).delete()[0]


def threads_retire() -> int:
    """Remove what every organization's policy lets go, in batches; return how many threads went.

    Any process may do so at any time: each batch locks its threads and looks at them again.
    """
    gone = 0
    due = RetentionPolicy.objects.filter(investigation_days__isnull=False, hold=False).values_list("pk", flat=True)
    for organization_id in list(due):
        for _ in range(BATCHES):
            removed = batch_retire(organization_id)
            gone += removed
            if not removed:
                break
    return gone


@transaction.atomic
def batch_retire(organization_id: UUID) -> int:
    """Remove up to 50 threads (about 20,000 events) of one organization, with one audit row; return how many."""
    # The policy's row is the lock: a hold of the organization is seen, or waits until the batch is over.
    policy = RetentionPolicy.objects.select_for_update().get(pk=organization_id)
    if policy.investigation_days is None or policy.hold:
        return 0
    root = Node.objects.select_for_update(no_key=True).get(organization_id=organization_id, parent__isnull=True)
    cutoff = clock.now() - timedelta(days=policy.investigation_days)
    found = _removable(organization_id, cutoff).order_by("created_at").values_list("pk", "last_seq")
    ids: list[UUID] = []
    size = 0
    for thread_id, events in found[:BATCH_THREADS]:
        if ids and size + events > BATCH_EVENTS:
            break
        ids.append(thread_id)
        size += events
    locked = list(Thread.objects.select_for_update(skip_locked=True).filter(pk__in=ids))
    threads = [thread for thread in locked if _removable(organization_id, cutoff).filter(pk=thread.pk).exists()]
    reported = reported_retire(organization_id, cutoff)
    if threads or reported:
        _remove(root, threads, policy.investigation_days, reported)
    return len(threads)


def _removable(organization_id: UUID, cutoff: datetime) -> QuerySet[Thread]:
    """Return the threads in which nothing has happened since ``cutoff``, that are at rest and not held."""
    lively = Run.objects.filter(thread=OuterRef("pk")).exclude(ended_at__lt=cutoff)
    held = LegalHold.objects.filter(organization=OuterRef("organization"), thread_id=OuterRef("pk"))
    said = Message.objects.filter(thread=OuterRef("pk"), created_at__gte=cutoff)
    return Thread.objects.filter(
        ~Exists(lively),
        ~Exists(held),
        ~Exists(said),
        organization_id=organization_id,
        active_run__isnull=True,
        created_at__lt=cutoff,
    )


def _remove(root: Node, threads: list[Thread], days: int, reported: int) -> None:
    organization_id = root.organization_id
    ids = [thread.pk for thread in threads]
    now = clock.now()
    runs = dict(Run.objects.filter(thread_id__in=ids).values_list("thread_id").annotate(number=Count("pk")))
    artifacts = set(Run.objects.filter(thread_id__in=ids, artifact__isnull=False).values_list("artifact_id", flat=True))
    ThreadTombstone.objects.bulk_create(
        ThreadTombstone(
            id=thread.pk,
            organization_id=organization_id,
            node_id=thread.node_id,
            starter_id=thread.starter_id,
            visibility=thread.visibility,
            started_at=thread.created_at,
            runs=runs.get(thread.pk, 0),
            events=thread.last_seq,
            removed_at=now,
            days=days,
        )
        for thread in threads
    )
    # The bytes go by the sweep of files; the rows say so from here on.
    StoredFile.objects.filter(thread_id__in=ids).update(thread=None, removed_at=now)
    Event.objects.filter(thread_id__in=ids).delete()
    Thread.objects.filter(pk__in=ids).delete()
    Artifact.objects.filter(pk__in=artifacts, runs__isnull=True).delete()
    audit_record(
        actor=system_actor(name="retention", organization_id=organization_id, root_id=root.pk),
        organization_id=organization_id,
        action="retention.remove",
        object_kind="thread",
        object_id=f"{len(ids)} threads",
        after={
            "threads": [str(thread_id) for thread_id in ids],
            "runs": sum(runs.values()),
            "events": sum(thread.last_seq for thread in threads),
            "reported_runs": reported,
            "days": days,
        },
    )
    transaction.on_commit(lambda: metrics.threads_retired_total.inc(len(ids)))
    log.info("retention.removed", organization=str(organization_id), threads=len(ids))
