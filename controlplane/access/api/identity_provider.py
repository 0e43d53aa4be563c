"""REST: the identity provider of an organization, and what its roles and groups give here."""

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.access.api.grants import FlagField
from controlplane.access.entra.checks import identity_provider_test
from controlplane.access.entra.mappings import role_mapping_remove, role_mapping_set
from controlplane.access.entra.selectors import (
    credential_state,
    identity_provider_get,
    mapping_get,
    mappings_of,
)
from controlplane.access.entra.services import describe, identity_provider_remove, identity_provider_set
from controlplane.access.models import IdentityProvider, RoleMapping
from controlplane.core.api import StrictSerializer, TextField, actor_of, body_of, query_of
from controlplane.core.permissions import Action


class ProviderInput(StrictSerializer):
    kind = TextField(help_text="entra or oidc")
    name = TextField(required=False, allow_blank=True, help_text="on the sign-in button")
    enabled = FlagField(required=False, help_text="true when left out")
    cloud = TextField(required=False, allow_blank=True, help_text="of entra; global when left out")
    tenant = TextField(required=False, allow_blank=True, help_text="of entra: the directory's GUID")
    allowed_tenants = serializers.ListField(child=TextField(), required=False, max_length=20)
    authority = TextField(required=False, allow_blank=True, help_text="of oidc: the issuer, exactly")
    client_id = TextField()
    client_secret = TextField(required=False, allow_blank=True, help_text="${NAME}, never the value")
    client_certificate = TextField(required=False, allow_blank=True, help_text="${NAME} of a PEM file")
    email_domains = serializers.ListField(child=TextField(), required=False, max_length=50)
    guests = TextField(required=False, help_text="deny, viewer or responder; deny when left out")
    password_sign_in = FlagField(required=False, help_text="true when left out")


class ProviderOutput(serializers.Serializer[Any]):
    """Only for the OpenAPI document; see :func:`_represent`."""

    kind = serializers.CharField()
    name = serializers.CharField()
    enabled = serializers.BooleanField()
    cloud = serializers.CharField()
    tenant = serializers.CharField()
    allowed_tenants = serializers.ListField(child=serializers.CharField())
    authority = serializers.CharField()
    client_id = serializers.CharField()
    client_secret = serializers.CharField()
    client_certificate = serializers.CharField()
    email_domains = serializers.ListField(child=serializers.CharField())
    guests = serializers.CharField()
    password_sign_in = serializers.BooleanField()
    has_client_secret = serializers.BooleanField(help_text="whether the secret or certificate has a value here")
    credential_state = serializers.CharField()


class MappingInput(StrictSerializer):
    kind = TextField(help_text="role (of the application) or group")
    value = TextField(help_text="the role's value; the group's object id, of oidc its name")
    node = TextField()
    role = TextField()


class MappingOutput(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    kind = serializers.CharField()
    value = serializers.CharField()
    node = serializers.CharField()
    role = serializers.CharField()


class MappingListOutput(serializers.Serializer[Any]):
    results = MappingOutput(many=True)


class CheckOutput(serializers.Serializer[Any]):
    name = serializers.CharField()
    state = serializers.CharField(help_text="ok, failed or skipped")
    detail = serializers.CharField()


class TestOutput(serializers.Serializer[Any]):
    ok = serializers.BooleanField()
    checks = CheckOutput(many=True)


class IdentityProviderView(APIView):
    """Who signs people in to an organization. Admins read it, owners change it; values of secrets are never here."""

    @extend_schema(operation_id="identity_provider_get", responses=ProviderOutput)
    def get(self, request: Request, org: str) -> Response:
        query_of(request)
        provider = identity_provider_get(
            actor=actor_of(request), organization_slug=org, action=Action.IDENTITY_PROVIDER_READ
        )
        return Response(_represent(provider))

    @extend_schema(operation_id="identity_provider_set", request=ProviderInput, responses=ProviderOutput)
    def put(self, request: Request, org: str) -> Response:
        actor = actor_of(request)
        provider = identity_provider_set(actor=actor, organization_slug=org, **body_of(ProviderInput, request.data))
        return Response(_represent(provider))

    @extend_schema(operation_id="identity_provider_remove", responses={204: None})
    def delete(self, request: Request, org: str) -> Response:
        identity_provider_remove(actor=actor_of(request), organization_slug=org)
        return Response(status=status.HTTP_204_NO_CONTENT)


class IdentityProviderTestView(APIView):
    """Trying the provider out as it is set."""

    rate_rule = "connection_tests"

    @extend_schema(operation_id="identity_provider_test", request=None, responses=TestOutput)
    def post(self, request: Request, org: str) -> Response:
        checks = identity_provider_test(actor=actor_of(request), organization_slug=org)
        listed = [{"name": check.name, "state": check.state, "detail": check.detail} for check in checks]
        return Response({"ok": all(check.state != "failed" for check in checks), "checks": listed})


class RoleMappingListView(APIView):
    """What roles of the application and groups of the directory give here."""

    @extend_schema(operation_id="role_mapping_list", responses=MappingListOutput)
    def get(self, request: Request, org: str) -> Response:
        query_of(request)
        provider = identity_provider_get(
            actor=actor_of(request), organization_slug=org, action=Action.IDENTITY_PROVIDER_READ
        )
        return Response({"results": [_represent_mapping(mapping) for mapping in mappings_of(provider)]})

    @extend_schema(operation_id="role_mapping_set", request=MappingInput, responses={201: MappingOutput})
    def post(self, request: Request, org: str) -> Response:
        actor = actor_of(request)
        provider = identity_provider_get(actor=actor, organization_slug=org, action=Action.IDENTITY_PROVIDER_WRITE)
        mapping = role_mapping_set(actor=actor, provider=provider, **body_of(MappingInput, request.data))
        return Response(_represent_mapping(mapping), status=status.HTTP_201_CREATED)


class RoleMappingView(APIView):
    """One mapping."""

    @extend_schema(operation_id="role_mapping_remove", responses={204: None})
    def delete(self, request: Request, org: str, mapping_id: UUID) -> Response:
        actor = actor_of(request)
        role_mapping_remove(actor=actor, mapping=mapping_get(actor=actor, organization_slug=org, mapping_id=mapping_id))
        return Response(status=status.HTTP_204_NO_CONTENT)


def _represent(provider: IdentityProvider) -> dict[str, Any]:
    state = credential_state(provider).state
    return describe(provider) | {"has_client_secret": state.value == "set", "credential_state": state.value}


def _represent_mapping(mapping: RoleMapping) -> dict[str, Any]:
    return {
        "id": str(mapping.pk),
        "kind": mapping.kind,
        "value": mapping.value,
        "node": mapping.node.slug,
        "role": mapping.role,
    }
