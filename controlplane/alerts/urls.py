from django.urls import path

from controlplane.alerts import api

urlpatterns = [
    path("alerts", api.AlertsView.as_view(), name="alerts"),
    path("alerts/alertmanager", api.AlertmanagerView.as_view(), name="alerts-alertmanager"),
]
