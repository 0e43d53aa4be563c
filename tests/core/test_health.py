import json
from typing import Any

import pytest
from django.db import OperationalError, connections
from django.test import Client

from controlplane.core import health

pytestmark = pytest.mark.urls("tests.core.urls")


@pytest.fixture(autouse=True)
def own_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out what the applications registered: their parts do not run here."""
    monkeypatch.setattr(health, "_probes", {})
    monkeypatch.setattr(health, "_migrated", set())


@pytest.fixture
def dead_database(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any, **_kwargs: Any) -> None:
        raise OperationalError('connection to "db.internal", user "opensre" failed')

    monkeypatch.setattr(connections["default"], "cursor", refuse)


def checks_of(client: Client, status: int) -> dict[str, str]:
    response = client.get("/readyz")
    assert response.status_code == status
    body = json.loads(response.content)
    assert set(body) == {"status", "checks", "warnings"}
    assert set(body["warnings"].values()) <= {"ok"}
    assert body["status"] == ("ok" if status == 200 else "unavailable")
    return dict(body["checks"])


def test_livez__no_database_access_allowed__answers_ok(client: Client) -> None:
    response = client.get("/livez")
    assert (response.status_code, response.json()) == (200, {"status": "ok"})
    assert "no-store" in response["Cache-Control"]


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics"])
def test_health__unsafe_method__is_not_allowed(client: Client, path: str) -> None:
    assert client.post(path).status_code == 405


@pytest.mark.django_db
def test_readyz__migrated_database__is_ready(client: Client) -> None:
    assert checks_of(client, 200) == {"database": "ok", "migrations": "ok"}


@pytest.mark.django_db
def test_readyz__second_time__asks_for_the_migrations_no_more(client: Client, django_assert_num_queries: Any) -> None:
    checks_of(client, 200)
    with django_assert_num_queries(2):  # does it answer; is a chain of the audit log broken
        checks_of(client, 200)


@pytest.mark.django_db
def test_readyz__migration_not_applied__is_not_ready(client: Client) -> None:
    with connections["default"].cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE app = 'sessions'")
    assert checks_of(client, 503) == {"database": "ok", "migrations": "failed"}


@pytest.mark.django_db
def test_readyz__dead_database__is_not_ready_and_says_nothing_of_it(client: Client, dead_database: None) -> None:
    assert checks_of(client, 503) == {"database": "failed", "migrations": "failed"}
    assert b"internal" not in client.get("/readyz").content


@pytest.mark.django_db
def test_readyz__warning__degraded_yet_ready(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_warnings", {})
    health.register_warning("audit", lambda: False)
    response = client.get("/readyz")
    assert (response.status_code, response.json()["status"]) == (200, "degraded")
    assert response.json()["warnings"] == {"audit": "failed"}


@pytest.mark.django_db
def test_readyz__registered_probes__are_asked_by_name(client: Client) -> None:
    def broken() -> bool:
        raise RuntimeError("secret")

    health.register("hub", lambda: True)
    health.register("worker", lambda: False)
    health.register("bus", broken)
    assert checks_of(client, 503) == {
        "database": "ok", "migrations": "ok", "hub": "ok", "worker": "failed", "bus": "failed",
    }  # fmt: skip
    health.unregister("worker")
    health.unregister("bus")
    health.unregister("bus")
    assert checks_of(client, 200)["hub"] == "ok"


@pytest.mark.parametrize("address", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1"])
@pytest.mark.django_db
def test_metrics__client_on_this_machine__gets_them(client: Client, address: str) -> None:
    response = client.get("/metrics", REMOTE_ADDR=address)
    assert response.status_code == 200
    assert response["Content-Type"].startswith("text/plain; version=0.0.4")
    assert b"# TYPE opensre_http_request_duration_seconds histogram" in response.content


@pytest.mark.parametrize("address", ["10.0.0.1", "::ffff:10.0.0.1", "", "unix:", "2001:db8::1"])
def test_metrics__client_elsewhere_without_token__is_told_that_there_is_nothing(client: Client, address: str) -> None:
    assert client.get("/metrics", REMOTE_ADDR=address).status_code == 404
    assert client.get("/metrics", REMOTE_ADDR=address, headers={"Authorization": "Bearer "}).status_code == 404


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP", "X-Forwarded-Host"])
def test_metrics__proxy_on_this_machine__counts_as_elsewhere(client: Client, header: str) -> None:
    assert client.get("/metrics", headers={header: "127.0.0.1"}).status_code == 404


@pytest.mark.django_db
def test_metrics__client_elsewhere__needs_the_exact_token(client: Client, settings: Any) -> None:
    settings.METRICS_TOKEN = "scrape-me-please"

    def status(authorization: str) -> int:
        return client.get("/metrics", REMOTE_ADDR="10.0.0.1", headers={"Authorization": authorization}).status_code

    assert status("Bearer scrape-me-please") == status("bearer scrape-me-please") == 200
    assert {status("Bearer scrape-me"), status("Bearer ü"), status("Basic scrape-me-please"), status("")} == {404}
