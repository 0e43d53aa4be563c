from django.contrib import admin

from controlplane.alerts.models import Alert, AlertGroup
from controlplane.core.admin import ReadOnlyAdmin


@admin.register(AlertGroup)
class AlertGroupAdmin(ReadOnlyAdmin):
    list_display = ("title", "severity", "status", "fate", "node", "source", "deliveries", "first_at", "last_at")
    list_filter = ("status", "fate", "source")
    list_select_related = ("node",)
    search_fields = ("title", "node__slug")
    exclude = ("fingerprints", "pending_message", "held")


@admin.register(Alert)
class AlertAdmin(ReadOnlyAdmin):
    list_display = ("name", "severity", "status", "fate", "fate_reason", "times", "first_at", "last_at")
    list_filter = ("status", "fate", "fate_reason")
    search_fields = ("name", "service", "host", "workload")
