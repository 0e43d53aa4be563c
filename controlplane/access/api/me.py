"""REST: who the caller is."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.access.selectors import (
    identity_of,
)
from controlplane.core.api import actor_of

_PAGE = [OpenApiParameter("cursor", str), OpenApiParameter("limit", int)]
#: An answer that holds a secret is stored nowhere on its way (RFC 9111, section 5.2.2.5).
_NO_STORE = {"Cache-Control": "no-store"}


class RoleOutput(serializers.Serializer[Any]):
    node = serializers.CharField()
    role = serializers.CharField()


class MeOutput(serializers.Serializer[Any]):
    kind = serializers.CharField()
    label = serializers.CharField()  # type: ignore[assignment]  # the metaclass takes it out
    organization = serializers.CharField(allow_null=True)
    node = serializers.CharField(allow_null=True)
    roles = RoleOutput(many=True)
    scopes = serializers.ListField(child=serializers.CharField(), allow_null=True)
    impersonator = serializers.CharField(allow_null=True, help_text="the person who views as the team")


class MeView(APIView):
    """Who the caller is."""

    @extend_schema(operation_id="me", responses=MeOutput)
    def get(self, request: Request) -> Response:
        actor = actor_of(request)
        identity = identity_of(actor)
        return Response(
            {
                "kind": actor.kind.value,
                "label": actor.label,
                "organization": identity.organization,
                "node": identity.node,
                "roles": [{"node": node, "role": role} for node, role in identity.roles],
                "scopes": None if actor.scopes is None else sorted(actor.scopes),
                "impersonator": actor.impersonator,
            }
        )
