"""REST: people, search, invitation, what somebody may do."""

from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.access.models import Membership, User
from controlplane.core.actor import Role
from tests.factories import Tree, api_client, make_admin_token, make_node, make_team_token, make_user

pytestmark = pytest.mark.django_db
URL = "/api/v1/orgs/demo/members"


@pytest.fixture
def owner(tree: Tree) -> User:
    return make_user(tree.root, Role.OWNER, username="otto")


@pytest.fixture
def staff(tree: Tree, owner: User) -> dict[str, User]:
    """People all over the tree."""
    people = {"otto": owner}
    for name, node, role in (
        ("pia", tree.payments, Role.RESPONDER),
        ("paul", tree.platform, Role.VIEWER),
        ("enno", tree.engineering, Role.ADMIN),
        ("nora", tree.root, None),
    ):
        people[name] = make_user(node, role, username=name)
    return people


def names(response: Any) -> list[str]:
    assert response.status_code == 200, response.content
    return [row["username"] for row in response.json()["results"]]


def test_list__owner__everybody_in_order_and_in_pages(staff: dict[str, User]) -> None:
    client = api_client(user=staff["otto"])
    first = client.get(URL, {"limit": 3})
    assert names(first) == ["enno", "nora", "otto"]
    assert names(client.get(URL, {"limit": 3, "cursor": first.json()["next"]})) == ["paul", "pia"]


def test_list__admin_of_a_part__those_with_a_role_inside_it(tree: Tree, staff: dict[str, User]) -> None:
    assert names(api_client(user=staff["enno"]).get(URL)) == ["enno", "paul", "pia"]
    admin = make_user(tree.payments, Role.ADMIN, username="ada")
    assert names(api_client(user=admin).get(URL)) == ["ada", "pia"]
    assert names(api_client(token=make_admin_token(tree.platform)).get(URL)) == ["paul"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"q": "PI"}, ["pia"]),
        ({"q": "nobody"}, []),
        ({"active": "false"}, ["paul"]),
        ({"q": "p", "active": "true"}, ["pia"]),
    ],
)
def test_list__search_and_filter(staff: dict[str, User], query: dict[str, str], found: list[str]) -> None:
    User.objects.filter(username="paul").update(is_active=False)
    assert names(api_client(user=staff["otto"]).get(URL, query)) == found


@pytest.mark.parametrize("query", [{"active": "perhaps"}, {"who": "x"}, {"cursor": "!"}, {"q": "a\x00"}])
def test_list__bad_parameter__400(staff: dict[str, User], query: dict[str, str]) -> None:
    assert api_client(user=staff["otto"]).get(URL, query).status_code == 400


def test_list__queries__do_not_grow_with_people(tree: Tree, staff: dict[str, User]) -> None:
    client = api_client(user=staff["otto"])

    def queries() -> int:
        with CaptureQueriesContext(
            connection,
        ) as captured:
            client.get(URL)
        return len(captured)

    before = queries()
    for _ in range(10):
        make_user(tree.payments)
    assert queries() == before <= 7


@pytest.mark.parametrize("role", [Role.VIEWER, Role.RESPONDER, Role.REVIEWER])
def test_list__reads_no_members__403_and_for_others_too(tree: Tree, staff: dict[str, User], role: Role) -> None:
    client = api_client(user=make_user(tree.root, role))
    assert client.get(URL).status_code == 403
    for person in (staff["pia"].pk, uuid4()):  # somebody there and nobody look the same
        assert client.get(f"{URL}/{person}").json()["code"] == "permission_denied"
    assert api_client(token=make_team_token(tree.payments)).get(URL).status_code == 403


def test_read__person_of_another_part_or_organization__404_as_nobody(
    tree: Tree, other_tree: Tree, staff: dict[str, User]
) -> None:
    client = api_client(user=make_user(tree.payments, Role.ADMIN))
    stranger = make_user(other_tree.root, Role.OWNER)
    answers = [client.get(f"{URL}/{pk}") for pk in (staff["paul"].pk, staff["otto"].pk, stranger.pk, uuid4())]
    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.content for answer in answers}) == 1
    assert client.get(f"/api/v1/orgs/rival/members/{stranger.pk}").content == answers[0].content


def test_read__roles_outside_the_admins_part__not_shown(tree: Tree, staff: dict[str, User]) -> None:
    Membership.objects.create(user=staff["pia"], node=tree.platform, role="viewer")
    shown = api_client(user=make_user(tree.payments, Role.ADMIN)).get(f"{URL}/{staff['pia'].pk}").json()
    assert [(row["node"], row["role"]) for row in shown["roles"]] == [("payments", "responder")]
    whole = api_client(user=staff["otto"]).get(f"{URL}/{staff['pia'].pk}").json()
    assert [(row["node"], row["role"]) for row in whole["roles"]] == [("payments", "responder"), ("platform", "viewer")]


def test_read__oneself__whatever_the_role(staff: dict[str, User]) -> None:
    answer = api_client(user=staff["pia"]).get(f"{URL}/{staff['pia'].pk}").json()
    assert (answer["username"], answer["ways_in"], answer["pending"]) == ("pia", ["password"], False)


def test_permissions__node_by_node__role_where_from_and_what_it_allows(tree: Tree, staff: dict[str, User]) -> None:
    Membership.objects.create(user=staff["enno"], node=tree.payments, role="reviewer", source="sso")
    answer = api_client(user=staff["otto"]).get(f"{URL}/{staff['enno'].pk}/permissions").json()
    by_node = {row["node"]: row for row in answer["results"]}
    assert list(by_node) == ["engineering", "payments", "platform"]
    assert by_node["payments"]["roles"] == [
        {"role": "reviewer", "node": "payments", "source": "sso", "inherited": False},
        {"role": "admin", "node": "engineering", "source": "manual", "inherited": True},
    ]
    assert "review.decide" in by_node["payments"]["actions"]
    assert "review.decide" not in by_node["platform"]["actions"]
    assert "config.write" in by_node["platform"]["actions"]
    assert "identity_provider.read" not in by_node["platform"]["actions"]  # that is the organization's


def test_permissions__admin_of_a_part__says_not_where_a_role_above_was_granted(tree: Tree) -> None:
    person = make_user(tree.root, Role.VIEWER)
    Membership.objects.create(user=person, node=tree.payments, role="responder")
    answer = api_client(user=make_user(tree.payments, Role.ADMIN)).get(f"{URL}/{person.pk}/permissions").json()
    assert answer["results"] == [
        {
            "node": "payments",
            "roles": [
                {"role": "responder", "node": "payments", "source": "manual", "inherited": False},
                {"role": "viewer", "node": None, "source": "manual", "inherited": True},
            ],
            "actions": answer["results"][0]["actions"],
        }
    ]


def test_permissions__deactivated__nothing_is_allowed(staff: dict[str, User]) -> None:
    User.objects.filter(pk=staff["pia"].pk).update(is_active=False)
    answer = api_client(user=staff["otto"]).get(f"{URL}/{staff['pia'].pk}/permissions").json()
    assert [row["actions"] for row in answer["results"]] == [[]]


def test_permissions__queries__do_not_grow_with_nodes(tree: Tree, staff: dict[str, User]) -> None:
    client = api_client(user=staff["otto"])

    def queries() -> int:
        with CaptureQueriesContext(connection) as captured:
            client.get(f"{URL}/{staff['enno'].pk}/permissions")
        return len(captured)

    before = queries()
    for number in range(10):
        make_node(tree.engineering, f"team-{number}")
    assert queries() == before <= 11


def test_invite__link__shown_once_and_not_stored_by_caches(tree: Tree, owner: User) -> None:
    body = {"username": "ada", "node": "payments", "role": "viewer"}
    client = api_client(user=owner)
    answer = client.post(URL, body, format="json")
    assert (answer.status_code, answer["Cache-Control"]) == (201, "no-store")
    secret = answer.json()["link_secret"]
    assert api_client().post(f"/login/link/{secret}").status_code == 302
    read = client.get(f"{URL}/{answer.json()['id']}")
    assert secret not in read.content.decode()
    assert "link_secret" not in read.json()


def test_invite__pending_until_signed_in__and_renewable_only_then(tree: Tree, owner: User) -> None:
    client = api_client(user=owner)
    made = client.post(URL, {"username": "ada", "node": "payments", "role": "viewer"}, format="json").json()
    assert made["pending"] is True
    renewed = client.post(f"{URL}/{made['id']}/invitation")
    assert api_client().post(f"/login/link/{renewed.json()['link_secret']}").status_code == 302
    assert client.get(f"{URL}/{made['id']}").json()["pending"] is False
    assert client.post(f"{URL}/{made['id']}/invitation").json()["code"] == "not_pending"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"username": "ada", "node": "ghost", "role": "viewer"}, 404, "not_found"),
        ({"username": "otto", "node": "payments", "role": "viewer"}, 409, "username_taken"),
        ({"username": "ada", "node": "payments", "role": "viewer", "admin": True}, 422, "unknown_member"),
        ({"username": "ada", "node": "payments"}, 422, "invalid_input"),
    ],
)
def test_invite__bad_body__named(tree: Tree, owner: User, body: dict[str, Any], status: int, code: str) -> None:
    answer = api_client(user=owner).post(URL, body, format="json")
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert not User.objects.filter(username="ada").exists()


@pytest.mark.parametrize("active", ["false", "no", 0, None, [], {}])
def test_update__active_no_boolean__422_and_nobody_let_go(staff: dict[str, User], active: object) -> None:
    url = f"{URL}/{staff['pia'].pk}"
    assert api_client(user=staff["otto"]).patch(url, {"active": active}, format="json").status_code == 422
    assert User.objects.get(pk=staff["pia"].pk).is_active


def test_update_and_remove__by_owner(tree: Tree, staff: dict[str, User]) -> None:
    client, url = api_client(user=staff["otto"]), f"{URL}/{staff['pia'].pk}"
    assert client.patch(url, {"active": False, "reason": "on leave"}, format="json").json()["active"] is False
    assert client.patch(url, {"active": True}, format="json").json()["active"] is True
    assert client.delete(url).status_code == 204
    gone = client.get(url).json()
    assert (gone["active"], gone["roles"]) == (False, [])
