"""Writing the log: within the act's transaction, redacted, chained, exact on both databases."""

from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction
from django.test import override_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.audit import heads
from controlplane.audit.chain import GENESIS, canonical
from controlplane.audit.models import AuditEvent, AuditHead
from controlplane.audit.selectors import audit_verify
from controlplane.audit.services import audit_record
from controlplane.core.actor import Actor, ActorKind, Channel
from tests.support.threads import at_once

ORGANIZATION = uuid4()
ACTOR = Actor(
    ActorKind.USER, "user:1", "Ada", ORGANIZATION, credential_id="abc", channel=Channel.WEB, address="192.0.2.1"
)


def record(**fields: Any) -> AuditEvent:
    values: dict[str, Any] = {"action": "thing.change", "object_kind": "thing", "object_id": "1"} | fields
    with transaction.atomic():
        return audit_record(actor=values.pop("actor", ACTOR), organization_id=ORGANIZATION, **values)


@pytest.mark.django_db
def test_audit_record__several__gapless_and_chained(db: None) -> None:
    events = [record(object_id=str(number)) for number in range(3)]
    assert [event.org_seq for event in events] == [1, 2, 3]
    assert [event.prev_mac for event in events] == [GENESIS, events[0].mac, events[1].mac]
    head = AuditHead.objects.get(pk=ORGANIZATION)
    assert (head.org_seq, head.mac) == (3, events[2].mac)
    stored = AuditEvent.objects.get(org_seq=1)
    assert (stored.actor, stored.actor_label, stored.credential_id, stored.channel, stored.address) == (
        "user:1", "Ada", "abc", "web", "192.0.2.1",
    )  # fmt: skip
    assert audit_verify(ORGANIZATION).intact


@pytest.mark.django_db(transaction=True)
def test_audit_record__outside_a_transaction__refused() -> None:
    with pytest.raises(RuntimeError):
        audit_record(actor=ACTOR, organization_id=ORGANIZATION, action="a.b", object_kind="x", object_id="1")


@pytest.mark.django_db(transaction=True)
def test_audit_record__act_rolled_back__neither_is_there_and_no_gap() -> None:
    record()
    with transaction.atomic():
        record()
        transaction.set_rollback(True)
    assert record().org_seq == 2
    assert audit_verify(ORGANIZATION).intact


@pytest.mark.django_db
def test_audit_record__secret_in_a_value__not_stored(db: None) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "abcdef"
    event = record(before={"token": secret}, after={"note": f"the key is {secret}"}, reason=f"because {secret}")
    row = str(AuditEvent.objects.filter(pk=event.pk).values().get())
    assert secret not in row
    assert audit_verify(ORGANIZATION).intact


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.django_db
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=json_values, after=json_values, texts=st.text(st.characters(codec=None), max_size=30))
def test_audit_record__any_json_and_text__verifies_after_reading_back(before: Any, after: Any, texts: str) -> None:
    """NUL, lone surrogates, huge integers, -0.0 and 1e400-like floats: what the database returns recomputes exactly."""
    with transaction.atomic():
        actor = Actor(ActorKind.USER, "user:1", texts, ORGANIZATION, address=texts[:64])
        record(actor=actor, before=before, after=after, reason=texts, object_id=texts)
        report = audit_verify(ORGANIZATION)
        assert report.intact, report.problem
        stored = AuditEvent.objects.get(organization_id=ORGANIZATION)
        assert canonical(stored.before) == stored.before_json
        transaction.set_rollback(True)


@pytest.mark.django_db
def test_audit_record__long_texts__cut_to_their_columns(db: None) -> None:
    actor = Actor(ActorKind.USER, "user:" + "x" * 300, "y" * 500, ORGANIZATION, address="z" * 300)
    record(actor=actor, reason="r" * 2000, object_id="o" * 900)
    event = AuditEvent.objects.get()
    assert (len(event.actor_label), len(event.object_id), len(event.address)) == (200, 200, 64)
    assert len(event.reason) <= 500
    assert audit_verify(ORGANIZATION).intact


@pytest.mark.django_db
def test_audit_record__new_key__old_events_still_verify(db: None) -> None:
    with override_settings(AUDIT_KEYS={1: "old"}):
        record()
    with override_settings(AUDIT_KEYS={1: "old", 2: "new"}):
        assert record().key_version == 2
        assert audit_verify(ORGANIZATION).intact
    with override_settings(AUDIT_KEYS={2: "new"}):
        report = audit_verify(ORGANIZATION)
        assert (report.broken_seq, report.problem) == (1, "AUDIT_KEYS has no key 1")


@pytest.mark.django_db(transaction=True)
def test_audit_record__two_first_events_at_once__one_chain() -> None:
    for _ in range(5):
        at_once(record, record)
        assert audit_verify(ORGANIZATION).events == 2
        AuditHead.objects.all().delete()
        _delete_events()
        heads.forget()


@pytest.mark.django_db(transaction=True)
def test_audit_record__many_writers__gapless_chain() -> None:
    def work() -> int:
        return [record() for _ in range(10)][-1].org_seq

    last = at_once(work, work, work, work)
    assert 40 in last
    report = audit_verify(ORGANIZATION)
    assert (report.intact, report.events) == (True, 40)


def _delete_events() -> None:
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            cursor.execute("TRUNCATE audit_auditevent")
        else:
            cursor.execute("DELETE FROM audit_auditevent")  # the suite has taken the trigger out, see tests/conftest.py
