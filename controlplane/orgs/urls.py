"""REST paths of the tree, below ``/api/v1/``."""

from django.urls import path

from controlplane.orgs.api import NodeListView, NodeView

urlpatterns = [
    path("orgs/<slug:org>/nodes", NodeListView.as_view(), name="nodes"),
    path("orgs/<slug:org>/nodes/<slug:node>", NodeView.as_view(), name="node"),
]
