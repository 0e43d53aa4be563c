"""The end of a chain: locking it, moving it, and what this process remembers of it."""

import threading
from functools import partial
from typing import Final
from uuid import UUID

from django.db import transaction

from controlplane.audit.chain import current_key, head_seal, same
from controlplane.audit.models import AuditHead

#: The seal of a head that was not as this installation had left it: no later event makes it genuine again.
BROKEN: Final = "broken"

_seen: dict[UUID, tuple[int, str]] = {}
_lock: Final = threading.Lock()


def head_locked(organization_id: UUID) -> AuditHead:
    """Return the head of a chain, locked until the caller's transaction ends; made where there is none.

    One that somebody else has written or put back gets no valid seal any more, so that going on does not hide it; the
    act that is being recorded is not refused for it.
    """
    heads = AuditHead.objects.select_for_update()
    head = heads.filter(pk=organization_id).first()
    if head is None:
        # The organization's first event. Of two at once the second waits here for the first, then inserts nothing.
        AuditHead.objects.bulk_create([sealed(AuditHead(organization_id=organization_id))], ignore_conflicts=True)
        head = heads.get(pk=organization_id)
    if not is_genuine(head) or head.org_seq < _seen.get(organization_id, (0, ""))[0]:
        head.seal = BROKEN
    return head


def head_moved(head: AuditHead) -> None:
    """Store a head that is locked, under a seal of its new values, and remember it once that is committed."""
    if head.seal != BROKEN:
        sealed(head)
    AuditHead.objects.filter(pk=head.pk).update(
        org_seq=head.org_seq,
        mac=head.mac,
        checkpoints=head.checkpoints,
        checkpoint_seq=head.checkpoint_seq,
        checkpoint_at=head.checkpoint_at,
        key_version=head.key_version,
        seal=head.seal,
    )
    transaction.on_commit(partial(remember, head.organization_id, head.org_seq, head.mac))


def is_genuine(head: AuditHead) -> bool:
    """Return whether the head is as this installation wrote it."""
    try:
        return same(head.seal, head_seal(head))
    except KeyError:
        return False


def sealed(head: AuditHead) -> AuditHead:
    """Return ``head`` with its seal under the current key."""
    head.key_version = current_key()
    head.seal = head_seal(head)
    return head


def remember(organization_id: UUID, org_seq: int, mac: str) -> None:
    """Remember that the chain has come so far: memory is where nobody who writes to the database can cut it."""
    with _lock:
        if _seen.get(organization_id, (0, ""))[0] < org_seq:
            _seen[organization_id] = (org_seq, mac)


def remembered(organization_id: UUID) -> tuple[int, str] | None:
    """Return the furthest event of this chain that this process knows of: position and MAC."""
    return _seen.get(organization_id)


def forget() -> None:
    """Forget what is remembered. Only tests call this."""
    _seen.clear()
