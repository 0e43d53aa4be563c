from django.apps import AppConfig
from typing_extensions import override

from controlplane.core.periodic import register_periodic


class AccessConfig(AppConfig):
    name = "controlplane.access"
    verbose_name = "Access"
    default_auto_field = "django.db.models.BigAutoField"

    @override
    def ready(self) -> None:
        from controlplane.access import checks  # noqa: F401 (registers itself, once models are there)
        from controlplane.access.limits import store
        from controlplane.access.services.sessions import sessions_sweep
        from controlplane.access.services.token_sweeps import SWEEP_EVERY_S, token_policies_apply

        register_periodic("limits.windows", store.windows_sweep, every_s=store.SWEEP_EVERY_S)
        register_periodic("sessions.over", sessions_sweep, every_s=3600.0)
        register_periodic("tokens.unused", token_policies_apply, every_s=SWEEP_EVERY_S)
