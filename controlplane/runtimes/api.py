"""REST views of integrations: what is configured, and whether it answers."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.core.api import actor_of, query_of
from controlplane.core.permissions import Action
from controlplane.orgs.models import Node
from controlplane.orgs.selectors import node_get
from controlplane.runtimes import selectors, services


class IntegrationSchema(serializers.Serializer[Any]):
    id = serializers.CharField()
    kind = serializers.CharField(allow_blank=True)
    enabled = serializers.BooleanField()
    url = serializers.CharField(allow_blank=True, help_text="Without user name, password and query.")
    credential = serializers.ChoiceField(["none", "ready", "unresolved"])
    problem = serializers.CharField(allow_blank=True, help_text="Why it cannot be asked; empty when it can.")


class IntegrationPage(serializers.Serializer[Any]):
    results = IntegrationSchema(many=True)
    next = serializers.CharField(allow_null=True)


class ConnectionAnswer(serializers.Serializer[Any]):
    ok = serializers.BooleanField()
    latency_ms = serializers.IntegerField(allow_null=True, help_text="Null when nothing was sent.")
    version = serializers.CharField(allow_null=True)
    detail = serializers.CharField()
    code = serializers.CharField(help_text="ok, or a stable reason.")


class IntegrationsView(APIView):
    """The integrations of the node's effective configuration."""

    @extend_schema(operation_id="integration_list", responses=IntegrationPage)
    def get(self, request: Request, org: str, node: str) -> Response:
        query_of(request)
        found = selectors.integrations_list(actor=actor_of(request), node=_node(request, org, node, Action.CONFIG_READ))
        results = [
            {
                "id": one.name,
                "kind": one.kind,
                "enabled": one.enabled,
                "url": one.url,
                "credential": one.credential,
                "problem": one.problem,
            }
            for one in found
        ]
        return Response({"results": results, "next": None})


class IntegrationTestView(APIView):
    """Asking an integration's server whether it answers."""

    rate_rule = "connection_tests"

    @extend_schema(operation_id="integration_test", request=None, responses=ConnectionAnswer)
    def post(self, request: Request, org: str, node: str, name: str) -> Response:
        query_of(request)
        result = services.integration_test(
            actor=actor_of(request), node=_node(request, org, node, Action.CONFIG_WRITE), name=name
        )
        return Response(
            {
                "ok": result.ok,
                "latency_ms": result.latency_ms,
                "version": result.version or None,
                "detail": result.detail,
                "code": result.code,
            }
        )


def _node(request: Request, org: str, node: str, action: Action) -> Node:
    return node_get(actor=actor_of(request), organization_slug=org, node_slug=node, action=action)
