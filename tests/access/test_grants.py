"""Grants of credentials: who holds what, for which hosts; who may pass it on; what ends with what."""

import json
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import DjangoAssertNumQueries

from controlplane.access.grants import Held, canonical_host, host_covers, host_matches, host_pattern, sends_to
from controlplane.access.models import CredentialGrant
from controlplane.access.selectors import grants_held
from controlplane.access.services import credential_entrust, credential_revoke
from controlplane.audit.models import AuditEvent
from controlplane.audit.selectors import audit_verify
from controlplane.core.actor import Role
from controlplane.core.errors import AppError, InvalidInput, NotFound, PermissionDenied
from controlplane.orgs.services import node_move
from tests.access.support import NAME, admin_of, give, holders, holds
from tests.factories import (
    Tree,
    actor_for_token,
    actor_for_user,
    api_client,
    entrust,
    make_admin_token,
    make_grant,
    make_node,
    make_tree,
    make_user,
)
from tests.support.threads import at_once

pytestmark = pytest.mark.django_db

HOST = "db.example.com"


def test_entrust__inherited__every_node_of_this_organization_holds_it(tree: Tree, other_tree: Tree) -> None:
    entrust(tree.root, NAME, [HOST])

    assert holders(tree) == holders(tree, HOST) == {"demo", "engineering", "payments", "platform"}
    assert holders(tree, "other.example.com") == set()
    assert holders(other_tree) == set()


def test_entrust__root_only__others_hold_it_where_it_is_granted(tree: Tree) -> None:
    entrust(tree.root, NAME, [HOST], inherited=False)
    assert holders(tree) == {"demo"}

    give(tree.system, tree.payments, [HOST])
    assert holders(tree) == holders(tree, HOST) == {"demo", "payments"}


def test_entrust__no_host__held_and_sent_nowhere(tree: Tree) -> None:
    entrust(tree.root, NAME)

    assert holds(tree.payments)
    assert not holds(tree.payments, host=HOST)
    with pytest.raises(PermissionDenied):
        give(tree.system, tree.payments, ["*"])


@pytest.mark.parametrize("role", [Role.OWNER, Role.ADMIN])
def test_entrust__not_the_operator__refused(tree: Tree, other_tree: Tree, role: Role) -> None:
    people = [actor_for_user(make_user(tree.root, role)), actor_for_token(make_admin_token(tree.root))]
    for actor in [*people, other_tree.system]:
        with pytest.raises(PermissionDenied):
            credential_entrust(actor=actor, organization=tree.organization, name=NAME)
    assert not CredentialGrant.objects.exists()


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("", "credential_name"),
        ("1A", "credential_name"),
        ("A-B", "credential_name"),
        ("A" * 129, "credential_name"),
        ("SECRET_KEY", "protected_credential"),
        ("TOKEN_PEPPERS", "protected_credential"),
        ("AUDIT_KEYS", "protected_credential"),
        ("DATABASE_URL", "protected_credential"),
        ("database_url", "protected_credential"),
        ("METRICS_TOKEN", "protected_credential"),
        ("PGPASSWORD", "protected_credential"),
    ],
)
def test_entrust__no_name_or_one_of_the_process__refused(tree: Tree, name: str, code: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        entrust(tree.root, name)
    assert caught.value.code == code
    assert not CredentialGrant.objects.exists()


def test_grant__not_held__refused_whoever_asks(tree: Tree) -> None:
    for actor in (tree.system, admin_of(tree.payments), actor_for_token(make_admin_token(tree.root))):
        with pytest.raises(PermissionDenied) as caught:
            give(actor, tree.payments)
        assert caught.value.code == "credential_not_held"
    assert not CredentialGrant.objects.exists()


def test_grant__held_by_the_root_alone__only_its_admins_pass_it_on(tree: Tree) -> None:
    entrust(tree.root, NAME, [HOST], inherited=False)
    for actor in (admin_of(tree.engineering), admin_of(tree.payments)):
        with pytest.raises(PermissionDenied) as caught:
            give(actor, tree.payments)
        assert caught.value.code == "credential_not_held"

    give(admin_of(tree.root), tree.engineering, [HOST], inherited=False)
    assert holders(tree) == {"demo", "engineering"}
    give(admin_of(tree.engineering), tree.payments, [HOST])
    assert holders(tree) == {"demo", "engineering", "payments"}
    with pytest.raises(NotFound):
        give(admin_of(tree.payments), tree.platform)


@pytest.mark.parametrize(
    ("held", "wanted", "granted"),
    [
        (["*"], ["*"], True),
        (["*"], [HOST, "*.internal"], True),
        (["*.example.com"], [HOST, "*.eu.example.com"], True),
        (["*.example.com", HOST], [], True),
        (["*.example.com"], ["example.com"], False),
        (["*.example.com"], ["evil-example.com"], False),
        (["*.example.com"], ["*.com"], False),
        ([HOST], ["*.example.com"], False),
        ([HOST], [HOST, "other.example.com"], False),
        ([], [HOST], False),
    ],
)
def test_grant__hosts__only_a_subset(tree: Tree, held: list[str], wanted: list[str], granted: bool) -> None:
    entrust(tree.root, NAME, held, inherited=False)
    if granted:
        assert give(tree.system, tree.payments, wanted).hosts == sorted(wanted)
        return
    with pytest.raises(PermissionDenied) as caught:
        give(tree.system, tree.payments, wanted)
    assert caught.value.code == "hosts_not_held"
    assert holders(tree) == {"demo"}


@pytest.mark.parametrize(
    "host", ["", "https://a.example.com", "a:443", "a/b", "a b", "*a.example.com", "a.*", "**", "@"]
)
def test_grant__no_host__refused_by_place(tree: Tree, host: str) -> None:
    entrust(tree.root, NAME, ["*"])
    with pytest.raises(InvalidInput) as caught:
        give(tree.system, tree.payments, [HOST, host])
    assert [(error.pointer, error.code) for error in caught.value.errors] == [("/hosts/1", "hosts")]


def test_grant__same_again__one_grant_and_one_audit_row(tree: Tree) -> None:
    entrust(tree.root, NAME, ["*"], inherited=False)
    first, again = (give(tree.system, tree.payments, ["DB.example.com.", HOST]) for _ in range(2))

    assert (first.pk, first.hosts) == (again.pk, [HOST])
    rows = AuditEvent.objects.filter(action="credential.grant", node_id=tree.payments.pk)
    assert [json.loads(row.after_json) for row in rows] == [
        {"name": NAME, "hosts": [HOST], "node": "payments", "given_from": "demo", "inherited": True}
    ]


def test_revoke__grant_of_a_group__ends_what_the_group_passed_on_and_nothing_else(tree: Tree) -> None:
    entrust(tree.root, NAME, [HOST], inherited=False)
    to_group = give(tree.system, tree.engineering, [HOST], inherited=False)
    passed_on = give(admin_of(tree.engineering), tree.payments, [HOST])
    from_root = give(admin_of(tree.root), tree.platform, [HOST])

    ended = credential_revoke(actor=tree.system, grant=to_group)

    assert [one.pk for one in ended] == [to_group.pk, passed_on.pk]
    assert holders(tree) == {"demo", "platform"}
    assert AuditEvent.objects.filter(action="credential.revoke").count() == 2
    assert credential_revoke(actor=tree.system, grant=to_group) == []
    give(tree.system, tree.engineering, [HOST], inherited=False)
    assert holders(tree) == {"demo", "engineering", "platform"}
    from_root.refresh_from_db()
    assert from_root.revoked_at is None


def test_revoke__operator_takes_it_back__gone_everywhere(tree: Tree) -> None:
    given = entrust(tree.root, NAME, [HOST])
    for node in (tree.root, tree.engineering, tree.payments):
        give(tree.system, node, [HOST])
    credential_revoke(actor=tree.system, grant=given)

    assert holders(tree) == set()
    assert not CredentialGrant.objects.filter(revoked_at__isnull=True).exists()


def test_revoke__one_of_two_grants__the_other_still_counts(tree: Tree) -> None:
    entrust(tree.root, NAME, [HOST])
    other = entrust(tree.root, NAME, ["other.example.com"])
    passed_on = give(tree.system, tree.payments, ["other.example.com"])
    assert holders(tree, "other.example.com")
    credential_revoke(actor=tree.system, grant=other)

    passed_on.refresh_from_db()
    assert passed_on.revoked_at is None  # the name is still held, for fewer hosts
    assert holds(tree.payments, host=HOST)
    assert holders(tree, "other.example.com") == set()


def test_revoke__operators_grant__not_for_the_owner(tree: Tree) -> None:
    given = entrust(tree.root, NAME)
    owner = make_user(tree.root, Role.OWNER)
    response = api_client(user=owner).delete(f"/api/v1/orgs/demo/nodes/demo/grants/{given.pk}")

    assert (response.status_code, response.json()["code"]) == (403, "permission_denied")
    assert holds(tree.payments)


def test_move__node_away_from_the_giver__no_longer_holds_it(tree: Tree) -> None:
    entrust(tree.root, NAME, [HOST], inherited=False)
    give(tree.system, tree.engineering, [HOST], inherited=False)
    give(admin_of(tree.engineering), tree.payments, [HOST])
    elsewhere = make_node(tree.root, "elsewhere", "group")
    node_move(actor=tree.system, node=tree.payments, parent=elsewhere)

    assert holders(tree) == {"demo", "engineering"}


def test_grants_held__however_many__one_query_and_two(
    tree: Tree, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    for index in range(5):
        make_grant(tree.payments, f"OPENSRE_CRED_{index}")
    lineage = grants_held(tree.payments.pk).lineage
    with django_assert_num_queries(2):
        assert len(grants_held(tree.payments.pk).names()) == 5
    with django_assert_num_queries(1):
        assert len(grants_held(tree.payments.pk, lineage).names()) == 5


def test_host_pattern__spellings__one_form() -> None:
    spellings = (" DB.Example.com. ", "[::1]", "0:0:0:0:0:0:0:1", "*.A.b", "*", "127.0.0.1")
    found = [host_pattern(text) for text in spellings]
    assert found == ["db.example.com", "::1", "::1", "*.a.b", "*", "127.0.0.1"]


LABELS = st.sampled_from(["a", "b", "x-1"])
HOSTS = st.lists(LABELS, min_size=1, max_size=4).map(".".join)
PATTERNS = HOSTS | HOSTS.map(lambda host: f"*.{host}") | st.just("*")


@given(PATTERNS, PATTERNS, HOSTS)
def test_host_covers__two_patterns__no_host_of_the_covered_one_escapes(held: str, wanted: str, host: str) -> None:
    assert canonical_host(host) == host
    if host_covers(held, wanted) and host_matches(wanted, host):
        assert host_matches(held, host)
    assert host_covers(held, held)


class Row:
    """A grant that is in no database."""

    def __init__(self, node: Any, given_from: Any, hosts: list[str], inherited: bool) -> None:
        self.id, self.node_id, self.given_from_id, self.name = uuid4(), node, given_from, NAME
        self.hosts, self.inherited = hosts, inherited


LINEAGE = tuple(uuid4() for _ in range(4))
ROWS = st.builds(
    Row,
    st.sampled_from(LINEAGE),
    st.sampled_from([*LINEAGE, uuid4()]),
    st.lists(PATTERNS, max_size=2),
    st.booleans(),
)
GIVEN = st.builds(Row, st.none(), st.none(), st.lists(PATTERNS, max_size=2), st.booleans())


@given(st.lists(ROWS, max_size=6), st.lists(GIVEN, max_size=2), HOSTS)
def test_held__any_grants__nobody_holds_more_than_the_operator_gave(
    rows: list[Row], given: list[Row], host: str
) -> None:
    held = Held(LINEAGE, (*rows, *given))
    found = held.holders(NAME, sends_to(host))
    if found:
        assert any(host_matches(pattern, host) for row in given for pattern in row.hosts)
    assert found <= held.holders(NAME)
    assert not Held(LINEAGE, tuple(rows)).holders(NAME)


@given(st.lists(ROWS | GIVEN, max_size=6), ROWS | GIVEN, HOSTS)
def test_held__one_more_grant__takes_nothing_away(rows: list[Row], more: Row, host: str) -> None:
    before, after = Held(LINEAGE, tuple(rows)), Held(LINEAGE, (*rows, more))
    assert before.holders(NAME, sends_to(host)) <= after.holders(NAME, sends_to(host))


def test_errors__every_refusal__names_no_value(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "hunter2-value")
    entrust(tree.root, NAME)
    with pytest.raises(AppError) as caught:
        give(tree.system, tree.payments, [HOST])
    assert "hunter2" not in str(caught.value.as_problem())


@pytest.mark.django_db(transaction=True)
def test_grant_and_revoke__at_once__nothing_outlives_what_it_was_given_from() -> None:
    tree = make_tree()
    given = entrust(tree.root, NAME, [HOST])
    outcomes = at_once(
        *[lambda: give(tree.system, tree.payments, [HOST])] * 2,
        lambda: credential_revoke(actor=tree.system, grant=given),
    )
    assert {type(one) for one in outcomes} <= {CredentialGrant, PermissionDenied, list}
    assert not CredentialGrant.objects.filter(revoked_at__isnull=True).exists()
    assert CredentialGrant.objects.filter(node=tree.payments).count() <= 1
    assert audit_verify(tree.organization.pk).intact


@pytest.mark.django_db(transaction=True)
def test_entrust__same_at_once__one_grant() -> None:
    tree = make_tree()
    at_once(*[lambda: entrust(tree.root, NAME, [HOST])] * 3)
    assert CredentialGrant.objects.count() == 1
