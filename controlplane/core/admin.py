"""The base of the operators' admin: everything may be looked at, nothing changed around the services."""

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest
from typing_extensions import override
from unfold.admin import ModelAdmin


class ReadOnlyAdmin(ModelAdmin):  # type: ignore[misc]  # unfold ships no types
    """A model that the admin shows. Writes go through services, which check, lock and record."""

    actions: Sequence[str] | None = None
    list_per_page = 50
    show_full_result_count = False

    @override
    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    @override
    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @override
    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
