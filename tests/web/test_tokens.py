"""The pages of access tokens, and viewing as a team."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client

from controlplane.access.models import AccessToken, TokenPolicy
from controlplane.audit.models import AuditEvent
from controlplane.core import clock
from controlplane.investigations.models import Thread
from tests.factories import Tree, actor_for_token, api_client, make_personal_token, make_token
from tests.web.support import Person

pytestmark = pytest.mark.django_db

NEW = {"kind": "team", "node": "payments", "name": "runtime", "life": "30"}


def text_of(answer: Any) -> str:
    return str(answer.content.decode())


def test_tokens__by_role__all_of_what_is_administered_and_ones_own(
    tree: Tree, admin: Person, viewer: Person, outsider: Person
) -> None:
    make_token(tree.payments, name="of payments")
    make_token(tree.platform, name="of platform")
    make_personal_token(viewer.user, tree.payments, ["runs:read"])
    seen = text_of(admin.client.get("/app/tokens"))
    assert "of payments" in seen
    assert "of platform" not in seen
    mine = text_of(viewer.client.get("/app/tokens"))
    assert "(you)" in mine
    assert "<strong>of payments" not in mine
    assert "No tokens yet" in text_of(outsider.client.get("/app/tokens"))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", {"fresh", "stale", "ending"}),
        ("?kind=admin", {"ending"}),
        ("?state=revoked", {"gone"}),
        ("?state=", {"fresh", "stale", "ending", "gone"}),
        ("?unused_days=90", {"stale"}),
        ("?expiring_days=14", {"ending"}),
        ("?node=platform", {"stale"}),
    ],
)
def test_tokens__filters__narrow_the_list(tree: Tree, owner: Person, query: str, expected: set[str]) -> None:
    make_token(tree.payments, name="fresh")
    stale = make_token(tree.platform, name="stale").token
    make_token(tree.payments, "admin", name="ending", expires_at=clock.now() + timedelta(days=3))
    gone = make_token(tree.payments, name="gone").token
    AccessToken.objects.filter(pk=stale.pk).update(created_at=clock.now() - timedelta(days=120))
    AccessToken.objects.filter(pk=gone.pk).update(revoked_at=clock.now())
    page = text_of(owner.client.get(f"/app/tokens{query}"))
    assert {name for name in ("fresh", "stale", "ending", "gone") if f"<strong>{name}</strong>" in page} == expected


def test_tokens__bad_filter_or_cursor__begins_again(tree: Tree, owner: Person) -> None:
    for query in ("?kind=root", "?unused_days=x", "?cursor=x", "?state=maybe"):
        assert owner.client.get(f"/app/tokens{query}")["Location"] == "/app/tokens"


def test_token_new__team_token__shown_once_and_works(tree: Tree, admin: Person) -> None:
    assert admin.client.get("/app/tokens/new").status_code == 200
    answer = admin.client.post("/app/tokens/new", NEW | {"addresses": "192.0.2.0/24, 2001:db8::/32"})
    assert answer.status_code == 201
    assert "no-store" in answer["Cache-Control"]
    token = AccessToken.objects.get(name="runtime")
    assert token.allowed_addresses == ["192.0.2.0/24", "2001:db8::/32"]
    plaintext = answer.context["issued"].plaintext
    assert plaintext in text_of(answer)
    assert actor_for_token(plaintext).token_node_id == tree.payments.pk
    assert plaintext not in text_of(admin.client.get("/app/tokens"))


@pytest.mark.parametrize(
    ("typed", "field"),
    [
        ({"name": ""}, "This must not be blank"),
        ({"addresses": "10.0.0.1/8"}, "bits behind the prefix"),
        ({"scopes": ["admin:*"]}, "admin:* is for admin"),
        ({"kind": "root"}, "team, admin or user"),
        ({"life": "endless"}, "never expires is not allowed"),
    ],
)
def test_token_new__rule_broken__said_at_its_field_and_nothing_made(
    tree: Tree, owner: Person, typed: dict[str, object], field: str
) -> None:
    TokenPolicy.objects.create(organization=tree.organization, kind="team", max_days=90, endless_allowed=False)
    answer = owner.client.post("/app/tokens/new", NEW | typed)
    assert answer.status_code == 422
    assert field in text_of(answer)
    assert not AccessToken.objects.exists()


def test_token_new__last_day_of_all__lives_to_the_end_of_it(tree: Tree, owner: Person) -> None:
    answer = owner.client.post("/app/tokens/new", NEW | {"life": "9999-12-31"})
    assert answer.status_code == 201
    assert AccessToken.objects.get().expires_at == datetime.max.replace(tzinfo=UTC)


def test_token_new__viewer__makes_a_personal_one_and_no_other(tree: Tree, viewer: Person) -> None:
    assert 'value="team"' not in text_of(viewer.client.get("/app/tokens/new"))
    assert viewer.client.post("/app/tokens/new", NEW).status_code == 403
    answer = viewer.client.post("/app/tokens/new", NEW | {"kind": "user"})
    assert actor_for_token(answer.context["issued"].plaintext).user_id == viewer.user.pk


def test_token_rotate__page__new_text_and_the_old_one_goes_on_for_the_overlap(tree: Tree, admin: Person) -> None:
    old = make_token(tree.payments).token
    answer = admin.client.post(f"/app/tokens/{old.public_id}/rotate", {"overlap": "1h"})
    assert answer.status_code == 201
    assert actor_for_token(answer.context["issued"].plaintext).token_node_id == tree.payments.pk
    old.refresh_from_db()
    assert old.expires_at is not None
    assert timedelta(minutes=59) < old.expires_at - clock.now() <= timedelta(hours=1)


def test_token_revoke__own_and_others__by_right(tree: Tree, admin: Person, viewer: Person, outsider: Person) -> None:
    token = make_token(tree.payments).token
    url = f"/app/tokens/{token.public_id}/revoke"
    assert viewer.client.post(url).status_code == 404
    assert outsider.client.post(url).status_code == 404
    assert Client().post(url).status_code == 302
    assert admin.client.get(url).status_code == 405
    assert admin.client.post(url)["Location"] == "/app/tokens"
    token.refresh_from_db()
    assert token.revoked_at is not None


def test_tokens_revoke__ticked__counted_first_then_done(tree: Tree, admin: Person) -> None:
    ours = [make_token(tree.payments, name=f"t{n}").token.public_id for n in range(3)]
    foreign = make_token(tree.platform).token.public_id
    page = admin.client.post("/app/tokens/revoke", {"ids": [*ours[:2], foreign]})
    assert "Revoke 2 tokens?" in text_of(page)
    assert not AccessToken.objects.filter(revoked_at__isnull=False).exists()
    admin.client.post("/app/tokens/revoke", {"ids": [*ours[:2], foreign], "confirmed": "1", "reason": "cleaning"})
    assert set(AccessToken.objects.filter(revoked_at__isnull=False).values_list("public_id", flat=True)) == set(
        ours[:2]
    )
    assert AuditEvent.objects.filter(action="token.revoke", reason="cleaning").count() == 2
    assert admin.client.post("/app/tokens/revoke", {})["Location"] == "/app/tokens"
    page = admin.client.post("/app/tokens/revoke", {"ids": [ours[2], "a\x00", "\U0001f600"]})
    assert "Revoke 1 token?" in text_of(page)


def test_token_policy__owner_sets_it__admin_of_a_team_sees_none(tree: Tree, owner: Person, admin: Person) -> None:
    assert admin.client.get("/app/tokens/policy").status_code in {403, 404}
    assert owner.client.get("/app/tokens/policy").status_code == 200
    wrong = owner.client.post("/app/tokens/policy", {"team.max_days": "x", "user.endless_allowed": "1"})
    assert wrong.status_code == 422
    both = owner.client.post("/app/tokens/policy", {"team.max_days": "30", "team.endless_allowed": "1"})
    assert "exclude each other" in text_of(both)
    done = owner.client.post(
        "/app/tokens/policy", {"team.max_days": "30", "admin.endless_allowed": "1", "user.endless_allowed": "1"}
    )
    assert done["Location"] == "/app/tokens/policy"
    policy = TokenPolicy.objects.get()
    assert (policy.kind, policy.max_days, policy.endless_allowed) == ("team", 30, False)


# ---- viewing as a team ----


def begin(person: Person, team: str = "payments", **fields: str) -> Any:
    return person.client.post("/app/tokens/view-as", {"team": team, "minutes": "15", **fields})


def test_view_as__begun__sees_what_the_team_sees_under_a_banner_until_ended(
    tree: Tree, owner: Person, team_thread: Thread, private_thread: Thread
) -> None:
    begin(owner, reason="checking")
    page = text_of(owner.client.get("/app/runs"))
    assert "as team Payments" in page
    assert owner.client.get(f"/app/threads/{team_thread.pk}").status_code == 200
    assert owner.client.get(f"/app/threads/{private_thread.pk}").status_code == 404
    event = AuditEvent.objects.get(action="impersonation.begin")
    assert (event.actor, event.reason) == (f"user:{owner.user.pk}", "checking")
    owner.client.post("/app/tokens/view-as/end")
    assert "as team Payments" not in text_of(owner.client.get("/app/runs"))
    assert AccessToken.objects.get(kind="view").revoked_at is not None
    assert AuditEvent.objects.filter(action="impersonation.end").exists()


def test_view_as__meanwhile__nothing_is_written_by_page_or_rest(tree: Tree, owner: Person) -> None:
    begin(owner)
    for path in ("/app/tokens/new", "/app/tokens/view-as", "/app/new", "/app/config/payments/policies"):
        assert owner.client.post(path, NEW).status_code == 403, path
    rest = api_client()
    rest.cookies = owner.client.cookies
    for method, path in [
        ("post", "/api/v1/orgs/demo/nodes/payments/tokens"),
        ("patch", "/api/v1/orgs/demo/nodes/payments/config?dry_run=true"),
        ("post", "/api/v1/investigations"),
    ]:
        answer = getattr(rest, method)(path, {}, format="json")
        assert (answer.status_code, answer.json()["code"]) == (403, "read_only"), path
    assert rest.get("/api/v1/me").json()["kind"] == "impersonation"
    assert rest.get("/api/v1/orgs/demo/nodes/platform").status_code == 404
    assert rest.get("/api/v1/orgs/demo/audit").status_code in {403, 404}


def test_view_as__time_over__says_so_and_the_person_is_itself_again(tree: Tree, owner: Person) -> None:
    begin(owner)
    AccessToken.objects.update(expires_at=clock.now() - timedelta(seconds=1))
    rest = api_client()
    rest.cookies = owner.client.cookies
    assert rest.get("/api/v1/me").status_code == 401
    answer = owner.client.get("/app/runs", follow=True)
    assert "time is over" in text_of(answer)
    assert owner.client.get("/app/tokens").status_code == 200
    assert "as team Payments" not in text_of(owner.client.get("/app/tokens"))


def test_view_as__role_lost__over_at_once(tree: Tree, admin: Person) -> None:
    begin(admin)
    assert "as team Payments" in text_of(admin.client.get("/app/runs"))
    admin.user.memberships.all().delete()
    assert "no longer view" in text_of(admin.client.get("/app/runs", follow=True))


def test_view_as__not_ones_team__not_offered_and_refused(tree: Tree, admin: Person, viewer: Person) -> None:
    assert "No team to view as" in text_of(viewer.client.get("/app/tokens/view-as"))
    assert begin(viewer).status_code == 403
    assert begin(admin, "platform").status_code == 422
    assert begin(admin, minutes="61").status_code == 422
    assert not AccessToken.objects.exists()


def test_view_as_end__without_a_view_or_signed_out__harmless(tree: Tree, viewer: Person) -> None:
    assert viewer.client.post("/app/tokens/view-as/end").status_code == 302
    assert Client().post("/app/tokens/view-as/end").status_code == 302
    assert viewer.client.get("/app/tokens/view-as/end").status_code == 405


def test_tokens__many__same_number_of_queries(tree: Tree, owner: Person, django_assert_max_num_queries: Any) -> None:
    for number in range(12):
        make_token(tree.payments, name=f"t{number}")
    with time_machine.travel(clock.now(), tick=False):
        owner.client.get("/app/tokens")
        with django_assert_max_num_queries(14):
            owner.client.get("/app/tokens")
