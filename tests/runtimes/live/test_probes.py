"""Connection tests by the catalogue's data, over the wire, against peers that answer as the vendors do."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from controlplane.audit.models import AuditEvent
from controlplane.configs.catalogue.integrations import INTEGRATIONS
from controlplane.core.actor import Role
from tests.configs.support import put
from tests.factories import Tree, api_client, make_grant, make_user
from tests.runtimes.live.peer import Asked, Peer, PrometheusStub, Raw, answer, serving
from tests.runtimes.live.vendors import NAME, OTHER, OTHER_NAME, REFERENCE, SECRET, VENDORS

pytestmark = pytest.mark.django_db


@pytest.fixture
def peer() -> Iterator[Peer]:
    with serving(Peer(PrometheusStub().respond)) as made:
        yield made


@pytest.fixture(autouse=True)
def environment(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ((NAME, SECRET), (OTHER_NAME, OTHER)):
        monkeypatch.setenv(name, value)
        make_grant(tree.payments, name, ["127.0.0.1"])


def tried(tree: Tree, entry: Any) -> dict[str, Any]:
    """Return what the admin of the team gets from a test of ``entry``."""
    put(tree.payments, {"integrations": {"one": entry}})
    client = api_client(user=make_user(tree.payments, Role.ADMIN))
    response = client.post("/api/v1/orgs/demo/nodes/payments/integrations/one/test")
    assert response.status_code == 200
    assert SECRET not in response.content.decode()
    found: dict[str, Any] = response.json()
    return found


def always(raw: Raw) -> Callable[[Asked], Raw]:
    return lambda _: raw


def test_vendors__every_kind_that_can_be_tested__has_a_peer() -> None:
    testable = {kind for kind, one in INTEGRATIONS.items() if one.probe is not None}
    assert {vendor.kind for vendor in VENDORS.values()} == testable


@pytest.mark.parametrize("name", VENDORS)
def test_test__right_credential__ok_with_the_version(tree: Tree, peer: Peer, name: str) -> None:
    vendor = VENDORS[name]
    peer.respond = vendor.respond
    found = tried(tree, {"kind": vendor.kind, "url": f"{peer.url}/", "enabled": False, **vendor.entry})

    title = INTEGRATIONS[vendor.kind].title + (f" {vendor.version}" if vendor.version else "")
    assert (found["ok"], found["code"], found["detail"]) == (True, "ok", f"{title} answers.")
    assert found["version"] == vendor.version
    assert [one.path for one in peer.asked] == list(vendor.views)
    (event,) = AuditEvent.objects.filter(action="integration.test")
    host = peer.url.removeprefix("http://")
    assert json.loads(event.after_json) == {"kind": vendor.kind, "host": host, "ok": True, "code": "ok"}


@pytest.mark.parametrize("name", VENDORS)
def test_test__wrong_credential__refused_in_the_vendors_way(
    tree: Tree, peer: Peer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    vendor = VENDORS[name]
    peer.respond = vendor.respond
    monkeypatch.setenv(NAME, "another-than-the-vendor-knows")
    found = tried(tree, {"kind": vendor.kind, "url": peer.url, **vendor.entry})
    assert (found["ok"], found["code"]) == (False, vendor.refusal_code)
    assert "another-than" not in found["detail"]


@pytest.mark.parametrize("name", VENDORS)
def test_test__some_other_server__is_no_success(tree: Tree, peer: Peer, name: str) -> None:
    vendor = VENDORS[name]
    entry = {"kind": vendor.kind, "url": peer.url, **vendor.entry}
    for raw, code in (
        (answer({"status": "success", "data": {}}), "not_json"),
        (answer([1, 2]), "not_json"),
        (answer(None), "not_json"),
        (Raw(200, b"<html>sign in</html>", "text/html"), "not_json"),
        (Raw(404, b"no", "text/plain"), "not_found"),
    ):
        peer.respond = always(raw)
        found = tried(tree, entry)
        assert (found["ok"], found["code"]) == (False, code)


@pytest.mark.parametrize("name", VENDORS)
def test_test__credential_not_granted_for_the_host__nothing_is_sent(
    tree: Tree, peer: Peer, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    vendor = VENDORS[name]
    found = tried(tree, {"kind": vendor.kind, "url": peer.url.replace("127.0.0.1", "localhost"), **vendor.entry})
    assert (found["code"], found["latency_ms"], peer.asked) == ("credential_unresolved", None, [])
    assert NAME in found["detail"]


def test_test__server_that_echoes_the_credential__never_shown(tree: Tree, peer: Peer) -> None:
    peer.respond = lambda _: answer({"message": f"bad token {SECRET}"}, 401)
    found = tried(tree, {"kind": "gitlab", "url": peer.url, "token": REFERENCE})
    assert "[redacted:credential]" in found["detail"]
    peer.respond = lambda _: answer({"version": SECRET, "revision": "x"})
    found = tried(tree, {"kind": "gitlab", "url": peer.url, "token": REFERENCE})
    assert (found["ok"], found["version"]) == (True, "[redacted:credential]")


def test_test__slack_refuses_with_200__code_by_its_words(tree: Tree, peer: Peer) -> None:
    entry = {"kind": "slack", "url": peer.url, "bot_token": REFERENCE}
    for word, code in (
        ("missing_scope", "not_permitted"),
        ("account_inactive", "not_authenticated"),
        ("odd", "refused"),
    ):
        peer.respond = always(answer({"ok": False, "error": word}))
        found = tried(tree, entry)
        assert (found["code"], word in found["detail"]) == (code, True)


@pytest.mark.parametrize("kind", sorted(kind for kind, one in INTEGRATIONS.items() if one.untestable))
def test_test__what_needs_more_than_a_get__says_not_testable_here(tree: Tree, kind: str) -> None:
    found = tried(tree, {"kind": kind})
    assert (found["ok"], found["code"], found["latency_ms"]) == (False, "not_testable", None)
    assert "not testable here" in found["detail"]


def test_test__required_field_missing__named_and_nothing_sent(tree: Tree, peer: Peer) -> None:
    found = tried(tree, {"kind": "datadog", "url": peer.url, "api_key": REFERENCE})
    assert (found["code"], found["detail"], peer.asked) == ("incomplete", "These fields are not set: app_key.", [])


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://169.254.169.254", "credential_unresolved"),
        ("ftp://127.0.0.1", "not_testable"),
        ("http://127.0.0.1/?x=1", "not_testable"),
        ("http://me@127.0.0.1", "not_testable"),
    ],
)
def test_test__address_that_is_none_of_an_api__nothing_is_sent(tree: Tree, url: str, code: str) -> None:
    assert tried(tree, {"kind": "gitlab", "url": url, "token": REFERENCE})["code"] == code


def test_test__metadata_address_without_a_credential__denied(tree: Tree) -> None:
    assert tried(tree, {"kind": "grafana", "url": "http://169.254.169.254"})["code"] == "address_denied"


def test_test__credential_that_cannot_be_a_header__nothing_is_sent(
    tree: Tree, peer: Peer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(NAME, "two\nlines")
    found = tried(tree, {"kind": "gitlab", "url": peer.url, "token": REFERENCE})
    assert (found["code"], peer.asked) == ("not_testable", [])


def test_test__server_never_answers__ends_by_the_entry_s_setting(tree: Tree, peer: Peer) -> None:
    peer.stall = True
    found = tried(tree, {"kind": "gitlab", "url": peer.url, "token": REFERENCE, "timeout_s": 0.1})
    assert (found["ok"], found["code"]) == (False, "timeout")
