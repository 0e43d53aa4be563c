"""REST view of routing: which node owns a service, a channel, a repository."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.configs.requests import bad
from controlplane.configs.routes import ROUTE_KINDS, route_owner_for
from controlplane.core.api import actor_of, query_of
from controlplane.orgs.models import NodeKind
from controlplane.orgs.selectors import organization_get

_KINDS = ", ".join(kind.name for kind in ROUTE_KINDS)


class RouteNodeSchema(serializers.Serializer[Any]):
    slug = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.CharField(help_text="org, group or team.")


class RouteAnswer(serializers.Serializer[Any]):
    kind = serializers.CharField()
    key = serializers.CharField(help_text="In the form in which it is compared.")
    node = RouteNodeSchema()
    team = serializers.CharField(allow_null=True, help_text="The node's slug where it is a team.")
    archived = serializers.BooleanField(help_text="Whether the owner takes no new runs.")


class RoutesView(APIView):
    """Who owns something, by its kind and its id or name."""

    @extend_schema(
        operation_id="route_lookup",
        parameters=[
            OpenApiParameter("kind", str, required=True, description=f"One of {_KINDS}."),
            OpenApiParameter("key", str, required=True),
        ],
        responses=RouteAnswer,
    )
    def get(self, request: Request, org: str) -> Response:
        params = query_of(request, "kind", "key")
        missing = [name for name in ("kind", "key") if not params.get(name)]
        if missing:
            raise bad("missing_parameter", f"{' and '.join(missing)} must be given.")
        actor = actor_of(request)
        owner = route_owner_for(
            actor=actor, organization=organization_get(actor, org), kind=params["kind"], key=params["key"]
        )
        node = owner.node
        return Response(
            {
                "kind": owner.kind,
                "key": owner.key,
                "node": {"slug": node.slug, "name": node.name, "kind": node.kind},
                "team": node.slug if node.kind == NodeKind.TEAM else None,
                "archived": owner.archived,
            }
        )
