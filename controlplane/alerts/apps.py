from django.apps import AppConfig
from typing_extensions import override


class AlertsConfig(AppConfig):
    name = "controlplane.alerts"
    verbose_name = "Alerts"
    default_auto_field = "django.db.models.BigAutoField"

    @override
    def ready(self) -> None:
        from controlplane.alerts import retention
        from controlplane.alerts.evaluation import run_alerts
        from controlplane.alerts.sweeping import alerts_sweep
        from controlplane.core.periodic import register_periodic
        from controlplane.investigations.sweeper import sweep_register
        from controlplane.runtimes.evaluation.suites import suite_register

        sweep_register(alerts_sweep)
        register_periodic("retention.alerts", retention.alerts_retire, every_s=retention.EVERY_S)
        suite_register("alerts", run_alerts)
