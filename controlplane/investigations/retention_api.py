"""REST of retention: an organization's policy and its holds."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.core import clock
from controlplane.core.api import StrictSerializer, actor_of, body_of, query_of
from controlplane.investigations.api import PROBLEM
from controlplane.investigations.control import FreeText
from controlplane.investigations.models import LegalHold
from controlplane.investigations.retention import (
    CEILING_DAYS,
    FLOOR_DAYS,
    Keeping,
    hold_place,
    hold_release,
    holds_list,
    retention_get,
    retention_set,
)
from controlplane.orgs.selectors import organization_get


class RetentionInput(StrictSerializer):
    investigation_days = serializers.JSONField(
        required=False, allow_null=True, help_text="7 to 3650, or null to keep for ever."
    )
    alert_days = serializers.JSONField(
        required=False, allow_null=True, help_text="7 to 3650, or null to keep for ever."
    )
    hold = serializers.JSONField(required=False, allow_null=True, help_text="true keeps everything meanwhile.")


class RetentionOutput(serializers.Serializer[Any]):
    investigation_days = serializers.IntegerField(allow_null=True)
    alert_days = serializers.IntegerField(allow_null=True)
    hold = serializers.BooleanField()
    floor_days = serializers.IntegerField()
    ceiling_days = serializers.IntegerField()


class HoldInput(StrictSerializer):
    thread_id = serializers.UUIDField()
    reason = FreeText(required=False)


class HoldOutput(serializers.Serializer[Any]):
    thread_id = serializers.UUIDField()
    reason = serializers.CharField()
    by = serializers.CharField()
    created_at = serializers.DateTimeField()


class HoldListOutput(serializers.Serializer[Any]):
    results = HoldOutput(many=True)


class RetentionView(APIView):
    @extend_schema(operation_id="retention_read", responses={200: RetentionOutput})
    def get(self, request: Request, org: str) -> Response:
        """Read how long the organization keeps investigations and alerts."""
        query_of(request)
        actor = actor_of(request)
        return Response(_json(retention_get(actor=actor, organization=organization_get(actor, org))))

    @extend_schema(
        operation_id="retention_change", request=RetentionInput, responses={200: RetentionOutput, 422: PROBLEM}
    )
    def patch(self, request: Request, org: str) -> Response:
        """Change how long they are kept; what is not named stays."""
        query_of(request)
        actor = actor_of(request)
        organization = organization_get(actor, org)
        return Response(
            _json(retention_set(actor=actor, organization=organization, **body_of(RetentionInput, request.data)))
        )


class HoldsView(APIView):
    @extend_schema(operation_id="hold_list", responses={200: HoldListOutput})
    def get(self, request: Request, org: str) -> Response:
        """List the investigations that no retention removes, newest first."""
        query_of(request)
        actor = actor_of(request)
        found = holds_list(actor=actor, organization=organization_get(actor, org))
        return Response({"results": [_hold_json(held) for held in found]})

    @extend_schema(operation_id="hold_place", request=HoldInput, responses={201: HoldOutput, 409: PROBLEM})
    def post(self, request: Request, org: str) -> Response:
        """Keep an investigation whatever the policy says."""
        actor = actor_of(request)
        organization = organization_get(actor, org)
        body = body_of(HoldInput, request.data)
        held = hold_place(
            actor=actor, organization=organization, thread_id=body["thread_id"], reason=body.get("reason", "")
        )
        return Response(_hold_json(held), status=status.HTTP_201_CREATED)


class HoldView(APIView):
    @extend_schema(operation_id="hold_release", responses={204: None, 404: PROBLEM})
    def delete(self, request: Request, org: str, thread_id: UUID) -> Response:
        """Let go of a held investigation."""
        actor = actor_of(request)
        hold_release(actor=actor, organization=organization_get(actor, org), thread_id=thread_id)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _json(keeping: Keeping) -> dict[str, Any]:
    return {
        "investigation_days": keeping.investigation_days,
        "alert_days": keeping.alert_days,
        "hold": keeping.hold,
        "floor_days": FLOOR_DAYS,
        "ceiling_days": CEILING_DAYS,
    }


def _hold_json(held: LegalHold) -> dict[str, Any]:
    return {
        "thread_id": held.thread_id,
        "reason": held.reason,
        "by": held.by_label,
        "created_at": clock.rfc3339(held.created_at),
    }
