"""The operators' admin of people and credentials. Operators are edited here; members only through the services."""

from typing import Any

from django.contrib import admin
from django.contrib.auth.admin import UserAdmin as DjangoUserAdmin
from django.contrib.auth.models import Group
from django.forms import Form
from django.http import HttpRequest
from typing_extensions import override
from unfold.admin import ModelAdmin
from unfold.forms import AdminPasswordChangeForm, UserChangeForm, UserCreationForm

from controlplane.access import credential_admin  # noqa: F401 (registers itself)
from controlplane.access.models import AccessToken, Membership, User
from controlplane.core.admin import ReadOnlyAdmin

admin.site.unregister(Group)  # roles are granted on nodes; Django's groups are not used


class OperatorCreationForm(UserCreationForm):  # type: ignore[misc]  # unfold ships no types
    class Meta:
        model = User
        fields = ("username", "name", "email")


class OperatorChangeForm(UserChangeForm):  # type: ignore[misc]  # as above
    class Meta:
        model = User
        fields = ("username", "password", "name", "email", "is_active")


@admin.register(User)
class UserAdmin(DjangoUserAdmin, ModelAdmin):  # type: ignore[misc, type-arg]  # as above; no subscript at run time
    """Members are shown; only operators, who belong to no organization, are added, changed and deactivated."""

    form = OperatorChangeForm
    add_form = OperatorCreationForm
    change_password_form = AdminPasswordChangeForm
    fieldsets = (
        (None, {"fields": ("username", "password", "name", "email", "is_active", "organization", "last_login")}),
    )
    add_fieldsets = ((None, {"fields": ("username", "name", "email", "usable_password", "password1", "password2")}),)
    readonly_fields = ("organization", "last_login")
    list_display = ("username", "name", "organization", "is_superuser", "is_active", "last_login")
    list_filter = ("is_superuser", "is_active", "organization")
    list_select_related = ("organization",)
    search_fields = ("username", "name", "email")
    ordering = ("username",)
    filter_horizontal = ()
    actions = None

    @override
    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return super().has_change_permission(request, obj) and (obj is None or obj.organization_id is None)

    @override
    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # a deactivated operator keeps its name in the admin's history

    @override
    def save_model(self, request: HttpRequest, obj: User, form: Form, change: bool) -> None:
        if not change:
            obj.is_staff = obj.is_superuser = True
        super().save_model(request, obj, form, change)


@admin.register(Membership)
class MembershipAdmin(ReadOnlyAdmin):
    list_display = ("user", "role", "node", "source", "created_at")
    list_filter = ("role", "source")
    list_select_related = ("user", "node")
    search_fields = ("user__username", "node__slug")


@admin.register(AccessToken)
class AccessTokenAdmin(ReadOnlyAdmin):
    list_display = (
        "public_id", "kind", "name", "node", "user", "expires_at", "revoked_at", "last_used_at", "last_used_address",
    )  # fmt: skip
    list_filter = ("kind",)
    list_select_related = ("node", "user")
    search_fields = ("=public_id", "name")
    exclude = ("digest",)
