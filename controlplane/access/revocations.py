"""Telling those who hold something open for a person or a token that rights were taken: they look again at once.

Whoever takes rights calls :func:`rights_taken` inside its transaction. Processes learn of it in two ways: this one when
the transaction commits, the others by reading the stamps every few seconds, whatever the database and with no broker.
Which right it was is not said: who listens asks again whether its caller may still do what it does.
"""

import threading
from collections.abc import Callable, Collection
from typing import Final
from uuid import UUID

import structlog
from django.db import transaction

from controlplane.access.models import RightsStamp
from controlplane.core.ids import new_id

log = structlog.get_logger(__name__)

#: Called with the organization's id, on the thread that committed; it must not block.
Listener = Callable[[UUID], None]

_lock: Final = threading.Lock()
_listeners: tuple[Listener, ...] = ()


def on_rights_taken(listener: Listener) -> Callable[[], None]:
    """Have ``listener`` told of what this process commits; return what stops that."""
    global _listeners  # noqa: PLW0603 (replaced whole under the lock, read without)
    with _lock:
        _listeners = (*_listeners, listener)

    def remove() -> None:
        global _listeners  # noqa: PLW0603 (as above)
        with _lock:
            _listeners = tuple(one for one in _listeners if one is not listener)

    return remove


def rights_taken(organization_id: UUID | None) -> None:
    """Note that somebody of an organization has lost a right. One upsert; ``None``, an operator's, notes nothing.

    To be called last in a transaction, after its audit rows: the row stays locked until the commit.
    """
    if organization_id is None:
        return
    row = RightsStamp(organization_id=organization_id, stamp=new_id())
    RightsStamp.objects.bulk_create(
        [row], update_conflicts=True, update_fields=["stamp"], unique_fields=["organization"]
    )
    transaction.on_commit(lambda: _tell(organization_id))


def rights_stamps(organization_ids: Collection[UUID]) -> dict[UUID, UUID]:
    """Return the stamps of organizations, those from whose people nothing was ever taken left out. One query."""
    rows = RightsStamp.objects.filter(organization_id__in=organization_ids)
    return dict(rows.values_list("organization_id", "stamp"))


def _tell(organization_id: UUID) -> None:
    for listener in _listeners:
        try:
            listener(organization_id)
        except Exception:
            log.exception("revocations.listener_failed")
