"""REST paths of the audit log, below ``/api/v1/``."""

from django.urls import path

from controlplane.audit.api import AuditView

urlpatterns = [path("orgs/<slug:org>/audit", AuditView.as_view(), name="audit")]
