"""What becomes of a delivery, and so of each of its alerts and of their group."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

from controlplane.alerts import holding
from controlplane.alerts.fates import TakenIn, fates_set, without_fate
from controlplane.alerts.models import AlertGroup, Fate, GroupStatus, Reason


class Taken(StrEnum):
    """What became of a delivery."""

    STARTED = "started"
    COALESCED = "coalesced"
    UPDATED = "updated"
    REPEATED = "repeated"
    RESOLVED = "resolved"
    WAITING = "waiting"
    SKIPPED = "skipped"
    DUPLICATE = "duplicate"


#: What becomes of alerts for which no run is started now.
_PUT_OFF: Final = {Taken.WAITING: Fate.WAITING, Taken.SKIPPED: Fate.SKIPPED}


@dataclass(frozen=True, slots=True)
class Act:
    """What was done; ``fresh`` are the alerts the thread had not heard of."""

    action: Taken
    run_id: UUID | None = None
    reason: Reason | None = None
    fresh: frozenset[str] = frozenset()


def settle(group: AlertGroup, taken: TakenIn | None, act: Act, *, fires: bool) -> None:
    """Keep each alert's fate, and set the group's, which the caller writes; ``taken`` is ``None`` at a release."""
    if group.held_until is not None and (not fires or act.action in {Taken.STARTED, Taken.UPDATED}):
        if not fires:
            fates_set(group, None, fate=Fate.SKIPPED, reason=Reason.SELF_RESOLVED, status=None)
        holding.held_clear(group)
    if act.action is Taken.STARTED:
        if taken is not None:
            fates_set(group, taken, fate=Fate.INVESTIGATED, run_id=act.run_id)
        fates_set(group, None, fate=Fate.INVESTIGATED, run_id=act.run_id)
        _group_fate(group, Fate.INVESTIGATED, run_id=act.run_id)
    elif act.action in _PUT_OFF:
        _settle_put_off(group, taken, act, _PUT_OFF[act.action])
    elif act.action is Taken.UPDATED:
        _settle_joined(group, taken, act)
    elif act.action in {Taken.COALESCED, Taken.REPEATED}:
        if taken is None:
            _settle_released(group, act)
        else:
            _settle_untold(group, taken, act)
    if taken is not None:
        _settle_over(group, taken, fires=fires)


def _settle_put_off(group: AlertGroup, taken: TakenIn | None, act: Act, fate: Fate) -> None:
    if taken is None:
        fates_set(group, None, fate=fate, reason=act.reason)
    elif meant := _not_looked_at(taken):
        fates_set(group, taken, fate=fate, reason=act.reason, only=meant)
    _group_fate(group, fate, act.reason, run_id=group.run_id)


def _settle_joined(group: AlertGroup, taken: TakenIn | None, act: Act) -> None:
    if taken is None:
        fates_set(group, None, fate=Fate.JOINED, run_id=act.run_id)
    elif joined := act.fresh | taken.fires_anew:
        fates_set(group, taken, fate=Fate.JOINED, run_id=act.run_id, only=joined)
    if group.fate in {"", Fate.WAITING, Fate.SKIPPED}:
        _group_fate(group, Fate.JOINED, run_id=act.run_id)


def _settle_over(group: AlertGroup, taken: TakenIn, *, fires: bool) -> None:
    """Keep the fates of alerts that were over before anything became of them."""
    waited = [key for key, one in taken.alerts.items() if one.fate == Fate.WAITING and one.status != GroupStatus.FIRING]
    if waited:
        fates_set(group, taken, fate=Fate.SKIPPED, reason=Reason.SELF_RESOLVED, only=waited, status=None)
    if over := without_fate(taken, status=GroupStatus.RESOLVED):
        fates_set(group, taken, fate=Fate.SKIPPED, reason=Reason.RESOLVED_ONLY, only=over, status=None)
        if not group.fate:
            _group_fate(group, Fate.SKIPPED, Reason.RESOLVED_ONLY)
    if not fires and group.fate == Fate.WAITING:
        _group_fate(group, Fate.SKIPPED, Reason.SELF_RESOLVED, run_id=group.run_id)


def _settle_released(group: AlertGroup, act: Act) -> None:
    """Keep the fates of alerts that waited when there is nothing to be started any more: somebody was faster."""
    if act.reason is Reason.NO_ROOM:
        fate, reason = Fate.WAITING, Reason.NO_ROOM
    elif act.action is Taken.COALESCED:
        fate, reason = Fate.JOINED, None
    else:
        fate, reason = Fate.SKIPPED, Reason.REPEAT_WINDOW
    fates_set(group, None, fate=fate, reason=reason, run_id=act.run_id)
    _group_fate(group, fate, reason, run_id=act.run_id)


def _settle_untold(group: AlertGroup, taken: TakenIn, act: Act) -> None:
    """Keep the fates of alerts that a run knows already, has no room to hear of, or was ended a short while ago."""
    if act.reason is Reason.NO_ROOM:
        if waiting := _not_looked_at(taken):
            fates_set(group, taken, fate=Fate.WAITING, reason=Reason.NO_ROOM, only=waiting)
    elif act.action is Taken.COALESCED:
        if unknown := _not_looked_at(taken):
            fates_set(group, taken, fate=Fate.JOINED, run_id=act.run_id, only=unknown)
    elif repeated := {*without_fate(taken), *taken.fires_anew}:
        fates_set(group, taken, fate=Fate.SKIPPED, reason=Reason.REPEAT_WINDOW, run_id=act.run_id, only=repeated)
        _group_fate(group, Fate.SKIPPED, Reason.REPEAT_WINDOW, run_id=act.run_id)


def _not_looked_at(taken: TakenIn) -> list[str]:
    """Return the digests of the alerts that fire and that no run has looked at since they began."""
    return [
        key
        for key, alert in taken.alerts.items()
        if alert.status == GroupStatus.FIRING
        and (alert.fate in {"", Fate.WAITING, Fate.SKIPPED} or key in taken.fires_anew)
    ]


def _group_fate(group: AlertGroup, fate: Fate, reason: Reason | None = None, *, run_id: UUID | None = None) -> None:
    group.fate, group.fate_reason, group.run_id = fate, reason or "", run_id
