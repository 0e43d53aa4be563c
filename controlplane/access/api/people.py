"""REST: the people of an organization, and what each of them may do."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.access.api.grants import FlagField
from controlplane.access.member_selectors import (
    Rights,
    is_pending,
    nodes_of_person,
    people_of,
    person_get,
    rights_of,
    roles_of_person,
    ways_in,
)
from controlplane.access.models import Membership, User
from controlplane.access.services import (
    InvitedBy,
    invitation_renew,
    person_deactivate,
    person_invite,
    person_reactivate,
    person_remove,
)
from controlplane.core.api import StrictSerializer, TextField, actor_of, body_of, query_of
from controlplane.core.clock import rfc3339
from controlplane.core.errors import FieldError, MalformedRequest
from controlplane.core.pagination import page_of
from controlplane.core.permissions import Action
from controlplane.orgs.selectors import node_get

_PAGE = [OpenApiParameter("cursor", str), OpenApiParameter("limit", int)]
#: An answer that holds a secret is stored nowhere on its way (RFC 9111, section 5.2.2.5).
_NO_STORE = {"Cache-Control": "no-store"}


class InvitationInput(StrictSerializer):
    username = TextField()
    name = TextField(required=False, allow_blank=True, default="")
    email = TextField(required=False, allow_blank=True, default="")
    node = TextField()
    role = TextField()
    by = TextField(required=False, default=InvitedBy.LINK.value)
    subject = TextField(required=False, allow_blank=True, default="")
    tenant = TextField(required=False, allow_blank=True, default="")


class PersonInput(StrictSerializer):
    active = FlagField()
    reason = TextField(required=False, allow_blank=True, default="", max_length=500)


class MemberPersonOutput(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    username = serializers.CharField()
    name = serializers.CharField()
    email = serializers.CharField()
    active = serializers.BooleanField()
    pending = serializers.BooleanField()
    created_at = serializers.DateTimeField()
    last_sign_in_at = serializers.DateTimeField(allow_null=True)


class PersonPageOutput(serializers.Serializer[Any]):
    results = MemberPersonOutput(many=True)
    next = serializers.CharField(allow_null=True)


class PersonRoleOutput(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    node = serializers.CharField()
    role = serializers.CharField()
    source = serializers.CharField()  # type: ignore[assignment]  # the metaclass takes it out
    created_at = serializers.DateTimeField()


class PersonDetailOutput(MemberPersonOutput):
    ways_in = serializers.ListField(child=serializers.CharField())
    roles = PersonRoleOutput(many=True)


class InvitedOutput(PersonDetailOutput):
    link_secret = serializers.CharField(allow_null=True)


class RoleHeldOutput(serializers.Serializer[Any]):
    role = serializers.CharField()
    node = serializers.CharField(allow_null=True)
    source = serializers.CharField()  # type: ignore[assignment]  # as above
    inherited = serializers.BooleanField()


class RightsOutput(serializers.Serializer[Any]):
    node = serializers.CharField()
    roles = RoleHeldOutput(many=True)
    actions = serializers.ListField(child=serializers.CharField())


class RightsPageOutput(serializers.Serializer[Any]):
    results = RightsOutput(many=True)
    next = serializers.CharField(allow_null=True)


class PersonListView(APIView):
    """The people of an organization."""

    @extend_schema(
        operation_id="person_list",
        parameters=[OpenApiParameter("q", str), OpenApiParameter("active", bool), *_PAGE],
        responses=PersonPageOutput,
    )
    def get(self, request: Request, org: str) -> Response:
        params = query_of(request, "q", "active", "cursor", "limit")
        people = people_of(
            actor=actor_of(request),
            organization_slug=org,
            query=params.get("q", ""),
            active=_flag(params.get("active"), "active"),
        )
        page = page_of(people, ordering=["username"], params=params)
        return Response(page.as_dict([_represent(person) for person in page.results]))

    @extend_schema(operation_id="person_invite", request=InvitationInput, responses={201: InvitedOutput})
    def post(self, request: Request, org: str) -> Response:
        actor = actor_of(request)
        people_of(actor=actor, organization_slug=org)  # who reads no members learns nothing of a body
        body = body_of(InvitationInput, request.data)
        node = node_get(actor=actor, organization_slug=org, node_slug=body.pop("node"), action=Action.MEMBER_WRITE)
        person, secret = person_invite(actor=actor, node=node, **body)
        answer = _detail(request, person) | {"link_secret": secret or None}
        return Response(answer, status=status.HTTP_201_CREATED, headers=_NO_STORE)


class PersonView(APIView):
    """One person."""

    @extend_schema(operation_id="person_read", responses=PersonDetailOutput)
    def get(self, request: Request, org: str, person_id: UUID) -> Response:
        return Response(_detail(request, _person(request, org, person_id)))

    @extend_schema(operation_id="person_update", request=PersonInput, responses=PersonDetailOutput)
    def patch(self, request: Request, org: str, person_id: UUID) -> Response:
        person, actor = _person(request, org, person_id), actor_of(request)
        body = body_of(PersonInput, request.data)
        if body["active"]:
            person_reactivate(actor=actor, user=person)
        else:
            person_deactivate(actor=actor, user=person, reason=body["reason"])
        return Response(_detail(request, _person(request, org, person_id)))

    @extend_schema(operation_id="person_remove", responses={204: None})
    def delete(self, request: Request, org: str, person_id: UUID) -> Response:
        person_remove(actor=actor_of(request), user=_person(request, org, person_id))
        return Response(status=status.HTTP_204_NO_CONTENT)


class PersonInvitationView(APIView):
    """The one-time link of somebody who has never signed in."""

    @extend_schema(operation_id="person_invitation_renew", request=None, responses={201: InvitedOutput})
    def post(self, request: Request, org: str, person_id: UUID) -> Response:
        person = _person(request, org, person_id)
        secret = invitation_renew(actor=actor_of(request), user=person)
        answer = _detail(request, person) | {"link_secret": secret}
        return Response(answer, status=status.HTTP_201_CREATED, headers=_NO_STORE)


class PersonPermissionsView(APIView):
    """What one person may do, node by node."""

    @extend_schema(operation_id="person_permissions", parameters=_PAGE, responses=RightsPageOutput)
    def get(self, request: Request, org: str, person_id: UUID) -> Response:
        person, actor = _person(request, org, person_id), actor_of(request)
        nodes = nodes_of_person(actor=actor, user=person)
        page = page_of(nodes, ordering=["slug"], params=query_of(request, "cursor", "limit"))
        rights = rights_of(actor=actor, user=person, nodes=page.results)
        return Response(page.as_dict([_represent_rights(one) for one in rights]))


def _person(request: Request, org: str, person_id: UUID) -> User:
    return person_get(actor=actor_of(request), organization_slug=org, user_id=person_id)


def _represent(person: User) -> dict[str, Any]:
    return {
        "id": str(person.pk),
        "username": person.username,
        "name": person.display_name,
        "email": person.email,
        "active": person.is_active,
        "pending": is_pending(person),
        "created_at": rfc3339(person.created_at),
        "last_sign_in_at": rfc3339(person.last_login) if person.last_login else None,
    }


def _detail(request: Request, person: User) -> dict[str, Any]:
    roles = roles_of_person(actor=actor_of(request), user=person)
    return _represent(person) | {"ways_in": ways_in(person), "roles": [_represent_role(row) for row in roles]}


def _represent_role(membership: Membership) -> dict[str, Any]:
    return {
        "id": membership.pk,
        "node": membership.node.slug,
        "role": membership.role,
        "source": str(membership.source),
        "created_at": rfc3339(membership.created_at),
    }


def _represent_rights(rights: Rights) -> dict[str, Any]:
    return {
        "node": rights.node.slug,
        "roles": [
            {"role": one.role, "node": one.node, "source": one.source, "inherited": one.inherited}
            for one in rights.roles
        ],
        "actions": [action.value for action in rights.actions],
    }


def _flag(text: str | None, name: str) -> bool | None:
    if text is None:
        return None
    if text not in {"true", "false"}:
        detail = f"{name} must be true or false."
        raise MalformedRequest(detail, code="bad_flag", errors=[FieldError("", "bad_flag", detail)])
    return text == "true"
