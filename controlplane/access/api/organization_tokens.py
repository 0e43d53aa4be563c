"""REST: all tokens of an organization that the caller sees, their report, revoking many, and the policy."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from controlplane.access.api.grants import FlagField
from controlplane.access.api.tokens import PAGE, TokenPageOutput, WholeField, represent_token
from controlplane.access.services import PolicyTerms, token_policy_get, token_policy_set, tokens_revoke
from controlplane.access.services.token_sweeps import MOST_REVOKED
from controlplane.access.token_selectors import (
    EXPIRING_DAYS,
    UNUSED_DAYS,
    TokenFilter,
    filter_of,
    token_report,
    tokens_of_organization,
)
from controlplane.core.api import StrictSerializer, TextField, actor_of, body_of, query_of
from controlplane.core.errors import invalid
from controlplane.core.pagination import page_of

_FILTERS = ("kind", "state", "node", "person", "created_by", "unused_days", "expiring_days", "outside_policy")


class TokenReportOutput(serializers.Serializer[Any]):
    working = serializers.IntegerField()
    unused = serializers.IntegerField(help_text="not used for unused_days")
    expiring = serializers.IntegerField(help_text="ending within expiring_days")
    endless = serializers.IntegerField()
    outside_policy = serializers.IntegerField(help_text="living longer than the policy lets new ones")
    old_pepper = serializers.IntegerField(help_text="stored under an older pepper than the current one")
    unused_days = serializers.IntegerField()
    expiring_days = serializers.IntegerField()


class TokensRevokeInput(StrictSerializer):
    ids = serializers.ListField(child=TextField(), required=False, allow_empty=False, max_length=MOST_REVOKED)
    node = TextField(required=False, help_text="the tokens of its subtree")
    person = TextField(required=False, help_text="username: that person's own tokens")
    created_by = TextField(required=False, help_text="username, or public id of the token that made them")
    kind = TextField(required=False)
    unused_days = WholeField(required=False)
    outside_policy = FlagField(required=False)
    dry_run = FlagField(required=False)
    reason = TextField(required=False, allow_blank=True)


class TokensRevokeOutput(serializers.Serializer[Any]):
    dry_run = serializers.BooleanField()
    count = serializers.IntegerField(help_text="how many matched")
    left = serializers.IntegerField(help_text="how many of them remain: call again")
    ids = serializers.ListField(child=serializers.CharField())


class TokenPolicyKindInput(StrictSerializer):
    max_days = WholeField(required=False, allow_null=True)
    default_days = WholeField(required=False, allow_null=True)
    endless_allowed = FlagField(required=False)
    revoke_unused_days = WholeField(required=False, allow_null=True)


class TokenPolicyInput(StrictSerializer):
    team = TokenPolicyKindInput(required=False)
    admin = TokenPolicyKindInput(required=False)
    user = TokenPolicyKindInput(required=False)
    reason = TextField(required=False, allow_blank=True)


class TokenPolicyKindOutput(serializers.Serializer[Any]):
    max_days = serializers.IntegerField(allow_null=True)
    default_days = serializers.IntegerField(allow_null=True)
    endless_allowed = serializers.BooleanField()
    revoke_unused_days = serializers.IntegerField(allow_null=True)


class TokenPolicyOutput(serializers.Serializer[Any]):
    team = TokenPolicyKindOutput()
    admin = TokenPolicyKindOutput()
    user = TokenPolicyKindOutput()


class OrganizationTokensView(APIView):
    """The tokens of every node whose tokens the caller may read, and the person's own."""

    @extend_schema(
        operation_id="organization_token_list",
        parameters=[*PAGE, *(OpenApiParameter(name, str) for name in _FILTERS)],
        responses=TokenPageOutput,
    )
    def get(self, request: Request, org: str) -> Response:
        params = query_of(request, "cursor", "limit", *_FILTERS)
        found = tokens_of_organization(actor=actor_of(request), organization_slug=org, wanted=filter_of(params))
        page = page_of(found, ordering=["-created_at", "-id"], params=params)
        return Response(page.as_dict([represent_token(token) for token in page.results]))


class TokenReportView(APIView):
    """Counts of tokens that should go soon. The list with the same filter names them."""

    @extend_schema(
        operation_id="token_report",
        parameters=[OpenApiParameter("unused_days", int), OpenApiParameter("expiring_days", int)],
        responses=TokenReportOutput,
    )
    def get(self, request: Request, org: str) -> Response:
        asked = filter_of(query_of(request, "unused_days", "expiring_days"))
        days = {
            "unused_days": UNUSED_DAYS if asked.unused_days is None else asked.unused_days,
            "expiring_days": EXPIRING_DAYS if asked.expiring_days is None else asked.expiring_days,
        }
        report = token_report(actor=actor_of(request), organization_slug=org, **days)
        return Response(asdict(report) | days)


class TokensRevokeView(APIView):
    """Revoking many at once. Every member that is given must hold for a token."""

    @extend_schema(operation_id="tokens_revoke", request=TokensRevokeInput, responses=TokensRevokeOutput)
    def post(self, request: Request, org: str) -> Response:
        body = body_of(TokensRevokeInput, request.data)
        days = body.get("unused_days")
        if days is not None and days < 0:
            raise invalid("/unused_days", "days", "This must not be negative.")
        wanted = TokenFilter(
            kind=body.get("kind", ""),
            node=body.get("node", ""),
            person=body.get("person", ""),
            created_by=body.get("created_by", ""),
            unused_days=None if days is None else min(days, 36500),
            outside_policy=body.get("outside_policy", False),
            ids=tuple(body["ids"]) if "ids" in body else None,
        )
        done = tokens_revoke(
            actor=actor_of(request),
            organization_slug=org,
            wanted=wanted,
            dry_run=body.get("dry_run", False),
            reason=body.get("reason", ""),
        )
        return Response({"dry_run": done.dry_run, "count": done.count, "left": done.left, "ids": list(done.ids)})


class TokenPolicyView(APIView):
    """What the organization asks of its tokens, by kind."""

    @extend_schema(operation_id="token_policy_get", responses=TokenPolicyOutput)
    def get(self, request: Request, org: str) -> Response:
        query_of(request)
        return Response(_represent(token_policy_get(actor=actor_of(request), organization_slug=org)))

    @extend_schema(operation_id="token_policy_set", request=TokenPolicyInput, responses=TokenPolicyOutput)
    def put(self, request: Request, org: str) -> Response:
        body = body_of(TokenPolicyInput, request.data)
        reason = body.pop("reason", "")
        terms = {kind: PolicyTerms(**wanted) for kind, wanted in body.items()}
        policy = token_policy_set(actor=actor_of(request), organization_slug=org, terms=terms, reason=reason)
        return Response(_represent(policy))


def _represent(policy: Mapping[str, PolicyTerms]) -> dict[str, Any]:
    return {kind: asdict(terms) for kind, terms in policy.items()}
