"""What alert intake does by the clock: runs that were waited with, and deliveries that need not be known any more."""

from datetime import timedelta
from typing import Final
from uuid import UUID

import structlog

from controlplane.alerts.models import AlertDelivery, AlertGroup, Reason
from controlplane.alerts.services import held_give_up, held_release
from controlplane.core import clock
from controlplane.core.errors import AppError

log = structlog.get_logger(__name__)

REMEMBERED: Final = timedelta(days=14)
"""How long a delivery's id is known. What vendors sign is refused when it is older than half of that."""
_AT_ONCE: Final = 100


def alerts_sweep() -> int:
    """Start the runs of the groups that have waited long enough; forget old deliveries. Returns how many groups.

    Any process may sweep at any time: each group's row is locked and looked at again, so each run starts once.
    """
    due = AlertGroup.objects.filter(held_until__lte=clock.now()).order_by("held_until")
    started = sum(_release(group_id, node) for group_id, node in list(due.values_list("pk", "node__slug")[:_AT_ONCE]))
    AlertDelivery.objects.filter(at__lt=clock.now() - REMEMBERED).delete()
    return started


def _release(group_id: UUID, node: str) -> bool:
    try:
        return held_release(group_id)
    except AppError as error:
        log.warning("alert.not_started", group=str(group_id), node=node, code=error.code)
        archived = error.code == "team_archived"
        held_give_up(group_id, Reason.TEAM_ARCHIVED if archived else Reason.NOT_STARTED)
        return False
