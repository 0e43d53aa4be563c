"""The hot route of a runtime's configuration answers what the Django view answers, and less often asks the database."""

import asyncio
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext, override_settings

from controlplane.access.models import AccessToken, RateWindow
from controlplane.configs import hot
from controlplane.configs.cache import effective_cache
from controlplane.configs.selectors import Link
from controlplane.configs.services import config_patch
from controlplane.core import clock
from controlplane.core.hot_query import statement
from tests.factories import Tree, make_admin_token, make_personal_token, make_team_token, make_user
from tests.support.server import Server, serving

pytestmark = pytest.mark.django_db(transaction=True)
PATH = "/api/v1/config/me/effective"


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture
def configured(tree: Tree) -> Tree:
    config_patch(actor=tree.system, node=tree.root, patch={"limits": {"max_turns": 10}, "note": "ü"})
    config_patch(actor=tree.system, node=tree.payments, patch={"limits": {"max_turns": 20}})
    return tree


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def without_time(answer: Any) -> dict[str, Any]:
    body: dict[str, Any] = answer.json()
    return {name: value for name, value in body.items() if name != "computed_at"}


@pytest.mark.parametrize("path", sorted(hot.PATHS))
def test_hot_route__valid_token__answers_as_the_view_does(
    configured: Tree, server: Server, client: Client, path: str
) -> None:
    for token in (make_team_token(configured.payments), make_admin_token(configured.engineering)):
        fast = httpx.get(f"{server.url}{path}", headers=bearer(token))
        slow = client.get(path, headers=bearer(token))
        assert fast.status_code == slow.status_code == 200
        assert without_time(fast) == without_time(slow)
        for name in ("etag", "cache-control", "content-type"):
            assert fast.headers[name] == slow.headers[name]
        assert "x-request-id" not in fast.headers  # which Django's answers have: this one did not come from there


def test_hot_route__same_version_again__is_304_without_a_body(configured: Tree, server: Server) -> None:
    headers = bearer(make_team_token(configured.payments))
    first = httpx.get(f"{server.url}{PATH}", headers=headers)
    again = httpx.get(f"{server.url}{PATH}", headers=headers | {"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])


def test_hot_route__write_anywhere_on_the_chain__is_seen_at_once(configured: Tree, server: Server) -> None:
    headers = bearer(make_team_token(configured.payments))
    url = f"{server.url}{PATH}"
    before = httpx.get(url, headers=headers)
    config_patch(actor=configured.system, node=configured.root, patch={"note": "new"})
    after = httpx.get(url, headers=headers | {"If-None-Match": before.headers["etag"]})
    assert after.status_code == 200
    assert after.json()["effective_config"]["note"] == "new"
    assert after.json()["effective_config"]["limits"] == {"max_turns": 20}


@pytest.mark.parametrize("change", ["revoked", "expired", "no scope", "wrong secret", "unknown", "personal", "nothing"])
def test_hot_route__what_is_unusual__is_refused_in_the_view_s_words(
    configured: Tree, server: Server, client: Client, change: str
) -> None:
    token = make_team_token(configured.payments, ["runs:create"] if change == "no scope" else None)
    rows = AccessToken.objects.all()
    if change == "revoked":
        rows.update(revoked_at=clock.now())
    elif change == "expired":
        rows.update(expires_at=clock.now() - timedelta(seconds=1))
    elif change == "unknown":
        rows.delete()
    elif change == "wrong secret":
        other = make_team_token(configured.platform)
        rows.filter(node=configured.payments).delete()
        token = other.replace(other.split("_")[2], token.split("_")[2])
    elif change == "personal":
        token = make_personal_token(make_user(configured.payments), configured.payments)
    headers = {} if change == "nothing" else bearer(token)
    fast = httpx.get(f"{server.url}{PATH}", headers=headers)
    slow = client.get(PATH, headers=headers)
    assert fast.status_code == slow.status_code
    assert fast.status_code in (401, 403)
    assert fast.json()["code"] == slow.json()["code"]


def test_hot_route__query_string__goes_to_the_view(configured: Tree, server: Server) -> None:
    answer = httpx.get(f"{server.url}{PATH}?x=1", headers=bearer(make_team_token(configured.payments)))
    assert (answer.status_code, answer.json()["code"]) == (400, "unknown_parameter")


def test_hot_route__use__is_written_at_most_once_a_minute(configured: Tree, server: Server) -> None:
    headers = bearer(make_team_token(configured.payments))
    httpx.get(f"{server.url}{PATH}", headers=headers)
    first = AccessToken.objects.get().last_used_at
    httpx.get(f"{server.url}{PATH}", headers=headers)
    assert first is not None
    assert AccessToken.objects.get().last_used_at == first


def test_hot_route__many_at_once__each_gets_the_answer_of_its_own_token(configured: Tree, server: Server) -> None:
    nodes = [configured.payments, configured.platform, configured.engineering]
    tokens = [(node.slug, make_admin_token(node)) for node in nodes for _ in range(4)]

    async def read() -> list[httpx.Response]:
        async with httpx.AsyncClient(base_url=server.url) as http:
            return await asyncio.gather(*(http.get(PATH, headers=bearer(token)) for _, token in tokens))

    assert [answer.json()["node_id"] for answer in asyncio.run(read())] == [slug for slug, _ in tokens]


def test_chain_query__any_depth__is_one_statement_with_one_parameter(configured: Tree) -> None:
    sql = statement(hot._chain_of_token)
    assert (sql.count("SELECT"), sql.count("%s")) == (1, 1)


def test_chain_query__what_it_returns__is_what_the_cache_is_keyed_by(configured: Tree, server: Server) -> None:
    effective_cache.clear()
    token = make_team_token(configured.payments)
    httpx.get(f"{server.url}{PATH}", headers=bearer(token))
    with CaptureQueriesContext(connection) as seen:
        rows = [hot._Row(*row) for row in hot._chain_of_token(lambda name: {f"{name}__in": [token.split("_")[2]]})]
    assert len(seen) == 1
    chain = tuple(Link(row.node_id, row.slug, row.kind, row.version or 0, row.revision) for row in rows)
    assert effective_cache.get(configured.payments.pk, chain) is not None


def test_hot_route__over_the_limit_of_its_token__is_refused_in_the_view_s_words(
    configured: Tree, server: Server
) -> None:
    headers = bearer(make_team_token(configured.payments))
    with override_settings(RATE_LIMITS={"requests": "3/minute"}):
        answers = [httpx.get(f"{server.url}{PATH}", headers=headers) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200, 200, 200, 429]
    assert answers[-1].json()["code"] == "rate_limited"
    assert answers[-1].headers["retry-after"]


def test_hot_route__usual_caller__costs_one_query_and_none_for_its_limit(configured: Tree, server: Server) -> None:
    headers = bearer(make_team_token(configured.payments))
    httpx.get(f"{server.url}{PATH}", headers=headers)
    for _ in range(20):
        assert httpx.get(f"{server.url}{PATH}", headers=headers).status_code == 200
    assert not RateWindow.objects.exists()
