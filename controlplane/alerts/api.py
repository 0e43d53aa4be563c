"""REST of alerts: the doors for those who send them, and what became of each."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.http import HttpRequest
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from typing_extensions import override

from controlplane.access.authentication import BearerAuthentication, SessionActorAuthentication
from controlplane.access.limits.guard import guesses_limited
from controlplane.alerts import selectors, services
from controlplane.alerts.authentication import CHALLENGES, BasicTokenAuthentication
from controlplane.alerts.intake import TakenIn, delivery_by_source, delivery_by_token
from controlplane.alerts.models import Alert, AlertGroup, Fate, Reason
from controlplane.alerts.vendors import VENDORS, Vendor
from controlplane.alerts.verifying import Incoming
from controlplane.core import clock
from controlplane.core.api import actor_of, query_of
from controlplane.core.errors import NotFound, UnsupportedMediaType

PROBLEM = OpenApiResponse(description="application/problem+json (RFC 9457) with a stable `code`.")
_REFUSALS = {400: PROBLEM, 401: PROBLEM, 403: PROBLEM, 413: PROBLEM, 415: PROBLEM, 422: PROBLEM, 503: PROBLEM}


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


class TakenOutput(serializers.Serializer[Any]):
    group = serializers.UUIDField()
    thread_id = serializers.UUIDField(allow_null=True)
    run_id = serializers.UUIDField(allow_null=True)
    action = serializers.ChoiceField(choices=[action.value for action in services.Taken])


class IngestedOutput(serializers.Serializer[Any]):
    group = serializers.UUIDField(allow_null=True, help_text="Of the first group; null where nothing was taken in.")
    thread_id = serializers.UUIDField(allow_null=True)
    run_id = serializers.UUIDField(allow_null=True)
    action = serializers.ChoiceField(choices=[*(action.value for action in services.Taken), "ignored"])
    reason = serializers.CharField(required=False, help_text="Why it was ignored.")
    groups = TakenOutput(many=True, required=False, help_text="All groups, where there are several.")


class FateOutput(serializers.Serializer[Any]):
    fate = serializers.ChoiceField(choices=Fate.choices, allow_null=True)
    reason = serializers.ChoiceField(choices=Reason.choices, allow_null=True, help_text="Why it waits or was skipped.")
    explanation = serializers.CharField(help_text="The reason in words.")
    run_id = serializers.UUIDField(allow_null=True, help_text="The run that looks or looked at it.")
    run_url = serializers.CharField(allow_null=True, help_text="The page of that run.")


class AlertGroupOutput(FateOutput):
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
    waits_until = serializers.DateTimeField(allow_null=True)


class AlertOutput(FateOutput):
    id = serializers.UUIDField()
    name = serializers.CharField()
    status = serializers.CharField()
    severity = serializers.CharField()
    service = serializers.CharField()
    host = serializers.CharField()
    workload = serializers.CharField()
    summary = serializers.CharField()
    url = serializers.CharField()
    labels = serializers.DictField(child=serializers.CharField())
    annotations = serializers.DictField(child=serializers.CharField())
    starts_at = serializers.DateTimeField(allow_null=True)
    first_at = serializers.DateTimeField()
    last_at = serializers.DateTimeField()
    times = serializers.IntegerField()


class AlertGroupDetailOutput(AlertGroupOutput):
    alerts = AlertOutput(many=True, help_text=f"The last {selectors.SHOWN_ALERTS}.")
    alerts_total = serializers.IntegerField()


class AlertGroupPageOutput(serializers.Serializer[Any]):
    results = AlertGroupOutput(many=True)
    next = serializers.CharField(allow_null=True)


class _Intake(APIView):
    """What the doors have in common: the bytes as they came, since those are what is signed."""

    rate_rule = "alerts"

    @override
    def handle_exception(self, exc: Exception) -> Response:
        """Say on a 401 that HTTP Basic will do: some senders show a credential only when they are asked for it."""
        response = super().handle_exception(exc)
        if response.status_code == status.HTTP_401_UNAUTHORIZED:
            response["WWW-Authenticate"] = CHALLENGES
        return response

    def vendor(self, name: str) -> Vendor:
        if name not in VENDORS:
            raise NotFound("There is no such source of alerts.", code="unknown_vendor")
        return VENDORS[name]

    def incoming(self, request: Request, vendor: Vendor, token: str = "") -> Incoming:
        """Return the delivery; its content type has to be one that the vendor sends."""
        kind = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind not in vendor.media and not kind.endswith("+json"):
            detail = f"{vendor.source.label} sends {' or '.join(vendor.media)}; this is another content type."
            raise UnsupportedMediaType(detail)
        plain: HttpRequest = request._request  # noqa: SLF001 (DRF keeps Django's request there; its body is not parsed yet)
        return Incoming(body=plain.body, headers=plain.headers, token=token)


class VendorView(_Intake):
    authentication_classes = [BasicTokenAuthentication, BearerAuthentication, SessionActorAuthentication]

    @extend_schema(
        operation_id="alert_ingest",
        parameters=[OpenApiParameter("source", description="Which of the node's sources of this vendor it is.")],
        request=OpenApiTypes.OBJECT,
        responses={202: IngestedOutput, **_REFUSALS},
    )
    def post(self, request: Request, vendor: str) -> Response:
        """Take in what a vendor delivers with an access token: `Bearer`, or as the password of `Basic`."""
        chosen = self.vendor(vendor)
        query = query_of(request, "source")
        actor = actor_of(request)
        incoming = self.incoming(request, chosen)
        return _answer(delivery_by_token(actor=actor, vendor=chosen, incoming=incoming, name=query.get("source")))


class AlertmanagerView(VendorView):
    @extend_schema(
        operation_id="alert_alertmanager", request=AlertmanagerInput, responses={202: IngestedOutput, **_REFUSALS}
    )
    @override
    def post(self, request: Request, vendor: str = "alertmanager") -> Response:
        """Take in a webhook of Alertmanager, version 4."""
        return super().post(request, vendor)


class SourceView(_Intake):
    authentication_classes = []
    permission_classes = []

    @extend_schema(
        operation_id="alert_ingest_signed",
        auth=[],
        parameters=[OpenApiParameter("token", description="Azure Monitor's token; others send it in a header.")],
        request=OpenApiTypes.OBJECT,
        responses={202: IngestedOutput, **_REFUSALS},
    )
    def post(self, request: Request, vendor: str, organization: str, node: str, name: str) -> Response:
        """Take in what a configured source delivers, by its signature or token: `alerts.sources` of the node."""
        chosen = self.vendor(vendor)
        query = query_of(request, *(["token"] if vendor == "azure" else []))
        incoming = self.incoming(request, chosen, token=query.get("token", ""))
        address = request.META.get("REMOTE_ADDR")
        with guesses_limited(address, f"source:{organization}/{node}/{name}"):
            taken = delivery_by_source(
                organization=organization, node=node, name=name, vendor=chosen, incoming=incoming, address=address
            )
        return _answer(taken)


def _answer(taken: TakenIn) -> Response:
    listed = [
        {
            "group": one.group.pk,
            "thread_id": one.group.thread_id,
            "run_id": one.run_id,
            "action": one.action.value,
        }
        for one in taken.ingested
    ]
    nothing = {"group": None, "thread_id": None, "run_id": None, "action": "ignored", "reason": taken.ignored}
    answer: dict[str, Any] = listed[0] if listed else nothing
    return Response(answer | ({"groups": listed} if len(listed) > 1 else {}), status=status.HTTP_202_ACCEPTED)


class AlertsView(APIView):
    @extend_schema(
        operation_id="alert_list",
        parameters=[
            OpenApiParameter("team", description="`ORG/TEAM` or `TEAM`"),
            OpenApiParameter("status"),
            OpenApiParameter("fate", description="Groups with an alert of this fate."),
            OpenApiParameter("source"),
            OpenApiParameter("cursor"),
            OpenApiParameter("limit", int),
        ],
        responses={200: AlertGroupPageOutput, 403: PROBLEM, 422: PROBLEM},
    )
    def get(self, request: Request) -> Response:
        """List the alert groups of the teams whose runs you may read, the last delivered first."""
        query = query_of(request, "team", "status", "fate", "source", "cursor", "limit")
        page = selectors.alert_groups_page(
            actor_of(request),
            team=query.get("team"),
            status=query.get("status"),
            fate=query.get("fate"),
            source=query.get("source"),
            cursor=query.get("cursor"),
            limit=query.get("limit", 50),
        )
        return Response(page.as_dict([alert_group_json(group) for group in page.results]))


class AlertGroupView(APIView):
    @extend_schema(operation_id="alert_get", responses={200: AlertGroupDetailOutput, 404: PROBLEM})
    def get(self, request: Request, group_id: UUID) -> Response:
        """Return an alert group with each of its alerts and what became of it."""
        query_of(request)
        detail = selectors.alert_group_get(actor_of(request), group_id)
        shown = alert_group_json(detail.group) | {
            "alerts": [alert_json(alert, detail.group) for alert in detail.alerts],
            "alerts_total": detail.total,
        }
        return Response(shown)


def fate_json(subject: Alert | AlertGroup, group: AlertGroup) -> dict[str, Any]:
    """Return what became of an alert or of a group: investigated or joined by which run, or skipped and why."""
    linked = subject.run_id is not None and group.thread_id is not None
    return {
        "fate": subject.fate or None,
        "reason": subject.fate_reason or None,
        "explanation": Reason(subject.fate_reason).label if subject.fate_reason else "",
        "run_id": subject.run_id,
        "run_url": f"/app/threads/{group.thread_id}#run-{subject.run_id}" if linked else None,
    }


def alert_json(alert: Alert, group: AlertGroup) -> dict[str, Any]:
    """Return one alert as the API shows it."""
    details: Mapping[str, Any] = alert.details
    return {
        "id": alert.pk,
        "name": alert.name,
        "status": alert.status,
        "severity": alert.severity,
        "service": alert.service,
        "host": alert.host,
        "workload": alert.workload,
        "summary": alert.summary,
        "url": alert.url,
        "labels": details.get("labels", {}),
        "annotations": details.get("annotations", {}),
        "starts_at": clock.rfc3339(alert.starts_at) if alert.starts_at else None,
        "first_at": clock.rfc3339(alert.first_at),
        "last_at": clock.rfc3339(alert.last_at),
        "times": alert.times,
        **fate_json(alert, group),
    }


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
        **fate_json(group, group),
        "waits_until": clock.rfc3339(group.held_until) if group.held_until else None,
    }
