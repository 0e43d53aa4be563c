"""The kept outcome of verifying: what health, metrics and pages ask."""

from uuid import UUID

from django.db.models import Min

from controlplane.audit.chain import same, verification_seal
from controlplane.audit.models import AuditVerification
from controlplane.core import clock


def verification_of(organization_id: UUID) -> AuditVerification | None:
    """Return the latest verification of an organization's chain; a forged one says that it is."""
    found = AuditVerification.objects.filter(pk=organization_id).first()
    return found and _believed(found)


def broken_chains() -> int:
    """Return how many organizations' chains are broken. One query."""
    return sum(not _believed(found).intact for found in AuditVerification.objects.all())


def oldest_verification_s() -> float:
    """Return the seconds since the verification that is oldest; 0 when there is none."""
    oldest = AuditVerification.objects.aggregate(oldest=Min("at"))["oldest"]
    return 0.0 if oldest is None else max((clock.now() - oldest).total_seconds(), 0.0)


def _believed(found: AuditVerification) -> AuditVerification:
    try:
        genuine = same(found.seal, verification_seal(found))
    except KeyError:
        genuine = False
    if not genuine:
        found.intact, found.kind = False, "verification_forged"
        found.problem = "the kept verification was not written by this installation"
    return found
