"""Routes of integrations, below ``/api/v1/``."""

from django.urls import path

from controlplane.runtimes import api

NODE = "orgs/<slug:org>/nodes/<slug:node>/integrations"

urlpatterns = [
    path(NODE, api.IntegrationsView.as_view(), name="integrations"),
    path(f"{NODE}/<str:name>/test", api.IntegrationTestView.as_view(), name="integration-test"),
]
