"""REST: the roles people hold on a node."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.access.models import Membership
from controlplane.access.selectors import (
    membership_get,
    memberships_of_node,
    user_for_grant,
)
from controlplane.access.services import (
    membership_grant,
    membership_revoke,
)
from controlplane.core.api import StrictSerializer, TextField, actor_of, body_of, query_of
from controlplane.core.clock import rfc3339
from controlplane.core.pagination import page_of
from controlplane.core.permissions import Action
from controlplane.orgs.selectors import node_get

_PAGE = [OpenApiParameter("cursor", str), OpenApiParameter("limit", int)]
#: An answer that holds a secret is stored nowhere on its way (RFC 9111, section 5.2.2.5).
_NO_STORE = {"Cache-Control": "no-store"}


class MemberInput(StrictSerializer):
    username = TextField()
    role = TextField()


class MemberOutput(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    username = serializers.CharField()
    name = serializers.CharField()
    role = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]  # as above
    node = serializers.CharField()
    created_at = serializers.DateTimeField()


class MemberPageOutput(serializers.Serializer[Any]):
    results = MemberOutput(many=True)
    next = serializers.CharField(allow_null=True)


class MemberListView(APIView):
    """The roles granted on a node."""

    @extend_schema(operation_id="member_list", parameters=_PAGE, responses=MemberPageOutput)
    def get(self, request: Request, org: str, node: str) -> Response:
        memberships = memberships_of_node(actor=actor_of(request), organization_slug=org, node_slug=node)
        page = page_of(memberships, ordering=["id"], params=query_of(request, "cursor", "limit"))
        return Response(page.as_dict([_represent_membership(membership) for membership in page.results]))

    @extend_schema(operation_id="member_grant", request=MemberInput, responses={201: MemberOutput})
    def post(self, request: Request, org: str, node: str) -> Response:
        actor = actor_of(request)
        found = node_get(actor=actor, organization_slug=org, node_slug=node, action=Action.MEMBER_WRITE)
        body = body_of(MemberInput, request.data)
        user = user_for_grant(actor=actor, node=found, username=body["username"])
        membership = membership_grant(actor=actor, user=user, node=found, role=body["role"])
        return Response(_represent_membership(membership), status=status.HTTP_201_CREATED)


class MemberView(APIView):
    """One role granted on a node."""

    @extend_schema(operation_id="member_revoke", responses={204: None})
    def delete(self, request: Request, org: str, node: str, membership_id: int) -> Response:
        actor = actor_of(request)
        membership = membership_get(actor=actor, organization_slug=org, node_slug=node, membership_id=membership_id)
        membership_revoke(actor=actor, membership=membership)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _represent_membership(membership: Membership) -> dict[str, Any]:
    return {
        "id": membership.pk,
        "username": membership.user.username,
        "name": membership.user.display_name,
        "role": membership.role,
        "source": str(membership.source),
        "node": membership.node.slug,
        "created_at": rfc3339(membership.created_at),
    }
