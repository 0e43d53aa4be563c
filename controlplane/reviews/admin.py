"""The operators' view of reviews: to look at, never to decide."""

from django.contrib import admin

from controlplane.core.admin import ReadOnlyAdmin
from controlplane.reviews.models import ReviewRequest


@admin.register(ReviewRequest)
class ReviewRequestAdmin(ReadOnlyAdmin):
    list_display = ["title", "kind", "state", "node", "requested_label", "created_at", "decided_label", "decided_at"]
    list_select_related = ["node"]
    list_filter = ["state", "kind", "organization"]
    search_fields = ["title", "requested_label", "node__slug"]
    ordering = ["-created_at"]
