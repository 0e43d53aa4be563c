"""REST paths of access, below ``/api/v1/``."""

from django.urls import path

from controlplane.access.api.grants import GrantListView, GrantView
from controlplane.access.api.me import MeView
from controlplane.access.api.members import MemberListView, MemberView
from controlplane.access.api.tokens import TokenListView, TokenView

urlpatterns = [
    path("me", MeView.as_view(), name="me"),
    path("orgs/<slug:org>/nodes/<slug:node>/tokens", TokenListView.as_view(), name="tokens"),
    path("orgs/<slug:org>/nodes/<slug:node>/tokens/<slug:public_id>", TokenView.as_view(), name="token"),
    path("orgs/<slug:org>/nodes/<slug:node>/members", MemberListView.as_view(), name="members"),
    path("orgs/<slug:org>/nodes/<slug:node>/members/<int:membership_id>", MemberView.as_view(), name="member"),
    path("orgs/<slug:org>/nodes/<slug:node>/grants", GrantListView.as_view(), name="grants"),
    path("orgs/<slug:org>/nodes/<slug:node>/grants/<uuid:grant_id>", GrantView.as_view(), name="grant"),
]
