"""Changes that wait for approval: what a review of one holds, and whether its ground has moved since."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from controlplane.configs.impact import impact_of
from controlplane.configs.patterns import seen
from controlplane.configs.pointers import MISSING, Document, Operation, decode, diff
from controlplane.configs.policies import Policy, shown_pointer
from controlplane.configs.selectors import StoredDocument
from controlplane.configs.writing import Outcome
from controlplane.core.actor import Actor
from controlplane.reviews.models import ReviewRequest
from controlplane.reviews.services import digest_of, review_open

KIND: Final = "config_change"


def change_open(
    *,
    actor: Actor,
    stored: StoredDocument,
    outcome: Outcome,
    awaits: Sequence[tuple[Policy, tuple[str, ...]]],
    action: str,
    reason: str,
) -> ReviewRequest:
    """Queue a change of a node's document for approval, in the caller's transaction, which has its document locked.

    The same change of the same ground, asked for again by the same author while it waits, is the review that waits.
    ``awaits`` are the approvals that the author cannot give. ``reason`` has been cleaned.
    """
    judgement = outcome.judgement
    assert judgement is not None  # noqa: S101 (nothing that changes nothing awaits anybody)
    snapshot = {
        "version": stored.version,
        "action": action,
        "effective": diff(judgement.before, judgement.after),
        "approvals": [{"pointer": shown_pointer(path), "level": policy.node} for policy, path in awaits],
        "affected": impact_of(stored.node, stored.document, outcome.document).as_dict(),
        "warnings": [warning.as_dict() for warning in outcome.warnings],
    }
    base = {
        "version": stored.version,
        "paths": ground_of(outcome.operations, judgement.before, judgement.after),
    }
    return review_open(
        actor=actor,
        node=stored.node,
        kind=KIND,
        snapshot=snapshot,
        diff=list(outcome.operations),
        base=base,
        reason=reason,
        once=True,
    )


def ground_of(operations: Sequence[Operation], before: Document, after: Document) -> dict[str, dict[str, str]]:
    """Return, by pointer, digests of the effective values that a change touches: as they are, and as they would be.

    Both count: removing an override shows what a level above says then, and that may move too.
    """
    pointers = [operation["pointer"] for operation in (*operations, *diff(before, after))]
    return {pointer: _digests(pointer, before, after) for pointer in dict.fromkeys(pointers)}


def has_moved(base: Mapping[str, Any], before: Document, after: Document) -> bool:
    """Return whether an effective value that a change touches differs from what its review was made against."""
    paths: Mapping[str, dict[str, str]] = base["paths"]
    return any(_digests(pointer, before, after) != digests for pointer, digests in paths.items())


def _digests(pointer: str, before: Document, after: Document) -> dict[str, str]:
    return {"before": _digest(before, pointer), "after": _digest(after, pointer)}


def _digest(document: Document, pointer: str) -> str:
    depth, value = seen(document, decode(pointer))
    return digest_of([depth, None if value is MISSING else _canonical(value)])


def _canonical(value: Any) -> Any:
    """Return a JSON value in which equal numbers are written alike: 1.0 is 1."""
    if isinstance(value, Mapping):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
