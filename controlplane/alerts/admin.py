from django.contrib import admin

from controlplane.alerts.models import AlertGroup
from controlplane.core.admin import ReadOnlyAdmin


@admin.register(AlertGroup)
class AlertGroupAdmin(ReadOnlyAdmin):
    list_display = ("title", "severity", "status", "node", "source", "deliveries", "first_at", "last_at")
    list_filter = ("status", "source")
    list_select_related = ("node",)
    search_fields = ("title", "node__slug")
    exclude = ("fingerprints", "pending_message")
