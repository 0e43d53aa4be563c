"""The security stream: coalesced, bounded in a flood, never waiting for the chain, and sealed into it later."""

from collections.abc import Callable
from datetime import datetime, timedelta
from threading import Event
from typing import Any
from uuid import UUID, uuid4

import pytest
import time_machine
from django.db import DatabaseError, connection, transaction
from django.test.utils import CaptureQueriesContext

from controlplane.audit import housekeeping
from controlplane.audit.breaks import BreakKind
from controlplane.audit.heads import head_locked
from controlplane.audit.models import AuditEvent, AuditHead, SecurityEvent, SecurityKind
from controlplane.audit.sealing import SEAL, security_seal
from controlplane.audit.security import audit_denied, sign_in_record
from controlplane.audit.security_stream import MOST_ROWS, MOST_ROWS_OF_ONE, Sighting, stream
from controlplane.audit.selectors import audit_verify
from controlplane.audit.services import audit_record
from controlplane.core import clock
from controlplane.core.actor import Actor, ActorKind, Channel
from tests.support.threads import at_once

ORGANIZATION = uuid4()
LATER = timedelta(minutes=5)


def actor(organization_id: UUID = ORGANIZATION, **fields: Any) -> Actor:
    values: dict[str, Any] = {"credential_id": "abc", "channel": Channel.API, "address": "192.0.2.1"} | fields
    return Actor(ActorKind.USER, "user:1", "Ada", organization_id, **values)


def denied(number: int = 0, organization_id: UUID = ORGANIZATION) -> None:
    audit_denied(
        actor=actor(organization_id), action="member-list", code="permission_denied", object_id=f"thing {number}"
    )


def rows(organization_id: UUID = ORGANIZATION) -> Any:
    return SecurityEvent.objects.filter(organization_id=organization_id)


@pytest.fixture
def no_trigger(db: None) -> None:
    """The rows may be changed, as by the database's administrator."""
    with connection.cursor() as cursor:
        table = " ON audit_securityevent" if connection.vendor == "postgresql" else ""
        cursor.execute(f"DROP TRIGGER IF EXISTS security_sealed{table}")


@pytest.mark.django_db
def test_audit_denied__same_thing_again__one_row_with_a_count_and_no_query() -> None:
    with time_machine.travel(clock.now(), tick=False):
        denied()
        with CaptureQueriesContext(connection) as queries:
            for _ in range(1000):
                denied()
        assert len(queries) == 0
        stream.write(everything=True)
    row = rows().get()
    assert (row.count, row.kind, row.code, row.actor_label) == (1001, "denied", "permission_denied", "Ada")


@pytest.mark.django_db
def test_audit_denied__flood_of_different_things__bounded_rows_each_counted_and_no_chain() -> None:
    with time_machine.travel(clock.now(), tick=False), CaptureQueriesContext(connection) as queries:
        for number in range(5000):
            denied(number)
        stream.write(everything=True)
        denied(organization_id=(neighbour := uuid4()))
    assert rows().count() == MOST_ROWS_OF_ONE + 1
    assert sum(rows().values_list("count", flat=True)) == 5000
    assert rows().get(kind=SecurityKind.OVERFLOW).count == 5000 - MOST_ROWS_OF_ONE
    assert rows(neighbour).count() == 1, "the flood of one organization leaves room for another"
    assert len(queries) <= 5 * (MOST_ROWS_OF_ONE + 3), "a row costs a few statements, the rest of the flood none"
    touched = [query["sql"] for query in queries if "audit_audithead" in query["sql"] or "auditevent" in query["sql"]]
    assert touched == []
    assert not AuditHead.objects.filter(pk=ORGANIZATION).exists()


@pytest.mark.django_db
def test_audit_denied__flood_over_many_organizations__bounded_altogether() -> None:
    organizations = [uuid4() for _ in range(8)]
    with time_machine.travel(clock.now(), tick=False):
        for number in range(200):
            for organization_id in organizations:
                denied(number, organization_id)
        stream.write(everything=True)
    kept = SecurityEvent.objects.filter(organization_id__in=organizations)
    assert kept.count() <= MOST_ROWS + len(organizations)
    assert sum(kept.values_list("count", flat=True)) == 200 * len(organizations)


@pytest.mark.django_db
def test_audit_denied__next_minute__another_row() -> None:
    start = clock.now()
    for after in (0, 30, 61):
        with time_machine.travel(start + timedelta(seconds=after), tick=False):
            denied()
    assert sorted(rows().values_list("count", flat=True)) == [1, 2]


@pytest.mark.django_db
def test_audit_denied__secret_in_what_was_tried__not_stored() -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "abcdef"
    audit_denied(actor=actor(), action="x", code="y", object_id=f"/links/{secret}")
    sign_in_record(
        ok=False, method="password", principal="unknown", label=secret, organization_id=ORGANIZATION, address="::1"
    )
    assert rows().count() == 2
    assert secret not in str(list(rows().values()))


@pytest.mark.django_db
def test_audit_denied__viewing_as_a_team__both_names() -> None:
    audit_denied(actor=actor(impersonator="user:2"), action="x", code="y")
    assert rows().values_list("actor", "impersonator").get() == ("user:1", "user:2")


@pytest.mark.django_db(transaction=True)
def test_audit_denied__while_somebody_holds_the_chain__does_not_wait() -> None:
    """On SQLite, whose one writer is the holder, the row waits in memory and the caller does not."""
    audit_record_in_transaction()
    locked, noted = Event(), Event()

    def hold() -> bool:
        with transaction.atomic():
            head_locked(ORGANIZATION)
            locked.set()
            return noted.wait(10)

    def deny() -> int:
        assert locked.wait(10)
        try:
            denied()
            return int(rows().count())
        finally:
            noted.set()

    held, written = at_once(hold, deny)
    assert held is True, "the refusal was done while the chain was held"
    assert written == (1 if connection.vendor == "postgresql" else 0)
    stream.write(everything=True)
    assert rows().count() == 1


@pytest.mark.django_db
def test_security_housekeeping__minute_over__one_event_of_the_chain_for_the_batch() -> None:
    start = clock.now()
    with time_machine.travel(start, tick=False):
        for number in range(50):
            denied(number)
        housekeeping.security_housekeeping()
        assert not AuditEvent.objects.filter(organization_id=ORGANIZATION).exists(), "rows that still take counts"
    with time_machine.travel(start + LATER, tick=False):
        housekeeping.security_housekeeping()
        housekeeping.security_housekeeping()
    event = AuditEvent.objects.get(organization_id=ORGANIZATION)
    assert (event.action, event.after["rows"], event.after["events"]) == (SEAL, 50, 50)
    assert set(rows().values_list("batch", flat=True)) == {event.org_seq}
    assert audit_verify(ORGANIZATION).intact


@pytest.mark.django_db
@pytest.mark.parametrize(
    "tamper",
    [
        lambda first: first.delete(),
        lambda first: SecurityEvent.objects.filter(pk=first.pk).update(address="192.0.2.99"),
        lambda first: SecurityEvent.objects.filter(pk=first.pk).update(count=7),
        lambda first: SecurityEvent.objects.filter(pk=first.pk).update(batch=None),
    ],
    ids=["deleted", "address", "count", "taken out of its batch"],
)
def test_audit_verify__sealed_security_event_tampered_with__names_the_seal(
    no_trigger: None, tamper: Callable[[SecurityEvent], Any]
) -> None:
    sealed_flood(clock.now())
    tamper(rows().order_by("id")[0])
    found = audit_verify(ORGANIZATION).found
    seal = AuditEvent.objects.get(organization_id=ORGANIZATION)
    assert found is not None
    assert (found.kind, found.seq, found.event_id, found.action) == (
        BreakKind.SECURITY_CHANGED, seal.org_seq, str(seal.pk), SEAL,
    )  # fmt: skip


@pytest.mark.django_db
def test_security_event__sealed__no_change_accepted_by_the_database() -> None:
    sealed_flood(clock.now())
    with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
        rows().update(count=7)


@pytest.mark.django_db
def test_security_seal__count_that_grows_afterwards__a_row_of_its_own() -> None:
    start = clock.now()
    with time_machine.travel(start, tick=False):
        denied()
        denied()
        assert security_seal(ORGANIZATION, younger=timedelta(0)) == 1
        stream.write(everything=True)
    assert sorted(rows().values_list("batch", flat=True), key=str) == [1, None]
    assert audit_verify(ORGANIZATION).intact


@pytest.mark.django_db(transaction=True)
def test_stream__many_threads__nothing_lost() -> None:
    sighting = Sighting(ORGANIZATION, "denied", "c", "user:1", "Ada", "", "", "api", "", "x", "", "", None)

    def work() -> int:
        for _ in range(200):
            stream.note(sighting)
        return 200

    with time_machine.travel(clock.now(), tick=False):
        at_once(work, work, work, work)
        stream.write(everything=True)
    assert rows().get().count == 800


def audit_record_in_transaction() -> None:
    with transaction.atomic():
        audit_record(actor=actor(), organization_id=ORGANIZATION, action="a.b", object_kind="x", object_id="1")


def sealed_flood(start: datetime) -> None:
    """Leave three sealed rows of a minute that is over."""
    with time_machine.travel(start, tick=False):
        for number in range(3):
            denied(number)
    with time_machine.travel(start + LATER, tick=False):
        housekeeping.security_housekeeping()
