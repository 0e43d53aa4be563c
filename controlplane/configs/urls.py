"""Routes of configuration, below ``/api/v1/``."""

from django.urls import path

from controlplane.configs import api

NODE = "orgs/<slug:org>/nodes/<slug:node>/config"

urlpatterns = [
    path(NODE, api.DocumentView.as_view(), name="config"),
    path(f"{NODE}/unset", api.UnsetView.as_view(), name="config-unset"),
    path(f"{NODE}/effective", api.EffectiveView.as_view(), name="config-effective"),
    path(f"{NODE}/history", api.HistoryView.as_view(), name="config-history"),
    path(f"{NODE}/history/<int:version>", api.VersionView.as_view(), name="config-version"),
    path(f"{NODE}/rollback", api.RollbackView.as_view(), name="config-rollback"),
    path("config/schema", api.SchemaView.as_view(), name="config-schema"),
    path("config/me", api.OwnEffectiveShortView.as_view(), name="config-me"),
    path("config/me/effective", api.OwnEffectiveView.as_view(), name="config-me-effective"),
    path("config/me/raw", api.OwnRawView.as_view(), name="config-me-raw"),
]
