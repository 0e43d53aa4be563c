"""Tampering is noticed, and the database refuses it in the first place."""

from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection, transaction

from controlplane.audit import triggers
from controlplane.audit.chain import event_mac
from controlplane.audit.models import AuditEvent, AuditHead
from controlplane.audit.selectors import audit_verify
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
