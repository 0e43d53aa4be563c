"""REST of policies, and of what they find missing."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.configs.models import ConfigPolicy, PolicyKind
from controlplane.configs.policies import shown_pointer
from controlplane.configs.policy_services import (
    MAX_POINTER,
    TeamMissing,
    missing_in,
    policies_for,
    policy_create,
    policy_delete,
    teams_below,
)
from controlplane.configs.requests import body_any, flag
from controlplane.core.api import StrictSerializer, TextField, actor_of, body_of, query_of
from controlplane.core.clock import rfc3339
from controlplane.core.pagination import page_of
from controlplane.core.permissions import Action
from controlplane.orgs.models import Node
from controlplane.orgs.selectors import node_get
from controlplane.reviews.services import MAX_REASON


class PolicyBody(StrictSerializer):
    pointer = TextField(max_length=MAX_POINTER, trim_whitespace=False, allow_blank=True)
    kind = TextField(help_text=", ".join(PolicyKind.values))
    value = serializers.JSONField(
        required=False, allow_null=True, default=None, help_text="A number, or a list of allowed values."
    )
    reason = TextField(required=False, allow_blank=True, default="", max_length=MAX_REASON)


class PolicyOutput(serializers.Serializer[Any]):
    """Only for the OpenAPI document; rows are represented by :func:`represent_policy`."""

    id = serializers.UUIDField()
    node = serializers.CharField(help_text="Slug of the node that sets it.")
    pointer = serializers.CharField()
    kind = serializers.ChoiceField(PolicyKind.values)
    value = serializers.JSONField(allow_null=True)
    reason = serializers.CharField(allow_blank=True)
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()


class OverridesOutput(serializers.Serializer[Any]):
    count = serializers.IntegerField()
    slugs = serializers.ListField(child=serializers.CharField(), help_text="At most 50.")


class PolicyCreated(PolicyOutput):
    overrides = OverridesOutput(help_text="Descendants that hold values of their own there.")


class PolicyPage(serializers.Serializer[Any]):
    results = PolicyOutput(many=True)
    next = serializers.CharField(allow_null=True)


class MissingPath(serializers.Serializer[Any]):
    pointer = serializers.CharField()
    level = serializers.CharField(help_text="Slug of the node that requires it.")


class TeamMissingOutput(serializers.Serializer[Any]):
    node = serializers.CharField()
    missing = MissingPath(many=True)


class MissingPage(serializers.Serializer[Any]):
    results = TeamMissingOutput(many=True)
    next = serializers.CharField(allow_null=True)


class _NodeView(APIView):
    def node(self, action: Action) -> Node:
        org, node = self.kwargs["org"], self.kwargs["node"]
        return node_get(actor=actor_of(self.request), organization_slug=org, node_slug=node, action=action)


class PolicyListView(_NodeView):
    """The policies that a node sets for everything below it."""

    @extend_schema(
        operation_id="policy_list",
        parameters=[
            OpenApiParameter("inherited", bool, description="Also those that bind the node."),
            OpenApiParameter("cursor", str),
            OpenApiParameter("limit", int),
        ],
        responses=PolicyPage,
    )
    def get(self, request: Request, **_slugs: str) -> Response:
        params = query_of(request, "inherited", "cursor", "limit")
        node = self.node(Action.CONFIG_READ)
        rows = policies_for(actor=actor_of(request), node=node, inherited=flag(params, "inherited"))
        page = page_of(rows, ordering=["pointer", "kind", "id"], params=params)
        return Response(page.as_dict([represent_policy(policy) for policy in page.results]))

    @extend_schema(operation_id="policy_create", request=PolicyBody, responses={201: PolicyCreated})
    def post(self, request: Request, **_slugs: str) -> Response:
        query_of(request)
        node = self.node(Action.CONFIG_WRITE)
        body = body_of(PolicyBody, body_any(request))
        policy, overrides = policy_create(actor=actor_of(request), node=node, **body)
        answer = represent_policy(policy) | {"overrides": {"count": overrides.count, "slugs": list(overrides.slugs)}}
        return Response(answer, status=status.HTTP_201_CREATED, headers={"Location": f"{request.path}/{policy.pk}"})


class PolicyView(_NodeView):
    """One policy of a node."""

    @extend_schema(operation_id="policy_delete", responses={204: None})
    def delete(self, request: Request, policy_id: UUID, **_slugs: str) -> Response:
        query_of(request)
        policy_delete(actor=actor_of(request), node=self.node(Action.CONFIG_WRITE), policy_id=policy_id)
        return Response(status=status.HTTP_204_NO_CONTENT)


class MissingView(_NodeView):
    """What the policies ``required`` find without a value, for each team below the node."""

    @extend_schema(
        operation_id="config_missing",
        parameters=[OpenApiParameter("cursor", str), OpenApiParameter("limit", int)],
        responses=MissingPage,
    )
    def get(self, request: Request, **_slugs: str) -> Response:
        params = query_of(request, "cursor", "limit")
        teams = teams_below(actor=actor_of(request), node=self.node(Action.CONFIG_READ))
        page = page_of(teams, ordering=["slug"], params=params)
        return Response(page.as_dict([_represent_missing(found) for found in missing_in(page.results)]))


def represent_policy(policy: ConfigPolicy) -> dict[str, Any]:
    """Return the JSON form of a policy."""
    return {
        "id": policy.pk,
        "node": policy.node.slug,
        "pointer": policy.pointer,
        "kind": str(policy.kind),
        "value": policy.value,
        "reason": policy.reason,
        "created_by": policy.created_label,
        "created_at": rfc3339(policy.created_at),
    }


def _represent_missing(found: TeamMissing) -> dict[str, Any]:
    missing = [{"pointer": shown_pointer(path), "level": policy.node} for policy, path in found.missing]
    return {"node": found.node.slug, "missing": missing}
