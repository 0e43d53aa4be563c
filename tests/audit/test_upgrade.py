"""A chain that an older version wrote holds after the upgrade, and goes on."""

import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.conf import settings
from django.db import DatabaseError, connection, transaction
from django.db.migrations.executor import MigrationExecutor

from controlplane.audit.chain import GENESIS, head_seal
from controlplane.audit.models import AuditEvent
from controlplane.audit.selectors import audit_verify
from controlplane.audit.services import audit_record
from controlplane.core.actor import Actor, ActorKind
from tests.audit.test_verify import triggers_off

BEFORE = [("audit", "0003_checkpoints_and_security")]


def migrated(targets: list[tuple[str, str]]) -> Any:
    executor = MigrationExecutor(connection)
    executor.migrate(targets)
    return MigrationExecutor(connection).loader.project_state(targets).apps


def deletable() -> None:
    """Let SQLite empty the tables at the end of a test, as ``tests/conftest.py`` does."""
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            cursor.execute("DROP TRIGGER IF EXISTS audit_no_delete")
            cursor.execute("DROP TRIGGER IF EXISTS audit_checkpoint_no_delete")


def old_mac(fields: list[Any]) -> str:
    """What the version before wrote, spelt out here so that no later change of the code goes unnoticed."""
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hmac.new(settings.AUDIT_KEYS[1].encode(), text.encode(), hashlib.sha256).hexdigest()


def written_before(apps: Any, organization_id: UUID, count: int) -> None:
    previous = GENESIS
    for seq in range(1, count + 1):
        event = apps.get_model("audit", "AuditEvent")(
            id=uuid4(), organization_id=organization_id, org_seq=seq, at=datetime(2026, 1, seq, tzinfo=UTC),
            action="node.create", actor="system:test", actor_label="test", credential_id="", channel="system",
            address="", object_kind="node", object_id=str(seq), node_id=None, before_json="null", after_json="{}",
            reason="", prev_mac=previous, key_version=1,
        )  # fmt: skip
        event.mac = previous = old_mac([
            str(event.id), str(organization_id), seq, event.at.isoformat(timespec="microseconds"), event.action,
            event.actor, event.actor_label, "", event.channel, "", event.object_kind, event.object_id, "",
            event.before_json, event.after_json, "", event.prev_mac, 1,
        ])  # fmt: skip
        event.save(force_insert=True)
    head = apps.get_model("audit", "AuditHead")(
        organization_id=organization_id, org_seq=count, mac=previous, key_version=1
    )
    head.seal = head_seal(head)
    head.save()


@pytest.mark.django_db(transaction=True)
def test_upgrade__chain_from_before_the_impersonator__verifies_and_goes_on() -> None:
    organization_id = uuid4()
    try:
        apps = migrated(BEFORE)
        written_before(apps, organization_id, 3)
    finally:
        executor = MigrationExecutor(connection)
        executor.migrate(executor.loader.graph.leaf_nodes("audit"))
    assert audit_verify(organization_id).intact

    viewing = Actor(ActorKind.IMPERSONATION, "token:x", "Bob as team", organization_id, impersonator="user:2")
    with transaction.atomic():
        audit_record(actor=viewing, organization_id=organization_id, action="a.b", object_kind="x", object_id="1")
    report = audit_verify(organization_id)
    assert (report.intact, report.events) == (True, 4)
    try:
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            AuditEvent.objects.filter(organization_id=organization_id).update(impersonator="user:3")
    finally:
        deletable()


@pytest.mark.django_db
@pytest.mark.parametrize("value", ["", "user:3"])
def test_impersonator__taken_out_put_in_or_changed__noticed(value: str) -> None:
    organization_id = uuid4()
    viewing = Actor(ActorKind.IMPERSONATION, "token:x", "Bob", organization_id, impersonator="user:2")
    plain = Actor(ActorKind.USER, "user:1", "Ada", organization_id)
    for actor in (viewing, plain):
        with transaction.atomic():
            audit_record(actor=actor, organization_id=organization_id, action="a.b", object_kind="x", object_id="1")
    with triggers_off():
        AuditEvent.objects.filter(organization_id=organization_id, org_seq=1 if value == "" else 2).update(
            impersonator=value
        )
    found = audit_verify(organization_id).found
    assert found is not None
    assert (found.kind, found.seq) == ("changed", 1 if value == "" else 2)
