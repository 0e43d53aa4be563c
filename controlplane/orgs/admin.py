from django.contrib import admin

from controlplane.core.admin import ReadOnlyAdmin
from controlplane.orgs.models import Node, Organization


@admin.register(Organization)
class OrganizationAdmin(ReadOnlyAdmin):
    list_display = ("slug", "name", "created_at")
    search_fields = ("slug", "name")


@admin.register(Node)
class NodeAdmin(ReadOnlyAdmin):
    list_display = ("slug", "name", "kind", "organization", "parent", "archived_at")
    list_filter = ("kind", "organization")
    list_select_related = ("organization", "parent")
    search_fields = ("slug", "name")
