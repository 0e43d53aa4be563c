"""What the log does by itself: one organization's trouble is no other's."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import time_machine

from controlplane.audit import housekeeping
from controlplane.audit.checkpoints import checkpoint_write
from controlplane.audit.models import AuditCheckpoint, AuditEvent, SecurityEvent
from controlplane.audit.retention import retention_apply
from controlplane.audit.sealing import SEAL, security_seal
from controlplane.audit.security import audit_denied
from controlplane.audit.verification import verification_of, verification_run
from controlplane.core import clock
from controlplane.core.actor import Actor, ActorKind
from tests.factories import Tree

pytestmark = pytest.mark.django_db


@pytest.fixture
def both(tree: Tree, other_tree: Tree) -> list[UUID]:
    """Two organizations; whichever housekeeping comes to first is the unlucky one in one of two tests."""
    return [tree.organization.pk, other_tree.organization.pk]


def failing_for(unlucky: UUID, real: Callable[..., Any]) -> Callable[..., Any]:
    def call(organization_id: UUID, **fields: Any) -> Any:
        if organization_id == unlucky:
            raise RuntimeError("a row that cannot be")
        return real(organization_id, **fields)

    return call


@pytest.mark.parametrize("unlucky", [0, 1])
def test_security_housekeeping__one_organization_raises__the_others_are_sealed(
    both: list[UUID], unlucky: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start = clock.now()
    with time_machine.travel(start, tick=False):
        for pk in both:
            audit_denied(actor=Actor(ActorKind.USER, "user:1", "Ada", pk), action="x", code="y")
    monkeypatch.setattr(housekeeping, "security_seal", failing_for(both[unlucky], security_seal))
    with time_machine.travel(start + timedelta(minutes=5)):
        housekeeping.security_housekeeping()
    sealed = AuditEvent.objects.filter(action=SEAL).values_list("organization_id", flat=True)
    assert list(sealed) == [both[1 - unlucky]]
    assert SecurityEvent.objects.filter(batch__isnull=True).count() == 1
    assert str(both[unlucky]) in caplog.text
    assert "audit.housekeeping_failed" in caplog.text


@pytest.mark.parametrize("unlucky", [0, 1])
def test_chain_housekeeping__one_organization_raises__the_others_are_verified_and_signed(
    both: list[UUID], unlucky: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def write(*, organization_id: UUID, **fields: Any) -> Any:
        return failing_for(both[unlucky], lambda pk: checkpoint_write(organization_id=pk, **fields))(organization_id)

    monkeypatch.setattr(housekeeping, "verification_run", failing_for(both[unlucky], verification_run))
    monkeypatch.setattr(housekeeping, "checkpoint_write", write)
    housekeeping.chain_housekeeping()
    lucky = verification_of(both[1 - unlucky])
    assert lucky is not None
    assert lucky.intact
    assert verification_of(both[unlucky]) is None
    assert list(AuditCheckpoint.objects.values_list("organization_id", flat=True)) == [both[1 - unlucky]]
    assert caplog.text.count("audit.housekeeping_failed") == 2


def test_retention_housekeeping__one_organization_raises__the_others_are_tidied(
    both: list[UUID], monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.AUDIT_RETENTION_DAYS = 5
    done: list[UUID] = []

    def apply(*, organization_id: UUID, **fields: Any) -> Any:
        if organization_id == both[0]:
            raise RuntimeError("a row that cannot be")
        done.append(organization_id)
        return retention_apply(organization_id=organization_id, **fields)

    monkeypatch.setattr(housekeeping, "retention_apply", apply)
    housekeeping.retention_housekeeping()
    assert done == [both[1]]
