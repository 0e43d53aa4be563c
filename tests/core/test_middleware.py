import json
import re
from typing import Any

import pytest
import structlog
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.test import AsyncClient, Client
from structlog.testing import capture_logs

from controlplane.core import metrics
from controlplane.core.middleware import RequestContextMiddleware, error_page
from controlplane.core.rest import error_of_status

pytestmark = pytest.mark.urls("tests.core.urls")

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


@pytest.fixture
def client() -> Client:
    return Client(raise_request_exception=False)


def problem_of(response: Any) -> dict[str, Any]:
    assert response["Content-Type"] == "application/problem+json"
    document: dict[str, Any] = json.loads(response.content)
    assert document["status"] == response.status_code
    return document


def observed(method: str, route: str, status: int) -> float:
    labels = {"method": method, "route": route, "status": str(status)}
    return metrics.registry.get_sample_value("opensre_http_request_duration_seconds_count", labels) or 0.0


# ---- context -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/context", "/context-async"])
def test_request_id__any_view__is_bound_and_answered_and_cleared(client: Client, path: str) -> None:
    response = client.get(path, headers={"X-Request-ID": "mine"})
    assert UUID7.fullmatch(response["X-Request-ID"])
    assert response.content.decode() == response["X-Request-ID"]
    assert structlog.contextvars.get_contextvars() == {}


@pytest.mark.parametrize("path", ["/context", "/context-async"])
async def test_request_id__served_asynchronously__is_bound_in_the_view_too(path: str) -> None:
    response = await AsyncClient().get(path)
    assert response.content.decode() == response["X-Request-ID"]
    assert structlog.contextvars.get_contextvars() == {}


def test_request_id__left_over_context__does_not_reach_the_next_request(client: Client) -> None:
    structlog.contextvars.bind_contextvars(actor="somebody else")
    with capture_logs(processors=[structlog.contextvars.merge_contextvars]) as lines:
        response = client.get("/api/ok")
    assert [(line["event"], line.get("actor"), line["request_id"]) for line in lines] == [
        ("http.request", None, response["X-Request-ID"])
    ]


def test_request_log__any_answer__names_the_route_and_never_the_path(client: Client) -> None:
    with capture_logs() as lines:
        client.get("/api/unnamed/4711?token=abc")
        client.get("/nowhere/4711")
    assert [(line["route"], line["status"]) for line in lines] == [
        ("api/unnamed/<int:number>", 200),
        ("unmatched", 404),
    ]
    assert "4711" not in str(lines)
    assert "abc" not in str(lines)


def test_request_log__health_routes__are_left_out(client: Client) -> None:
    with capture_logs() as lines:
        client.get("/livez")
    assert lines == []


@pytest.mark.django_db
def test_request_metric__answered_request__is_counted_by_route_and_status(client: Client) -> None:
    before = observed("GET", "api:ok", 200), observed("GET", "api:fail", 409)
    client.get("/api/ok")
    client.get("/api/fail/app")
    assert (observed("GET", "api:ok", 200), observed("GET", "api:fail", 409)) == (before[0] + 1, before[1] + 1)


@pytest.mark.django_db
def test_request_metric__made_up_method__counts_as_other(client: Client) -> None:
    before = observed("other", "api:ok", 200)
    client.generic("BREW", "/api/ok")
    assert observed("other", "api:ok", 200) == before + 1


async def test_middleware__async_chain__adds_no_change_of_thread() -> None:
    async def view(_request: HttpRequest) -> HttpResponseBase:
        return HttpResponse("ok")

    request = HttpRequest()
    request.method = "GET"
    pending = RequestContextMiddleware(view)(request)
    with pytest.raises(StopIteration) as finished:  # one step to the end: nothing was awaited that had to wait
        pending.send(None)
    assert finished.value.value.content == b"ok"


# ---- problems ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/api/fail/busy", 503, "database_busy"),
        ("/api/fail/app", 409, "slug_taken"),
        ("/api/fail/missing", 404, "not_found"),
        ("/api/fail/denied", 403, "permission_denied"),
        ("/api/fail/bug", 500, "internal_error"),
        ("/api/unserializable", 500, "internal_error"),
        ("/api/nowhere", 404, "not_found"),
        ("/api/locked-session", 503, "database_busy"),
    ],
)
def test_problem__error_under_api__is_a_problem_document(client: Client, path: str, status: int, code: str) -> None:
    response = client.get(path)
    assert response.status_code == status
    problem = problem_of(response)
    assert problem["code"] == code
    assert "secret" not in response.content.decode()
    assert int(response["Content-Length"]) == len(response.content)


@pytest.mark.parametrize("path", ["/api/fail/busy", "/api/locked-session", "/api/nowhere"])
async def test_problem__served_asynchronously__is_the_same(path: str) -> None:
    response = await AsyncClient(raise_request_exception=False).get(path)
    assert problem_of(response)["code"] in {"database_busy", "not_found"}


def test_problem__host_not_allowed__is_a_problem_under_api(client: Client, settings: Any) -> None:
    settings.ALLOWED_HOSTS = ["opensre.example"]
    assert problem_of(client.get("/api/ok", headers={"Host": "evil.example"}))["code"] == "malformed_request"


def test_problem__missing_csrf_token_of_a_plain_view__is_a_problem_under_api() -> None:
    response = Client(enforce_csrf_checks=True).post("/api/protected")
    assert response.status_code == 403
    assert problem_of(response)["code"] == "csrf_failed"


def test_problem__busy_database__keeps_the_security_headers(client: Client) -> None:
    for path in ("/api/fail/busy", "/app/fail/busy", "/app/locked-session"):
        response = client.get(path)
        assert response["Retry-After"] == "1"
        assert response["X-Content-Type-Options"] == "nosniff"
        assert "default-src 'none'" in response["Content-Security-Policy"]
        assert response["X-Request-ID"]


@pytest.mark.parametrize("path", ["/app/fail/busy", "/app/locked-session"])
def test_page__busy_database__is_the_error_page_with_503(client: Client, path: str) -> None:
    response = client.get(path)
    assert (response.status_code, response.content) == (503, b"<h1>page: database_busy</h1>")
    assert response["Content-Type"].startswith("text/html")


def test_page__application_error__has_its_status_and_reaches_the_page(client: Client) -> None:
    response = client.get("/app/fail/app")
    assert (response.status_code, response.content) == (409, b"<h1>page: slug_taken</h1>")


@pytest.mark.parametrize(("kind", "status"), [("missing", 404), ("denied", 403), ("bug", 500)])
def test_page__other_errors__stay_with_the_handlers_of_django(client: Client, kind: str, status: int) -> None:
    response = client.get(f"/app/fail/{kind}")
    assert response.status_code == status
    assert b"secret" not in response.content


def test_page__that_needs_the_database_itself__falls_back_to_a_sentence(client: Client) -> None:
    response = client.get("/app/fail/busy?broken=1")
    assert response.status_code == 503
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert response.content.decode() == "The database is busy. Try again in a moment."


def test_error_page__error_with_headers__passes_them_on() -> None:
    assert error_page(HttpRequest(), error_of_status(401)).headers["WWW-Authenticate"].startswith("Bearer")
