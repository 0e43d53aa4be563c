"""The operators' view of configuration: to look at, never to change; every write goes through the services."""

from typing import Any

from django.contrib import admin

from controlplane.configs.models import ConfigDocument, ConfigPolicy, ConfigVersion, RouteClaim
from controlplane.core.admin import ReadOnlyAdmin


@admin.register(ConfigDocument)
class ConfigDocumentAdmin(ReadOnlyAdmin):
    list_display = ["node", "organization", "version", "updated_at", "updated_by"]
    list_select_related = ["node__organization"]
    list_filter = ["node__organization", "node__kind"]
    search_fields = ["node__slug", "node__name"]
    ordering = ["node__organization__slug", "node__slug"]

    @admin.display(ordering="node__organization__slug")
    def organization(self, document: ConfigDocument) -> Any:
        return document.node.organization


@admin.register(ConfigVersion)
class ConfigVersionAdmin(ReadOnlyAdmin):
    list_display = ["node", "organization", "version", "at", "by", "reason"]
    list_select_related = ["node__organization"]
    list_filter = ["node__organization", "at"]
    search_fields = ["node__slug", "by", "reason"]
    ordering = ["-at"]

    @admin.display(ordering="node__organization__slug")
    def organization(self, version: ConfigVersion) -> Any:
        return version.node.organization


@admin.register(RouteClaim)
class RouteClaimAdmin(ReadOnlyAdmin):
    list_display = ["kind", "key", "node", "organization"]
    list_select_related = ["node", "organization"]
    list_filter = ["organization", "kind"]
    search_fields = ["key", "node__slug"]
    ordering = ["organization__slug", "kind", "key"]


@admin.register(ConfigPolicy)
class ConfigPolicyAdmin(ReadOnlyAdmin):
    list_display = ["pointer", "kind", "node", "organization", "created_label", "created_at"]
    list_select_related = ["node__organization"]
    list_filter = ["kind", "node__organization"]
    search_fields = ["pointer", "node__slug"]
    ordering = ["node__slug", "pointer"]

    @admin.display(ordering="node__organization__slug")
    def organization(self, policy: ConfigPolicy) -> Any:
        return policy.node.organization
