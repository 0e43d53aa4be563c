"""REST of runs in OpenSRE's shape, below ``/api/v1/team/agent-runs``."""

from typing import Any, Final
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.core.api import actor_of, query_of
from controlplane.core.errors import MalformedRequest
from controlplane.core.pagination import limit_of
from controlplane.investigations.agent_runs import agent_run, agent_run_trace, agent_runs_json, agent_runs_page
from controlplane.investigations.api import PROBLEM

MAX_OFFSET: Final = 100_000


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
        return Response(agent_runs_json(agent_runs_page(actor_of(request), limit=limit, offset=int(offset))))


class AgentRunView(APIView):
    @extend_schema(operation_id="opensre_agent_run", responses={200: dict[str, Any], 404: PROBLEM})
    def get(self, request: Request, run_id: UUID) -> Response:
        """Read one run with its answer and report."""
        query_of(request)
        return Response(agent_run(actor_of(request), run_id))


class AgentRunTraceView(APIView):
    @extend_schema(operation_id="opensre_agent_run_trace", responses={200: dict[str, Any], 404: PROBLEM})
    def get(self, request: Request, run_id: UUID) -> Response:
        """Read what a run thought and which tools it called."""
        query_of(request)
        return Response(agent_run_trace(actor_of(request), run_id))
