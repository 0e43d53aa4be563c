"""REST paths of access, below ``/api/v1/``."""

from django.urls import path

from controlplane.access.api.grants import GrantListView, GrantView
from controlplane.access.api.identity_provider import (
    IdentityProviderTestView,
    IdentityProviderView,
    RoleMappingListView,
    RoleMappingView,
)
from controlplane.access.api.me import MeView
from controlplane.access.api.members import MemberListView, MemberView
from controlplane.access.api.organization_tokens import (
    OrganizationTokensView,
    TokenPolicyView,
    TokenReportView,
    TokensRevokeView,
)
from controlplane.access.api.people import (
    PersonInvitationView,
    PersonListView,
    PersonPermissionsView,
    PersonView,
)
from controlplane.access.api.tokens import ImpersonationView, TokenListView, TokenRotateView, TokenView

urlpatterns = [
    path("me", MeView.as_view(), name="me"),
    path("orgs/<slug:org>/nodes/<slug:node>/tokens", TokenListView.as_view(), name="tokens"),
    path("orgs/<slug:org>/nodes/<slug:node>/tokens/<slug:public_id>", TokenView.as_view(), name="token"),
    path(
        "orgs/<slug:org>/nodes/<slug:node>/tokens/<slug:public_id>/rotate",
        TokenRotateView.as_view(),
        name="token_rotate",
    ),
    path("orgs/<slug:org>/nodes/<slug:node>/impersonation", ImpersonationView.as_view(), name="impersonation"),
    path("orgs/<slug:org>/tokens", OrganizationTokensView.as_view(), name="organization_tokens"),
    path("orgs/<slug:org>/tokens/report", TokenReportView.as_view(), name="token_report"),
    path("orgs/<slug:org>/tokens/revoke", TokensRevokeView.as_view(), name="tokens_revoke"),
    path("orgs/<slug:org>/token-policy", TokenPolicyView.as_view(), name="token_policy"),
    path("orgs/<slug:org>/nodes/<slug:node>/members", MemberListView.as_view(), name="members"),
    path("orgs/<slug:org>/nodes/<slug:node>/members/<int:membership_id>", MemberView.as_view(), name="member"),
    path("orgs/<slug:org>/members", PersonListView.as_view(), name="people"),
    path("orgs/<slug:org>/members/<uuid:person_id>", PersonView.as_view(), name="person"),
    path("orgs/<slug:org>/members/<uuid:person_id>/invitation", PersonInvitationView.as_view(), name="invitation"),
    path("orgs/<slug:org>/members/<uuid:person_id>/permissions", PersonPermissionsView.as_view(), name="permissions"),
    path("orgs/<slug:org>/nodes/<slug:node>/grants", GrantListView.as_view(), name="grants"),
    path("orgs/<slug:org>/nodes/<slug:node>/grants/<uuid:grant_id>", GrantView.as_view(), name="grant"),
    path("orgs/<slug:org>/identity-provider", IdentityProviderView.as_view(), name="identity_provider"),
    path("orgs/<slug:org>/identity-provider/test", IdentityProviderTestView.as_view(), name="identity_provider_test"),
    path("orgs/<slug:org>/identity-provider/mappings", RoleMappingListView.as_view(), name="role_mappings"),
    path(
        "orgs/<slug:org>/identity-provider/mappings/<uuid:mapping_id>", RoleMappingView.as_view(), name="role_mapping"
    ),
]
