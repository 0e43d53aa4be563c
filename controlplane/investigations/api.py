"""REST of investigations: thin views over services and selectors."""

from typing import Any
from uuid import UUID

import orjson
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.core import clock
from controlplane.core.api import StrictSerializer, actor_of, body_of, query_of
from controlplane.core.errors import MalformedRequest
from controlplane.core.pagination import limit_of
from controlplane.core.permissions import Action
from controlplane.investigations import selectors
from controlplane.investigations.control import (
    AnswersInput,
    DecisionInput,
    DecisionOutput,
    FreeText,
    MessageInput,
    MessageOutput,
    RunOutput,
    control_do,
)
from controlplane.investigations.idempotency import Answer, call_once, key_of
from controlplane.investigations.log import LogPage, read_page
from controlplane.investigations.models import Run, Thread
from controlplane.investigations.recording import run_recording
from controlplane.investigations.starting import investigation_draft, investigation_queue
from controlplane.orgs.selectors import team_for
from controlplane.runtimes.events import event_schemas

MAX_EVENTS = 1000


class InvestigationInput(StrictSerializer):
    """The members and their types; what they may hold is the service's to say."""

    prompt = FreeText()
    team = FreeText(required=False, help_text="ORG/TEAM or TEAM; may be left out when there is only one.")
    alert = serializers.JSONField(required=False, help_text="The alert as its source sent it: an object.")
    evidence = serializers.JSONField(
        required=False, help_text="A snapshot/1 object or the id of an upload of one, never a path."
    )
    attachments = serializers.JSONField(required=False, help_text="Ids of your uploads, ten at most.")
    visibility = FreeText(required=False, help_text="private or team")


class StartedOutput(serializers.Serializer[Any]):
    """The output classes describe answers for the OpenAPI document; the functions below make them."""

    thread_id = serializers.UUIDField()
    run_id = serializers.UUIDField()
    stream_url = serializers.CharField()


class ThreadOutput(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    title = serializers.CharField()
    team = serializers.CharField()
    visibility = serializers.CharField()
    started_by = serializers.CharField()
    channel = serializers.CharField()
    sample = serializers.BooleanField()
    created_at = serializers.DateTimeField()
    head = serializers.IntegerField()
    active_run = serializers.UUIDField(allow_null=True)


class ThreadPageOutput(serializers.Serializer[Any]):
    results = ThreadOutput(many=True)
    next = serializers.CharField(allow_null=True)


class ThreadDetailOutput(ThreadOutput):
    runs = serializers.ListField(child=serializers.DictField())
    can_control = serializers.BooleanField()
    pending_question = serializers.DictField(allow_null=True)


class EventPageOutput(serializers.Serializer[Any]):
    results = serializers.ListField(child=serializers.DictField())
    next = serializers.IntegerField(allow_null=True)
    head = serializers.IntegerField()


_IDEMPOTENCY_KEY = OpenApiParameter(
    "Idempotency-Key",
    location=OpenApiParameter.HEADER,
    description="Of your choice, new for each request. Repeated with the same key and body, a request is not done "
    "again but answered as it was; kept for a day.",
)
PROBLEM = OpenApiResponse(description="application/problem+json (RFC 9457) with a stable `code`.")


class InvestigationsView(APIView):
    rate_rule = "investigations"

    @extend_schema(
        operation_id="investigation_start",
        parameters=[_IDEMPOTENCY_KEY],
        request=InvestigationInput,
        responses={202: StartedOutput, 401: PROBLEM, 403: PROBLEM, 413: PROBLEM, 422: PROBLEM},
    )
    def post(self, request: Request) -> Response:
        """Start an investigation: a new thread with its first run."""
        query_of(request)
        actor = actor_of(request)
        body = body_of(InvestigationInput, request.data)

        draft = investigation_draft(
            actor=actor,
            team=team_for(actor, body.get("team"), Action.RUN_CREATE),
            prompt=body["prompt"],
            alert=body.get("alert"),
            evidence=body.get("evidence"),
            visibility=body.get("visibility"),
            attachments=body.get("attachments", ()),
        )

        def start() -> dict[str, Any]:
            started = investigation_queue(draft)
            return {
                "thread_id": started.thread.pk,
                "run_id": started.run.pk,
                "stream_url": f"/api/v1/threads/{started.thread.pk}/stream",
            }

        header = request.headers.get("Idempotency-Key")
        if header is None:
            return _answered(Answer(start()), status.HTTP_202_ACCEPTED)
        answer = call_once(actor=actor, key=key_of(header), asked=[request.path, request.data], act=start)
        return _answered(answer, status.HTTP_202_ACCEPTED)


class ThreadsView(APIView):
    @extend_schema(
        operation_id="thread_list",
        parameters=[OpenApiParameter("cursor"), OpenApiParameter("limit", int)],
        responses={200: ThreadPageOutput},
    )
    def get(self, request: Request) -> Response:
        """List the threads you may see, newest first."""
        query = query_of(request, "cursor", "limit")
        page = selectors.threads_page(actor_of(request), cursor=query.get("cursor"), limit=query.get("limit", 50))
        return Response(page.as_dict([thread_json(thread) for thread in page.results]))


class ThreadView(APIView):
    @extend_schema(operation_id="thread_get", responses={200: ThreadDetailOutput, 404: PROBLEM})
    def get(self, request: Request, thread_id: UUID) -> Response:
        """Read a thread with its runs, their answers and reports."""
        query_of(request)
        detail = selectors.thread_detail(actor_of(request), thread_id)
        return Response(
            thread_json(detail.thread)
            | {
                "runs": [run_view_json(view) for view in detail.runs],
                "can_control": detail.can_control,
                "pending_question": detail.pending_question,
            }
        )


class ThreadEventsView(APIView):
    @extend_schema(
        operation_id="thread_events",
        parameters=[OpenApiParameter("after", int), OpenApiParameter("limit", int)],
        responses={200: EventPageOutput, 404: PROBLEM},
    )
    def get(self, request: Request, thread_id: UUID) -> HttpResponse:
        """Read the log after a cursor: ``{"results", "next", "head"}``; ``next`` is null at the end."""
        query = query_of(request, "after", "limit")
        after = _whole_number(query.get("after", "0"), "after")
        limit = limit_of(query, default=500, maximum=MAX_EVENTS)
        actor = actor_of(request)
        thread = selectors.thread_get(actor, thread_id)
        page = read_page(thread.pk, after=after, limit=limit)
        body = _events_json(page, head=thread.last_seq, starter=selectors.is_starter(actor, thread))
        return HttpResponse(body, content_type="application/json")


class ThreadMessagesView(APIView):
    rate_rule = "investigations"

    @extend_schema(
        operation_id="thread_message",
        parameters=[_IDEMPOTENCY_KEY],
        request=MessageInput,
        responses={202: MessageOutput},
    )
    def post(self, request: Request, thread_id: UUID) -> Response:
        """Say something: the running turn takes it up, or the next one starts."""
        return _controlled(request, thread_id, "messages")


class ThreadInterruptView(APIView):
    @extend_schema(
        operation_id="thread_interrupt",
        parameters=[_IDEMPOTENCY_KEY],
        request=None,
        responses={202: RunOutput, 409: PROBLEM},
    )
    def post(self, request: Request, thread_id: UUID) -> Response:
        """Stop the active run."""
        return _controlled(request, thread_id, "interrupt")


class ThreadAnswersView(APIView):
    @extend_schema(
        operation_id="thread_answer",
        parameters=[_IDEMPOTENCY_KEY],
        request=AnswersInput,
        responses={202: RunOutput, 409: PROBLEM},
    )
    def post(self, request: Request, thread_id: UUID) -> Response:
        """Answer the question a run waits for; the first answer wins."""
        return _controlled(request, thread_id, "answers")


class ThreadDecisionsView(APIView):
    @extend_schema(
        operation_id="thread_decide",
        parameters=[_IDEMPOTENCY_KEY],
        request=DecisionInput,
        responses={200: DecisionOutput, 409: PROBLEM},
    )
    def post(self, request: Request, thread_id: UUID) -> Response:
        """Approve or reject what a run waits with; the first decision wins."""
        return _controlled(request, thread_id, "decisions", done=status.HTTP_200_OK)


class RunRecordingView(APIView):
    def rate_rule(self, _request: Request) -> str:
        """Return which rule limits this call besides the one for all."""
        return "exports"

    @extend_schema(operation_id="run_recording", responses={200: dict[str, Any], 409: PROBLEM, 413: PROBLEM})
    def get(self, request: Request, thread_id: UUID, run_id: UUID) -> Response:
        """Read a finished run as a recording that can be played again (``replay/1``)."""
        return Response(run_recording(actor=actor_of(request), thread_id=thread_id, run_id=run_id))


class EventSchemasView(APIView):
    authentication_classes: list[Any] = []
    permission_classes: list[Any] = []

    @extend_schema(operation_id="event_schemas", auth=[], responses={200: dict[str, Any]})
    def get(self, request: Request) -> Response:
        """Read the JSON Schema of every event type's data."""
        return Response(event_schemas())


def _controlled(request: Request, thread_id: UUID, name: str, *, done: int = status.HTTP_202_ACCEPTED) -> Response:
    """Do what is asked of a thread, once where the request has an ``Idempotency-Key``."""
    header = request.headers.get("Idempotency-Key")
    key = None if header is None else key_of(header)
    answer = control_do(actor=actor_of(request), thread_id=thread_id, name=name, body=request.data, key=key)
    return _answered(answer, done)


def _answered(answer: Answer, done: int) -> Response:
    headers = {"Idempotent-Replayed": "true"} if answer.replayed else {}
    return Response(answer.value, status=done, headers=headers)


def thread_json(thread: Thread) -> dict[str, Any]:
    """Return a thread as the API shows it."""
    return {
        "id": thread.pk,
        "title": thread.title,
        "team": f"{thread.organization.slug}/{thread.node.slug}",
        "visibility": thread.visibility,
        "started_by": thread.started_by_label,
        "channel": thread.channel,
        "sample": thread.sample,
        "created_at": clock.rfc3339(thread.created_at),
        "head": thread.last_seq,
        "active_run": thread.active_run,
    }


def run_json(run: Run) -> dict[str, Any]:
    """Return a run as the API shows it, without its answer."""
    return {
        "id": run.pk,
        "number": run.number,
        "status": run.status,
        "reason": run.reason,
        "prompt": run.prompt,
        "runtime": run.runtime,
        "by": run.requested_by_label,
        "headline": run.headline,
        "created_at": clock.rfc3339(run.created_at),
        "started_at": clock.rfc3339(run.started_at) if run.started_at else None,
        "ended_at": clock.rfc3339(run.ended_at) if run.ended_at else None,
    }


def run_view_json(view: selectors.RunView) -> dict[str, Any]:
    """Return a run with its answer, report, and what the report cites."""
    return run_json(view.run) | {
        "answer": view.answer,
        "report": view.report.model_dump(mode="json") if view.report else None,
        "observations": {
            id_: {"seq": ref.seq, "source": ref.source, "object": ref.object, "kind": ref.kind, "quote": ref.quote}
            for id_, ref in view.observations.items()
        },
    }


def _whole_number(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise MalformedRequest(f"{name} must be a whole number, 0 or larger.", code="bad_cursor")
    return int(text)


def _events_json(page: LogPage, *, head: int, starter: bool) -> bytes:
    """Put the page together from envelopes that are already encoded."""
    envelopes = b",".join(event.envelope(starter=starter) for event in page.events)
    tail = orjson.dumps({"next": page.events[-1].seq if page.more else None, "head": head})[1:]
    return b'{"results":[' + envelopes + b"]," + tail
