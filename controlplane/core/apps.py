from django.apps import AppConfig
from typing_extensions import override


class CoreConfig(AppConfig):
    name = "controlplane.core"
    verbose_name = "Core"
    default_auto_field = "django.db.models.BigAutoField"

    @override
    def ready(self) -> None:
        from controlplane.core import checks  # noqa: F401 (importing registers them)
