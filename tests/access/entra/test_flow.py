"""The way there and back: what belongs to which browser, once, and for how long."""

from urllib.parse import parse_qs, urlsplit

import pytest
import time_machine
from django.test import Client

from controlplane.access.models import IdentityProvider
from controlplane.core import clock
from tests.access.entra.support import Visit, map_to, reasons, set_up
from tests.factories import Tree
from tests.support.identity_provider import Account, Provider
from tests.support.threads import at_once

ADA = Account("ada@example.com", roles=("sre",))
MALLORY = Account("mallory@example.com", roles=("sre",))


@pytest.fixture(autouse=True)
def provider(tree: Tree, peer: Provider) -> IdentityProvider:
    made = set_up(tree, peer)
    map_to(made, "role", "sre", tree.root, "responder")
    peer.add(ADA)
    peer.add(MALLORY)
    return made


def test_callback__of_a_sign_in_begun_in_another_browser__signs_nobody_in(tree: Tree, peer: Provider) -> None:
    """Login CSRF: the attacker has the victim open the end of the attacker's own sign-in."""
    attackers = Visit.to(peer, tree).approved(MALLORY.username)
    victim = Visit.to(peer, tree)
    assert victim.client.get(attackers).status_code == 400
    victim.begin()  # also in a browser that has a session and a sign-in of its own under way
    assert victim.client.get(attackers).status_code == 400
    assert victim.user_id is None


def test_callback__without_or_with_a_made_up_state__signs_nobody_in(tree: Tree, peer: Provider) -> None:
    visit = Visit.to(peer, tree)
    code = parse_qs(urlsplit(visit.approved(ADA.username)).query)["code"][0]
    for query in ("", f"?code={code}", f"?code={code}&state=", f"?code={code}&state=made-up", "?state=a&state=b"):
        answer = visit.client.get(f"/login/demo/callback{query}")
        assert answer.status_code == 400
        assert "Begin it again" in answer.content.decode()
    assert visit.user_id is None


def test_callback__stolen_code_under_a_state_of_ones_own__is_not_exchanged(tree: Tree, peer: Provider) -> None:
    """PKCE: the code belongs to the browser that asked for it."""
    stolen = parse_qs(urlsplit(Visit.to(peer, tree).approved(ADA.username)).query)["code"][0]
    thief = Visit.to(peer, tree)
    state = parse_qs(urlsplit(thief.begin()).query)["state"][0]
    answer = thief.client.get("/login/demo/callback", {"code": stolen, "state": state})
    assert (answer.status_code, thief.user_id, reasons()) == (403, None, ["exchange"])


def test_callback__replayed__works_once(tree: Tree, peer: Provider) -> None:
    visit = Visit.to(peer, tree)
    back = visit.approved(ADA.username)
    assert visit.client.get(back).status_code == 302
    visit.client.logout()
    assert visit.client.get(back).status_code == 400
    assert visit.user_id is None


def test_callback__replayed_state_with_a_new_code__is_refused(tree: Tree, peer: Provider) -> None:
    visit = Visit.to(peer, tree)
    url = visit.begin()
    first, second = (urlsplit(peer.approve(url, ADA.username)) for _ in range(2))
    bad = first.query.replace("code=", "code=x")
    assert visit.client.get(f"{first.path}?{bad}").status_code == 403
    assert visit.client.get(f"{second.path}?{second.query}").status_code == 400


def test_callback__error_of_the_provider__neutral_words(tree: Tree, peer: Provider) -> None:
    visit = Visit.to(peer, tree)
    answer = visit.sign_in("nobody@example.com")
    page = answer.content.decode()
    assert answer.status_code == 403
    assert "did not let you in" in page
    assert "access_denied" not in page
    assert reasons() == ["provider_refused"]


def test_callback__issuer_of_another_provider__is_refused(tree: Tree, peer: Provider) -> None:
    visit = Visit.to(peer, tree)
    back = visit.approved(ADA.username)
    assert visit.client.get(f"{back}&iss=https%3A%2F%2Fevil.example").status_code == 403
    assert reasons() == ["response_issuer"]


def test_flow__older_than_ten_minutes__is_over(tree: Tree, peer: Provider) -> None:
    visit = Visit.to(peer, tree)
    back = visit.approved(ADA.username)
    with time_machine.travel(clock.now().timestamp() + 601, tick=False):
        assert visit.client.get(back).status_code == 400
    assert visit.user_id is None


def test_flow__sixth_at_once__ends_the_oldest_and_no_other(tree: Tree, peer: Provider) -> None:
    visit = Visit.to(peer, tree)
    backs = [visit.approved(ADA.username) for _ in range(6)]
    assert len(visit.client.session["sso_flows"]) == 5
    assert visit.client.get(backs[0]).status_code == 400
    assert visit.client.get(backs[1]).status_code == 302


@pytest.mark.parametrize(
    ("wanted", "goes"),
    [
        ("/app/runs?status=failed", "/app/runs?status=failed"),
        ("https://evil.example/", "/app/"),
        ("//evil.example/", "/app/"),
        ("/\\evil.example", "/app/"),
        ("javascript:alert(1)", "/app/"),
        ("http:///evil.example", "/app/"),
        ("/\t/evil.example", "/app/"),
        ("", "/app/"),
    ],
)
def test_next__wherever_it_points__leads_to_a_path_of_ours(tree: Tree, peer: Provider, wanted: str, goes: str) -> None:
    assert Visit.to(peer, tree).sign_in(ADA.username, wanted)["Location"] == goes


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_begin__sent_by_another_site__asks_on_our_own_page_first(tree: Tree, peer: Provider, site: str) -> None:
    """Login CSRF: a provider that the attacker runs would sign the browser in at once, as somebody of its choice."""
    browser = Client(headers={"Sec-Fetch-Site": site})
    answer = browser.get("/login/demo/begin", {"next": "/app/runs"})
    assert (answer.status_code, answer["Location"]) == (302, "/login/demo?next=%2Fapp%2Fruns")
    assert "sso_flows" not in browser.session
    assert browser.get("/login/demo/begin", headers={"Sec-Fetch-Site": "same-origin"})["Location"].startswith(peer.url)


def test_begin__somebody_signed_in__goes_on_as_that_person(tree: Tree, peer: Provider) -> None:
    signed_in = Visit.to(peer, tree)
    signed_in.sign_in(ADA.username)
    answer = signed_in.client.get("/login/demo/begin", {"next": "/app/runs"})
    assert (answer.status_code, answer["Location"]) == (302, "/app/runs")
    assert "sso_flows" not in signed_in.client.session


def test_begin__other_methods__405(tree: Tree, peer: Provider) -> None:
    for path in ("begin", "callback"):
        assert Client().post(f"/login/demo/{path}").status_code == 405
        assert Client().head(f"/login/demo/{path}").status_code == 405


def test_begin__too_often__429(tree: Tree, peer: Provider) -> None:
    answers = [Client().get("/login/demo/begin").status_code for _ in range(31)]
    assert (set(answers[:30]), answers[30]) == ({302}, 429)


@pytest.mark.django_db(transaction=True)
def test_callback__twice_at_once__one_gets_the_sign_in(transactional_db: None, tree: Tree, peer: Provider) -> None:
    visit = Visit.to(peer, tree)
    back = visit.approved(ADA.username)

    def press() -> int:
        browser = Client()
        browser.cookies = visit.client.cookies.copy()  # type: ignore[assignment]  # a copy of cookies is one
        return int(browser.get(back).status_code)

    assert sorted(at_once(press, press), key=str) == [302, 400]
    assert len([path for path in peer.asked if path.endswith("/token")]) == 1
