"""REST views of configuration: they read the request, call a selector or a service, and shape the answer."""

from typing import Any

from django.http.response import HttpResponseBase
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework.parsers import BaseParser
from rest_framework.renderers import BaseRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView
from typing_extensions import override

from controlplane.configs import answers, schemas, selectors, services
from controlplane.configs.credentials import config_resolve, credential_report
from controlplane.configs.foreseeing import NDJSON
from controlplane.configs.requests import body_any, flag, is_merge_patch, not_modified, pointer_of, validators
from controlplane.configs.sections import DocumentSchema
from controlplane.core import clock
from controlplane.core.api import actor_of, body_of, query_of
from controlplane.core.errors import PermissionDenied
from controlplane.core.pagination import page_of
from controlplane.core.permissions import Action
from controlplane.core.rest import MergePatchParser, OrjsonRenderer, StrictJSONParser
from controlplane.orgs.models import Node
from controlplane.orgs.selectors import node_get

DRY_RUN = OpenApiParameter(
    "dry_run",
    bool,
    description=(
        "Answer what would change; write nothing. With the header `Accept: application/x-ndjson` the answer is the "
        'last of some lines of JSON; those before it, `{"progress": {"done", "total", "affected"}}`, say how far it is.'
    ),
)
REASON = OpenApiParameter("reason", str, description="One line for the history, at most 500 characters.")
IF_MATCH = OpenApiParameter("If-Match", str, OpenApiParameter.HEADER, description="Write only at this version.")
IF_NONE_MATCH = OpenApiParameter(
    "If-None-Match", str, OpenApiParameter.HEADER, description="Answer 304 at this version."
)

RESOLVE = OpenApiParameter(
    "resolve", bool, description="Put the values of credentials in place; needs the scope config:resolve."
)


class NdjsonRenderer(OrjsonRenderer):
    """JSON as a line, for what is answered at once although lines were asked for."""

    media_type = NDJSON
    format = "ndjson"


class NodeConfigView(APIView):
    """A view of the configuration of the node that the slugs ``org`` and ``node`` of the path name."""

    def node(self, action: Action) -> Node:
        """Return the node, if the caller may do ``action`` there."""
        org, node = self.kwargs["org"], self.kwargs["node"]
        return node_get(actor=actor_of(self.request), organization_slug=org, node_slug=node, action=action)

    @override
    def get_renderers(self) -> list[BaseRenderer]:
        dry = "dry_run" in getattr(self.request, "GET", ())
        return [*super().get_renderers(), NdjsonRenderer()] if dry else super().get_renderers()

    def rate_rule(self, request: Request) -> str | None:
        """Return which rule limits this call besides the one for all: foreseeing a change costs, and so do secrets."""
        if "dry_run" in request.query_params:
            return "previews"
        return "resolve" if "resolve" in request.query_params else None

    def streams(self) -> bool:
        """Return whether the caller wants lines that say how far a dry run is."""
        return self.request.accepted_renderer.media_type == NDJSON

    def write_options(self, *parameters: str) -> dict[str, Any]:
        """Return what every write takes from caller, path, query and headers."""
        params = query_of(self.request, "dry_run", *parameters)
        return {
            "actor": actor_of(self.request),
            "node": self.node(Action.CONFIG_WRITE),
            "dry_run": flag(params, "dry_run"),
            "if_match": self.request.headers.get("If-Match"),
        }


class DocumentView(NodeConfigView):
    """The node's own document: its overrides."""

    @override
    def get_parsers(self) -> list[BaseParser]:
        patches = getattr(self.request, "method", None) == "PATCH"
        return [StrictJSONParser(), MergePatchParser()] if patches else [StrictJSONParser()]

    @extend_schema(operation_id="config_read", parameters=[IF_NONE_MATCH], responses=schemas.DocumentAnswer)
    def get(self, request: Request, **_slugs: str) -> HttpResponseBase:
        query_of(request)
        stored = selectors.config_document(actor=actor_of(request), node=self.node(Action.CONFIG_READ))
        return not_modified(request, stored.etag) or Response(answers.document(stored), headers=validators(stored.etag))

    @extend_schema(
        operation_id="config_replace",
        request=dict[str, Any],
        parameters=[DRY_RUN, REASON, IF_MATCH],
        responses={200: schemas.WriteAnswer, 202: schemas.QueuedAnswer},
    )
    def put(self, request: Request, **_slugs: str) -> HttpResponseBase:
        options = self.write_options("reason")
        reason = request.query_params.get("reason", "")
        result = services.config_replace(document=body_any(request), reason=reason, **options)
        return answers.written(result, stream=self.streams())

    @extend_schema(
        operation_id="config_patch",
        request={"application/json": dict[str, Any], "application/merge-patch+json": dict[str, Any]},
        parameters=[DRY_RUN, REASON, IF_MATCH],
        responses={200: schemas.WriteAnswer, 202: schemas.QueuedAnswer},
    )
    def patch(self, request: Request, **_slugs: str) -> HttpResponseBase:
        options = self.write_options("reason")
        options |= {"reason": request.query_params.get("reason", ""), "merge_patch": is_merge_patch(request)}
        return answers.written(services.config_patch(patch=body_any(request), **options), stream=self.streams())


class UnsetView(NodeConfigView):
    """Removing overrides, so that their values are inherited again."""

    @extend_schema(
        operation_id="config_unset",
        request=schemas.UnsetBody,
        parameters=[DRY_RUN, IF_MATCH],
        responses={200: schemas.WriteAnswer, 202: schemas.QueuedAnswer},
    )
    def post(self, request: Request, **_slugs: str) -> HttpResponseBase:
        options = self.write_options()
        result = services.config_unset(**options, **body_of(schemas.UnsetBody, body_any(request)))
        return answers.written(result, stream=self.streams())


class RollbackView(NodeConfigView):
    """Going back to an earlier version, as a new one."""

    @extend_schema(
        operation_id="config_rollback",
        request=schemas.RollbackBody,
        parameters=[DRY_RUN, IF_MATCH],
        responses={200: schemas.WriteAnswer, 202: schemas.QueuedAnswer},
    )
    def post(self, request: Request, **_slugs: str) -> HttpResponseBase:
        options = self.write_options()
        result = services.config_rollback(**options, **body_of(schemas.RollbackBody, body_any(request)))
        return answers.written(result, stream=self.streams())


class EffectiveView(NodeConfigView):
    """The node's effective configuration."""

    @extend_schema(
        operation_id="config_effective",
        parameters=[
            OpenApiParameter("provenance", bool, description="Also answer who set each leaf."),
            OpenApiParameter("pointer", str, description="Only the value at this JSON Pointer."),
            RESOLVE,
            IF_NONE_MATCH,
        ],
        responses=schemas.EffectiveAnswer,
    )
    def get(self, request: Request, **_slugs: str) -> HttpResponseBase:
        params = query_of(request, "provenance", "pointer", "resolve")
        provenance, tokens, resolve = flag(params, "provenance"), pointer_of(params), flag(params, "resolve")
        node = self.node(Action.CONFIG_RESOLVE if resolve else Action.CONFIG_READ)
        chain = selectors.chain_for(actor=actor_of(request), node_id=node.pk)
        if resolve:
            result = config_resolve(actor=actor_of(request), chain=chain, path=tokens)
            return answers.resolved(result, tokens, provenance=provenance)
        found = selectors.effective_of(node.pk, chain)
        report = credential_report(found)  # states change without any write, so they are part of the tag
        etag = report.etag(found.etag)
        return not_modified(request, etag) or Response(
            answers.effective(found, tokens, report, provenance=provenance), headers=validators(etag)
        )


class HistoryView(NodeConfigView):
    """The versions of the node's document, the newest first."""

    @extend_schema(
        operation_id="config_history",
        parameters=[OpenApiParameter("cursor", str), OpenApiParameter("limit", int)],
        responses=schemas.HistoryPage,
    )
    def get(self, request: Request, **_slugs: str) -> Response:
        params = query_of(request, "cursor", "limit")
        versions = selectors.config_history(actor=actor_of(request), node=self.node(Action.CONFIG_READ))
        page = page_of(versions, ordering=["-version"], params=params)
        return Response(page.as_dict([answers.version_summary(row) for row in page.results]))


class VersionView(NodeConfigView):
    """One version of the node's document, with its difference to the one before."""

    @extend_schema(operation_id="config_version", responses=schemas.VersionAnswer)
    def get(self, request: Request, version: int, **_slugs: str) -> Response:
        query_of(request)
        node = self.node(Action.CONFIG_READ)
        detail = selectors.config_version(actor=actor_of(request), node=node, version=version)
        return Response(answers.version(detail))


class OwnEffectiveView(APIView):
    """The effective configuration of the node that the caller's token is bound to, in OpenSRE's form."""

    def rate_rule(self, request: Request) -> str | None:
        """Return which rule limits this call besides the one for all."""
        return "resolve" if "resolve" in request.query_params else None

    @extend_schema(
        operation_id="config_own_effective", parameters=[RESOLVE, IF_NONE_MATCH], responses=schemas.OwnEffectiveAnswer
    )
    def get(self, request: Request) -> HttpResponseBase:
        resolve = flag(query_of(request, "resolve"), "resolve")
        chain = own_chain(request)
        if resolve:
            return answers.own_resolved(config_resolve(actor=actor_of(request), chain=chain), clock.now())
        etag = selectors.chain_etag(chain)
        unchanged = not_modified(request, etag)
        if unchanged is not None:
            return unchanged
        found = selectors.effective_of(chain[-1].node_id, chain)
        return Response(answers.own_effective(found, clock.now()), headers=validators(found.etag))


@extend_schema_view(get=extend_schema(exclude=True))
class OwnEffectiveShortView(OwnEffectiveView):
    """The same under its short path, which OpenSRE's clients use; documented once."""


class OwnRawView(APIView):
    """The untouched documents of the chain of the caller's node, in OpenSRE's form."""

    @extend_schema(operation_id="config_own_raw", responses=schemas.OwnRawAnswer)
    def get(self, request: Request) -> Response:
        query_of(request)
        return Response(answers.own_raw(selectors.chain_documents(own_chain(request)[-1].node_id)))


class SchemaView(APIView):
    """The JSON Schema (draft 2020-12) of a document."""

    @extend_schema(operation_id="config_schema", responses=dict[str, Any])
    def get(self, request: Request) -> Response:
        query_of(request)
        schema = DocumentSchema.model_json_schema()
        return Response({"$schema": "https://json-schema.org/draft/2020-12/schema"} | schema)


def own_chain(request: Request) -> tuple[selectors.Link, ...]:
    """Return the chain of the node that the caller's token is bound to.

    Raises:
        PermissionDenied: ``no_own_node`` when the caller is a person, or the token may not read configuration.
    """
    actor = actor_of(request)
    if actor.token_node_id is None:
        detail = (
            "This credential belongs to a person, not to a node; read /api/v1/orgs/{org}/nodes/{node}/config instead."
        )
        raise PermissionDenied(detail, code="no_own_node")
    return selectors.chain_for(actor=actor, node_id=actor.token_node_id)
