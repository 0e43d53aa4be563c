"""Tampering is noticed, and the database refuses it in the first place."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from io import StringIO
from typing import Any
from uuid import uuid4

import pytest
import time_machine
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction
from django.test import Client

from controlplane.audit import triggers
from controlplane.audit.chain import event_mac
from controlplane.audit.housekeeping import chain_housekeeping
from controlplane.audit.models import AuditEvent, AuditHead
from controlplane.audit.selectors import audit_verify
from controlplane.core import clock
from tests.factories import Tree, make_node

pytestmark = pytest.mark.django_db


@contextmanager
def triggers_off() -> Iterator[None]:
    """Do what only the database's administrator can."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            for table in ("audit_auditevent", "audit_auditcheckpoint"):
                cursor.execute(f"ALTER TABLE {table} DISABLE TRIGGER USER")
            yield
            for table in ("audit_auditevent", "audit_auditcheckpoint"):
                cursor.execute(f"ALTER TABLE {table} ENABLE TRIGGER USER")
    else:
        with connection.cursor() as cursor:
            for statement in triggers.SQLITE_DROP:
                cursor.execute(statement)
            yield
            for statement in triggers.SQLITE_CREATE:
                cursor.execute(statement)


def events(tree: Tree) -> Any:
    return AuditEvent.objects.filter(organization_id=tree.organization.pk)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("action", "node.delete"),
        ("actor", "user:somebody-else"),
        ("actor_label", "Somebody else"),
        ("after_json", '{"slug":"other"}'),
        ("before_json", "{}"),
        ("object_id", "x"),
        ("address", "192.0.2.99"),
        ("reason", "none"),
        ("at", "2001-01-01T00:00:00Z"),
        ("channel", "teams"),
        ("node_id", None),
        ("mac", "0" * 64),
    ],
)
def test_audit_verify__one_column_changed__names_the_event(tree: Tree, column: str, value: Any) -> None:
    with triggers_off():
        events(tree).filter(org_seq=2).update(**{column: value})
    report = audit_verify(tree.organization.pk)
    assert (report.intact, report.broken_seq) == (False, 2)


def test_audit_verify__event_removed__names_its_place(tree: Tree) -> None:
    with triggers_off():
        events(tree).filter(org_seq=2).delete()
    assert (audit_verify(tree.organization.pk).broken_seq) == 2


def test_audit_verify__tail_cut__noticed_by_the_head(tree: Tree) -> None:
    last = events(tree).count()
    with triggers_off():
        events(tree).filter(org_seq=last).delete()
    report = audit_verify(tree.organization.pk)
    assert (report.broken_seq, report.events) == (last, last - 1)


def test_audit_verify__head_moved_or_gone__noticed(tree: Tree) -> None:
    head = AuditHead.objects.get(pk=tree.organization.pk)
    AuditHead.objects.filter(pk=head.pk).update(mac="0" * 64)
    assert audit_verify(head.pk).problem == "the head was not written by this installation, or it was put back"
    AuditHead.objects.filter(pk=head.pk).delete()
    assert audit_verify(head.pk).problem == "there are events and no head"


def test_audit_verify__recomputed_without_the_key__noticed(tree: Tree, settings: Any) -> None:
    event = events(tree).get(org_seq=2)
    event.actor_label = "Somebody else"
    real = settings.AUDIT_KEYS
    settings.AUDIT_KEYS = {1: "a guess"}
    event.mac = event_mac(event)
    settings.AUDIT_KEYS = real
    with triggers_off():
        events(tree).filter(org_seq=2).update(actor_label=event.actor_label, mac=event.mac)
    assert audit_verify(tree.organization.pk).broken_seq == 2


def test_audit_verify__two_events_swapped__noticed(tree: Tree) -> None:
    with triggers_off():
        for old, new in ((2, 900), (3, 2), (900, 3)):
            events(tree).filter(org_seq=old).update(org_seq=new)
    assert audit_verify(tree.organization.pk).broken_seq == 2


def test_audit_verify__untouched__intact(tree: Tree, other_tree: Tree) -> None:
    for each in (tree, other_tree):
        report = audit_verify(each.organization.pk)
        assert (report.intact, report.events) == (True, 4)


def test_append_only__update_and_delete__refused_by_the_database(tree: Tree) -> None:
    if connection.vendor == "sqlite":
        with connection.cursor() as cursor:
            for statement in triggers.SQLITE_CREATE:
                cursor.execute(statement)
    writes: list[Any] = [
        lambda: events(tree).update(action="x"),
        lambda: events(tree).delete(),
        lambda: events(tree).first().save(),
    ]
    for write in writes:
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            write()
    assert audit_verify(tree.organization.pk).intact


def edited(tree: Tree) -> None:
    events(tree).filter(org_seq=2).update(after_json='{"slug":"other"}')


def deleted(tree: Tree) -> None:
    events(tree).filter(org_seq=2).delete()


def deleted_and_renumbered(tree: Tree) -> None:
    events(tree).filter(org_seq=2).delete()
    for seq in (3, 4):
        events(tree).filter(org_seq=seq).update(org_seq=seq - 1)


def inserted(tree: Tree) -> None:
    for seq in (4, 3):
        events(tree).filter(org_seq=seq).update(org_seq=seq + 1)
    forged = events(tree).get(org_seq=2)
    forged.pk, forged.org_seq, forged.prev_mac, forged.mac = uuid4(), 3, forged.mac, "f" * 64
    forged.save(force_insert=True)


def reordered(tree: Tree) -> None:
    for old, new in ((2, 900), (3, 2), (900, 3)):
        events(tree).filter(org_seq=old).update(org_seq=new)


def tail_cut(tree: Tree) -> None:
    events(tree).filter(org_seq__gte=3).delete()


BREAKS: dict[str, tuple[Callable[[Tree], None], str, int]] = {
    "edited": (edited, "changed", 2),
    "deleted": (deleted, "deleted", 2),
    "deleted and renumbered": (deleted_and_renumbered, "deleted", 2),
    "inserted": (inserted, "inserted", 3),
    "reordered": (reordered, "reordered", 2),
    "tail cut": (tail_cut, "tail_cut", 3),
}


@pytest.mark.parametrize("name", BREAKS)
def test_verify__kind_of_break__named_with_its_place_by_command_probe_and_metric(tree: Tree, name: str) -> None:
    tamper, kind, seq = BREAKS[name]
    with triggers_off():
        tamper(tree)
    out = StringIO()
    with pytest.raises(SystemExit) as caught:
        call_command("audit", "verify", "--json", stdout=out)
    (chain,) = json.loads(out.getvalue())["chains"]
    assert caught.value.code == 1
    assert (chain["intact"], chain["break"]["kind"], chain["break"]["seq"]) == (False, kind, seq)
    ready = Client().get("/readyz").json()
    assert (ready["status"], ready["warnings"]["audit"]) == ("degraded", "failed")
    assert "opensre_audit_broken_chains_count 1.0" in Client().get("/metrics").content.decode()


def test_verify__break_in_the_database__noticed_by_the_process_itself(tree: Tree) -> None:
    chain_housekeeping()
    assert Client().get("/readyz").json()["warnings"]["audit"] == "ok"
    assert "opensre_audit_broken_chains_count 0.0" in Client().get("/metrics").content.decode()
    with triggers_off():
        edited(tree)
    with time_machine.travel(clock.now() + timedelta(minutes=2)):
        chain_housekeeping()
        answer = Client().get("/readyz")
        told = Client().get("/metrics").content.decode()
    assert (answer.status_code, answer.json()["warnings"]["audit"]) == (200, "failed"), "a break stops no service"
    assert "opensre_audit_broken_chains_count 1.0" in told


def test_audit_command__intact__says_so(tree: Tree, other_tree: Tree) -> None:
    out = StringIO()
    call_command("audit", "verify", stdout=out)
    assert out.getvalue().splitlines() == ["demo: 4 events, intact", "rival: 4 events, intact"]


def test_audit_command__broken__exit_1_and_first_seq(tree: Tree, other_tree: Tree) -> None:
    make_node(tree.root, "more")
    with triggers_off():
        events(tree).filter(org_seq__in=[3, 5]).update(action="x")
    out, err = StringIO(), StringIO()
    with pytest.raises(SystemExit) as caught:
        call_command("audit", "verify", stdout=out, stderr=err)
    assert caught.value.code == 1
    third = events(tree).get(org_seq=3)
    assert f"demo: broken at seq 3 (x, {third.pk}): changed: the event has been changed" in err.getvalue()
    assert out.getvalue() == "rival: 4 events, intact\n"
    call_command("audit", "verify", "--organization", "rival", stdout=out)


def test_audit_command__unknown_organization__error(tree: Tree) -> None:
    with pytest.raises(CommandError, match="no organization"):
        call_command("audit", "verify", "--organization", "ghost")
