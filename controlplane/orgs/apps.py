from django.apps import AppConfig
from typing_extensions import override


class OrgsConfig(AppConfig):
    name = "controlplane.orgs"
    verbose_name = "Organizations"
    default_auto_field = "django.db.models.BigAutoField"

    @override
    def ready(self) -> None:
        from controlplane.audit.directory import register_directory
        from controlplane.orgs.directory import NodeDirectory

        register_directory(NodeDirectory())
