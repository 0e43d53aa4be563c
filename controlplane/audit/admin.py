from django.contrib import admin

from controlplane.audit.models import AuditEvent, SecurityEvent
from controlplane.core.admin import ReadOnlyAdmin


@admin.register(AuditEvent)
class AuditEventAdmin(ReadOnlyAdmin):
    list_display = ("at", "organization_id", "org_seq", "action", "actor_label", "object_kind", "object_id", "channel")
    list_filter = ("action", "channel")
    search_fields = ("=object_id", "actor_label", "=actor", "=credential_id")
    ordering = ("-at", "-org_seq")


@admin.register(SecurityEvent)
class SecurityEventAdmin(ReadOnlyAdmin):
    list_display = ("last_at", "organization_id", "kind", "action", "code", "actor_label", "address", "count")
    list_filter = ("kind", "channel")
    search_fields = ("actor_label", "=actor", "=credential_id", "=address")
    ordering = ("-id",)
