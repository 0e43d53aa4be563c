"""The operators' view of stored background tasks; imported where Procrastinate's schema is installed."""

from typing import Any

from django.contrib import admin
from django.http import Http404, HttpRequest, HttpResponse
from procrastinate.contrib.django import admin as _theirs  # noqa: F401 (registers what is replaced here)
from procrastinate.contrib.django.models import ProcrastinateJob
from typing_extensions import override

from controlplane.core.admin import ReadOnlyAdmin

admin.site.unregister(ProcrastinateJob)


@admin.register(ProcrastinateJob)
class StoredTaskAdmin(ReadOnlyAdmin):
    """Waiting, running and failed tasks. Those that succeeded are gone; arguments are not shown."""

    list_display = ("id", "what", "status", "attempts", "priority", "queue_name", "scheduled_at")
    list_filter = ("status", "queue_name")
    search_fields = ("=id", "task_name")
    ordering = ("-id",)
    list_display_links = None

    @admin.display(description="task")
    def what(self, job: Any) -> str:
        """Return the dotted path of the task's function, or the name of the periodic job."""
        return str(job.args.get("path", job.task_name))

    @override
    def change_view(self, request: HttpRequest, object_id: str, *args: Any, **kwargs: Any) -> HttpResponse:
        raise Http404  # a page of one task would be headed by its arguments
