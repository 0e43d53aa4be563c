from django.apps import AppConfig
from typing_extensions import override


class AuditConfig(AppConfig):
    name = "controlplane.audit"
    verbose_name = "Audit"
    default_auto_field = "django.db.models.BigAutoField"

    @override
    def ready(self) -> None:
        from controlplane.audit import housekeeping, verification
        from controlplane.audit.metrics import ChainCollector
        from controlplane.audit.security import SecurityRefusals
        from controlplane.core import health
        from controlplane.core.metrics import registry
        from controlplane.core.periodic import register_periodic
        from controlplane.core.refusals import register_refusal_record

        health.register_warning("audit", lambda: verification.broken_chains() == 0)
        registry.register(ChainCollector())
        register_refusal_record(SecurityRefusals())
        register_periodic("audit.security", housekeeping.security_housekeeping, every_s=20, own=True)
        register_periodic("audit.chains", housekeeping.chain_housekeeping, every_s=60)
        register_periodic("audit.retention", housekeeping.retention_housekeeping, every_s=6 * 3600)
