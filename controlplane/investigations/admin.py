"""The operators' view of the workers: to look at, never to change."""

from typing import Any

from django.apps import apps
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from typing_extensions import override

from controlplane.core.admin import ReadOnlyAdmin
from controlplane.investigations.fleet import STATES, workers_all
from controlplane.investigations.models import WorkerProcess

if apps.is_installed("procrastinate.contrib.django"):
    from controlplane.core.tasks import admin as _stored_tasks  # noqa: F401 (registers itself)


class StateFilter(admin.SimpleListFilter):
    title = "state"
    parameter_name = "state"

    @override
    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(state, state) for state in STATES]

    @override
    def queryset(self, request: HttpRequest, queryset: QuerySet[Any]) -> QuerySet[Any]:
        return queryset.filter(state=self.value()) if self.value() else queryset


@admin.register(WorkerProcess)
class WorkerProcessAdmin(ReadOnlyAdmin):
    list_display = (
        "name",
        "state",
        "running",
        "concurrency",
        "version",
        "host",
        "pid",
        "embedded",
        "started_at",
        "seen_at",
    )
    list_filter = (StateFilter, "embedded")
    search_fields = ("name", "host")
    ordering = ("-started_at", "name")

    @override
    def get_queryset(self, request: HttpRequest) -> QuerySet[WorkerProcess]:
        return workers_all()

    @admin.display(ordering="state")
    def state(self, worker: Any) -> str:
        return str(worker.state)

    @admin.display(ordering="running")
    def running(self, worker: Any) -> int:
        return int(worker.running)
