from django.contrib import admin

from controlplane.audit.models import AuditEvent
from controlplane.core.admin import ReadOnlyAdmin


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    list_display = ("at", "organization_id", "org_seq", "action", "actor_label", "object_kind", "object_id", "channel")
    list_filter = ("action", "channel")
    search_fields = ("=object_id", "actor_label", "=actor", "=credential_id")
    ordering = ("-at", "-org_seq")
