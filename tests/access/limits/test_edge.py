"""Limits as callers meet them."""

import pytest
from django.test import Client, override_settings
from pytest_django import DjangoAssertNumQueries

from controlplane.access import metrics, tokens
from controlplane.access.limits.limiter import limiter
from controlplane.core.actor import Role
from tests.factories import Tree, api_client, make_admin_token, make_team_token, make_user

ME = "/api/v1/me"


def bad_token() -> str:
    return tokens.issue("team").plaintext


@override_settings(RATE_LIMITS={"requests": "3/minute"})
def test_requests__over_the_limit__problem_with_retry_after(tree: Tree) -> None:
    client = api_client(token=make_team_token(tree.payments))
    assert [client.get(ME).status_code for _ in range(3)] == [200] * 3
    before = metrics.rate_limited_total.labels("requests")._value.get()
    answer = client.get(ME)
    assert answer.status_code == 429
    assert answer["Content-Type"] == "application/problem+json"
    problem = answer.json()
    assert (problem["code"], problem["rule"]) == ("rate_limited", "requests")
    assert answer["Retry-After"] == str(problem["retry_after_s"])
    assert 1 <= int(answer["Retry-After"]) <= 60
    assert answer["RateLimit-Policy"] == '"requests";q=3;w=60'
    assert answer["RateLimit"] == f'"requests";r=0;t={answer["Retry-After"]}'
    assert metrics.rate_limited_total.labels("requests")._value.get() == before + 1
    # another token of the same team goes on
    assert api_client(token=make_team_token(tree.payments)).get(ME).status_code == 200


@override_settings(RATE_LIMITS={"requests": "3/minute"})
def test_requests__person__is_counted_over_pages_and_api(tree: Tree) -> None:
    user = make_user(tree.root, Role.OWNER)
    client = api_client(user=user)
    assert [client.get(path).status_code for path in (ME, "/app/runs", ME)] == [200] * 3
    page = client.get("/app/runs")
    assert page.status_code == 429
    assert page["Retry-After"]
    assert "Too many requests" in page.content.decode()
    assert api_client(user=make_user(tree.root)).get(ME).status_code == 200


@override_settings(RATE_LIMITS={"failed_tokens": "3/minute"})
def test_failed_tokens__one_address__is_stopped_before_anything_is_looked_up(
    tree: Tree, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    fresh = make_team_token(tree.payments)
    client = api_client(token=bad_token())
    assert [client.get(ME).status_code for _ in range(3)] == [401] * 3
    assert client.get(ME).status_code == 429
    with django_assert_num_queries(0):
        assert api_client(token=bad_token()).get(ME).status_code == 429
        assert api_client(token="osre_team_nonsense").get(ME).status_code == 429
        assert api_client(token=fresh).get(ME).status_code == 429
    # from another address nothing has happened, and whoever has no token is asked for one as ever
    assert api_client(token=fresh).get(ME, REMOTE_ADDR="192.0.2.9").status_code == 200
    assert api_client().get(ME).status_code == 401


@override_settings(RATE_LIMITS={"failed_tokens": "3/minute"})
def test_failed_tokens__neighbour_that_was_good__stays_good(tree: Tree) -> None:
    neighbour = api_client(token=make_team_token(tree.payments))
    assert neighbour.get(ME).status_code == 200
    for _ in range(5):
        api_client(token=bad_token()).get(ME)
    assert neighbour.get(ME).status_code == 200


@override_settings(RATE_LIMITS={"failed_tokens": "3/minute"})
def test_failed_tokens__forwarded_headers__change_nothing(db: None) -> None:
    client = api_client(token=bad_token())
    answers = [
        client.get(ME, headers={"X-Forwarded-For": f"198.51.100.{number}", "Forwarded": f"for=198.51.100.{number}"})
        for number in range(4)
    ]
    assert [answer.status_code for answer in answers] == [401, 401, 401, 429]


@override_settings(RATE_LIMITS={"failed_tokens": "3/minute"})
def test_failed_tokens__unknown_wrong_and_malformed__look_the_same(tree: Tree) -> None:
    good = make_team_token(tree.payments)
    wrong = tokens.TokenText("team", good.split("_")[2], "x" * tokens.SECRET_LENGTH).plaintext
    answers = [api_client(token=text).get(ME) for text in (bad_token(), wrong, "nonsense", wrong)]
    assert [answer.status_code for answer in answers] == [401, 401, 401, 429]
    assert len({answer.content for answer in answers[:3]}) == 1


@pytest.mark.parametrize(
    ("rule", "path", "method"),
    [
        ("resolve", "/api/v1/orgs/demo/nodes/payments/config/effective?resolve=true", "get"),
        ("previews", "/api/v1/orgs/demo/nodes/payments/config?dry_run=true", "put"),
        ("exports", "/api/v1/orgs/demo/audit?format=csv", "get"),
        ("connection_tests", "/api/v1/orgs/demo/nodes/payments/integrations/prometheus/test", "post"),
        ("alerts", "/api/v1/alerts/alertmanager", "post"),
        ("investigations", "/api/v1/investigations", "post"),
    ],
)
def test_expensive_call__over_its_limit__is_refused_alone(tree: Tree, rule: str, path: str, method: str) -> None:
    scopes = ["admin:*", "config:resolve", "config:write", "alerts:ingest", "runs:create", "config:read"]
    client = api_client(token=make_admin_token(tree.root, scopes))
    with override_settings(RATE_LIMITS={rule: "1/minute"}):
        first = getattr(client, method)(path, {}, format="json") if method != "get" else client.get(path)
        assert first.status_code != 429
        second = getattr(client, method)(path, {}, format="json") if method != "get" else client.get(path)
        assert (second.status_code, second.json()["rule"]) == (429, rule)
        assert client.get(ME).status_code == 200


def test_page__expensive__is_refused_with_a_page(tree: Tree) -> None:
    client = Client()
    client.force_login(make_user(tree.payments, Role.RESPONDER))
    with override_settings(RATE_LIMITS={"investigations": "1/minute"}):
        client.post("/app/new", {"prompt": ""})
        answer = client.post("/app/new", {"prompt": "Why is checkout slow?"})
    assert answer.status_code == 429
    assert "investigations started by one token or person" in answer.content.decode()


def test_limits__requests_of_no_credential_and_probes__are_not_counted(db: None) -> None:
    for _ in range(3):
        api_client().get(ME)
        Client().get("/livez")
    assert limiter._shares == {}
