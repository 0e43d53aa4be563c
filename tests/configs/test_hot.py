"""The hot route of a runtime's configuration answers what the Django view answers, and less often asks the database."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from controlplane.access.models import AccessToken
from controlplane.configs import hot
from controlplane.configs.cache import effective_cache
from controlplane.configs.selectors import Link
from controlplane.configs.services import config_patch
from controlplane.core import clock
from controlplane.core.hot_query import HotQuery
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


async def test_hot_query__one_statement__whatever_the_depth(configured: Tree) -> None:
    statement = hot._chain_of_token(("a", "team")).query.sql_with_params()[0]
    assert statement.count("SELECT") == 1
    assert "IN (" not in statement


def test_hot_query__statement_with_a_constant_of_its_own__is_refused(tree: Tree) -> None:
    query = HotQuery(
        lambda names: AccessToken.objects.filter(public_id=names[0], kind="team").values_list("id"),
        parameters=1,
        name="test",
    )
    with pytest.raises(ValueError, match="other parameters"):
        query._prepare()


def test_chain_query__is_one_statement_and_is_cached_by_what_it_returns(configured: Tree, server: Server) -> None:
    effective_cache.clear()
    token = make_team_token(configured.payments)
    httpx.get(f"{server.url}{PATH}", headers=bearer(token))
    with CaptureQueriesContext(connection) as seen:
        rows = list(hot._chain_of_token((token.split("_")[2], "team")))
    assert len(seen) == 1
    chain = tuple(Link(row[7], row[8], row[9], row[10] or 0, row[11]) for row in rows)
    assert effective_cache.get(configured.payments.pk, chain) is not None
