"""Pages of people: who is shown them, what the forms do, what is shown once."""

import re
from typing import Any

import pytest
from django.test import Client

from controlplane.access.models import IdentityProvider, Membership, ProviderKind, User
from controlplane.core.actor import Role
from tests.factories import Tree, make_user
from tests.web.support import Person

pytestmark = pytest.mark.django_db


def text(answer: Any) -> str:
    content: str = answer.content.decode()
    return content


def test_members__owner__sees_everybody_and_may_invite(owner: Person, viewer: Person) -> None:
    page = text(owner.client.get("/app/members"))
    assert "vera" in page
    assert "/app/members/invite" in page
    assert 'href="/app/members" aria-current="page"' in page


def test_members__admin_of_a_team__sees_its_people_and_may_not_invite(
    admin: Person, viewer: Person, tree: Tree
) -> None:
    make_user(tree.platform, Role.VIEWER, username="paul")
    page = text(admin.client.get("/app/members"))
    assert "vera" in page
    assert "paul" not in page
    assert "/app/members/invite" not in page
    assert admin.client.get("/app/members/invite").status_code == 403


def test_members__viewer__403_and_no_way_in_the_navigation(viewer: Person) -> None:
    assert viewer.client.get("/app/members").status_code == 403
    assert 'href="/app/members"' not in text(viewer.client.get("/app/"))


def test_members__search_and_filter(owner: Person, viewer: Person, tree: Tree) -> None:
    User.objects.filter(pk=viewer.user.pk).update(is_active=False)
    assert "vera" in text(owner.client.get("/app/members?show=inactive"))
    assert "otto" not in text(owner.client.get("/app/members?show=inactive&q=ve")).split("people")[1]
    assert "Nobody matches" in text(owner.client.get("/app/members?q=zzz"))
    assert owner.client.get("/app/members?q=a%00").status_code == 302


def test_members__edited_cursor__begins_again(owner: Person) -> None:
    assert owner.client.get("/app/members?cursor=x")["Location"] == "/app/members"


def test_invite__link_shown_once__signs_in_one_time(owner: Person, tree: Tree) -> None:
    form = {"username": "ada", "name": "Ada", "node": "payments", "role": "responder", "by": "link"}
    page = text(owner.client.post("/app/members/invite", form))
    link = re.search(r"http://[\w.:]+(/login/link/\w+)", page)
    assert link is not None
    assert "no-store" in owner.client.post("/app/members/invite", form | {"username": "b"})["Cache-Control"]
    newcomer = Client()
    assert newcomer.post(link[1]).status_code == 302
    assert newcomer.get("/app/").status_code == 200
    person = User.objects.get(username="ada")
    assert link[1] not in text(owner.client.get(f"/app/members/{person.pk}"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"username": "vera"}, "taken"),
        ({"username": ""}, "must not be blank"),
        ({"node": "ghost"}, "There is nothing here"),
        ({"role": "emperor"}, "must be one of"),
        ({"email": "nobody"}, "not an e-mail"),
        ({"by": "provider", "subject": "x"}, "no identity provider"),
    ],
)
def test_invite__bad_field__said_beside_it_and_what_was_typed_stays(
    owner: Person, viewer: Person, change: dict[str, str], words: str
) -> None:
    form = {"username": "ada", "name": "Ada L", "node": "payments", "role": "viewer", "by": "link"} | change
    answer = owner.client.post("/app/members/invite", form)
    assert answer.status_code in {409, 422}
    assert words in text(answer)
    assert "Ada L" in text(answer)
    assert not User.objects.filter(username="ada").exists()


def test_invite__with_a_provider__offers_it_and_binds_by_id(owner: Person, tree: Tree) -> None:
    assert "Id at the provider" not in text(owner.client.get("/app/members/invite"))
    IdentityProvider.objects.create(
        organization=tree.organization,
        name="Example ID",
        kind=ProviderKind.OIDC,
        authority="https://id.example.com",
        client_id="x",
        client_secret="${OPENSRE_CRED_SSO}",
    )
    assert "Example ID" in text(owner.client.get("/app/members/invite"))
    form = {"username": "ada", "node": "demo", "role": "viewer", "by": "provider", "subject": "u-1"}
    answer = owner.client.post("/app/members/invite", form)
    person = User.objects.get(username="ada")
    assert answer["Location"] == f"/app/members/{person.pk}"
    assert "Identity provider" in text(owner.client.get(answer["Location"]))


def test_member__page__says_role_by_role_what_it_allows_and_where_from(owner: Person, tree: Tree) -> None:
    person = make_user(tree.engineering, Role.RESPONDER, username="rita")
    Membership.objects.create(user=person, node=tree.payments, role="reviewer", source="sso")
    page = text(owner.client.get(f"/app/members/{person.pk}"))
    assert "from engineering" in page
    assert "by the identity provider" in page
    assert "Start investigations" in page
    assert "Approve and reject reviews" in page


def test_member__oneself__sees_own_rights_and_no_buttons(viewer: Person) -> None:
    page = text(viewer.client.get(f"/app/members/{viewer.user.pk}"))
    assert "What you may do" in page
    assert "Read investigations" in page
    assert "Deactivate" not in page
    assert "Give role" not in page


def test_member__of_another_part_or_organization__looks_like_nobody(
    admin: Person, outsider: Person, owner: Person
) -> None:
    nobody = "00000000-0000-4000-8000-000000000000"
    for pk in (outsider.user.pk, owner.user.pk):
        answers = [admin.client.get(f"/app/members/{one}") for one in (pk, nobody)]
        assert [answer.status_code for answer in answers] == [404, 404]
        first, second = (text(answer).split("Request")[0] for answer in answers)
        assert first == second


def test_roles__given_and_taken_back__by_form(owner: Person, viewer: Person, tree: Tree) -> None:
    url = f"/app/members/{viewer.user.pk}"
    assert owner.client.post(f"{url}/roles", {"node": "platform", "role": "responder"}).status_code == 302
    row = Membership.objects.get(user=viewer.user, node=tree.platform)
    answer = owner.client.post(f"{url}/roles/{row.pk}/remove", follow=True)
    assert "no longer responder of Platform" in text(answer)
    assert not Membership.objects.filter(pk=row.pk).exists()


def test_roles__beyond_ones_own__said_and_nothing_given(admin: Person, viewer: Person) -> None:
    answer = admin.client.post(f"/app/members/{viewer.user.pk}/roles", {"node": "payments", "role": "reviewer"})
    assert (answer.status_code, "cannot grant a role you do not hold" in text(answer)) == (403, True)
    raised = admin.client.post(f"/app/members/{admin.user.pk}/roles", {"node": "demo", "role": "admin"})
    assert raised.status_code == 422
    assert Membership.objects.filter(user__in=[viewer.user, admin.user]).count() == 2


def test_change__deactivate_reactivate_remove(owner: Person, viewer: Person) -> None:
    url = f"/app/members/{viewer.user.pk}/change"
    for act, words in (
        ("deactivate", "signed out everywhere"),
        ("reactivate", "may sign in again"),
        ("remove", "is removed, with every role"),
    ):
        assert words in text(owner.client.post(url, {"act": act, "reason": "left"}, follow=True))
    assert viewer.client.get("/app/").status_code == 302
    assert owner.client.post(url, {"act": "promote"}).status_code == 404


def test_change__last_owner_or_oneself__said(owner: Person) -> None:
    answer = owner.client.post(f"/app/members/{owner.user.pk}/change", {"act": "remove"}, follow=True)
    assert "your own account" in text(answer)
    row = owner.user.memberships.get()
    answer = owner.client.post(f"/app/members/{owner.user.pk}/roles/{row.pk}/remove", follow=True)
    assert "without an owner" in text(answer)
    assert User.objects.get(pk=owner.user.pk).is_active


def test_change__by_admin_of_a_team__refused(admin: Person, viewer: Person) -> None:
    for act in ("deactivate", "remove", "invite", "reactivate"):
        assert admin.client.post(f"/app/members/{viewer.user.pk}/change", {"act": act}).status_code == 404
    assert User.objects.get(pk=viewer.user.pk).is_active


def test_new_invitation__for_who_never_came__link_shown(owner: Person) -> None:
    owner.client.post("/app/members/invite", {"username": "ada", "node": "demo", "role": "viewer", "by": "link"})
    person = User.objects.get(username="ada")
    answer = owner.client.post(f"/app/members/{person.pk}/change", {"act": "invite"})
    assert "/login/link/" in text(answer)
