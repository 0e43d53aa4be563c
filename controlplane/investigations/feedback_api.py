"""REST of ratings, ours and the one OpenSRE's bots call."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.core import clock
from controlplane.core.api import StrictSerializer, actor_of, body_of, query_of
from controlplane.core.errors import MalformedRequest, invalid
from controlplane.investigations.agent_runs import run_named
from controlplane.investigations.api import PROBLEM
from controlplane.investigations.control import FreeText
from controlplane.investigations.feedback import feedback_give, feedback_list
from controlplane.investigations.misses import miss_case
from controlplane.investigations.models import Feedback, Verdict

#: OpenSRE's two words for a rating.
OPENSRE_WORDS = {"positive": Verdict.CORRECT.value, "negative": Verdict.WRONG.value}


class FeedbackInput(StrictSerializer):
    verdict = FreeText(help_text="correct, partial or wrong")
    reason = FreeText(required=False, help_text="At most 2,000 characters.")
    miss = FreeText(
        required=False,
        help_text="retrieval_gap, reasoning_gap, tool_failure, routing_failure or unknown; not of a correct answer.",
    )
    run_id = serializers.UUIDField(required=False, help_text="The last ended run of the thread when left out.")


class FeedbackOutput(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    run_id = serializers.UUIDField()
    verdict = serializers.CharField()
    reason = serializers.CharField()
    miss = serializers.CharField(allow_null=True, help_text="Your own rating's; null of everybody else's.")
    by = serializers.CharField()
    mine = serializers.BooleanField()
    created_at = serializers.DateTimeField()
    changed_at = serializers.DateTimeField()


class FeedbackListOutput(serializers.Serializer[Any]):
    results = FeedbackOutput(many=True)


class ThreadFeedbackView(APIView):
    @extend_schema(operation_id="thread_feedback_list", responses={200: FeedbackListOutput, 404: PROBLEM})
    def get(self, request: Request, thread_id: UUID) -> Response:
        """List the ratings of a thread's runs, oldest first."""
        query_of(request)
        actor = actor_of(request)
        return Response({"results": [feedback_json(item, actor.principal) for item in feedback_list(actor, thread_id)]})

    @extend_schema(
        operation_id="thread_feedback_give",
        request=FeedbackInput,
        responses={200: FeedbackOutput, 403: PROBLEM, 409: PROBLEM, 422: PROBLEM},
    )
    def post(self, request: Request, thread_id: UUID) -> Response:
        """Rate a run, or change your rating of it."""
        query_of(request)
        actor = actor_of(request)
        body = body_of(FeedbackInput, request.data)
        given = feedback_give(
            actor=actor,
            thread_id=thread_id,
            verdict=body["verdict"],
            reason=body.get("reason", ""),
            miss=body.get("miss"),
            run_id=body.get("run_id"),
        )
        return Response(feedback_json(given, actor.principal))


class RunMissView(APIView):
    @extend_schema(operation_id="run_miss", responses={200: dict[str, Any], 404: PROBLEM, 409: PROBLEM})
    def get(self, request: Request, thread_id: UUID, run_id: UUID) -> Response:
        """Export your own rating of partial or wrong as a case that ``manage.py evaluate misses`` runs (``miss/1``)."""
        query_of(request)
        return Response(miss_case(actor=actor_of(request), thread_id=thread_id, run_id=run_id))


class OpenSreFeedbackView(APIView):
    @extend_schema(operation_id="opensre_feedback", request=dict[str, Any], responses={200: dict[str, Any]})
    def post(self, request: Request) -> Response:
        """Rate a run as OpenSRE's bots do: ``{run_id, correlation_id?, feedback, user_id?, source}``."""
        body = request.data
        if not isinstance(body, dict):
            raise MalformedRequest("The body must be a JSON object.", code="not_an_object")
        actor = actor_of(request)
        thread_id, run_id = run_named(actor, body.get("run_id"), body.get("correlation_id"))
        word = body.get("feedback")
        if not isinstance(word, str) or word not in OPENSRE_WORDS:
            raise invalid("/feedback", "unknown_verdict", "Feedback is positive or negative.")
        feedback_give(
            actor=actor,
            thread_id=thread_id,
            run_id=run_id,
            verdict=OPENSRE_WORDS[word],
            reason=body.get("reason") or body.get("comment") or "",
            on_behalf_of=_person(body),
        )
        return Response({"success": True, "run_id": str(run_id), "feedback": word})


def _person(body: dict[str, Any]) -> str:
    """Return whom the bot speaks for, told apart by the bot's platform: ids of two platforms may be alike."""
    user, source = body.get("user_id"), body.get("source")
    if not isinstance(user, str) or not user.strip():
        return ""
    return f"{source.strip()}:{user.strip()}" if isinstance(source, str) and source.strip() else user


def feedback_json(item: Feedback, principal: str) -> dict[str, Any]:
    """Return a rating as the API shows it to ``principal``."""
    mine = item.by == principal and not item.on_behalf_of
    return {
        "id": item.pk,
        "run_id": item.run_id,
        "verdict": item.verdict,
        "reason": item.reason,
        "miss": (item.miss or None) if mine else None,
        "by": item.by_label,
        "mine": mine,
        "created_at": clock.rfc3339(item.created_at),
        "changed_at": clock.rfc3339(item.changed_at),
    }
