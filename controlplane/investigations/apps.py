from uuid import UUID

from django.apps import AppConfig
from typing_extensions import override


class InvestigationsConfig(AppConfig):
    name = "controlplane.investigations"
    verbose_name = "Investigations"
    default_auto_field = "django.db.models.BigAutoField"

    @override
    def ready(self) -> None:
        from controlplane.core.metrics import registry
        from controlplane.core.periodic import register_periodic
        from controlplane.investigations import approvals, files, fleet, idempotency, retention
        from controlplane.investigations.sweeper import sweep_register
        from controlplane.investigations.transcripts import RunTranscripts
        from controlplane.investigations.webhooks.outbox import deliveries_forget
        from controlplane.investigations.webhooks.sending import deliveries_sweep
        from controlplane.memory.transcripts import register_transcripts
        from controlplane.orgs.guards import register_deletion_guard
        from controlplane.reviews.kinds import register_kind
        from controlplane.reviews.services import reviews_expire

        register_deletion_guard(_runs_obstacle)
        register_transcripts(RunTranscripts())
        register_kind(approvals.AgentAction())
        sweep_register(reviews_expire)  # a run waits for the end of its review
        register_periodic("idempotency.over", idempotency.calls_sweep, every_s=idempotency.SWEEP_EVERY_S)
        register_periodic("workers.gone", fleet.workers_forget, every_s=3600)
        registry.register(fleet.FleetCollector())
        sweep_register(deliveries_sweep)
        register_periodic("webhooks.over", deliveries_forget, every_s=3600)
        register_periodic("retention.investigations", retention.threads_retire, every_s=retention.EVERY_S)
        register_periodic("files.unused", files.files_sweep, every_s=files.SWEEP_EVERY_S)


def _runs_obstacle(node_id: UUID) -> str | None:
    """Say why a node with investigations stays: the log of what was found there must not go with it."""
    from controlplane.investigations.models import ReportedRun, Thread

    count = sum(kind.objects.filter(node_id=node_id).count() for kind in (Thread, ReportedRun))
    return f"it has {count} investigation{'s' if count != 1 else ''}" if count else None
