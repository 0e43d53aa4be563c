"""REST views of the catalogue: what can be connected, templates, applying one."""

from typing import Any

from django.http.response import HttpResponseBase
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.configs import answers, schemas
from controlplane.configs.api import DRY_RUN, IF_MATCH, NodeConfigView
from controlplane.configs.catalogue.integrations import INTEGRATIONS, integration_definition
from controlplane.configs.catalogue.services import template_apply
from controlplane.configs.catalogue.templates import TEMPLATES
from controlplane.configs.requests import body_any
from controlplane.core.api import StrictSerializer, TextField, actor_of, body_of, query_of
from controlplane.core.errors import NotFound


class CatalogueFieldSchema(serializers.Serializer[Any]):
    name = serializers.CharField(help_text="Path within the entry, with dots.")
    pointer = serializers.CharField(help_text="The same as a JSON Pointer.")
    type = serializers.CharField(help_text="string, url, integer, number, boolean or object.")
    required = serializers.BooleanField()  # type: ignore[assignment]  # the metaclass takes it out
    secret = serializers.BooleanField(help_text="The document holds a reference, ${NAME}.")
    level = serializers.CharField(help_text="org or team: who usually sets it.")
    description = serializers.CharField()
    example = serializers.JSONField(allow_null=True)
    default = serializers.JSONField(allow_null=True)


class CatalogueTestSchema(serializers.Serializer[Any]):
    available = serializers.BooleanField()
    requests = serializers.ListField(child=serializers.CharField())
    detail = serializers.CharField()


class CatalogueEntry(serializers.Serializer[Any]):
    kind = serializers.CharField()
    title = serializers.CharField()
    category = serializers.CharField()
    description = serializers.CharField()
    docs_url = serializers.URLField()
    read_by_runs = serializers.BooleanField()
    default_url = serializers.CharField(allow_null=True)
    fields = CatalogueFieldSchema(many=True)  # type: ignore[assignment]  # the metaclass takes it out
    test = CatalogueTestSchema()


class CataloguePage(serializers.Serializer[Any]):
    results = CatalogueEntry(many=True)
    next = serializers.CharField(allow_null=True)


class TemplateFieldSchema(serializers.Serializer[Any]):
    name = serializers.CharField()
    type = serializers.CharField(help_text="string or integer.")
    required = serializers.BooleanField()  # type: ignore[assignment]  # the metaclass takes it out
    secret = serializers.BooleanField()
    description = serializers.CharField()
    example = serializers.JSONField(allow_null=True)
    default = serializers.JSONField(allow_null=True)


class TemplateEntry(serializers.Serializer[Any]):
    name = serializers.CharField()
    title = serializers.CharField()
    description = serializers.CharField()
    uses = serializers.ListField(child=serializers.CharField(), help_text="Kinds of integrations.")
    fields = TemplateFieldSchema(many=True)  # type: ignore[assignment]  # the metaclass takes it out
    patch = serializers.DictField(child=serializers.JSONField(), help_text="With <name> for each value.")


class TemplatePage(serializers.Serializer[Any]):
    results = TemplateEntry(many=True)
    next = serializers.CharField(allow_null=True)


class ApplyTemplateBody(StrictSerializer):
    template = TextField(max_length=63)
    values = serializers.DictField(child=serializers.JSONField(allow_null=True), required=False)
    dry_run = serializers.BooleanField(required=False, default=False)


class IntegrationCatalogueView(APIView):
    """What can be connected."""

    @extend_schema(operation_id="catalogue_integrations", responses=CataloguePage)
    def get(self, request: Request) -> Response:
        actor_of(request)
        query_of(request)
        return Response({"results": [one.as_dict() for _, one in sorted(INTEGRATIONS.items())], "next": None})


class IntegrationKindView(APIView):
    """One kind of integration."""

    @extend_schema(operation_id="catalogue_integration", responses=CatalogueEntry)
    def get(self, request: Request, kind: str) -> Response:
        actor_of(request)
        query_of(request)
        found = integration_definition(kind)
        if found is None:
            raise NotFound("The catalogue has no such kind of integration.", code="unknown_integration_kind")
        return Response(found.as_dict())


class TemplateCatalogueView(APIView):
    """The templates to start from."""

    @extend_schema(operation_id="catalogue_templates", responses=TemplatePage)
    def get(self, request: Request) -> Response:
        actor_of(request)
        query_of(request)
        return Response({"results": [one.as_dict() for one in TEMPLATES.values()], "next": None})


class ApplyTemplateView(NodeConfigView):
    """Patching a node's document with a template."""

    @extend_schema(
        operation_id="config_apply_template",
        request=ApplyTemplateBody,
        parameters=[DRY_RUN, IF_MATCH],
        responses={200: schemas.WriteAnswer, 202: schemas.QueuedAnswer},
    )
    def post(self, request: Request, **_slugs: str) -> HttpResponseBase:
        options = self.write_options()
        body = body_of(ApplyTemplateBody, body_any(request))
        options["dry_run"] = body.pop("dry_run") or options["dry_run"]
        return answers.written(template_apply(**options, **body), stream=self.streams())
