"""REST paths of the audit log, below ``/api/v1/``."""

from django.urls import path

from controlplane.audit.api import AuditSecurityView, AuditVerificationView, AuditView

urlpatterns = [
    path("orgs/<slug:org>/audit", AuditView.as_view(), name="audit"),
    path("orgs/<slug:org>/audit/security", AuditSecurityView.as_view(), name="audit-security"),
    path("orgs/<slug:org>/audit/verification", AuditVerificationView.as_view(), name="audit-verification"),
]
