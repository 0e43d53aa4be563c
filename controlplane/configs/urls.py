"""Routes of configuration, below ``/api/v1/``."""

from django.urls import path

from controlplane.configs import api, policy_api, routes_api
from controlplane.configs.catalogue import api as catalogue_api

NODE_PATH = "orgs/<slug:org>/nodes/<slug:node>"
NODE = f"{NODE_PATH}/config"

urlpatterns = [
    path(NODE, api.DocumentView.as_view(), name="config"),
    path(f"{NODE}/unset", api.UnsetView.as_view(), name="config-unset"),
    path(f"{NODE}/effective", api.EffectiveView.as_view(), name="config-effective"),
    path(f"{NODE}/history", api.HistoryView.as_view(), name="config-history"),
    path(f"{NODE}/history/<int:version>", api.VersionView.as_view(), name="config-version"),
    path(f"{NODE}/missing", policy_api.MissingView.as_view(), name="config-missing"),
    path(f"{NODE_PATH}/policies", policy_api.PolicyListView.as_view(), name="policy-list"),
    path(f"{NODE_PATH}/policies/<uuid:policy_id>", policy_api.PolicyView.as_view(), name="policy"),
    path(f"{NODE}/rollback", api.RollbackView.as_view(), name="config-rollback"),
    path(f"{NODE}/apply-template", catalogue_api.ApplyTemplateView.as_view(), name="config-apply-template"),
    path("orgs/<slug:org>/routes", routes_api.RoutesView.as_view(), name="routes"),
    path("catalogue/integrations", catalogue_api.IntegrationCatalogueView.as_view(), name="catalogue-integrations"),
    path(
        "catalogue/integrations/<str:kind>",
        catalogue_api.IntegrationKindView.as_view(),
        name="catalogue-integration",
    ),
    path("catalogue/templates", catalogue_api.TemplateCatalogueView.as_view(), name="catalogue-templates"),
    path("config/schema", api.SchemaView.as_view(), name="config-schema"),
    path("config/me", api.OwnEffectiveShortView.as_view(), name="config-me"),
    path("config/me/effective", api.OwnEffectiveView.as_view(), name="config-me-effective"),
    path("config/me/raw", api.OwnRawView.as_view(), name="config-me-raw"),
]
