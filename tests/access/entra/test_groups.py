"""Groups beyond what a token holds: asked of Graph whole, or there are none."""

from uuid import UUID, uuid4

import pytest

from controlplane.access.entra import groups as groups_module
from controlplane.access.entra import outgoing
from controlplane.access.models import IdentityProvider
from controlplane.audit.models import AuditEvent
from tests.access.entra.support import Visit, map_to, person, reasons, roles_of, set_up
from tests.factories import Tree
from tests.support.identity_provider import Account, Provider

MANY = tuple(str(UUID(int=number)) for number in range(1, 311))
ADA = Account("ada@example.com", roles=("sre",), groups=MANY)
ROLE_ALONE = {("demo", "viewer", "sso")}
BOTH = ROLE_ALONE | {("payments", "admin", "sso")}


@pytest.fixture(autouse=True)
def provider(tree: Tree, peer: Provider) -> IdentityProvider:
    """The role gives ``viewer``; the last of 310 groups gives ``admin`` of payments."""
    made = set_up(tree, peer)
    map_to(made, "role", "sre", tree.root, "viewer")
    map_to(made, "group", MANY[-1], tree.payments, "admin")
    peer.add(ADA)
    return made


def graph_calls(peer: Provider) -> list[str]:
    return [path for path in peer.asked if path.startswith("/graph/")]


def test_groups__310_over_four_pages__the_last_one_counts(tree: Tree, peer: Provider) -> None:
    assert Visit.to(peer, tree).sign_in(ADA.username).status_code == 302
    assert roles_of(person(ADA.username)) == BOTH
    pages = [f"/graph/v1.0/pages/{ADA.oid}/{number}" for number in (1, 2, 3)]
    assert graph_calls(peer) == [f"/graph/v1.0/users/{ADA.oid}/getMemberObjects", *pages]


def test_groups__graph_forbids__no_role_of_a_group_and_the_person_is_told(tree: Tree, peer: Provider) -> None:
    Visit.to(peer, tree).sign_in(ADA.username)
    peer.graph_status = 403
    visit = Visit.to(peer, tree)
    assert visit.sign_in(ADA.username).status_code == 302
    assert roles_of(person(ADA.username)) == ROLE_ALONE, "roles of before are not kept either"
    assert "Your groups could not be read from the directory" in visit.client.get("/app/").content.decode()
    told = AuditEvent.objects.filter(action="sign_in.roles").latest("org_seq").after
    assert told["dropped"] == ["admin on payments"]
    assert "GroupMember.Read.All" in told["groups"]


def test_groups__graph_fails_and_nothing_else_gives_a_role__403_that_says_why(tree: Tree, peer: Provider) -> None:
    peer.add(ADA.but(roles=()))
    peer.graph_status = 500
    visit = Visit.to(peer, tree)
    answer = visit.sign_in(ADA.username)
    assert (answer.status_code, visit.user_id) == (403, None)
    assert "Your groups could not be read" in answer.content.decode()
    assert reasons() == ["groups_unavailable"]


@pytest.mark.parametrize("following", ["https://evil.example/graph/v1.0/x", "http://localhost/graph/v1.0/x", "{}/else"])
def test_groups__next_page_elsewhere__is_not_asked_and_nothing_counts(
    tree: Tree, peer: Provider, following: str
) -> None:
    peer.graph_next = following.format(peer.url)
    assert Visit.to(peer, tree).sign_in(ADA.username).status_code == 302
    assert roles_of(person(ADA.username)) == ROLE_ALONE
    assert len(graph_calls(peer)) == 1


def test_groups__pages_without_end__are_given_up_and_nothing_counts(
    tree: Tree, peer: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups_module, "MAX_PAGES", 5)
    peer.graph_next = f"{peer.url}/graph/v1.0/pages/{ADA.oid}/1"
    Visit.to(peer, tree).sign_in(ADA.username)
    assert roles_of(person(ADA.username)) == ROLE_ALONE
    assert len(graph_calls(peer)) == 5


def test_groups__graph_silent__no_role_of_a_group(tree: Tree, peer: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(_method: str, _url: str, **_options: object) -> object:
        raise outgoing.Unreachable("The server did not answer in time (host localhost).", "timeout")

    monkeypatch.setattr(groups_module, "ask", silent)
    Visit.to(peer, tree).sign_in(ADA.username)
    assert roles_of(person(ADA.username)) == ROLE_ALONE


def test_groups__none_mapped__graph_is_not_asked(tree: Tree, peer: Provider, provider: IdentityProvider) -> None:
    provider.mappings.filter(kind="group").delete()
    Visit.to(peer, tree).sign_in(ADA.username)
    assert graph_calls(peer) == []


def test_groups__in_the_token__graph_is_not_asked(tree: Tree, peer: Provider) -> None:
    peer.add(ADA.but(groups=(MANY[-1].upper(), str(uuid4()))))
    Visit.to(peer, tree).sign_in(ADA.username)
    assert graph_calls(peer) == []
    assert roles_of(person(ADA.username)) == BOTH


def test_groups__empty_list_beside_a_hint_of_many__is_no_groups(tree: Tree, peer: Provider) -> None:
    peer.add(ADA.but(groups=(), more={"_claim_names": {"groups": "src1"}, "hasgroups": True}))
    Visit.to(peer, tree).sign_in(ADA.username)
    assert graph_calls(peer) == []
    assert roles_of(person(ADA.username)) == ROLE_ALONE
