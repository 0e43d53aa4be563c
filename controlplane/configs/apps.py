from django.apps import AppConfig
from typing_extensions import override


class ConfigsConfig(AppConfig):
    name = "controlplane.configs"
    verbose_name = "Configuration"
    default_auto_field = "django.db.models.BigAutoField"

    @override
    def ready(self) -> None:
        from controlplane.configs.approvals import ConfigChange
        from controlplane.configs.moving import check_moved
        from controlplane.orgs.guards import register_move_guard
        from controlplane.reviews.kinds import register_kind

        register_kind(ConfigChange())
        register_move_guard(check_moved)
