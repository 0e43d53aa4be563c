from django.urls import path

from controlplane.alerts import api

urlpatterns = [
    path("alerts", api.AlertsView.as_view(), name="alerts"),
    path("alerts/<uuid:group_id>", api.AlertGroupView.as_view(), name="alert"),
    path("alerts/alertmanager", api.AlertmanagerView.as_view(), name="alerts-alertmanager"),
    path("alerts/<slug:vendor>", api.VendorView.as_view(), name="alerts-vendor"),
    path(
        "alerts/<slug:vendor>/<slug:organization>/<slug:node>/<slug:name>",
        api.SourceView.as_view(),
        name="alerts-source",
    ),
]
