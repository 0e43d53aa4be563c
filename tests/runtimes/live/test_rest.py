"""The endpoints of integrations: who may, what they answer, what they never show."""

import json
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.audit.models import AuditEvent
from controlplane.core.actor import Role
from controlplane.orgs.models import Node
from tests.configs.support import put
from tests.factories import (
    Tree,
    api_client,
    make_admin_token,
    make_operator,
    make_personal_token,
    make_team_token,
    make_user,
)
from tests.runtimes.live.peer import Asked, Peer, PrometheusStub, Raw, answer, failure, serving, success

pytestmark = pytest.mark.django_db

CLIENTS: dict[str, tuple[Callable[[Tree], APIClient], int, int]] = {
    "nobody's role": (lambda tree: api_client(user=make_user(tree.root, None)), 404, 404),
    "viewer": (lambda tree: api_client(user=make_user(tree.payments, Role.VIEWER)), 200, 403),
    "reviewer": (lambda tree: api_client(user=make_user(tree.payments, Role.REVIEWER)), 200, 403),
    "responder": (lambda tree: api_client(user=make_user(tree.payments, Role.RESPONDER)), 200, 403),
    "admin": (lambda tree: api_client(user=make_user(tree.payments, Role.ADMIN)), 200, 200),
    "owner": (lambda tree: api_client(user=make_user(tree.root, Role.OWNER)), 200, 200),
    "operator": (lambda _: api_client(user=make_operator()), 404, 404),
    "sibling's admin": (lambda tree: api_client(user=make_user(tree.platform, Role.ADMIN)), 404, 404),
    "team token": (lambda tree: api_client(token=make_team_token(tree.payments)), 200, 403),
    "team token that writes": (
        lambda tree: api_client(token=make_team_token(tree.payments, ["config:write"])),
        200,
        200,
    ),
    "team token for runs": (lambda tree: api_client(token=make_team_token(tree.payments, ["runs:read"])), 403, 403),
    "team token for alerts": (
        lambda tree: api_client(token=make_team_token(tree.payments, ["alerts:ingest"])),
        404,
        404,
    ),
    "admin token": (lambda tree: api_client(token=make_admin_token(tree.payments)), 200, 200),
    "full token of a viewer": (
        lambda tree: api_client(
            token=make_personal_token(
                make_user(tree.payments, Role.VIEWER), tree.payments, ["config:read", "config:write"]
            )
        ),
        200,
        403,
    ),
    "nobody": (lambda _: api_client(), 401, 401),
}


@pytest.fixture
def peer() -> Iterator[Peer]:
    with serving(Peer(PrometheusStub().respond)) as made:
        yield made


def path_of(node: Node, below: str = "") -> str:
    return f"/api/v1/orgs/{node.organization.slug}/nodes/{node.slug}/integrations{below}"


def audited(node: Node) -> list[AuditEvent]:
    return list(AuditEvent.objects.filter(action="integration.test", node_id=node.pk).order_by("org_seq"))


@pytest.mark.parametrize("caller", CLIENTS)
def test_endpoints__by_each_caller__on_its_own_node_and_a_foreign_one(
    tree: Tree, other_tree: Tree, peer: Peer, caller: str
) -> None:
    for node in (tree.payments, other_tree.payments):
        put(node, {"integrations": {"mon": {"kind": "prometheus", "url": peer.url}}})
    make, reads, tests = CLIENTS[caller]
    client = make(tree)
    foreign = 401 if caller == "nobody" else 404

    assert client.get(path_of(tree.payments)).status_code == reads
    assert client.get(path_of(other_tree.payments)).status_code == foreign
    assert client.post(path_of(other_tree.payments, "/mon/test")).status_code == foreign
    assert peer.asked == []
    assert client.post(path_of(tree.payments, "/mon/test")).status_code == tests
    assert (len(peer.asked), len(audited(tree.payments))) == ((1, 1) if tests == 200 else (0, 0))
    assert audited(other_tree.payments) == []


def test_list__effective_integrations__without_credentials(tree: Tree) -> None:
    put(tree.root, {"integrations": {"prom": {"kind": "prometheus", "url": "https://prom.example.com/p"}}})
    entries = {
        "prom": {"enabled": False},
        "logs": {
            "kind": "loki",
            "url": "https://logs.example.com",
            "auth": {"type": "bearer", "token": "${OPENSRE_CRED_LOKI}"},
        },
        "chat": {"kind": "slack", "url": "https://me@chat.example.com/x?y=1#z"},
    }
    put(tree.payments, {"integrations": entries})
    response = api_client(user=make_user(tree.payments, Role.VIEWER)).get(path_of(tree.payments))

    assert response.json() == {
        "results": [
            {
                "id": "chat",
                "kind": "slack",
                "enabled": True,
                "url": "https://chat.example.com/x",
                "credential": "none",
                "problem": "is of a kind that is not read here (slack)",
            },
            {
                "id": "logs",
                "kind": "loki",
                "enabled": True,
                "url": "https://logs.example.com",
                "credential": "unresolved",
                "problem": "was not asked: the credential OPENSRE_CRED_LOKI is not granted here",
            },
            {
                "id": "prom",
                "kind": "prometheus",
                "enabled": False,
                "url": "https://prom.example.com/p",
                "credential": "none",
                "problem": "",
            },
        ],
        "next": None,
    }


def tried(tree: Tree, entry: Any) -> dict[str, Any]:
    """Return what the admin of the team gets from a test of ``entry``."""
    put(tree.payments, {"integrations": {"mon": entry}})
    response = api_client(user=make_user(tree.payments, Role.ADMIN)).post(path_of(tree.payments, "/mon/test"))
    assert response.status_code == 200
    found: dict[str, Any] = response.json()
    return found


def loki(asked: Asked) -> Raw:
    return answer({"version": "3.1.0"}) if "buildinfo" in asked.path else success(["app"])


def alertmanager(_: Asked) -> Raw:
    return answer({"cluster": {"status": "ready"}, "versionInfo": {"version": "0.27.0"}, "uptime": "2026-11-02T09:00Z"})


def thanos(asked: Asked) -> Raw:
    return Raw(404, b"no", "text/plain") if "buildinfo" in asked.path else PrometheusStub().respond(asked)


@pytest.mark.parametrize(
    ("kind", "respond", "version"),
    [
        ("prometheus", PrometheusStub().respond, "2.53.1"),
        ("prometheus", thanos, None),
        ("alertmanager", alertmanager, "0.27.0"),
        ("loki", loki, "3.1.0"),
    ],
)
def test_test__server_answers__ok_with_its_version(
    tree: Tree, peer: Peer, kind: str, respond: Callable[[Asked], Raw], version: str | None
) -> None:
    peer.respond = respond
    found = tried(tree, {"kind": kind, "url": peer.url, "enabled": False})

    title = f"{kind.title()} {version}" if version else kind.title()
    assert (found["ok"], found["code"], found["version"], found["detail"]) == (True, "ok", version, f"{title} answers.")
    assert 0 <= found["latency_ms"] < 10_000
    (event,) = audited(tree.payments)
    told = {"kind": kind, "host": peer.url.removeprefix("http://"), "ok": True, "code": "ok"}
    assert (event.object_id, json.loads(event.after_json)) == ("mon", told)


@pytest.mark.parametrize("kind", ["alertmanager", "loki"])
def test_test__another_kind_of_server__is_no_success(tree: Tree, peer: Peer, kind: str) -> None:
    found = tried(tree, {"kind": kind, "url": peer.url})

    assert (found["ok"], found["code"]) == (False, "not_found")


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://169.254.169.254/latest/meta-data", "address_denied"),
        ("http://10.0.0.1:9090", "address_private"),
        ("http://no-such-host.invalid", "host_unknown"),
    ],
)
def test_test__address_refused__is_an_answer_with_the_code(tree: Tree, url: str, code: str) -> None:
    found = tried(tree, {"kind": "prometheus", "url": url})

    assert (found["ok"], found["code"], found["version"]) == (False, code, None)
    assert "latest" not in found["detail"]
    assert [json.loads(event.after_json)["code"] for event in audited(tree.payments)] == [code]


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://10.0.0.1:9090/secret-path", "10.0.0.1:9090"),
        ("http://Inner.Example.invalid", "inner.example.invalid"),
        ("http://[fe80::1]:6379/", "[fe80::1]:6379"),
        ("http://${OPENSRE_CRED_HOST}/x", ""),
    ],
)
def test_test__each_address__its_audit_row_names_host_and_code_alone(tree: Tree, url: str, host: str) -> None:
    found = tried(tree, {"kind": "prometheus", "url": url})

    (event,) = audited(tree.payments)
    assert json.loads(event.after_json) == {"kind": "prometheus", "host": host, "ok": False, "code": found["code"]}


def test_test__nobody_listens__connection_failed(tree: Tree) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        found = tried(tree, {"kind": "loki", "url": f"http://127.0.0.1:{probe.getsockname()[1]}"})

    assert (found["ok"], found["code"]) == (False, "connection_failed")


def test_test__server_never_answers__ends_by_its_setting(tree: Tree, peer: Peer) -> None:
    peer.stall = True
    found = tried(tree, {"kind": "alertmanager", "url": peer.url, "timeout_s": 0.1})

    assert (found["ok"], found["code"]) == (False, "timeout")


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (failure(401, "unauthorized", "who are you"), "not_authenticated"),
        (failure(403, "forbidden", "not you"), "not_permitted"),
        (Raw(200, b"<html></html>", "text/html"), "not_json"),
        (answer([1, 2]), "not_json"),
        (Raw(302, b"", headers={"Location": "http://169.254.169.254/"}), "redirect_refused"),
        (failure(503, "unavailable", "Service Unavailable"), "unavailable"),
    ],
)
def test_test__server_refuses_or_is_none__says_so(tree: Tree, peer: Peer, raw: Raw, code: str) -> None:
    peer.respond = lambda _: raw
    found = tried(tree, {"kind": "prometheus", "url": peer.url})

    assert (found["ok"], found["code"]) == (False, code)


@pytest.mark.parametrize(
    ("entry", "code", "detail"),
    [
        (
            {"kind": "prometheus", "url": "URL", "auth": {"type": "bearer", "token": "${OPENSRE_CRED_PROM}"}},
            "credential_unresolved",
            "This integration was not asked: the credential OPENSRE_CRED_PROM is not granted here.",
        ),
        ({"kind": "prometheus"}, "not_testable", "This integration has no URL."),
        ({"kind": "fax"}, "not_testable", "This integration is of a kind that is not read here (fax)."),
    ],
)
def test_test__cannot_be_asked__nothing_is_sent(
    tree: Tree, peer: Peer, entry: dict[str, Any], code: str, detail: str
) -> None:
    found = tried(
        tree, {key: value.replace("URL", peer.url) if key == "url" else value for key, value in entry.items()}
    )

    assert found == {"ok": False, "latency_ms": None, "version": None, "detail": detail, "code": code}
    assert peer.asked == []


@pytest.mark.parametrize("name", ["other", "mon ", "%2e%2e"])
def test_test__unknown_id__404(tree: Tree, name: str) -> None:
    put(tree.payments, {"integrations": {"mon": {"kind": "loki"}}})
    response = api_client(user=make_user(tree.payments, Role.ADMIN)).post(path_of(tree.payments, f"/{name}/test"))

    assert (response.status_code, response.json()["code"]) == (404, "unknown_integration")
    assert audited(tree.payments) == []


def test_endpoints__unknown_parameter__400(tree: Tree) -> None:
    client = api_client(user=make_user(tree.payments, Role.ADMIN))
    assert client.get(path_of(tree.payments, "?all=1")).status_code == 400
    assert client.post(path_of(tree.payments, "/mon/test?dry_run=1")).status_code == 400
