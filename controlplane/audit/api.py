"""REST of the audit log: ``/orgs/{org}/audit``, its export, the security stream beside it, the state of the chain."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from django.core.handlers.asgi import ASGIRequest
from django.http import StreamingHttpResponse
from django.utils.dateparse import parse_datetime
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.audit.export import FORMS, event_json, event_pages, off_the_loop
from controlplane.audit.models import AuditVerification, SecurityEvent, SecurityKind
from controlplane.audit.selectors import ChainState, audit_events, chain_state, security_events
from controlplane.audit.services import export_record
from controlplane.core.api import actor_of, query_of
from controlplane.core.clock import rfc3339
from controlplane.core.errors import FieldError, MalformedRequest
from controlplane.core.pagination import page_of
from controlplane.core.rest import OrjsonRenderer

#: Query parameter → argument of the selector.
_EVENT_FILTERS: Final = {
    "action": "action", "object_kind": "object_kind", "object_id": "object_id", "actor": "by", "address": "address",
    "node": "node", "q": "text",
}  # fmt: skip
_SECURITY_FILTERS: Final = {"kind": "kind", "code": "code", "actor": "by", "address": "address", "q": "text"}
#: The bounds in time have two names each; the second is what the list of events was first given.
_BOUNDS: Final = {"since": ("from", "since"), "until": ("to", "until")}
_BOUND_NAMES: Final = tuple(name for names in _BOUNDS.values() for name in names)


class CsvRenderer(OrjsonRenderer):
    """Makes ``?format=csv`` known to content negotiation. The view writes the CSV; errors stay JSON."""

    media_type = "text/csv"
    format = "csv"


class NdjsonRenderer(OrjsonRenderer):
    """The same for ``?format=ndjson``."""

    media_type = "application/x-ndjson"
    format = "ndjson"


class AuditEventOutput(serializers.Serializer[Any]):
    """Only for the OpenAPI document; rows are represented by :func:`event_json`."""

    id = serializers.UUIDField()
    seq = serializers.IntegerField()
    at = serializers.DateTimeField()
    action = serializers.CharField()
    actor = serializers.CharField()
    actor_label = serializers.CharField()
    credential_id = serializers.CharField()
    impersonator = serializers.CharField(help_text="Who viewed as a team, while it acted; usually empty.")
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


class SecurityEventOutput(serializers.Serializer[Any]):
    """Only for the OpenAPI document, as are the two below."""

    id = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=SecurityKind.choices)
    code = serializers.CharField(help_text="The error's code, or why a credential was refused.")
    actor = serializers.CharField()
    actor_label = serializers.CharField()
    credential_id = serializers.CharField()
    impersonator = serializers.CharField()
    channel = serializers.CharField()
    address = serializers.CharField()
    action = serializers.CharField(help_text="What was tried: the name of a route or of an action.")
    object_kind = serializers.CharField()
    object_id = serializers.CharField()
    node_id = serializers.UUIDField(allow_null=True)
    first_at = serializers.DateTimeField()
    last_at = serializers.DateTimeField()
    count = serializers.IntegerField(help_text="How often, from first_at to last_at.")
    sealed_by = serializers.IntegerField(allow_null=True, help_text="seq of the event whose digest holds this row.")


class SecurityPageOutput(serializers.Serializer[Any]):
    results = SecurityEventOutput(many=True)
    next = serializers.CharField(allow_null=True)


class ChainHeadOutput(serializers.Serializer[Any]):
    seq = serializers.IntegerField()
    mac = serializers.CharField()
    checkpoints = serializers.IntegerField()
    checkpoint_seq = serializers.IntegerField()
    checkpoint_at = serializers.DateTimeField(allow_null=True)


class ChainBreakOutput(serializers.Serializer[Any]):
    kind = serializers.CharField()
    seq = serializers.IntegerField(allow_null=True)
    problem = serializers.CharField()
    id = serializers.CharField(allow_null=True, help_text="For who may read the whole log.")
    action = serializers.CharField(allow_null=True, help_text="For who may read the whole log.")


class VerificationOutput(serializers.Serializer[Any]):
    intact = serializers.BooleanField(allow_null=True, help_text="null: not verified yet.")
    verified_at = serializers.DateTimeField(allow_null=True)
    fully_verified_at = serializers.DateTimeField(allow_null=True)
    verified_seq = serializers.IntegerField(allow_null=True)
    head = ChainHeadOutput(allow_null=True)
    first_break = ChainBreakOutput(allow_null=True)


class AuditView(APIView):
    """The organization's audit events, newest first: a page of them, or with ``format`` all of them as a file."""

    renderer_classes = [OrjsonRenderer, CsvRenderer, NdjsonRenderer]

    def rate_rule(self, request: Request) -> str | None:
        """Return which rule limits this call besides the one for all."""
        return None if _form(request) is None else "exports"

    @extend_schema(
        operation_id="audit_list",
        responses={
            (200, "application/json"): AuditPageOutput,
            (200, "text/csv"): OpenApiTypes.STR,
            (200, "application/x-ndjson"): OpenApiTypes.STR,
        },
        parameters=[
            OpenApiParameter("cursor", str, description="Not with format."),
            OpenApiParameter("limit", int, description="Not with format."),
            OpenApiParameter("format", enum=list(FORMS), description="All events as a file, which is itself an event."),
            OpenApiParameter("action", description="Exact, or a prefix ending in a dot."),
            OpenApiParameter("object_kind"),
            OpenApiParameter("object_id"),
            OpenApiParameter("actor", description="A principal, the public id of a token, or part of a name."),
            OpenApiParameter("address", description="Exact, or a prefix ending in a dot or colon."),
            OpenApiParameter("node", description="Slug: its events and those below it."),
            OpenApiParameter("q", description="Part of the actor's name, of the object's id or of the address."),
            *(OpenApiParameter(name, OpenApiTypes.DATETIME) for name in _BOUND_NAMES),
        ],
    )
    def get(self, request: Request, org: str) -> Response | StreamingHttpResponse:
        form = _form(request)
        paging = ("cursor", "limit") if form is None else ("format",)
        params = query_of(request, *paging, *_EVENT_FILTERS, *_BOUND_NAMES)
        actor = actor_of(request)
        events = audit_events(actor, org, **_filters(params, _EVENT_FILTERS), **_bounds(params))
        if form is None:
            page = page_of(events, ordering=["-org_seq"], params=params)
            return Response(page.as_dict([event_json(event) for event in page.results]))
        asked = {name: value for name, value in params.items() if name != "format"}
        through = export_record(actor=actor, organization_slug=org, form=form, filters=asked)
        media_type, written = FORMS[form]
        parts = written(event_pages(events, through=through))
        is_async = isinstance(request._request, ASGIRequest)  # noqa: SLF001 (DRF keeps Django's request there)
        return StreamingHttpResponse(
            off_the_loop(parts) if is_async else parts,
            content_type=media_type,
            headers={"Content-Disposition": f'attachment; filename="audit-{org}.{form}"', "Cache-Control": "no-store"},
        )


class AuditSecurityView(APIView):
    """The organization's security stream, newest first: refusals, sign-ins, secrets given out; repeats counted."""

    @extend_schema(
        operation_id="audit_security_list",
        responses=SecurityPageOutput,
        parameters=[
            OpenApiParameter("cursor"),
            OpenApiParameter("limit", int),
            OpenApiParameter("kind", enum=SecurityKind.values),
            OpenApiParameter("code", description="Exact."),
            OpenApiParameter("actor", description="A principal, the public id of a token, or part of a name."),
            OpenApiParameter("address", description="Exact, or a prefix ending in a dot or colon."),
            OpenApiParameter("q", description="Part of the actor's name, of what was tried or of the address."),
            *(OpenApiParameter(name, OpenApiTypes.DATETIME) for name in _BOUND_NAMES),
        ],
    )
    def get(self, request: Request, org: str) -> Response:
        params = query_of(request, "cursor", "limit", *_SECURITY_FILTERS, *_BOUND_NAMES)
        filters = _filters(params, _SECURITY_FILTERS)
        if "kind" in filters and filters["kind"] not in SecurityKind.values:
            detail = f"kind must be one of {', '.join(SecurityKind.values)}."
            raise MalformedRequest(detail, code="bad_kind", errors=[FieldError("", "bad_kind", detail)])
        rows = security_events(actor_of(request), org, **filters, **_bounds(params))
        page = page_of(rows, ordering=["-id"], params=params)
        return Response(page.as_dict([_security_json(row) for row in page.results]))


class AuditVerificationView(APIView):
    """Whether the chain holds, as of when, and where it ends."""

    @extend_schema(operation_id="audit_verification", responses=VerificationOutput)
    def get(self, request: Request, org: str) -> Response:
        query_of(request)
        return Response(_state_json(chain_state(actor_of(request), org)))


def _form(request: Request) -> str | None:
    """Return the form of an export; ``None`` for the list, which is what JSON is unless it is asked for by name."""
    form: str = request.accepted_renderer.format
    return None if form == "json" and "format" not in request.query_params else form


def _filters(params: Mapping[str, str], known: Mapping[str, str]) -> dict[str, Any]:
    return {argument: params[name] for name, argument in known.items() if name in params}


def _bounds(params: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for argument, names in _BOUNDS.items():
        given = [name for name in names if name in params]
        if len(given) > 1:
            detail = f"{names[0]} and {names[1]} mean the same; give one."
            raise MalformedRequest(
                detail, code="repeated_parameter", errors=[FieldError("", "repeated_parameter", detail)]
            )
        found[argument] = _moment(params[given[0]], given[0]) if given else None
    return found


def _moment(text: str, name: str) -> datetime:
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        detail = f"{name} must be an RFC 3339 time with its offset, for example 2026-01-31T12:00:00Z."
        raise MalformedRequest(detail, code="bad_time", errors=[FieldError("", "bad_time", detail)])
    return moment


def _security_json(row: SecurityEvent) -> dict[str, Any]:
    return {
        "id": row.pk,
        "kind": row.kind,
        "code": row.code,
        "actor": row.actor,
        "actor_label": row.actor_label,
        "credential_id": row.credential_id,
        "impersonator": row.impersonator,
        "channel": row.channel,
        "address": row.address,
        "action": row.action,
        "object_kind": row.object_kind,
        "object_id": row.object_id,
        "node_id": row.node_id,
        "first_at": rfc3339(row.first_at),
        "last_at": rfc3339(row.last_at),
        "count": row.count,
        "sealed_by": row.batch,
    }


def _state_json(state: ChainState) -> dict[str, Any]:
    found, head = state.found, state.head
    return {
        "intact": found.intact if found else None,
        "verified_at": rfc3339(found.at) if found else None,
        "fully_verified_at": rfc3339(found.full_at) if found and found.full_at else None,
        "verified_seq": found.verified_seq if found else None,
        "head": head
        and {
            "seq": head.org_seq,
            "mac": head.mac,
            "checkpoints": head.checkpoints,
            "checkpoint_seq": head.checkpoint_seq,
            "checkpoint_at": rfc3339(head.checkpoint_at) if head.checkpoint_at else None,
        },
        "first_break": _break_json(found, is_whole=state.is_whole) if found and not found.intact else None,
    }


def _break_json(found: AuditVerification, *, is_whole: bool) -> dict[str, Any]:
    return {
        "kind": found.kind,
        "seq": found.broken_seq,
        "problem": found.problem,
        "id": (found.broken_id or None) if is_whole else None,
        "action": (found.broken_action or None) if is_whole else None,
    }
