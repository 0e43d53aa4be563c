"""REST of access: ``/me``, and the tokens, members and granted credentials of a node."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from typing_extensions import override

from controlplane.access.grants import Held
from controlplane.access.models import AccessToken, CredentialGrant, Membership, TokenKind
from controlplane.access.selectors import (
    grant_get,
    grants_held,
    grants_of_node,
    identity_of,
    membership_get,
    memberships_of_node,
    person_of,
    token_get,
    tokens_of_node,
    user_for_grant,
)
from controlplane.access.services import (
    credential_grant,
    credential_revoke,
    membership_grant,
    membership_revoke,
    token_create,
    token_revoke,
)
from controlplane.core.api import StrictSerializer, TextField, actor_of, body_of, query_of
from controlplane.core.clock import rfc3339
from controlplane.core.pagination import page_of
from controlplane.core.permissions import Action
from controlplane.orgs.selectors import node_get

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
            }
        )


class TokenInput(StrictSerializer):
    kind = TextField(required=False, help_text="team (the default), admin or user: a personal token of the caller")
    name = TextField()
    scopes = serializers.ListField(child=TextField(), required=False, allow_empty=False, max_length=50)
    expires_at = serializers.DateTimeField(required=False, allow_null=True)


class TokenOutput(serializers.Serializer[Any]):
    id = serializers.CharField()
    kind = serializers.CharField()
    name = serializers.CharField()
    node = serializers.CharField()
    person = serializers.CharField(allow_null=True)
    scopes = serializers.ListField(child=serializers.CharField())
    created_by = serializers.CharField()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)


class IssuedTokenOutput(TokenOutput):
    token = serializers.CharField(help_text="shown in this answer only")


class TokenPageOutput(serializers.Serializer[Any]):
    results = TokenOutput(many=True)
    next = serializers.CharField(allow_null=True)


class TokenListView(APIView):
    """The tokens of a node. Their secrets are nowhere but in the answer that issued them."""

    @extend_schema(operation_id="token_list", parameters=_PAGE, responses=TokenPageOutput)
    def get(self, request: Request, org: str, node: str) -> Response:
        tokens = tokens_of_node(actor=actor_of(request), organization_slug=org, node_slug=node)
        page = page_of(tokens, ordering=["-created_at", "-id"], params=query_of(request, "cursor", "limit"))
        return Response(page.as_dict([_represent_token(token) for token in page.results]))

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
            user=user,
        )
        answer = _represent_token(issued.token) | {"token": issued.plaintext}
        return Response(answer, status=status.HTTP_201_CREATED, headers=_NO_STORE)


class TokenView(APIView):
    """One token of a node."""

    @extend_schema(operation_id="token_revoke", responses={204: None})
    def delete(self, request: Request, org: str, node: str, public_id: str) -> Response:
        actor = actor_of(request)
        token_revoke(
            actor=actor, token=token_get(actor=actor, organization_slug=org, node_slug=node, public_id=public_id)
        )
        return Response(status=status.HTTP_204_NO_CONTENT)


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


def _represent_token(token: AccessToken) -> dict[str, Any]:
    return {
        "id": token.public_id,
        "kind": str(token.kind),
        "name": token.name,
        "node": token.node.slug,
        "person": token.user.username if token.user else None,
        "scopes": token.scopes,
        "created_by": token.created_by,
        "created_at": rfc3339(token.created_at),
        "expires_at": rfc3339(token.expires_at) if token.expires_at else None,
        "revoked_at": rfc3339(token.revoked_at) if token.revoked_at else None,
        "last_used_at": rfc3339(token.last_used_at) if token.last_used_at else None,
    }


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
