"""REST: the tokens of a node."""

from datetime import timedelta
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from typing_extensions import override

from controlplane.access.models import AccessToken, TokenKind
from controlplane.access.selectors import (
    person_of,
    token_get,
    tokens_of_node,
)
from controlplane.access.services import (
    IssuedToken,
    impersonation_begin,
    token_create,
    token_revoke,
    token_rotate,
)
from controlplane.access.services.impersonation import DEFAULT_MINUTES
from controlplane.access.services.tokens import ROTATION_OVERLAP
from controlplane.core.api import StrictSerializer, TextField, actor_of, body_of, query_of
from controlplane.core.clock import rfc3339
from controlplane.core.pagination import page_of
from controlplane.core.permissions import Action
from controlplane.orgs.selectors import node_get

PAGE = [OpenApiParameter("cursor", str), OpenApiParameter("limit", int)]
#: An answer that holds a secret is stored nowhere on its way (RFC 9111, section 5.2.2.5).
_NO_STORE = {"Cache-Control": "no-store"}


class WholeField(serializers.IntegerField):
    """A whole number and nothing that could be read as one: DRF's own field takes text and ``true`` too."""

    @override
    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return int(super().to_internal_value(data))


class TokenInput(StrictSerializer):
    kind = TextField(required=False, help_text="team (the default), admin or user: a personal token of the caller")
    name = TextField()
    scopes = serializers.ListField(child=TextField(), required=False, allow_empty=False, max_length=50)
    expires_at = serializers.DateTimeField(
        required=False, allow_null=True, help_text="left out: as the organization's policy says; null: never"
    )
    allowed_addresses = serializers.ListField(
        child=TextField(), required=False, help_text="networks (CIDR) it may be used from; left out: the caller's own"
    )


class TokenRotateInput(StrictSerializer):
    overlap_s = WholeField(required=False, help_text="how long the old one still works; a day when left out")
    expires_at = serializers.DateTimeField(required=False, help_text="left out: as long a life as the old one had")


class ImpersonationInput(StrictSerializer):
    minutes = WholeField(required=False, help_text="1 to 60; 15 when left out")
    reason = TextField(required=False, allow_blank=True)


class TokenOutput(serializers.Serializer[Any]):
    id = serializers.CharField()
    kind = serializers.CharField()
    name = serializers.CharField()
    node = serializers.CharField()
    person = serializers.CharField(allow_null=True)
    scopes = serializers.ListField(child=serializers.CharField())
    allowed_addresses = serializers.ListField(child=serializers.CharField())
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)
    last_used_address = serializers.CharField(allow_null=True)


class IssuedTokenOutput(TokenOutput):
    token = serializers.CharField(help_text="shown in this answer only")


class TokenPageOutput(serializers.Serializer[Any]):
    results = TokenOutput(many=True)
    next = serializers.CharField(allow_null=True)


class TokenListView(APIView):
    """The tokens of a node. Their secrets are nowhere but in the answer that issued them."""

    @extend_schema(operation_id="token_list", parameters=PAGE, responses=TokenPageOutput)
    def get(self, request: Request, org: str, node: str) -> Response:
        tokens = tokens_of_node(actor=actor_of(request), organization_slug=org, node_slug=node)
        page = page_of(tokens, ordering=["-created_at", "-id"], params=query_of(request, "cursor", "limit"))
        return Response(page.as_dict([represent_token(token) for token in page.results]))

    @extend_schema(operation_id="token_create", request=TokenInput, responses={201: IssuedTokenOutput})
    def post(self, request: Request, org: str, node: str) -> Response:
        actor = actor_of(request)
        found = node_get(actor=actor, organization_slug=org, node_slug=node)
        body = body_of(TokenInput, request.data)
        kind = body.pop("kind", TokenKind.TEAM.value)
        user = person_of(actor) if kind == TokenKind.USER else None
        issued = token_create(
            actor=actor,
            kind=kind,
            node=found,
            name=body["name"],
            scopes=body.get("scopes"),
            expires_at=body.get("expires_at"),
            endless="expires_at" in body and body["expires_at"] is None,
            allowed_addresses=body.get("allowed_addresses"),
            user=user,
        )
        return _issued(issued)


class TokenView(APIView):
    """One token of a node."""

    @extend_schema(operation_id="token_revoke", responses={204: None})
    def delete(self, request: Request, org: str, node: str, public_id: str) -> Response:
        actor = actor_of(request)
        token_revoke(
            actor=actor, token=token_get(actor=actor, organization_slug=org, node_slug=node, public_id=public_id)
        )
        return Response(status=status.HTTP_204_NO_CONTENT)


class TokenRotateView(APIView):
    """Putting a new token in the place of an old one, which goes on working for a while."""

    @extend_schema(operation_id="token_rotate", request=TokenRotateInput, responses={201: IssuedTokenOutput})
    def post(self, request: Request, org: str, node: str, public_id: str) -> Response:
        actor = actor_of(request)
        token = token_get(actor=actor, organization_slug=org, node_slug=node, public_id=public_id)
        body = body_of(TokenRotateInput, request.data or {})
        overlap = timedelta(seconds=min(max(body["overlap_s"], -1), 10**9)) if "overlap_s" in body else ROTATION_OVERLAP
        issued = token_rotate(actor=actor, token=token, overlap=overlap, expires_at=body.get("expires_at"))
        return _issued(issued)


class ImpersonationView(APIView):
    """Viewing as a team: a short token that reads what the team reads. It is revoked like any token of the node."""

    @extend_schema(operation_id="impersonation_begin", request=ImpersonationInput, responses={201: IssuedTokenOutput})
    def post(self, request: Request, org: str, node: str) -> Response:
        actor = actor_of(request)
        found = node_get(actor=actor, organization_slug=org, node_slug=node, action=Action.IMPERSONATE)
        body = body_of(ImpersonationInput, request.data or {})
        minutes, reason = body.get("minutes", DEFAULT_MINUTES), body.get("reason", "")
        return _issued(impersonation_begin(actor=actor, node=found, minutes=minutes, reason=reason))


def represent_token(token: AccessToken) -> dict[str, Any]:
    """Return a token as REST shows it."""
    return {
        "id": token.public_id,
        "kind": str(token.kind),
        "name": token.name,
        "node": token.node.slug,
        "person": token.user.username if token.user else None,
        "scopes": token.scopes,
        "allowed_addresses": token.allowed_addresses,
        "created_by": token.created_by,
        "created_at": rfc3339(token.created_at),
        "expires_at": rfc3339(token.expires_at) if token.expires_at else None,
        "revoked_at": rfc3339(token.revoked_at) if token.revoked_at else None,
        "last_used_at": rfc3339(token.last_used_at) if token.last_used_at else None,
        "last_used_address": token.last_used_address or None,
    }


def _issued(issued: IssuedToken) -> Response:
    answer = represent_token(issued.token) | {"token": issued.plaintext}
    return Response(answer, status=status.HTTP_201_CREATED, headers=_NO_STORE)
