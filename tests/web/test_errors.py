"""Error pages and problem documents."""

from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client, RequestFactory
from pytest_django import DjangoAssertNumQueries

from controlplane.core.errors import Unavailable
from tests.web.support import Person
from web import errors


def test_unknown_path__page_for_people__problem_for_programs(anonymous: Client) -> None:
    page = anonymous.get("/nothing/here")
    problem = anonymous.get("/api/v1/nothing")
    assert (page.status_code, page["Content-Type"]) == (404, "text/html; charset=utf-8")
    assert "There is nothing here" in page.content.decode()
    assert (problem.status_code, problem["Content-Type"]) == (404, "application/problem+json")
    assert problem.json()["code"] == "not_found"


def test_error_page__has_the_policy_and_nothing_inline(anonymous: Client) -> None:
    page = anonymous.get("/nothing/here")
    assert "default-src 'none'" in page["Content-Security-Policy"]
    assert "style=" not in page.content.decode()


@pytest.mark.parametrize(
    ("handler", "arguments", "status", "code"),
    [
        (errors.bad_request, (ValueError("secret"),), 400, "malformed_request"),
        (errors.permission_denied, (ValueError("secret"),), 403, "permission_denied"),
        (errors.page_not_found, (ValueError("secret"),), 404, "not_found"),
        (errors.server_error, (), 500, "internal_error"),
        (errors.csrf_failure, ("secret",), 403, "csrf_failed"),
    ],
)
def test_handlers__both_forms__without_database_and_without_the_cause(
    rf: RequestFactory,
    handler: Any,
    arguments: tuple[Any, ...],
    status: int,
    code: str,
) -> None:
    # No database fixture: a query would fail the test.
    page = handler(rf.get("/app/x"), *arguments)
    problem = handler(rf.get("/api/v1/x"), *arguments)
    assert page.status_code == problem.status_code == status
    assert f'"code":"{code}"' in problem.content.decode()
    assert "secret" not in page.content.decode() + problem.content.decode()


def test_server_error__with_a_problem__says_its_words(rf: RequestFactory) -> None:
    request = rf.get("/app/x")
    request.problem = Unavailable("The database is busy. Try again in a moment.")  # type: ignore[attr-defined]  # set by the middleware
    page = errors.server_error(request)
    assert page.status_code == 503
    assert "Try again in a moment" in page.content.decode()


def test_page__database_busy__is_an_error_page(responder: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: Any, **__: Any) -> None:
        raise OperationalError("database is locked")

    monkeypatch.setattr("web.views.runs.runs_page", busy)
    answer = responder.client.get("/app/runs")
    assert answer.status_code == 503
    assert "The database is busy" in answer.content.decode()


def test_page__unexpected_failure__is_a_page_without_its_text(
    responder: Person, monkeypatch: pytest.MonkeyPatch, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise RuntimeError("do not show this")

    monkeypatch.setattr("web.views.runs.runs_page", broken)
    responder.client.raise_request_exception = False
    answer = responder.client.get("/app/runs")
    assert answer.status_code == 500
    assert "do not show this" not in answer.content.decode()
    assert "It has been logged" in answer.content.decode()
