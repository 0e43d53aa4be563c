"""REST of webhook deliveries: what was told to whom, and telling it again."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.core.api import StrictSerializer, actor_of, body_of, query_of
from controlplane.core.permissions import Action
from controlplane.investigations.api import PROBLEM
from controlplane.investigations.webhooks.outbox import deliveries_page, delivery_json, delivery_resend, webhook_test
from controlplane.orgs.models import Node
from controlplane.orgs.selectors import node_get


class NothingInput(StrictSerializer):
    """A body that may be left out and has no members."""


class DeliveryOutput(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    webhook = serializers.CharField()
    event = serializers.CharField()
    team = serializers.CharField()
    thread_id = serializers.UUIDField(allow_null=True)
    run_id = serializers.UUIDField(allow_null=True)
    state = serializers.ChoiceField(["pending", "delivered", "dead", "cancelled"])
    attempts = serializers.IntegerField()
    next_at = serializers.DateTimeField(allow_null=True)
    last_status = serializers.IntegerField(allow_null=True)
    last_error = serializers.CharField()
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)


class DeliveryPageOutput(serializers.Serializer[Any]):
    results = DeliveryOutput(many=True)
    next = serializers.CharField(allow_null=True)


class DeliveriesView(APIView):
    @extend_schema(
        operation_id="webhook_delivery_list",
        parameters=[OpenApiParameter("state"), OpenApiParameter("cursor"), OpenApiParameter("limit", int)],
        responses={200: DeliveryPageOutput},
    )
    def get(self, request: Request, org: str, node: str) -> Response:
        """List what receivers of the node and of the nodes below it were told, newest first."""
        query = query_of(request, "state", "cursor", "limit")
        page = deliveries_page(
            actor=actor_of(request),
            node=_node(request, org, node, Action.CONFIG_READ),
            state=query.get("state"),
            cursor=query.get("cursor"),
            limit=query.get("limit", 50),
        )
        return Response(page.as_dict([delivery_json(delivery) for delivery in page.results]))


class DeliveryResendView(APIView):
    @extend_schema(operation_id="webhook_delivery_resend", request=None, responses={202: DeliveryOutput, 409: PROBLEM})
    def post(self, request: Request, org: str, node: str, delivery_id: UUID) -> Response:
        """Send a delivery that is over once more, under the same id."""
        body_of(NothingInput, request.data)
        delivery = delivery_resend(
            actor=actor_of(request), node=_node(request, org, node, Action.CONFIG_WRITE), delivery_id=delivery_id
        )
        return Response(delivery_json(delivery), status=status.HTTP_202_ACCEPTED)


class WebhookTestView(APIView):
    @extend_schema(operation_id="webhook_test", request=None, responses={202: DeliveryOutput, 404: PROBLEM})
    def post(self, request: Request, org: str, node: str, hook: str) -> Response:
        """Tell one receiver that this is a test."""
        body_of(NothingInput, request.data)
        delivery = webhook_test(actor=actor_of(request), node=_node(request, org, node, Action.CONFIG_WRITE), hook=hook)
        return Response(delivery_json(delivery), status=status.HTTP_202_ACCEPTED)


def _node(request: Request, org: str, node: str, action: Action) -> Node:
    return node_get(actor=actor_of(request), organization_slug=org, node_slug=node, action=action)
