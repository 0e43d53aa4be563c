"""REST of runs in OpenSRE's shape, below ``/api/v1/team/agent-runs``."""

from typing import Any, Final

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.core.api import actor_of, query_of
from controlplane.core.errors import MalformedRequest
from controlplane.core.pagination import limit_of
from controlplane.investigations.agent_runs import agent_run, agent_run_trace, agent_runs_page, reported_json
from controlplane.investigations.api import PROBLEM
from controlplane.investigations.reporting import (
    reported_begin,
    reported_change,
    reported_thoughts,
    reported_tool_calls,
)

MAX_OFFSET: Final = 10_000


class AgentRunsView(APIView):
    @extend_schema(
        operation_id="opensre_agent_runs",
        parameters=[OpenApiParameter("limit", int), OpenApiParameter("offset", int)],
        responses={200: list[dict[str, Any]]},
    )
    def get(self, request: Request) -> Response:
        """List runs as OpenSRE's pages read them, newest first."""
        query = query_of(request, "limit", "offset")
        limit = limit_of(query, default=50, maximum=200)
        offset = query.get("offset", "0")
        if not (offset.isascii() and offset.isdigit() and int(offset[:9]) <= MAX_OFFSET):
            detail = f"offset must be a whole number between 0 and {MAX_OFFSET}."
            raise MalformedRequest(detail, code="bad_offset")
        return Response(agent_runs_page(actor_of(request), limit=limit, offset=int(offset)))


class AgentRunView(APIView):
    @extend_schema(operation_id="opensre_agent_run", responses={200: dict[str, Any], 404: PROBLEM})
    def get(self, request: Request, run_id: str) -> Response:
        """Read one run with its answer and report."""
        query_of(request)
        return Response(agent_run(actor_of(request), run_id))


class AgentRunTraceView(APIView):
    @extend_schema(operation_id="opensre_agent_run_trace", responses={200: dict[str, Any], 404: PROBLEM})
    def get(self, request: Request, run_id: str) -> Response:
        """Read what a run thought and which tools it called."""
        query_of(request)
        return Response(agent_run_trace(actor_of(request), run_id))


class ReportedRunsView(APIView):
    rate_rule = "investigations"

    @extend_schema(operation_id="opensre_run_report", request=dict[str, Any], responses={201: dict[str, Any]})
    def post(self, request: Request) -> Response:
        """Take down that a run of an agent elsewhere began; said again it is the same run."""
        run = reported_begin(actor=actor_of(request), body=_body(request))
        return Response(reported_json(run, whole=True), status=status.HTTP_201_CREATED)


class ReportedRunView(APIView):
    @extend_schema(
        operation_id="opensre_run_report_change", request=dict[str, Any], responses={200: dict[str, Any], 404: PROBLEM}
    )
    def patch(self, request: Request, run_id: str) -> Response:
        """Take down how it goes or ended."""
        run = reported_change(actor=actor_of(request), name=run_id, body=_body(request))
        return Response(reported_json(run, whole=True))


class ReportedThoughtsView(APIView):
    @extend_schema(operation_id="opensre_run_report_thoughts", request=dict[str, Any], responses={200: dict[str, Any]})
    def put(self, request: Request, run_id: str) -> Response:
        """Add what it thought."""
        thoughts = _body(request).get("thoughts")
        return Response({"count": reported_thoughts(actor=actor_of(request), name=run_id, thoughts=thoughts)})


class ReportedToolCallsView(APIView):
    @extend_schema(operation_id="opensre_run_report_calls", request=dict[str, Any], responses={200: dict[str, Any]})
    def post(self, request: Request, run_id: str) -> Response:
        """Add which tools it called, or change those it has by their id."""
        calls = _body(request).get("tool_calls")
        return Response({"count": reported_tool_calls(actor=actor_of(request), name=run_id, tool_calls=calls)})


def _body(request: Request) -> dict[str, Any]:
    if not isinstance(request.data, dict):
        raise MalformedRequest("The body must be a JSON object.", code="not_an_object")
    return request.data
