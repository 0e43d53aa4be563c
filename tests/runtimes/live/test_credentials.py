"""Credentials at run time: sent to the hosts they are granted for and nowhere else, and never to be seen again."""

import base64
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from controlplane.access.models import CredentialGrant
from controlplane.access.services import credential_revoke
from controlplane.configs.credentials import credentials_of
from controlplane.core.actor import Role
from controlplane.runtimes.sources.live.endpoint import integrations_in
from controlplane.runtimes.sources.live.http import without
from tests.configs.support import put
from tests.factories import Tree, api_client, entrust, make_grant, make_user
from tests.runtimes.live.peer import Asked, Peer, PrometheusStub, Raw, answer, failure, serving, success
from tests.runtimes.live.support import alert
from tests.support.runs import envelopes, start_run, work_on

pytestmark = pytest.mark.django_db(transaction=True)

NAME = "OPENSRE_CRED_MON"
VALUE = 'hunter2"quoted\\and/long+value'
BEARER = {"type": "bearer", "token": f"${{{NAME}}}"}


@pytest.fixture
def peer() -> Iterator[Peer]:
    with serving(Peer(PrometheusStub().respond)) as made:
        yield made


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, VALUE)


def configure(tree: Tree, url: str, kind: str = "prometheus", **entry: Any) -> None:
    put(tree.payments, {"integrations": {"mon": {"kind": kind, "url": url, **({"auth": BEARER} | entry)}}})


def run_of(tree: Tree) -> tuple[str, list[dict[str, Any]]]:
    """Return how a run of the team ended, and its events."""
    started = start_run(tree.system, tree.payments, prompt="?", runtime="builtin", alert=alert(service="checkout"))
    return work_on(started.run).status, envelopes(started.thread.pk)


def missing_of(events: list[dict[str, Any]]) -> str:
    """Return why the integration was not read."""
    seen = [one for event in events if event["type"] == "tool_end" for one in event["data"]["observations"]]
    return str(next(one["value"]["reason"] for one in seen if one["value"].get("type") == "missing"))


def connection_of(tree: Tree) -> dict[str, Any]:
    response = api_client(user=make_user(tree.payments, Role.ADMIN)).post(
        "/api/v1/orgs/demo/nodes/payments/integrations/mon/test"
    )
    assert response.status_code == 200
    found: dict[str, Any] = response.json()
    return found


def everything_stored() -> str:
    """Return all rows of all tables as one text."""
    found: list[str] = []
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names():
            cursor.execute(f'SELECT * FROM "{table}"')  # noqa: S608 (names of our own tables)
            found += [repr(row) for row in cursor.fetchall()]
    return "\n".join(found)


def test_run__granted_for_the_host__the_value_is_sent_and_kept_nowhere(
    tree: Tree, peer: Peer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    make_grant(tree.payments, NAME, ["127.0.0.1"])
    configure(tree, peer.url)
    status, events = run_of(tree)

    assert status == "completed"
    assert {one.headers["authorization"] for one in peer.asked} == {f"Bearer {VALUE}"}
    assert "hunter2" not in f"{events} {caplog.text} {everything_stored()}"


@pytest.mark.parametrize(
    ("hosts", "url", "why"),
    [
        (["prom.example.com"], "URL", "the credential OPENSRE_CRED_MON is not granted for 127.0.0.1"),
        ([], "URL", "the credential OPENSRE_CRED_MON is not granted for 127.0.0.1"),
        (["prom.example.com"], "http://prom.example.com.evil.org", "is not granted for prom.example.com.evil.org"),
        (["*.example.com"], "http://example.com", "the credential OPENSRE_CRED_MON is not granted for example.com"),
    ],
)
def test_run__granted_for_other_hosts__nothing_is_sent_and_it_is_said(
    tree: Tree, peer: Peer, hosts: list[str], url: str, why: str
) -> None:
    make_grant(tree.payments, NAME, hosts)
    configure(tree, url.replace("URL", peer.url))
    status, events = run_of(tree)

    assert status == "completed"
    assert missing_of(events).startswith("was not asked: ")
    assert missing_of(events).endswith(why)
    assert peer.asked == []
    assert (connection_of(tree)["code"], peer.asked) == ("credential_unresolved", [])


@pytest.mark.parametrize(
    ("granted", "value", "token", "why"),
    [
        (False, VALUE, f"${{{NAME}}}", "the credential OPENSRE_CRED_MON is not granted here"),
        (True, "", f"${{{NAME}}}", "the credential OPENSRE_CRED_MON has no value in this installation"),
        (True, VALUE, "${SECRET_KEY}", "the credential SECRET_KEY is not allowed by this installation"),
        (True, "two\nlines", f"${{{NAME}}}", "a credential has characters that cannot be sent in a header"),
    ],
)
def test_run__no_value__the_name_is_said_and_nothing_is_sent(
    tree: Tree, peer: Peer, monkeypatch: pytest.MonkeyPatch, granted: bool, value: str, token: str, why: str
) -> None:
    monkeypatch.setenv(NAME, value)
    if granted:
        make_grant(tree.payments, NAME, ["*"])
    configure(tree, peer.url, auth={"type": "bearer", "token": token})
    _, events = run_of(tree)

    assert missing_of(events) == f"was not asked: {why}"
    assert peer.asked == []


def test_run__grant_taken_back_after_its_start__nothing_is_sent(tree: Tree, peer: Peer) -> None:
    make_grant(tree.payments, NAME, ["*"])
    configure(tree, peer.url)
    started = start_run(tree.system, tree.payments, prompt="?", runtime="builtin", alert=alert())
    for grant in CredentialGrant.objects.filter(node__isnull=True):
        credential_revoke(actor=tree.system, grant=grant)
    work_on(started.run)

    assert missing_of(envelopes(started.thread.pk)).endswith("is not granted here")
    assert peer.asked == []


def echo(asked: Asked) -> Raw:
    """A Loki that writes down every header it gets, in each of the ways a log may hold one."""
    sent = asked.headers.get("authorization", "") + " " + asked.headers.get("x-api-key", "")
    if asked.path.endswith("/labels"):
        return success(["service_name"])
    if asked.path.endswith("/values"):
        return success(["checkout"])
    lines = [f"error: refused {sent}", json.dumps({"level": "error", "msg": f"refused {sent}"}), f"error {sent[7:]}"]
    values = [[str(1_790_000_000_000_000_000 + index), line] for index, line in enumerate(lines)]
    stream = {"service_name": "checkout", "auth": sent}
    return success({"resultType": "streams", "result": [{"stream": stream, "values": values}]})


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"auth": {"type": "basic", "username": f"${{{NAME}}}", "password": f"${{{NAME}}}"}},
        {"auth": None, "headers": {"X-Api-Key": f"Key ${{{NAME}}}"}},
    ],
)
def test_run__server_repeats_the_value_in_its_data__never_in_the_log_of_the_run(
    tree: Tree, peer: Peer, caplog: pytest.LogCaptureFixture, entry: dict[str, Any]
) -> None:
    caplog.set_level(logging.DEBUG)
    make_grant(tree.payments, NAME, ["127.0.0.1"])
    peer.respond = echo
    configure(tree, peer.url, "loki", **entry)
    status, events = run_of(tree)

    assert status == "completed"
    assert "refused" in str(events)
    assert "[redacted:credential]" in str(events)
    stored = f"{events} {caplog.text} {everything_stored()}"
    assert "hunter2" not in stored
    assert base64.b64encode(f"{VALUE}:{VALUE}".encode()).decode() not in stored


def test_test__granted_and_refused_by_the_server__its_words_without_the_value(tree: Tree, peer: Peer) -> None:
    make_grant(tree.payments, NAME, ["127.0.0.1"])
    peer.respond = lambda asked: failure(403, "forbidden", f"{asked.headers['authorization']} may not")
    configure(tree, peer.url)
    found = connection_of(tree)

    assert (found["ok"], found["code"]) == (False, "not_permitted")
    assert found["detail"].endswith("Bearer [redacted:credential] may not.")
    assert "hunter2" not in everything_stored()


def test_test__granted_for_the_host__answers(tree: Tree, peer: Peer) -> None:
    entrust(tree.root, NAME, ["127.0.0.1"])
    configure(tree, peer.url)
    assert (connection_of(tree)["code"], peer.asked[0].headers["authorization"]) == ("ok", f"Bearer {VALUE}")


def test_url__from_a_credential__sent_to_its_own_host_alone_and_not_shown(
    tree: Tree, peer: Peer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("OPENSRE_CRED_URL", peer.url)
    given = make_grant(tree.payments, "OPENSRE_CRED_URL", ["prom.example.com"])
    configure(tree, "${OPENSRE_CRED_URL}", auth=None)
    refused = connection_of(tree)
    assert refused["detail"].endswith("the credential OPENSRE_CRED_URL is not granted for its host.")
    assert peer.asked == []

    credential_revoke(actor=tree.system, grant=given)
    make_grant(tree.payments, "OPENSRE_CRED_URL", ["127.0.0.1"])
    assert connection_of(tree)["code"] == "ok"
    monkeypatch.setenv("OPENSRE_CRED_URL", "http://127.0.0.1:9/some-secret-path")
    unreachable = connection_of(tree)
    assert (unreachable["code"], unreachable["detail"]) == ("connection_failed", "The server cannot be reached.")
    assert peer.url not in f"{everything_stored()} {caplog.text}"


def test_list__states__told_to_readers_without_values(tree: Tree) -> None:
    make_grant(tree.payments, NAME, ["prom.example.com"])
    configure(tree, "https://prom.example.com")
    client = api_client(user=make_user(tree.payments, Role.VIEWER))
    response = client.get("/api/v1/orgs/demo/nodes/payments/integrations")

    (one,) = response.json()["results"]
    assert (one["credential"], one["problem"]) == ("ready", "")
    assert "hunter2" not in response.content.decode()


@pytest.mark.parametrize(
    "url",
    [
        "http://granted.example.com@evil.org",
        "http://evil.org\\@granted.example.com",
        "http://evil.org#@granted.example.com",
        "http://granted.example.com:80:90",
        "http:///granted.example.com",
        "http://granted.example.com%00.evil.org",
    ],
)
def test_integration__address_read_in_two_ways__no_credential_for_it(tree: Tree, url: str) -> None:
    make_grant(tree.payments, NAME, ["granted.example.com"])
    document = {"integrations": {"mon": {"kind": "prometheus", "url": url, "auth": BEARER}}}
    (one,) = integrations_in(document, credentials_of(tree.payments.pk).resolve)
    assert one.endpoint is None
    assert "hunter2" not in repr(one)


def test_integration__tenant__is_resolved_too(tree: Tree, peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, "team-a")
    make_grant(tree.payments, NAME, ["127.0.0.1"])
    configure(tree, peer.url, "loki", auth=None, tenant=f"${{{NAME}}}")
    run_of(tree)
    assert {one.headers["x-scope-orgid"] for one in peer.asked} == {"team-a"}


def test_without__json__texts_and_keys_and_nothing_else() -> None:
    value = {"a secret": ["a", 1, None, {"b": "secret and secret"}], "c": True}
    assert without(value, ("secret",)) == {
        "a [redacted:credential]": ["a", 1, None, {"b": "[redacted:credential] and [redacted:credential]"}],
        "c": True,
    }


def test_run__large_answer__is_cleared_as_well(tree: Tree, peer: Peer) -> None:
    make_grant(tree.payments, NAME, ["127.0.0.1"])
    large = {"padding": "x" * 200_000, "error": f"no, {VALUE}"}
    peer.respond = lambda _: answer({"status": "success", "data": [large], "error": VALUE})
    configure(tree, peer.url)
    run_of(tree)
    assert peer.asked
    assert "hunter2" not in everything_stored()
