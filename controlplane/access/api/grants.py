"""REST: the credentials granted to a node."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from typing_extensions import override

from controlplane.access.grants import Held
from controlplane.access.models import CredentialGrant
from controlplane.access.selectors import (
    grant_get,
    grants_held,
    grants_of_node,
)
from controlplane.access.services import (
    credential_grant,
    credential_revoke,
)
from controlplane.core.api import StrictSerializer, TextField, actor_of, body_of, query_of
from controlplane.core.clock import rfc3339
from controlplane.core.pagination import page_of
from controlplane.core.permissions import Action
from controlplane.orgs.selectors import node_get

_PAGE = [OpenApiParameter("cursor", str), OpenApiParameter("limit", int)]
#: An answer that holds a secret is stored nowhere on its way (RFC 9111, section 5.2.2.5).
_NO_STORE = {"Cache-Control": "no-store"}


class FlagField(serializers.BooleanField):
    """``true`` or ``false`` and nothing that could be read as one."""

    @override
    def to_internal_value(self, data: Any) -> bool:
        if not isinstance(data, bool):
            self.fail("invalid", input=type(data).__name__)
        return data


class GrantInput(StrictSerializer):
    name = TextField(help_text="of the credential, as in ${NAME}")
    hosts = serializers.ListField(
        child=TextField(), required=False, max_length=50, help_text="it may be sent to: host, *.domain or *"
    )
    inherited = FlagField(required=False, help_text="whether the nodes below hold it too; true when left out")


class GrantOutput(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    hosts = serializers.ListField(child=serializers.CharField())
    node = serializers.CharField(allow_null=True, help_text="null: given by the operator to the organization")
    given_from = serializers.CharField(allow_null=True)
    inherited = serializers.BooleanField()
    counts = serializers.BooleanField(help_text="whether the node holds the name by this grant")
    granted_by = serializers.CharField()
    created_at = serializers.DateTimeField()


class GrantPageOutput(serializers.Serializer[Any]):
    results = GrantOutput(many=True)
    next = serializers.CharField(allow_null=True)


class GrantListView(APIView):
    """The credentials that a node may use, by name; values are never here."""

    @extend_schema(operation_id="grant_list", parameters=_PAGE, responses=GrantPageOutput)
    def get(self, request: Request, org: str, node: str) -> Response:
        actor = actor_of(request)
        grants = grants_of_node(actor=actor, organization_slug=org, node_slug=node)
        page = page_of(grants, ordering=["name", "created_at", "id"], params=query_of(request, "cursor", "limit"))
        held = grants_held(node_get(actor=actor, organization_slug=org, node_slug=node).pk)
        return Response(page.as_dict([_represent_grant(grant, held) for grant in page.results]))

    @extend_schema(operation_id="grant_create", request=GrantInput, responses={201: GrantOutput})
    def post(self, request: Request, org: str, node: str) -> Response:
        actor = actor_of(request)
        found = node_get(actor=actor, organization_slug=org, node_slug=node, action=Action.CREDENTIAL_GRANT)
        grant = credential_grant(actor=actor, node=found, **body_of(GrantInput, request.data))
        return Response(_represent_grant(grant, grants_held(found.pk)), status=status.HTTP_201_CREATED)


class GrantView(APIView):
    """One grant of a node."""

    @extend_schema(operation_id="grant_revoke", responses={204: None})
    def delete(self, request: Request, org: str, node: str, grant_id: UUID) -> Response:
        actor = actor_of(request)
        grant = grant_get(actor=actor, organization_slug=org, node_slug=node, grant_id=grant_id)
        credential_revoke(actor=actor, grant=grant)
        return Response(status=status.HTTP_204_NO_CONTENT)


def _represent_grant(grant: CredentialGrant, held: Held) -> dict[str, Any]:
    here = grant.inherited or held.lineage[-1] == (grant.node_id or held.lineage[0])
    return {
        "id": str(grant.pk),
        "name": grant.name,
        "hosts": grant.hosts,
        "node": grant.node.slug if grant.node else None,
        "given_from": grant.given_from.slug if grant.given_from else None,
        "inherited": grant.inherited,
        "counts": here and held.counts(grant),
        "granted_by": grant.granted_by_label,
        "created_at": rfc3339(grant.created_at),
    }
