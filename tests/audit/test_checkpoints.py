"""Checkpoints and retention: what is cut is noticed, and what may be removed is removed on the record."""

import json
from collections.abc import Iterator
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
import time_machine
from django.core.management import CommandError, call_command

from controlplane.audit import heads, housekeeping
from controlplane.audit.breaks import BreakKind
from controlplane.audit.chain import head_seal
from controlplane.audit.checkpoints import Pin, checkpoint_write, checkpoints_due
from controlplane.audit.models import AuditCheckpoint, AuditEvent, AuditHead
from controlplane.audit.retention import retention_apply
from controlplane.audit.verification import broken_chains, verification_of
from controlplane.audit.verifying import audit_verify
from controlplane.core import clock
from controlplane.core.errors import Conflict
from controlplane.orgs.services import node_update
from tests.audit.test_verify import events, triggers_off
from tests.factories import Tree

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def no_memory() -> Iterator[None]:
    """Let each test decide what the process remembers."""
    heads.forget()
    yield
    heads.forget()


def make_audited(tree: Tree) -> None:
    """Add an event to the chain."""
    node_update(actor=tree.system, node=tree.payments, name=f"Payments {events(tree).count()}")


def tail_cut(tree: Tree, *, events_left: int) -> None:
    """Cut the newest events and put the end of the chain back to what it was then, with its seal: an old copy."""
    last = events(tree).get(org_seq=events_left)
    head = AuditHead.objects.get(pk=tree.organization.pk)
    head.org_seq, head.mac = last.org_seq, last.mac
    head.checkpoints = head.checkpoint_seq = 0
    head.seal = head_seal(head)
    with triggers_off():
        events(tree).filter(org_seq__gt=events_left).delete()
    head.save()


def test_checkpoint__written_again__only_when_something_has_happened(tree: Tree) -> None:
    first = checkpoint_write(organization_id=tree.organization.pk)
    again = checkpoint_write(organization_id=tree.organization.pk)
    make_audited(tree)
    later = checkpoint_write(organization_id=tree.organization.pk)
    assert first is not None
    assert first == again
    assert later is not None
    assert (later.number, later.previous) == (2, first.signature)
    assert audit_verify(tree.organization.pk).checkpoints == 2


def test_old_copy__of_the_chain_alone__noticed_by_what_the_process_remembers(tree: Tree) -> None:
    last = events(tree).order_by("-org_seq").first()
    tail_cut(tree, events_left=2)
    assert audit_verify(tree.organization.pk).intact
    heads.remember(tree.organization.pk, last.org_seq, last.mac)
    report = audit_verify(tree.organization.pk)
    assert report.found is not None
    assert report.found.kind == BreakKind.TAIL_CUT


def test_old_copy__with_a_checkpoint_kept_elsewhere__noticed(tree: Tree, tmp_path: Path) -> None:
    kept = StringIO()
    call_command("audit", "checkpoint", "--json", stdout=kept)
    file = tmp_path / "checkpoints.json"
    file.write_text(kept.getvalue())
    call_command("audit", "verify", "--checkpoint", str(file), stdout=StringIO())
    heads.forget()
    with triggers_off():
        AuditCheckpoint.objects.all().delete()
    tail_cut(tree, events_left=2)

    out = StringIO()
    with pytest.raises(SystemExit) as caught:
        call_command("audit", "verify", "--checkpoint", str(file), "--json", stdout=out)
    (chain,) = json.loads(out.getvalue())["chains"]
    assert caught.value.code == 1
    assert (chain["intact"], chain["break"]["seq"]) == (False, 3)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"checkpoints": [{}]}', '{"checkpoints": [{"number": "x"}]}'])
def test_verify__file_that_holds_no_checkpoints__says_so(tree: Tree, tmp_path: Path, text: str) -> None:
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(CommandError, match="is no file as"):
        call_command("audit", "verify", "--checkpoint", str(file))


def test_checkpoint__removed_or_changed_in_the_database__noticed(tree: Tree) -> None:
    checkpoint_write(organization_id=tree.organization.pk)
    with triggers_off():
        AuditCheckpoint.objects.update(org_seq=3)
    report = audit_verify(tree.organization.pk)
    assert report.found is not None
    assert report.found.kind == BreakKind.CHECKPOINT_MISMATCH
    with triggers_off():
        AuditCheckpoint.objects.all().delete()
    assert not audit_verify(tree.organization.pk).intact


def test_checkpoints__due__after_so_many_events_or_minutes(tree: Tree, settings: Any) -> None:
    settings.AUDIT_CHECKPOINT_EVENTS, settings.AUDIT_CHECKPOINT_MINUTES = 3, 60
    pk = tree.organization.pk
    assert checkpoints_due() == [pk]
    checkpoint_write(organization_id=pk)
    assert checkpoints_due() == []
    make_audited(tree)
    assert checkpoints_due() == []
    with time_machine.travel(clock.now() + timedelta(minutes=61)):
        assert checkpoints_due() == [pk]


def test_housekeeping__of_the_chains__verifies_and_checkpoints(tree: Tree, settings: Any) -> None:
    settings.AUDIT_CHECKPOINT_EVENTS = 1
    housekeeping.chain_housekeeping()
    kept = verification_of(tree.organization.pk)
    assert kept is not None
    assert (kept.intact, kept.verified_seq) == (True, events(tree).count())
    assert AuditCheckpoint.objects.filter(organization_id=tree.organization.pk).count() == 1
    with triggers_off():
        events(tree).filter(org_seq=2).update(action="x")
    with time_machine.travel(clock.now() + timedelta(minutes=5)):
        housekeeping.chain_housekeeping()
    assert broken_chains() == 1


def test_retention__old_events__removed_behind_a_checkpoint_and_on_the_record(tree: Tree) -> None:
    with time_machine.travel(clock.now() + timedelta(days=10)):
        make_audited(tree)
        removed = retention_apply(organization_id=tree.organization.pk, days=5, security_days=0)
        report = audit_verify(tree.organization.pk)
    assert (removed.events, removed.anchor) == (4, 4)
    assert [event.action for event in events(tree).order_by("org_seq")] == ["node.update", "audit.retention"]
    assert (report.intact, report.first_seq, report.last_seq) == (True, 5, 6)
    assert AuditCheckpoint.objects.get(organization_id=tree.organization.pk).org_seq == 4


def test_retention__then_cut_at_the_front__noticed(tree: Tree) -> None:
    with time_machine.travel(clock.now() + timedelta(days=10)):
        make_audited(tree)
        make_audited(tree)
        retention_apply(organization_id=tree.organization.pk, days=5, security_days=0)
    with triggers_off():
        events(tree).filter(org_seq=5).delete()
    report = audit_verify(tree.organization.pk)
    assert report.found is not None
    assert (report.found.kind, report.found.seq) == (BreakKind.DELETED, 5)


def test_retention__broken_chain__removes_nothing(tree: Tree) -> None:
    with triggers_off():
        events(tree).filter(org_seq=2).update(action="x")
    with time_machine.travel(clock.now() + timedelta(days=10)):
        make_audited(tree)
        with pytest.raises(Conflict) as caught:
            retention_apply(organization_id=tree.organization.pk, days=5, security_days=0)
    assert caught.value.code == "audit_chain_broken"
    assert events(tree).count() == 5


def test_pin__written_and_read__is_the_same(tree: Tree) -> None:
    found = checkpoint_write(organization_id=tree.organization.pk)
    assert found is not None
    assert Pin.read(json.loads(json.dumps(Pin.of(found).as_dict()))) == Pin.of(found)
    assert AuditEvent.objects.filter(organization_id=tree.organization.pk).count() == found.count
