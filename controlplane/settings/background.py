"""Which backend does background tasks: the process itself when embedded, Procrastinate on PostgreSQL when scaled."""

from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ImproperlyConfigured

IN_PROCESS = "controlplane.core.tasks.InProcessBackend"
PROCRASTINATE = "controlplane.core.tasks.ProcrastinateBackend"


def background_apps(database: Mapping[str, Any]) -> list[str]:
    """Return the Django apps that background tasks need on this database: Procrastinate's schema is PostgreSQL's."""
    return ["procrastinate.contrib.django"] if _is_postgres(database) else []


def task_backends(choice: str, database: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return Django's ``TASKS`` setting for the variable of the same name.

    Args:
        choice: ``in_process``, ``procrastinate``, or ``auto``: Procrastinate wherever the database is PostgreSQL.
        database: Django's setting of the database.

    Raises:
        ImproperlyConfigured: for ``procrastinate`` on another database.
    """
    if choice == "procrastinate" and not _is_postgres(database):
        raise ImproperlyConfigured("TASKS=procrastinate needs PostgreSQL: DATABASE_URL=postgres://…")
    scaled = choice == "procrastinate" or (choice == "auto" and _is_postgres(database))
    return {"default": {"BACKEND": PROCRASTINATE if scaled else IN_PROCESS, "QUEUES": []}}


def _is_postgres(database: Mapping[str, Any]) -> bool:
    return str(database["ENGINE"]).endswith("postgresql")
