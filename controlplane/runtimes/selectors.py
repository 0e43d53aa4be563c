"""Reads about runtimes."""

from collections.abc import Sequence

from controlplane.core.actor import Actor
from controlplane.core.errors import PermissionDenied
from controlplane.runtimes.models import Evaluation

_LOOKED_AT = 200


def evaluations_latest(actor: Actor) -> Sequence[Evaluation]:
    """Return the newest result of each suite and runtime, by suite. One query.

    Results tell nothing about an organization: everybody who is signed in may read them.

    Raises:
        PermissionDenied: nobody is signed in.
    """
    if not actor.is_person:
        raise PermissionDenied("Sign in to see how the runtimes were measured.")
    newest: dict[tuple[str, str], Evaluation] = {}
    for evaluation in Evaluation.objects.order_by("-created_at", "-id")[:_LOOKED_AT]:
        newest.setdefault((evaluation.suite, evaluation.runtime), evaluation)
    return sorted(newest.values(), key=lambda evaluation: (evaluation.suite, evaluation.runtime))
