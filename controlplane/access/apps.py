from django.apps import AppConfig
from typing_extensions import override


class AccessConfig(AppConfig):
    name = "controlplane.access"
    verbose_name = "Access"
    default_auto_field = "django.db.models.BigAutoField"

    @override
    def ready(self) -> None:
        from controlplane.access import checks  # noqa: F401 (registers itself, once models are there)
