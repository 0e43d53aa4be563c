"""Refused requests in the security stream: who, by which route, why; and a flood of them."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
import time_machine
from django.conf import settings as django_settings
from django.db import connection, transaction
from django.test import Client, override_settings
from django.test.utils import CaptureQueriesContext

from controlplane.access import tokens
from controlplane.access.services import token_revoke
from controlplane.audit.models import INSTALLATION, AuditEvent, SecurityEvent, SecurityKind
from controlplane.audit.security_stream import stream
from controlplane.audit.selectors import audit_verify
from controlplane.audit.services import audit_record
from controlplane.core import clock
from controlplane.core.actor import Role
from controlplane.core.ids import new_id
from tests.factories import Tree, api_client, make_personal_token, make_team_token, make_token, make_user
from tests.support.server import Server, serving

THREAD = "01a23035-dc4f-7256-8d50-3ed7f5b9eedd"
NODE = "/api/v1/orgs/demo/nodes/payments"


def noted(**wanted: Any) -> list[SecurityEvent]:
    stream.write(everything=True)
    return list(SecurityEvent.objects.filter(**wanted).order_by("id"))


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("method", "path", "kind", "route", "code"),
    [
        ("delete", NODE, SecurityKind.DENIED, "node", "permission_denied"),
        ("get", "/api/v1/orgs/rival/nodes/payments", SecurityKind.NOT_VISIBLE, "node", "not_found"),
        ("get", f"/api/v1/threads/{THREAD}", SecurityKind.NOT_VISIBLE, "thread", "not_found"),
        ("get", "/app/audit", SecurityKind.DENIED, "web:audit", "permission_denied"),
        ("get", f"/app/threads/{THREAD}", SecurityKind.NOT_VISIBLE, "web:thread", "not_found"),
    ],
)
def test_refusal__member__route_code_and_who(
    tree: Tree, other_tree: Tree, method: str, path: str, kind: str, route: str, code: str
) -> None:
    user = make_user(tree.payments, Role.VIEWER)
    answer = getattr(api_client(user=user), method)(path, headers={"Accept": "*/*"})
    (row,) = noted()
    assert answer.status_code == (403 if kind == SecurityKind.DENIED else 404)
    assert (row.kind, row.action, row.code) == (kind, route, code)
    assert (row.organization_id, row.actor, row.actor_label) == (tree.organization.pk, f"user:{user.pk}", user.username)
    assert (row.address, row.count, row.object_id) == ("127.0.0.1", 1, "")


def revoked(tree: Tree) -> str:
    issued = make_token(tree.payments)
    token_revoke(actor=tree.system, token=issued.token)
    return issued.plaintext


def other_secret(tree: Tree) -> str:
    found = tokens.parse(make_team_token(tree.payments))
    assert found is not None
    return tokens.TokenText(found.kind, found.public_id, tokens.issue("team").secret).plaintext


CREDENTIALS: dict[str, Callable[[Tree], str]] = {
    "token_revoked": revoked,
    "token_expired": lambda tree: make_token(tree.payments, expires_at=clock.now() + timedelta(hours=1)).plaintext,
    "token_wrong": other_secret,
    "address_refused": lambda tree: make_token(tree.payments, allowed_addresses=["198.51.100.0/24"]).plaintext,
}


@pytest.mark.django_db
@pytest.mark.parametrize("reason", CREDENTIALS)
def test_refusal__known_credential__whose_it_is_and_why_below_its_node(tree: Tree, reason: str) -> None:
    plaintext = CREDENTIALS[reason](tree)
    found = tokens.parse(plaintext)
    assert found is not None
    with time_machine.travel(clock.now() + timedelta(hours=2), tick=False):
        answer = api_client(token=plaintext).get("/api/v1/me")
        (row,) = noted(kind=SecurityKind.NOT_AUTHENTICATED)
    assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated")
    assert (row.code, row.action, row.credential_id) == (reason, "me", found.public_id)
    assert (row.organization_id, row.node_id) == (tree.organization.pk, tree.payments.pk)
    assert reason not in answer.content.decode()


@pytest.mark.django_db
def test_refusal__known_and_unknown_credential__the_same_statements(tree: Tree) -> None:
    """Otherwise a stopwatch tells which ids exist."""
    shapes = []
    for plaintext in (tokens.issue("team").plaintext, other_secret(tree), revoked(tree)):
        client = api_client(token=plaintext)
        with CaptureQueriesContext(connection) as captured:
            assert client.get("/api/v1/me").status_code == 401
        shapes.append([query["sql"].split(" WHERE")[0] for query in captured if "ratewindow" not in query["sql"]])
    assert shapes[0] == shapes[1] == shapes[2]


@pytest.mark.django_db
def test_refusal__anonymous__unknown_paths_and_refused_ones_are_not_noted(tree: Tree) -> None:
    for path in ("/wp-login.php", "/app/nothing", "/api/v1/nothing", "/api/v1/me", f"{NODE}/config"):
        assert Client().get(path).status_code in {401, 404}
        assert api_client(token=tokens.issue("team").plaintext).get(path).status_code in {401, 404}
    assert noted() == []


@pytest.mark.django_db
@override_settings(RATE_LIMITS={"requests": "2/minute", "failed_tokens": "2/minute"})
def test_refusal__too_often__by_actor_or_by_address(tree: Tree) -> None:
    user = make_user(tree.payments, Role.VIEWER)
    for client in (api_client(user=user), api_client(token=tokens.issue("team").plaintext)):
        answers = [client.get("/api/v1/me").status_code for _ in range(4)]
        assert answers[-1] == 429
    of_person, of_address = noted(kind=SecurityKind.LIMITED)
    assert (of_person.actor, of_person.code, of_person.action) == (f"user:{user.pk}", "rate_limited", "me")
    assert (of_address.actor, of_address.organization_id) == ("anonymous", INSTALLATION)
    assert of_address.address == "127.0.0.1"


@pytest.mark.django_db
def test_refusal__session_without_csrf_token__noted_with_its_code(tree: Tree) -> None:
    user = make_user(tree.payments, Role.ADMIN)
    answer = api_client(user=user, enforce_csrf_checks=True).post(f"{NODE}/tokens", {"name": "x"})
    (row,) = noted()
    assert (answer.status_code, row.code, row.actor) == (403, "csrf_failed", f"user:{user.pk}")


@pytest.mark.django_db
def test_refusal__accepted_and_invalid_requests__cost_and_note_nothing(tree: Tree) -> None:
    client = api_client(token=make_team_token(tree.payments))
    client.get("/api/v1/me")
    with CaptureQueriesContext(connection) as captured:
        assert client.get("/api/v1/me").status_code == 200
        assert client.get(f"{NODE}/config", {"nonsense": 1}).status_code == 400
    assert not [query for query in captured if "audit_" in query["sql"]]
    assert noted() == []


@pytest.mark.django_db
def test_refusal__first_of_its_kind__one_statement_and_its_repetition_none(tree: Tree) -> None:
    client = api_client(user=make_user(tree.payments, Role.VIEWER))
    written = []
    with time_machine.travel(clock.now(), tick=False):
        for _ in range(2):
            with CaptureQueriesContext(connection) as captured:
                assert client.post(f"{NODE}/tokens", {"name": "x"}).status_code == 403
            written.append([query["sql"] for query in captured if "audit_" in query["sql"]])
    assert [len(statements) for statements in written] == [1, 0]
    assert written[0][0].startswith('INSERT INTO "audit_securityevent"')


@pytest.mark.django_db
def test_flood__thousand_refused_requests__few_rows_few_statements_and_the_chain_untouched(tree: Tree) -> None:
    people = [make_user(tree.payments, Role.VIEWER) for _ in range(2)]
    clients = [api_client(token=make_personal_token(user, tree.payments, ["runs:read"])) for user in people]
    paths = [
        "/api/v1/orgs/demo/token-policy",
        "/api/v1/orgs/demo/audit",
        *(f"/api/v1/threads/{new_id()}" for _ in range(8)),
    ]
    start = clock.now()
    touching: list[str] = []

    def watch(execute: Any, sql: str, *arguments: Any) -> Any:
        if "audit_" in sql:
            touching.append(sql)
        return execute(sql, *arguments)

    with time_machine.travel(start, tick=False) as time, connection.execute_wrapper(watch):
        for number in range(1000):
            if number % 100 == 0:
                time.move_to(start + timedelta(seconds=number // 100))
            assert clients[number % 2].get(paths[number % 10]).status_code in {403, 404}
        stream.write(everything=True)
    assert not [sql for sql in touching if "audit_audithead" in sql or "audit_auditevent" in sql], "no lock, no row"
    assert len(touching) < 40, "a new row each, and counts every few seconds"
    rows = noted()
    assert len(rows) <= 6
    assert sum(row.count for row in rows) == 1000
    with CaptureQueriesContext(connection) as captured, transaction.atomic():
        audit_record(
            actor=tree.system, organization_id=tree.organization.pk, action="a.b", object_kind="x", object_id="1"
        )
    assert len([query for query in captured if "audit_" in query["sql"]]) <= 3, "head locked, event, head moved"
    assert audit_verify(tree.organization.pk).intact


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.mark.django_db(transaction=True)
def test_refusal__hot_routes_over_a_server__noted_from_the_event_loop(server: Server, tree: Tree) -> None:
    expired = revoked(tree)
    live = make_team_token(tree.payments, ["config:read"])
    viewer = api_client(user=make_user(tree.platform, None))
    cookie = {django_settings.SESSION_COOKIE_NAME: viewer.cookies[django_settings.SESSION_COOKIE_NAME].value}
    thread = f"/api/v1/threads/{new_id()}/stream"

    def status(path: str, token: str = "", cookies: dict[str, str] | None = None) -> int:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.get(server.url + path, headers=headers, cookies=cookies, timeout=20).status_code

    assert status("/api/v1/config/me", expired) == 401
    assert status("/api/v1/config/me", make_team_token(tree.payments, ["runs:read"])) == 403
    assert status("/api/v1/config/me", live) == 200
    assert status(thread, expired) == 401
    assert status(thread, live) in {403, 404}
    assert status(thread, cookies=cookie) == 404
    assert status(thread) == 401
    rows = {(row.action, row.kind, row.code) for row in noted(organization_id=tree.organization.pk)}
    assert rows == {
        ("config-me", "not_authenticated", "token_revoked"),
        ("config-me", "denied", "permission_denied"),
        ("thread-stream", "not_authenticated", "token_revoked"),
        ("thread-stream", "not_visible", "not_found"),
    }
    assert not AuditEvent.objects.filter(action__startswith="thread").exists()


@pytest.mark.django_db(transaction=True)
def test_refusal__server_stops__what_was_not_written_is(tree: Tree) -> None:
    plaintext = revoked(tree)
    headers = {"Authorization": f"Bearer {plaintext}"}
    with serving() as running:
        for _ in range(3):
            assert httpx.get(f"{running.url}/api/v1/me", headers=headers, timeout=20).status_code == 401
        assert not SecurityEvent.objects.exists()
    rows = SecurityEvent.objects.all()
    assert {row.code for row in rows} == {"token_revoked"}
    assert sum(row.count for row in rows) == 3
