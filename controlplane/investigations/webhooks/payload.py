"""What a receiver is told. Built once, when the run ends, so that every attempt sends the same bytes."""

from datetime import datetime
from typing import Any, Final

import orjson
from django.conf import settings

from controlplane.core import clock
from controlplane.investigations.models import Audience, Event, Run, Thread, Visibility
from controlplane.runtimes import events
from controlplane.runtimes.events import EventType
from controlplane.runtimes.report import Hypothesis, Report

MAX_TEXT: Final = 2_000
MAX_ACTIONS: Final = 20


def run_payload(run: Run, thread: Thread, *, event: str, at: datetime) -> str:
    """Return the encoded payload of the end of ``run``.

    Of a private investigation it has ids, states and times: no title, no person, no answer.
    """
    private = thread.visibility == Visibility.PRIVATE
    data: dict[str, Any] = {
        "organization": thread.organization.slug,
        "team": thread.node.slug,
        "thread": {
            "id": str(thread.pk),
            "visibility": thread.visibility,
            "channel": thread.channel,
            "sample": thread.sample,
            "url": f"{settings.PUBLIC_URL}/app/threads/{thread.pk}" if settings.PUBLIC_URL else None,
        },
        "run": {
            "id": str(run.pk),
            "number": run.number,
            "status": run.status,
            "reason": run.reason,
            "created_at": clock.rfc3339(run.created_at),
            "ended_at": clock.rfc3339(at),
            "duration_ms": int((at - run.created_at).total_seconds() * 1000),
        },
    }
    if not private:
        data["thread"]["title"] = thread.title
        data["run"]["requested_by"] = run.requested_by_label
        data |= _answer(run, thread)
    return orjson.dumps({"type": event, "timestamp": clock.rfc3339(at), "data": data}).decode()


def _answer(run: Run, thread: Thread) -> dict[str, Any]:
    """Return the answer as the team reads it; what is addressed to the starter alone is left out."""
    log = Event.objects.filter(thread=thread, run_id=run.pk, type=EventType.RESULT, audience=Audience.THREAD)
    data = log.order_by("-seq").values_list("data", flat=True).first()
    if data is None:
        return {"answer": None, "report": None}
    result = events.Result.model_validate_json(data)
    answer = {"text": _cut(result.text), "success": result.success, "subtype": result.subtype}
    return {"answer": answer, "report": _report(result.report) if result.report else None}


def _report(report: Report) -> dict[str, Any]:
    return {
        "title": _cut(report.title),
        "status": report.status,
        "severity": report.severity,
        "summary": _cut(report.summary),
        "root_cause": _cause(report.root_cause) if report.root_cause else None,
        "actions": [{"priority": item.priority, "action": _cut(item.action)} for item in report.actions[:MAX_ACTIONS]],
    }


def _cause(cause: Hypothesis) -> dict[str, Any]:
    return {
        "category": cause.category,
        "object": cause.object,
        "mechanism": _cut(cause.mechanism),
        "confidence": cause.confidence,
    }


def _cut(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 1] + "…"
