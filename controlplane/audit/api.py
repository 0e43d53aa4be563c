"""REST of the audit log: ``/orgs/{org}/audit``."""

from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpResponse
from django.utils.dateparse import parse_datetime
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.audit.export import csv_rows
from controlplane.audit.models import AuditEvent
from controlplane.audit.selectors import audit_events
from controlplane.core.api import actor_of, query_of
from controlplane.core.clock import rfc3339
from controlplane.core.errors import FieldError, MalformedRequest
from controlplane.core.pagination import Page, page_of
from controlplane.core.rest import OrjsonRenderer

#: Rows of one CSV answer; a ``Link`` header (RFC 8288) names the next.
CSV_LIMIT: Final = 10_000
_FILTERS: Final = ("action", "object_kind", "object_id")


class CsvRenderer(OrjsonRenderer):
    """Makes ``?format=csv`` known to content negotiation. The view writes the CSV; errors stay JSON."""

    media_type = "text/csv"
    format = "csv"


class AuditEventOutput(serializers.Serializer[Any]):
    """Only for the OpenAPI document; rows are represented by :func:`_represent`."""

    id = serializers.UUIDField()
    seq = serializers.IntegerField()
    at = serializers.DateTimeField()
    action = serializers.CharField()
    actor = serializers.CharField()
    actor_label = serializers.CharField()
    credential_id = serializers.CharField()
    channel = serializers.CharField()
    address = serializers.CharField()
    object_kind = serializers.CharField()
    object_id = serializers.CharField()
    node_id = serializers.UUIDField(allow_null=True)
    before = serializers.JSONField(allow_null=True)
    after = serializers.JSONField(allow_null=True)
    reason = serializers.CharField()
    mac = serializers.CharField()


class AuditPageOutput(serializers.Serializer[Any]):
    results = AuditEventOutput(many=True)
    next = serializers.CharField(allow_null=True)


class AuditView(APIView):
    """The organization's audit events, newest first."""

    renderer_classes = [OrjsonRenderer, CsvRenderer]

    def rate_rule(self, request: Request) -> str | None:
        """Return which rule limits this call besides the one for all."""
        return "exports" if isinstance(request.accepted_renderer, CsvRenderer) else None

    @extend_schema(
        operation_id="audit_list",
        responses={(200, "application/json"): AuditPageOutput, (200, "text/csv"): OpenApiTypes.STR},
        parameters=[
            OpenApiParameter("cursor", str),
            OpenApiParameter("limit", int),
            *(OpenApiParameter(name, str) for name in _FILTERS),
            OpenApiParameter("since", OpenApiTypes.DATETIME),
            OpenApiParameter("until", OpenApiTypes.DATETIME),
        ],
    )
    def get(self, request: Request, org: str) -> Response | HttpResponse:
        params = query_of(request, "cursor", "limit", "since", "until", "format", *_FILTERS)
        events = audit_events(
            actor_of(request),
            org,
            **{name: params[name] for name in _FILTERS if name in params},
            since=_moment(request, "since"),
            until=_moment(request, "until"),
        )
        if isinstance(request.accepted_renderer, CsvRenderer):
            page = page_of(events, ordering=["-org_seq"], params=params, default=CSV_LIMIT, maximum=CSV_LIMIT)
            return _csv(request, org, page)
        page = page_of(events, ordering=["-org_seq"], params=params)
        return Response(page.as_dict([_represent(event) for event in page.results]))


def _csv(request: Request, org: str, page: Page[AuditEvent]) -> HttpResponse:
    response = HttpResponse("".join(csv_rows(page.results)), content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="audit-{org}.csv"'
    if page.next is not None:
        query = urlencode({**request.query_params.dict(), "format": "csv", "cursor": page.next})
        response["Link"] = f'<{request.path}?{query}>; rel="next"'
    return response


def _moment(request: Request, name: str) -> datetime | None:
    text = request.query_params.get(name)
    if text is None:
        return None
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        detail = f"{name} must be an RFC 3339 time with its offset, for example 2026-01-31T12:00:00Z."
        raise MalformedRequest(detail, code="bad_time", errors=[FieldError("", "bad_time", detail)])
    return moment


def _represent(event: AuditEvent) -> dict[str, Any]:
    return {
        "id": event.id,
        "seq": event.org_seq,
        "at": rfc3339(event.at),
        "action": event.action,
        "actor": event.actor,
        "actor_label": event.actor_label,
        "credential_id": event.credential_id,
        "channel": event.channel,
        "address": event.address,
        "object_kind": event.object_kind,
        "object_id": event.object_id,
        "node_id": event.node_id,
        "before": event.before,
        "after": event.after,
        "reason": event.reason,
        "mac": event.mac,
    }
