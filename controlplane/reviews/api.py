"""REST of reviews."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.core.actor import Actor
from controlplane.core.api import StrictSerializer, TextField, actor_of, body_of, query_of
from controlplane.core.clock import rfc3339
from controlplane.core.errors import FieldError, MalformedRequest
from controlplane.core.pagination import page_of
from controlplane.orgs.selectors import nodes_with_lineage
from controlplane.reviews import services
from controlplane.reviews.models import ReviewRequest, ReviewState
from controlplane.reviews.selectors import review_actions, review_get, reviews_for


class DecisionBody(StrictSerializer):
    reason = TextField(required=False, allow_blank=True, default="", max_length=services.MAX_REASON)


class ReviewPersonOutput(serializers.Serializer[Any]):
    principal = serializers.CharField()
    name = serializers.CharField()


class AuthorOutput(ReviewPersonOutput):
    channel = serializers.CharField()


class ReviewSummaryOutput(serializers.Serializer[Any]):
    """Only for the OpenAPI document; rows are represented by :func:`represent_summary`."""

    id = serializers.UUIDField()
    url = serializers.CharField()
    kind = serializers.CharField()
    state = serializers.ChoiceField(ReviewState.choices)
    organization = serializers.CharField()
    node = serializers.CharField(help_text="Slug.")
    title = serializers.CharField()
    reason = serializers.CharField(allow_blank=True)
    requested_by = AuthorOutput()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    decided_by = ReviewPersonOutput(allow_null=True)
    decided_at = serializers.DateTimeField(allow_null=True)
    decision_reason = serializers.CharField(allow_blank=True)
    actions = serializers.ListField(
        child=serializers.ChoiceField(["approve", "reject", "withdraw"]), help_text="What the caller may do now."
    )


class ReviewOutput(ReviewSummaryOutput):
    snapshot = serializers.DictField(child=serializers.JSONField(allow_null=True))
    diff = serializers.ListField(child=serializers.JSONField())
    evidence = serializers.ListField(child=serializers.JSONField())
    base = serializers.DictField(child=serializers.JSONField(allow_null=True))
    result = serializers.DictField(child=serializers.JSONField(allow_null=True))


class ReviewPageOutput(serializers.Serializer[Any]):
    results = ReviewSummaryOutput(many=True)
    next = serializers.CharField(allow_null=True)


class ReviewListView(APIView):
    """The reviews that the caller may decide or has asked for, the newest first."""

    @extend_schema(
        operation_id="review_list",
        parameters=[
            OpenApiParameter("state", str, enum=ReviewState.values),
            OpenApiParameter("kind", str),
            OpenApiParameter("node", str, description="Slug."),
            OpenApiParameter("cursor", str),
            OpenApiParameter("limit", int),
        ],
        responses=ReviewPageOutput,
    )
    def get(self, request: Request) -> Response:
        params = query_of(request, "state", "kind", "node", "cursor", "limit")
        actor = actor_of(request)
        services.reviews_expire(organization_id=actor.organization_id)
        rows = (
            reviews_for(actor)
            .select_related("node", "organization")
            .defer("snapshot", "diff", "evidence", "base", "result")
        )
        if "state" in params:
            rows = rows.filter(state=_state(params["state"]))
        for name, column in (("kind", "kind"), ("node", "node__slug")):
            if name in params:
                rows = rows.filter(**{column: params[name].replace("\x00", "")})
        page = page_of(rows, ordering=["-created_at", "-id"], params=params)
        nodes = {review.node_id: review.node for review in page.results}
        lineages = {node.pk: lineage for node, lineage in nodes_with_lineage(nodes.values())} if nodes else {}
        return Response(
            page.as_dict([represent_summary(review, actor, lineages[review.node_id]) for review in page.results])
        )


class ReviewView(APIView):
    """One review."""

    @extend_schema(operation_id="review_read", responses=ReviewOutput)
    def get(self, request: Request, review_id: UUID) -> Response:
        query_of(request)
        actor = actor_of(request)
        services.reviews_expire(organization_id=actor.organization_id)
        return Response(represent_review(review_get(actor=actor, review_id=review_id), actor))


class ApproveView(APIView):
    """Approving: what was asked for happens, once."""

    @extend_schema(operation_id="review_approve", request=DecisionBody, responses=ReviewOutput)
    def post(self, request: Request, review_id: UUID) -> Response:
        return _decided(request, review_id, services.review_approve)


class RejectView(APIView):
    """Refusing."""

    @extend_schema(operation_id="review_reject", request=DecisionBody, responses=ReviewOutput)
    def post(self, request: Request, review_id: UUID) -> Response:
        return _decided(request, review_id, services.review_reject)


class WithdrawView(APIView):
    """Taking back one's own request."""

    @extend_schema(operation_id="review_withdraw", request=DecisionBody, responses=ReviewOutput)
    def post(self, request: Request, review_id: UUID) -> Response:
        return _decided(request, review_id, services.review_withdraw)


def _decided(request: Request, review_id: UUID, service: Callable[..., ReviewRequest]) -> Response:
    query_of(request)
    actor = actor_of(request)
    review = review_get(actor=actor, review_id=review_id)
    body = body_of(DecisionBody, request.data)
    return Response(represent_review(service(actor=actor, review=review, **body), actor))


def review_url(review: ReviewRequest) -> str:
    """Return the path of a review."""
    return f"/api/v1/reviews/{review.pk}"


def represent_summary(review: ReviewRequest, actor: Actor, lineage: tuple[UUID, ...] | None = None) -> dict[str, Any]:
    """Return what a list says of a review; node and organization are loaded when they are not yet."""
    decided = {"principal": review.decided_by, "name": review.decided_label} if review.decided_by else None
    return {
        "id": review.pk,
        "url": review_url(review),
        "kind": review.kind,
        "state": str(review.state),
        "organization": review.organization.slug,
        "node": review.node.slug,
        "title": review.title,
        "reason": review.reason,
        "requested_by": {
            "principal": review.requested_by,
            "name": review.requested_label,
            "channel": review.channel,
        },
        "created_at": rfc3339(review.created_at),
        "expires_at": rfc3339(review.expires_at),
        "decided_by": decided,
        "decided_at": rfc3339(review.decided_at) if review.decided_at else None,
        "decision_reason": review.decision_reason,
        "actions": review_actions(actor, review, lineage),
    }


def represent_review(review: ReviewRequest, actor: Actor) -> dict[str, Any]:
    """Return a whole review."""
    return represent_summary(review, actor) | {
        "snapshot": review.snapshot,
        "diff": review.diff,
        "evidence": review.evidence,
        "base": review.base,
        "result": review.result,
    }


def _state(value: str) -> str:
    if value not in ReviewState.values:
        detail = f"state must be one of {', '.join(ReviewState.values)}."
        raise MalformedRequest(detail, code="bad_state", errors=[FieldError("", "bad_state", detail)])
    return value
