"""Telling those who hold something open for a person or a token that rights were taken: they look again at once.

Whoever takes rights calls :func:`rights_taken` inside its transaction. Processes learn of it in two ways: this one when
the transaction commits, and with it those a bus reaches; all by reading the stamps every few seconds, whatever the
database and with no broker. Which right it was is not said: who listens asks again whether its caller may still do what
it does.
"""

from collections.abc import Callable, Collection
from typing import Final
from uuid import UUID

from django.db import transaction

from controlplane.access.models import RightsStamp
from controlplane.core.ids import new_id
from controlplane.core.subscribers import Topic

#: Told the organization's id: here on the thread that committed, elsewhere by the bus where there is one.
taken: Final[Topic[[UUID]]] = Topic()


def on_rights_taken(listener: Callable[[UUID], None]) -> Callable[[], None]:
    """Have ``listener``, which must not block, told of organizations; return what stops that."""
    return taken.add(listener)


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
    transaction.on_commit(lambda: taken.tell(organization_id))


def rights_stamps(organization_ids: Collection[UUID]) -> dict[UUID, UUID]:
    """Return the stamps of organizations, those from whose people nothing was ever taken left out. One query."""
    rows = RightsStamp.objects.filter(organization_id__in=organization_ids)
    return dict(rows.values_list("organization_id", "stamp"))
