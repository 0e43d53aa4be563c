"""REST of the tree: ``/orgs/{org}/nodes``."""

from typing import Any

from django.db import transaction
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.core.actor import Actor
from controlplane.core.api import StrictSerializer, TextField, actor_of, body_of, query_of
from controlplane.core.clock import rfc3339
from controlplane.core.errors import NotFound, invalid
from controlplane.core.pagination import page_of
from controlplane.core.permissions import Action
from controlplane.orgs.models import Node
from controlplane.orgs.selectors import node_get, nodes_visible, organization_get
from controlplane.orgs.services import node_archive, node_create, node_delete, node_move, node_restore, node_update


class NodeInput(StrictSerializer):
    slug = TextField()
    name = TextField()
    kind = TextField(help_text="group or team")
    parent = TextField(help_text="slug of the node above")  # type: ignore[assignment]  # the metaclass takes it out


class NodeChange(StrictSerializer):
    slug = TextField(required=False)
    name = TextField(required=False)
    kind = TextField(required=False, help_text="a node's kind never changes: only its present value is accepted")
    parent = TextField(required=False)  # type: ignore[assignment]  # as above
    archived = serializers.BooleanField(required=False)


class NodeOutput(serializers.Serializer[Any]):
    """Only for the OpenAPI document; rows are represented by :func:`represent_node`."""

    id = serializers.UUIDField()
    slug = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.CharField()
    parent = serializers.CharField(allow_null=True)  # type: ignore[assignment]  # as above
    archived_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()


class NodePageOutput(serializers.Serializer[Any]):
    results = NodeOutput(many=True)
    next = serializers.CharField(allow_null=True)


class NodeListView(APIView):
    """The nodes of an organization that the caller sees."""

    @extend_schema(
        operation_id="node_list",
        parameters=[OpenApiParameter("cursor", str), OpenApiParameter("limit", int)],
        responses=NodePageOutput,
    )
    def get(self, request: Request, org: str) -> Response:
        actor = actor_of(request)
        nodes = nodes_visible(actor).filter(organization=organization_get(actor, org)).select_related("parent")
        page = page_of(nodes, ordering=["slug"], params=query_of(request, "cursor", "limit"))
        return Response(page.as_dict([represent_node(node) for node in page.results]))

    @extend_schema(operation_id="node_create", request=NodeInput, responses={201: NodeOutput})
    def post(self, request: Request, org: str) -> Response:
        actor = actor_of(request)
        organization = organization_get(actor, org)
        body = body_of(NodeInput, request.data)
        parent = _parent(actor, org, body.pop("parent"))
        node = node_create(actor=actor, organization=organization, parent=parent, **body)
        location = f"{request.path}/{node.slug}"
        return Response(represent_node(node), status=status.HTTP_201_CREATED, headers={"Location": location})


class NodeView(APIView):
    """One node."""

    @extend_schema(operation_id="node_read", responses=NodeOutput)
    def get(self, request: Request, org: str, node: str) -> Response:
        found = node_get(actor=actor_of(request), organization_slug=org, node_slug=node)
        return Response(represent_node(found))

    @extend_schema(operation_id="node_update", request=NodeChange, responses=NodeOutput)
    def patch(self, request: Request, org: str, node: str) -> Response:
        actor = actor_of(request)
        found = node_get(actor=actor, organization_slug=org, node_slug=node, action=Action.NODE_WRITE)
        body = body_of(NodeChange, request.data)
        if body.get("kind", found.kind) != found.kind:
            raise invalid("/kind", "kind_fixed", "A node's kind cannot be changed.")
        return Response(represent_node(_change(actor, org, found, body)))

    @extend_schema(operation_id="node_delete", responses={204: None})
    def delete(self, request: Request, org: str, node: str) -> Response:
        actor = actor_of(request)
        found = node_get(actor=actor, organization_slug=org, node_slug=node, action=Action.NODE_WRITE)
        node_delete(actor=actor, node=found)
        return Response(status=status.HTTP_204_NO_CONTENT)


@transaction.atomic
def _change(actor: Actor, org: str, node: Node, body: dict[str, Any]) -> Node:
    """Apply every member of a PATCH, or none."""
    if "parent" in body:
        node = node_move(actor=actor, node=node, parent=_parent(actor, org, body["parent"]))
    if "slug" in body or "name" in body:
        node = node_update(actor=actor, node=node, slug=body.get("slug"), name=body.get("name"))
    if "archived" in body:
        node = (node_archive if body["archived"] else node_restore)(actor=actor, node=node)
    return node


def _parent(actor: Actor, org: str, slug: str) -> Node:
    try:
        return node_get(actor=actor, organization_slug=org, node_slug=slug, action=Action.NODE_WRITE)
    except NotFound:
        raise invalid("/parent", "unknown_node", "There is no such node that you may see.") from None


def represent_node(node: Node) -> dict[str, Any]:
    """Return the JSON form of a node; ``parent`` is loaded when it is not yet."""
    return {
        "id": node.pk,
        "slug": node.slug,
        "name": node.name,
        "kind": str(node.kind),
        "parent": node.parent.slug if node.parent else None,
        "archived_at": rfc3339(node.archived_at) if node.archived_at else None,
        "created_at": rfc3339(node.created_at),
    }
