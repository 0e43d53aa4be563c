"""REST of the audit log."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.db import transaction

from controlplane.audit.housekeeping import chain_housekeeping
from controlplane.audit.models import AuditEvent
from controlplane.audit.security import sign_in_record
from controlplane.audit.security_stream import stream
from controlplane.audit.selectors import audit_verify
from controlplane.audit.services import audit_record
from controlplane.core import clock
from controlplane.core.actor import Actor, ActorKind, Role
from tests.audit.test_verify import triggers_off
from tests.factories import Tree, api_client, make_admin_token, make_token, make_user
from tests.support.pages import every_page

pytestmark = pytest.mark.django_db
AUDIT = "/api/v1/orgs/demo/audit"


def record(tree: Tree, **fields: Any) -> None:
    values: dict[str, Any] = {
        "actor": tree.system, "action": "thing.change", "object_kind": "thing", "object_id": "1",
    } | fields  # fmt: skip
    with transaction.atomic():
        audit_record(organization_id=tree.organization.pk, **values)


def test_audit_list__owner__newest_first_with_values(tree: Tree) -> None:
    record(tree, before={"a": 1}, after={"a": 2}, reason="why not")
    first = api_client(user=make_user(tree.root, Role.OWNER)).get(AUDIT).json()["results"][0]
    assert (first["seq"], first["action"], first["before"], first["after"]) == (5, "thing.change", {"a": 1}, {"a": 2})
    assert (first["actor"], first["reason"]) == ("system:test", "why not")
    assert first["at"].endswith("Z")


def test_audit_list__admin_of_a_team__events_of_its_subtree_only(tree: Tree) -> None:
    record(tree, node_id=tree.platform.pk)
    record(tree, node_id=None)
    client = api_client(user=make_user(tree.payments, Role.ADMIN))
    listed = client.get(AUDIT).json()["results"]
    assert [(event["action"], event["after"]["slug"]) for event in listed] == [("node.create", "payments")]


def test_audit_list__pages__each_once(tree: Tree) -> None:
    for number in range(7):
        record(tree, object_id=str(number))
    client = api_client(token=make_admin_token(tree.root))
    pages = every_page(client, AUDIT, limit=5)
    assert [event["seq"] for page in pages for event in page] == list(range(12, 0, -1))


def test_audit_list__after_authentication__three_queries(tree: Tree, django_assert_num_queries: Any) -> None:
    client = api_client(token=make_admin_token(tree.root))
    client.get(AUDIT)
    with django_assert_num_queries(4):  # token; organization; is it the root; events
        assert len(client.get(AUDIT).json()["results"]) == 5


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"action": "node.create"}, 3),
        ({"action": "node."}, 3),
        ({"action": "node"}, 0),
        ({"object_kind": "organization"}, 1),
        ({"object_kind": "node", "object_id": "x"}, 0),
        ({"since": "2001-01-01T00:00:00Z"}, 5),
        ({"since": "2999-01-01T00:00:00+02:00"}, 0),
        ({"until": "2999-01-01T00:00:00Z"}, 5),
    ],
)
def test_audit_list__filters__narrow(tree: Tree, query: dict[str, str], expected: int) -> None:
    client = api_client(token=make_admin_token(tree.root))
    assert len(client.get(AUDIT, query).json()["results"]) == expected


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"since": "yesterday"}, "bad_time"),
        ({"since": "2001-01-01T00:00:00"}, "bad_time"),
        ({"until": "2001-13-01T00:00:00Z"}, "bad_time"),
        ({"cursor": "nothing"}, "bad_cursor"),
        ({"cursor": "WyJ4Il0"}, "bad_cursor"),  # text where a number is due
        ({"cursor": "WzFlOTldCg"}, "bad_cursor"),  # 1e99
        ({"limit": "1000"}, "bad_limit"),
    ],
)
def test_audit_list__bad_parameter__400_names_it(tree: Tree, query: dict[str, str], code: str) -> None:
    response = api_client(token=make_admin_token(tree.root)).get(AUDIT, query)
    assert (response.status_code, response.json()["code"]) == (400, code)


def test_audit_list__huge_number_or_nul__no_error(tree: Tree) -> None:
    client = api_client(token=make_admin_token(tree.root))
    huge = "Wzk5OTk5OTk5OTk5OTk5OTk5OTk5OTk5XQ"
    assert client.get(AUDIT, {"cursor": huge}).status_code in {200, 400}
    for name in ("action", "object_kind", "object_id"):
        assert client.get(AUDIT, {name: "\x00"}).json()["results"] == []


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"actor": "system:test"}, {"root", "payments", "none"}),
        ({"actor": "user:1"}, {"person"}),
        ({"actor": "abc"}, {"person"}),
        ({"actor": "ad"}, {"person"}),
        ({"actor": "user:2"}, {"viewing"}),
        ({"actor": "nobody:"}, set()),
        ({"address": "192.0.2.7"}, {"person"}),
        ({"address": "192.0."}, {"person"}),
        ({"address": "192.0.2"}, set()),
        ({"address": "2001:db8:"}, {"viewing"}),
        ({"node": "payments"}, {"payments"}),
        ({"node": "demo"}, {"root", "payments"}),
        ({"node": "payments", "actor": "ad"}, set()),
        ({"from": "2001-01-01T00:00:00Z", "action": "thing.", "to": "2999-01-01T00:00:00Z"}, None),
    ],
)
def test_audit_list__who_where_and_below_which_node__narrow(
    tree: Tree, query: dict[str, str], expected: set[str] | None
) -> None:
    ada = Actor(ActorKind.USER, "user:1", "Ada", tree.organization.pk, credential_id="abc", address="192.0.2.7")
    viewing = Actor(ActorKind.IMPERSONATION, "token:x", "Bob", impersonator="user:2", address="2001:db8::1")
    record(tree, object_id="root", node_id=tree.root.pk)
    record(tree, object_id="payments", node_id=tree.payments.pk)
    record(tree, object_id="none")
    record(tree, object_id="person", actor=ada)
    record(tree, object_id="viewing", actor=viewing)
    listed = api_client(token=make_admin_token(tree.root)).get(AUDIT, {"object_kind": "thing"} | query).json()
    everything = {"root", "payments", "none", "person", "viewing"}
    assert {event["object_id"] for event in listed["results"]} == (everything if expected is None else expected)


def test_audit_list__node_that_one_may_not_read__as_everywhere(tree: Tree, other_tree: Tree) -> None:
    client = api_client(user=make_user(tree.payments, Role.ADMIN))
    assert client.get(AUDIT, {"node": "platform"}).status_code == 404
    assert client.get(AUDIT, {"node": "nothing"}).status_code == 404
    assert client.get(AUDIT, {"node": "payments"}).status_code == 200
    assert client.get("/api/v1/orgs/rival/audit", {"node": "payments"}).status_code == 404


def test_audit_list__viewing_as_a_team__both_names_in_the_chain(tree: Tree) -> None:
    client = api_client(token=make_admin_token(tree.root))
    viewing = Actor(ActorKind.IMPERSONATION, "token:x", "Bob as team", impersonator="user:2")
    record(tree, actor=viewing)
    record(tree, actor=replace(viewing, impersonator=None))
    later, first = client.get(AUDIT).json()["results"][:2]
    assert (first["impersonator"], later["impersonator"]) == ("user:2", "")
    assert audit_verify(tree.organization.pk).intact


SECURITY = f"{AUDIT}/security"


def noted(tree: Tree, **fields: Any) -> None:
    values: dict[str, Any] = {
        "ok": False, "method": "password", "principal": "user:1", "label": "Ada", "address": "192.0.2.1",
        "organization_id": tree.organization.pk, "reason": "wrong_password",
    }  # fmt: skip
    sign_in_record(**(values | fields))


def test_audit_security__owner__newest_first_with_counts(tree: Tree) -> None:
    noted(tree)
    noted(tree)
    noted(tree, ok=True, reason="")
    stream.write(everything=True)
    last, first = api_client(user=make_user(tree.root, Role.OWNER)).get(SECURITY).json()["results"]
    assert (last["kind"], last["code"], last["count"]) == ("sign_in", "", 1)
    assert (first["kind"], first["code"], first["count"]) == ("sign_in_failed", "wrong_password", 2)
    assert (first["actor"], first["actor_label"], first["address"]) == ("user:1", "Ada", "192.0.2.1")
    assert (first["action"], first["channel"], first["sealed_by"]) == ("sign-in.password", "web", None)
    assert first["first_at"].endswith("Z")


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"kind": "sign_in_failed"}, {"Ada", "Bob"}),
        ({"kind": "sign_in"}, {"Cleo"}),
        ({"code": "locked"}, {"Bob"}),
        ({"actor": "user:1"}, {"Ada"}),
        ({"actor": "cle"}, {"Cleo"}),
        ({"address": "192.0.2."}, {"Ada", "Cleo"}),
        ({"address": "198.51.100.9"}, {"Bob"}),
        ({"from": "2999-01-01T00:00:00Z"}, set()),
        ({"to": "2001-01-01T00:00:00Z"}, set()),
        ({"from": "2001-01-01T00:00:00Z", "to": "2999-01-01T00:00:00Z"}, {"Ada", "Bob", "Cleo"}),
        ({"actor": "\x00"}, set()),
    ],
)
def test_audit_security__filters__narrow(tree: Tree, query: dict[str, str], expected: set[str]) -> None:
    noted(tree)
    noted(tree, principal="user:2", label="Bob", address="198.51.100.9", reason="locked")
    noted(tree, principal="user:3", label="Cleo", ok=True, reason="")
    stream.write(everything=True)
    listed = api_client(token=make_admin_token(tree.root)).get(SECURITY, query).json()["results"]
    assert {row["actor_label"] for row in listed} == expected


@pytest.mark.parametrize(
    ("query", "code"),
    [
        ({"kind": "nonsense"}, "bad_kind"),
        ({"from": "yesterday"}, "bad_time"),
        ({"from": "2001-01-01T00:00:00Z", "since": "2001-01-01T00:00:00Z"}, "repeated_parameter"),
        ({"cursor": "nothing"}, "bad_cursor"),
        ({"node": "payments"}, "unknown_parameter"),
    ],
)
def test_audit_security__bad_parameter__400_names_it(tree: Tree, query: dict[str, str], code: str) -> None:
    response = api_client(token=make_admin_token(tree.root)).get(SECURITY, query)
    assert (response.status_code, response.json()["code"]) == (400, code)


def test_audit_security__pages__each_once_in_four_queries(tree: Tree, django_assert_num_queries: Any) -> None:
    start = clock.now()
    for number in range(7):
        with time_machine.travel(start + timedelta(seconds=number), tick=False):
            noted(tree, principal=f"user:{number}")
    client = api_client(token=make_admin_token(tree.root))
    pages = every_page(client, SECURITY, limit=3)
    assert [row["actor"] for page in pages for row in page] == [f"user:{number}" for number in range(6, -1, -1)]
    with django_assert_num_queries(4):  # token; organization; is it the root; rows
        client.get(SECURITY)


def test_audit_security__admin_of_a_team__what_its_tokens_were_refused_alone(tree: Tree) -> None:
    noted(tree)
    for node in (tree.payments, tree.platform):
        api_client(token=make_token(node, name=f"of {node.slug}").plaintext).get("/api/v1/orgs/demo/token-policy")
    stream.write(everything=True)
    listed = api_client(user=make_user(tree.payments, Role.ADMIN)).get(SECURITY).json()["results"]
    assert {(row["actor_label"], row["node_id"]) for row in listed} == {("of payments", str(tree.payments.pk))}


VERIFICATION = f"{AUDIT}/verification"


def test_audit_verification__before_after_and_broken__says_so(tree: Tree) -> None:
    client = api_client(user=make_user(tree.root, Role.OWNER))
    before = client.get(VERIFICATION).json()
    assert (before["intact"], before["verified_at"], before["first_break"]) == (None, None, None)
    assert before["head"]["seq"] == 4
    chain_housekeeping()
    after = client.get(VERIFICATION).json()
    assert (after["intact"], after["verified_seq"], after["head"]["checkpoints"]) == (True, 4, 1)
    assert after["verified_at"].endswith("Z")
    with triggers_off():
        AuditEvent.objects.filter(organization_id=tree.organization.pk, org_seq=2).update(reason="x")
    with time_machine.travel(clock.now() + timedelta(minutes=2)):
        chain_housekeeping()
    broken = client.get(VERIFICATION).json()
    second = AuditEvent.objects.get(organization_id=tree.organization.pk, org_seq=2)
    assert broken["intact"] is False
    assert broken["first_break"] == {
        "kind": "changed", "seq": 2, "problem": "the event has been changed", "id": str(second.pk),
        "action": "node.create",
    }  # fmt: skip
    of_team = api_client(user=make_user(tree.payments, Role.ADMIN)).get(VERIFICATION).json()["first_break"]
    assert (of_team["seq"], of_team["id"], of_team["action"]) == (2, None, None), "which event it is, is not theirs"


def test_audit_verification__queries__five(tree: Tree, django_assert_num_queries: Any) -> None:
    client = api_client(token=make_admin_token(tree.root))
    client.get(VERIFICATION)
    with django_assert_num_queries(5):  # token; organization; is it the root; head; verification
        client.get(VERIFICATION)


@pytest.mark.parametrize("path", [SECURITY, VERIFICATION])
def test_audit_beside__viewer_stranger_and_nobody__refused(tree: Tree, other_tree: Tree, path: str) -> None:
    assert api_client(user=make_user(tree.root, Role.VIEWER)).get(path).status_code == 403
    assert api_client(user=make_user(other_tree.root, Role.OWNER)).get(path).status_code == 404
    assert api_client().get(path).status_code == 401
