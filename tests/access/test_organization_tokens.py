"""All tokens of an organization: lists, reports, revoking many, the policy; over REST, by command, by themselves."""

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
import time_machine
from django.core.management import CommandError, call_command

from controlplane.access.models import AccessToken, TokenPolicy
from controlplane.access.services.token_sweeps import token_policies_apply
from controlplane.audit.models import AuditEvent
from controlplane.core import clock, periodic
from controlplane.core.actor import Role
from tests.factories import (
    Tree,
    actor_for_user,
    api_client,
    make_admin_token,
    make_operator,
    make_personal_token,
    make_team_token,
    make_token,
    make_user,
)

pytestmark = pytest.mark.django_db
TOKENS = "/api/v1/orgs/demo/tokens"
REPORT, REVOKE = f"{TOKENS}/report", f"{TOKENS}/revoke"
POLICY = "/api/v1/orgs/demo/token-policy"
OF_PAYMENTS = {"payments", "hers"}


def owner(tree: Tree) -> Any:
    return api_client(user=make_user(tree.root, Role.OWNER))


def aged(token: AccessToken, days: int) -> AccessToken:
    """Make a token look as if it had been made, and never used, so long ago."""
    AccessToken.objects.filter(pk=token.pk).update(created_at=clock.now() - timedelta(days=days))
    return token


def names(answer: Any) -> set[str]:
    assert answer.status_code == 200, answer.json()
    return {row["name"] for row in answer.json()["results"]}


CALLERS: dict[str, tuple[Any, int, set[str], int]] = {
    # caller → (client, status of list, tokens of it, status of the policy)
    "owner": (owner, 200, {"payments", "platform", "hers"}, 200),
    "admin of a team": (lambda tree: api_client(user=make_user(tree.payments, Role.ADMIN)), 200, OF_PAYMENTS, 404),
    "viewer": (lambda tree: api_client(user=make_user(tree.payments, Role.VIEWER)), 200, set(), 404),
    "viewer of all": (lambda tree: api_client(user=make_user(tree.root, Role.VIEWER)), 200, set(), 403),
    "team token": (lambda tree: api_client(token=make_team_token(tree.payments)), 200, set(), 404),
    "admin token of a team": (lambda tree: api_client(token=make_admin_token(tree.payments)), 200, OF_PAYMENTS, 404),
    "nobody": (lambda _tree: api_client(), 401, set(), 401),
    "operator": (lambda _tree: api_client(user=make_operator()), 404, set(), 404),
}  # fmt: skip


@pytest.mark.parametrize("caller", CALLERS)
def test_organization_tokens__by_caller__what_it_may_see(tree: Tree, other_tree: Tree, caller: str) -> None:
    make_client, status, expected, policy = CALLERS[caller]
    make_token(tree.payments, name="payments")
    make_token(tree.platform, name="platform")
    make_token(tree.payments, "user", ["runs:read"], user=make_user(tree.payments), name="hers")
    make_token(other_tree.payments, name="foreign")
    client = make_client(tree)
    answer = client.get(TOKENS)
    assert answer.status_code == status
    if status == 200:
        assert {name for name in names(answer) if name in {"payments", "platform", "hers", "foreign"}} == expected
    assert client.get(POLICY).status_code == policy
    assert client.put(POLICY, {"team": {"max_days": 9, "endless_allowed": False}}, format="json").status_code == policy
    assert client.get(REPORT).status_code == status
    for org in ("rival", "ghost"):
        for path in ("tokens", "tokens/report", "token-policy"):
            foreign = client.get(f"/api/v1/orgs/{org}/{path}")
            assert foreign.status_code == (401 if status == 401 else 404)


def test_organization_tokens__own_personal_ones__seen_by_their_person(tree: Tree) -> None:
    user = make_user(tree.payments, Role.VIEWER)
    make_personal_token(user, tree.payments, ["runs:read"])
    assert len(names(api_client(user=user).get(TOKENS))) == 1


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("kind=admin", {"b"}),
        ("state=active", {"a", "b", "c"}),
        ("state=revoked", {"d"}),
        ("state=expired", {"e"}),
        ("node=engineering", {"a", "b", "c", "d", "e"}),
        ("node=platform", {"b"}),
        ("unused_days=60", {"c"}),
        ("expiring_days=5&state=active", {"b"}),
        ("person=rita", {"c"}),
        ("created_by=rita", {"c"}),
        ("created_by=ghost", set()),
        ("outside_policy=true", {"a"}),
    ],
)
def test_organization_tokens__filter__narrows(tree: Tree, query: str, expected: set[str]) -> None:
    rita = make_user(tree.payments, username="rita")
    make_token(tree.payments, name="a")
    make_token(tree.platform, "admin", name="b", expires_at=clock.now() + timedelta(days=3))
    hers = make_token(tree.payments, "user", ["runs:read"], user=rita, name="c", actor=actor_for_user(rita)).token
    aged(hers, 90)
    gone = make_token(tree.payments, "admin", name="d").token
    AccessToken.objects.filter(pk=gone.pk).update(revoked_at=clock.now(), kind="team", expires_at=clock.now())
    over = make_token(tree.payments, name="e", expires_at=clock.now() + timedelta(hours=1)).token
    AccessToken.objects.filter(pk=over.pk).update(expires_at=clock.now() - timedelta(hours=1))
    TokenPolicy.objects.create(organization=tree.organization, kind="team", max_days=30, endless_allowed=False)
    assert names(owner(tree).get(f"{TOKENS}?{query}")) == expected


@pytest.mark.parametrize("query", ["kind=root", "state=x", "unused_days=-1", "unused_days=x", "outside_policy=1"])
def test_organization_tokens__bad_filter__400(tree: Tree, query: str) -> None:
    answer = owner(tree).get(f"{TOKENS}?{query}")
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_filter")


def test_organization_tokens__more_tokens__no_more_queries(tree: Tree, django_assert_max_num_queries: Any) -> None:
    client = owner(tree)
    for number in range(20):
        make_token(tree.payments, name=f"t{number}")
    client.get(TOKENS)
    with django_assert_max_num_queries(6):
        client.get(TOKENS)
    with django_assert_max_num_queries(8):
        client.get(REPORT)


def test_token_report__counts__each_thing_once(tree: Tree) -> None:
    client = owner(tree)
    aged(make_token(tree.payments).token, 100)
    make_token(tree.payments, "admin", expires_at=clock.now() + timedelta(days=3))
    TokenPolicy.objects.create(organization=tree.organization, kind="team", endless_allowed=False)
    assert client.get(REPORT).json() == {
        "working": 2, "unused": 1, "expiring": 1, "endless": 1, "outside_policy": 1, "old_pepper": 0,
        "unused_days": 90, "expiring_days": 14,
    }  # fmt: skip
    assert client.get(f"{REPORT}?unused_days=120&expiring_days=1").json()["unused"] == 0


# ---- revoking many ----


def revoked() -> set[str]:
    return set(AccessToken.objects.filter(revoked_at__isnull=False).values_list("name", flat=True))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"node": "engineering"}, {"a", "b", "c"}),
        ({"node": "platform"}, {"b"}),
        ({"person": "rita"}, {"c"}),
        ({"created_by": "rita"}, {"c"}),
        ({"unused_days": 60}, {"a"}),
        ({"kind": "admin"}, {"b"}),
        ({"kind": "admin", "node": "payments"}, set()),
    ],
)
def test_tokens_revoke__selection__dry_run_counts_then_it_is_done(
    tree: Tree, body: dict[str, Any], expected: set[str]
) -> None:
    rita = make_user(tree.payments, username="rita")
    aged(make_token(tree.payments, name="a").token, 90)
    make_token(tree.platform, "admin", name="b")
    make_token(tree.payments, "user", ["runs:read"], user=rita, name="c", actor=actor_for_user(rita))
    client = owner(tree)
    counted = client.post(REVOKE, body | {"dry_run": True}, format="json").json()
    assert (counted["dry_run"], counted["count"], len(counted["ids"])) == (True, len(expected), len(expected))
    assert revoked() == set()
    done = client.post(REVOKE, body | {"reason": "tidy"}, format="json").json()
    assert (done["count"], done["left"], set(done["ids"])) == (len(expected), 0, set(counted["ids"]))
    assert revoked() == expected
    assert AuditEvent.objects.filter(action="token.revoke", reason="tidy").count() == len(expected)
    assert client.post(REVOKE, body, format="json").json()["count"] == 0


def test_tokens_revoke__by_ids__others_are_as_if_they_were_not_there(tree: Tree, other_tree: Tree) -> None:
    ours, sibling, foreign = (make_token(node).token for node in (tree.payments, tree.platform, other_tree.payments))
    client = api_client(user=make_user(tree.payments, Role.ADMIN))
    ids = [ours.public_id, sibling.public_id, foreign.public_id, "ghost"]
    assert client.post(REVOKE, {"ids": ids}, format="json").json()["ids"] == [ours.public_id]
    assert AccessToken.objects.filter(revoked_at__isnull=True).count() == 2
    viewer = make_user(tree.payments, Role.VIEWER)
    own = make_token(tree.payments, "user", ["runs:read"], user=viewer).token
    answer = api_client(user=viewer).post(REVOKE, {"node": "demo"}, format="json").json()
    assert answer["ids"] == [own.public_id]


@pytest.mark.parametrize(
    ("body", "status"),
    [({}, 422), ({"dry_run": True}, 422), ({"reason": "all"}, 422), ({"ids": []}, 422), ({"unused_days": True}, 422),
     ({"unused_days": -1}, 422), ({"everything": True}, 422), ({"node": 1}, 422)],
)  # fmt: skip
def test_tokens_revoke__nothing_or_nonsense_named__revokes_nothing(
    tree: Tree, body: dict[str, Any], status: int
) -> None:
    make_token(tree.payments)
    assert owner(tree).post(REVOKE, body, format="json").status_code == status
    assert revoked() == set()


def test_tokens_revoke__more_than_one_call_takes__says_what_is_left(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.access.services.token_sweeps.MOST_REVOKED", 2)
    for number in range(5):
        make_token(tree.payments, name=str(number))
    client = owner(tree)
    left = [client.post(REVOKE, {"node": "payments"}, format="json").json()["left"] for _ in range(4)]
    assert left == [3, 1, 0, 0]


# ---- policy ----


def test_token_policy__set__read_back_recorded_and_idempotent(tree: Tree) -> None:
    client = owner(tree)
    free = {"max_days": None, "default_days": None, "endless_allowed": True, "revoke_unused_days": None}
    assert client.get(POLICY).json() == {"team": free, "admin": free, "user": free}
    body = {"team": {"max_days": 90, "default_days": 30, "endless_allowed": False}, "user": {"revoke_unused_days": 60}}
    wanted = {"team": free | body["team"], "admin": free, "user": free | body["user"]}
    assert client.put(POLICY, body | {"reason": "audit finding"}, format="json").json() == wanted
    assert client.get(POLICY).json() == wanted
    event = AuditEvent.objects.get(action="token_policy.set")
    assert (event.before["team"], event.after, event.reason) == (free, wanted, "audit finding")
    client.put(POLICY, body, format="json")
    assert AuditEvent.objects.filter(action="token_policy.set").count() == 1
    client.put(POLICY, {}, format="json")
    assert not TokenPolicy.objects.exists()


@pytest.mark.parametrize(
    ("terms", "pointer", "code"),
    [
        ({"max_days": 0, "endless_allowed": False}, "/team/max_days", "days"),
        ({"max_days": 3651, "endless_allowed": False}, "/team/max_days", "days"),
        ({"max_days": 30}, "/team/endless_allowed", "endless_and_maximum"),
        (
            {"max_days": 30, "default_days": 31, "endless_allowed": False},
            "/team/default_days",
            "default_beyond_maximum",
        ),
        ({"max_days": "30"}, "/team/max_days", "invalid"),
        ({"max_days": True}, "/team/max_days", "invalid"),
    ],
)
def test_token_policy__rule_broken__422_at_the_field(
    tree: Tree, terms: dict[str, Any], pointer: str, code: str
) -> None:
    answer = owner(tree).put(POLICY, {"team": terms}, format="json")
    assert answer.status_code == 422
    assert (pointer, code) in {(error["pointer"], error["code"]) for error in answer.json()["errors"]}
    assert not TokenPolicy.objects.exists()


def test_token_create_rest__end_left_out_null_or_named__default_endless_or_that(tree: Tree) -> None:
    client, url = owner(tree), "/api/v1/orgs/demo/nodes/payments/tokens"
    TokenPolicy.objects.create(organization=tree.organization, kind="team", default_days=7)
    with time_machine.travel("2030-01-01T00:00:00Z", tick=False):
        client = owner(tree)
        assert client.post(url, {"name": "a"}, format="json").json()["expires_at"] == "2030-01-08T00:00:00.000Z"
        assert client.post(url, {"name": "b", "expires_at": None}, format="json").json()["expires_at"] is None
        TokenPolicy.objects.update(endless_allowed=False)
        refused = client.post(url, {"name": "c", "expires_at": None}, format="json")
        assert (refused.status_code, refused.json()["code"]) == (422, "expiry_required")
        assert refused.json()["binding"]["level"] == "policy"


def test_token_rotate_rest__overlap__the_old_one_ends_then(tree: Tree) -> None:
    token = make_token(tree.payments).token
    url = f"/api/v1/orgs/demo/nodes/payments/tokens/{token.public_id}/rotate"
    client = owner(tree)
    with time_machine.travel("2030-01-01T00:00:00Z", tick=False):
        client = owner(tree)
        answer = client.post(url, {"overlap_s": 60}, format="json")
        assert (answer.status_code, answer["Cache-Control"]) == (201, "no-store")
        token.refresh_from_db()
        assert token.expires_at == clock.now() + timedelta(minutes=1)
    for body in ({"overlap_s": -1}, {"overlap_s": 10**12}, {"overlap_s": "60"}, {"overlap_s": True}):
        assert client.post(url, body, format="json").status_code == 422
    sibling = api_client(user=make_user(tree.platform, Role.ADMIN))
    assert sibling.post(url, {}, format="json").status_code == 404
    assert api_client(token=make_team_token(tree.payments)).post(url, {}, format="json").status_code == 403


# ---- what goes by itself, and by command ----


def test_token_policies_apply__unused_too_long__revoked_by_the_installation(tree: Tree, other_tree: Tree) -> None:
    for node in (tree.payments, other_tree.payments):
        aged(make_token(node, name="stale").token, 61)
        aged(make_token(node, "admin", name="other kind").token, 61)
        used = aged(make_token(node, name="used").token, 61)
        AccessToken.objects.filter(pk=used.pk).update(last_used_at=clock.now() - timedelta(days=59))
    TokenPolicy.objects.create(organization=tree.organization, kind="team", revoke_unused_days=60)
    assert token_policies_apply() == 1
    assert list(
        AccessToken.objects.filter(revoked_at__isnull=False).values_list("name", "node__organization__slug")
    ) == [("stale", "demo")]
    event = AuditEvent.objects.get(action="token.revoke")
    assert (event.actor, event.reason) == ("system:tokens", "not used for 60 days")
    assert token_policies_apply() == 0


def test_token_policies_apply__more_than_one_transaction_takes__all_of_them(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.access.services.token_sweeps.MOST_REVOKED", 2)
    for _ in range(5):
        aged(make_token(tree.payments).token, 61)
    TokenPolicy.objects.create(organization=tree.organization, kind="team", revoke_unused_days=60)
    assert token_policies_apply() == 5


def test_token_policies_apply__nothing_to_do__one_query(tree: Tree, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(1):
        token_policies_apply()


def test_periodic__jobs__run_when_due_and_one_that_fails_stops_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periodic, "_jobs", {})
    done: list[str] = []

    def fail() -> None:
        done.append("fails")
        raise RuntimeError

    periodic.register_periodic("fails", fail, every_s=10)
    periodic.register_periodic("works", lambda: done.append("works"), every_s=10)
    assert periodic.run_due(0) == []
    later = max(job.due_at for job in periodic._jobs.values())
    assert periodic.run_due(later) == ["fails", "works"]
    assert done == ["fails", "works"]
    assert periodic.run_due(later + 9) == []
    assert periodic.run_due(later + 10) == ["fails", "works"]


def command(*arguments: str) -> str:
    out = StringIO()
    call_command("tokens", *arguments, stdout=out)
    return out.getvalue()


def test_command_report__json__counts_by_organization(tree: Tree, other_tree: Tree) -> None:
    aged(make_token(tree.payments).token, 100)
    found = json.loads(command("report", "--json"))
    assert found["organizations"]["demo"]["unused"] == 1
    assert found["organizations"]["rival"]["working"] == 0
    assert "not used for 90 days" in command("report", "--organization", "demo")


def test_command_revoke_unused__dry_run__says_and_leaves(tree: Tree) -> None:
    aged(make_token(tree.payments, name="stale").token, 100)
    assert "1 would be revoked" in command("revoke-unused", "--dry-run")
    assert revoked() == set()
    assert json.loads(command("revoke-unused", "--days", "120", "--json"))["organizations"] == {"demo": 0}
    assert "demo: 1 revoked" in command("revoke-unused")
    assert revoked() == {"stale"}


@pytest.mark.parametrize("arguments", [("revoke-unused", "--days", "0"), ("report", "--organization", "ghost")])
def test_command__nonsense__refused(tree: Tree, arguments: tuple[str, ...]) -> None:
    with pytest.raises(CommandError):
        command(*arguments)
