"""A rating of partial or wrong as a case that an evaluation runs: for its rater alone."""

from typing import Any
from uuid import UUID

import orjson

from controlplane.core.actor import Actor
from controlplane.core.errors import Conflict, NotFound
from controlplane.investigations.models import Event, Feedback, Miss, Run, Verdict
from controlplane.investigations.selectors import thread_get
from controlplane.investigations.services import artifact_content
from controlplane.runtimes.evaluation.misses import FORMAT
from controlplane.runtimes.events import EventType, Result
from controlplane.runtimes.sources.snapshot import FORMAT as SNAPSHOT


def miss_case(*, actor: Actor, thread_id: UUID, run_id: UUID) -> dict[str, Any]:
    """Return the actor's own rating of a run as ``miss/1``: question, alert, recorded evidence, the answer that missed.

    ``expected`` is empty; whoever knows the cause writes it in.

    Raises:
        NotFound: no such thread or run that the actor sees, or no rating of its own that is partial or wrong.
        Conflict: ``no_recorded_evidence``: the run read live sources, which nobody can ask again about then.
    """
    thread = thread_get(actor, thread_id)
    own = Feedback.objects.filter(run_id=run_id, run__thread=thread, by=actor.principal, on_behalf_of="")
    rating = own.exclude(verdict=Verdict.CORRECT).first()
    if rating is None:
        raise NotFound
    run = Run.objects.select_related("artifact").get(pk=run_id)
    if run.artifact is None or run.artifact.format != SNAPSHOT:
        detail = "The run read live sources; only recorded evidence can be asked again."
        raise Conflict(detail, code="no_recorded_evidence")
    return {
        "format": FORMAT,
        "id": str(run.pk),
        "prompt": run.prompt,
        "alert": run.alert,
        "evidence": artifact_content(run.artifact),
        "verdict": rating.verdict,
        "miss": rating.miss or Miss.UNKNOWN.value,
        "reason": rating.reason,
        "answered": _answered(run),
        "expected": {"category": None, "object": None},
    }


def _answered(run: Run) -> dict[str, str | None]:
    data = Event.objects.filter(thread_id=run.thread_id, run_id=run.pk, type=EventType.RESULT).order_by("-seq")
    row = data.values_list("data", flat=True).first()
    report = Result.model_validate(orjson.loads(row)).report if row else None
    root = report.root_cause if report else None
    return {"category": root.category.value if root else None, "object": root.object if root else None}
