"""REST of alerts: the webhooks of alert sources, and the list of what they delivered."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.alerts import metrics, selectors, services
from controlplane.alerts.alertmanager import delivery_read
from controlplane.alerts.models import AlertGroup, Source
from controlplane.alerts.parsers import AlertBodyParser
from controlplane.core import clock
from controlplane.core.api import actor_of, query_of
from controlplane.core.errors import AppError

PROBLEM = OpenApiResponse(description="application/problem+json (RFC 9457) with a stable `code`.")


class AlertmanagerInput(serializers.Serializer[Any]):
    """The input and output classes describe bodies for the OpenAPI document; the reader checks the webhook itself."""

    version = serializers.CharField()
    groupKey = serializers.CharField()  # noqa: N815 (Alertmanager's names)
    status = serializers.ChoiceField(choices=["firing", "resolved"])
    receiver = serializers.CharField(required=False)
    groupLabels = serializers.DictField(child=serializers.CharField(), required=False)  # noqa: N815
    commonLabels = serializers.DictField(child=serializers.CharField(), required=False)  # noqa: N815
    commonAnnotations = serializers.DictField(child=serializers.CharField(), required=False)  # noqa: N815
    externalURL = serializers.CharField(required=False)  # noqa: N815
    truncatedAlerts = serializers.IntegerField(required=False)  # noqa: N815
    alerts = serializers.ListField(child=serializers.DictField())


class IngestedOutput(serializers.Serializer[Any]):
    group = serializers.UUIDField()
    thread_id = serializers.UUIDField(allow_null=True)
    run_id = serializers.UUIDField(allow_null=True)
    action = serializers.ChoiceField(choices=[action.value for action in services.Taken])


class AlertGroupOutput(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    source = serializers.CharField()  # type: ignore[assignment]  # a field of ours, not DRF's attribute
    team = serializers.CharField()
    group_key = serializers.CharField()
    title = serializers.CharField()
    severity = serializers.CharField()
    status = serializers.CharField()
    labels = serializers.DictField(child=serializers.CharField())
    firing = serializers.IntegerField()
    starts_at = serializers.DateTimeField(allow_null=True)
    first_at = serializers.DateTimeField()
    last_at = serializers.DateTimeField()
    deliveries = serializers.IntegerField()
    thread_id = serializers.UUIDField(allow_null=True)


class AlertGroupPageOutput(serializers.Serializer[Any]):
    results = AlertGroupOutput(many=True)
    next = serializers.CharField(allow_null=True)


class AlertmanagerView(APIView):
    parser_classes = [AlertBodyParser]
    rate_rule = "alerts"

    @extend_schema(
        operation_id="alert_alertmanager",
        request=AlertmanagerInput,
        responses={202: IngestedOutput, 400: PROBLEM, 401: PROBLEM, 403: PROBLEM, 413: PROBLEM, 422: PROBLEM},
    )
    def post(self, request: Request) -> Response:
        """Take in a webhook of Alertmanager, version 4."""
        query_of(request)
        actor = actor_of(request)
        try:
            ingested = services.alert_ingest(actor=actor, delivery=delivery_read(request.data))
        except AppError:
            metrics.deliveries_total.labels(source=Source.ALERTMANAGER.value, action="refused").inc()
            raise
        answer = {
            "group": ingested.group.pk,
            "thread_id": ingested.group.thread_id,
            "run_id": ingested.run_id,
            "action": ingested.action.value,
        }
        return Response(answer, status=status.HTTP_202_ACCEPTED)


class AlertsView(APIView):
    @extend_schema(
        operation_id="alert_list",
        parameters=[
            OpenApiParameter("team", description="`ORG/TEAM` or `TEAM`"),
            OpenApiParameter("status"),
            OpenApiParameter("cursor"),
            OpenApiParameter("limit", int),
        ],
        responses={200: AlertGroupPageOutput, 403: PROBLEM, 422: PROBLEM},
    )
    def get(self, request: Request) -> Response:
        """List the alert groups of the teams whose runs you may read, the last delivered first."""
        query = query_of(request, "team", "status", "cursor", "limit")
        page = selectors.alert_groups_page(
            actor_of(request),
            team=query.get("team"),
            status=query.get("status"),
            cursor=query.get("cursor"),
            limit=query.get("limit", 50),
        )
        return Response(page.as_dict([alert_group_json(group) for group in page.results]))


def alert_group_json(group: AlertGroup) -> dict[str, Any]:
    """Return an alert group as the API shows it."""
    return {
        "id": group.pk,
        "source": group.source,
        "team": f"{group.organization.slug}/{group.node.slug}",
        "group_key": group.group_text,
        "title": group.title,
        "severity": group.severity,
        "status": group.status,
        "labels": group.labels,
        "firing": group.firing_count,
        "starts_at": clock.rfc3339(group.starts_at) if group.starts_at else None,
        "first_at": clock.rfc3339(group.first_at),
        "last_at": clock.rfc3339(group.last_at),
        "deliveries": group.deliveries,
        "thread_id": group.thread_id,
    }
