"""Using tokens: where from, when last, and under which pepper they are stored."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import httpx
import pytest
import time_machine
from django.test import override_settings

from controlplane.access import tokens
from controlplane.access.actors import actor_for_bearer
from controlplane.access.models import AccessToken
from controlplane.access.token_selectors import token_report
from controlplane.core import clock
from controlplane.core.actor import Channel
from controlplane.core.errors import NotAuthenticated
from controlplane.core.redaction import redact_text
from tests.factories import Tree, api_client, make_token
from tests.support.server import Server, serving

ME = "/api/v1/me"
HOT = "/api/v1/config/me/effective"


def use(plaintext: str, address: str | None = "192.0.2.7") -> Any:
    return actor_for_bearer(plaintext, channel=Channel.API, address=address)


@pytest.mark.django_db
def test_token__bound_to_networks__works_from_there_alone(tree: Tree) -> None:
    plaintext = make_token(tree.payments, allowed_addresses=["192.0.2.0/24", "2001:db8::/32"]).plaintext
    for address in ("192.0.2.7", "::ffff:192.0.2.7", "2001:db8::5"):
        assert use(plaintext, address).address == address
    for elsewhere in ("192.0.3.7", "2001:db9::5", "", None):
        with pytest.raises(NotAuthenticated):
            use(plaintext, elsewhere)


@pytest.mark.django_db
def test_token__from_elsewhere__the_answer_of_an_unknown_one_and_no_use(tree: Tree) -> None:
    issued = make_token(tree.payments, allowed_addresses=["198.51.100.0/24"])
    elsewhere = api_client(token=issued.plaintext).get(ME)
    unknown = api_client(token=tokens.issue("team").plaintext).get(ME)
    assert elsewhere.status_code == unknown.status_code == 401
    assert elsewhere.json() == unknown.json()
    assert elsewhere["WWW-Authenticate"] == unknown["WWW-Authenticate"]
    assert AccessToken.objects.get(pk=issued.token.pk).last_used_at is None


@pytest.mark.django_db
@pytest.mark.parametrize("header", ["X-Forwarded-For", "X-Real-IP", "Forwarded", "X-Client-IP", "CF-Connecting-IP"])
def test_token__spoofed_address_in_a_header__refused(tree: Tree, header: str) -> None:
    plaintext = make_token(tree.payments, allowed_addresses=["198.51.100.0/24"]).plaintext
    value = "for=198.51.100.9" if header == "Forwarded" else "198.51.100.9"
    assert api_client(token=plaintext).get(ME, headers={header: value}).status_code == 401


@pytest.mark.django_db
def test_token__used__address_is_kept_with_the_time_in_one_write(tree: Tree, django_assert_num_queries: Any) -> None:
    issued = make_token(tree.payments)
    with django_assert_num_queries(2):
        use(issued.plaintext, "192.0.2.7")
    with django_assert_num_queries(1):
        use(issued.plaintext, "192.0.2.8")
    assert AccessToken.objects.get().last_used_address == "192.0.2.7"
    with time_machine.travel(clock.now() + timedelta(minutes=2), tick=False):
        use(issued.plaintext, "192.0.2.8")
    assert AccessToken.objects.get().last_used_address == "192.0.2.8"


@pytest.mark.django_db
def test_token__stored_under_an_old_pepper__stored_anew_at_its_next_use_in_one_write(
    tree: Tree, django_assert_num_queries: Any
) -> None:
    with override_settings(TOKEN_PEPPERS={1: "old"}):
        issued = make_token(tree.payments)
        use(issued.plaintext)
    with override_settings(TOKEN_PEPPERS={1: "old", 2: "new"}):
        report = token_report(actor=tree.system, organization_slug="demo")
        assert (report.working, report.old_pepper) == (1, 1)
        with django_assert_num_queries(2):  # though last used within the minute
            use(issued.plaintext)
        with django_assert_num_queries(1):
            use(issued.plaintext)
        assert token_report(actor=tree.system, organization_slug="demo").old_pepper == 0
    with override_settings(TOKEN_PEPPERS={2: "new"}):
        assert use(issued.plaintext).credential_id == issued.token.public_id
    with override_settings(TOKEN_PEPPERS={1: "old"}), pytest.raises(NotAuthenticated):
        use(issued.plaintext)


@pytest.mark.django_db
def test_token__wrong_secret_under_an_old_pepper__stored_as_it_was(tree: Tree) -> None:
    with override_settings(TOKEN_PEPPERS={1: "old"}):
        issued = make_token(tree.payments)
    wrong = tokens.TokenText("team", issued.token.public_id, tokens.issue("team").secret)
    with override_settings(TOKEN_PEPPERS={1: "old", 2: "new"}):
        with pytest.raises(NotAuthenticated):
            use(wrong.plaintext)
        assert AccessToken.objects.get().pepper_version == 1


@pytest.mark.parametrize("kind", tokens.KINDS)
def test_scanner__token_of_every_kind_in_a_text__found(kind: str) -> None:
    plaintext = tokens.issue(kind).plaintext
    for text in (plaintext, f"Authorization: Bearer {plaintext}", f'{{"token":"{plaintext}"}}', f"see {plaintext}."):
        assert plaintext not in redact_text(text)


# ---- the routes that are plain ASGI applications ----


@pytest.fixture
def server() -> Iterator[Server]:
    with serving(proxy_headers=False) as running:  # as `manage.py dev` and docs/operations.md have it
        yield running


@pytest.mark.django_db(transaction=True)
def test_hot_routes__token_bound_to_networks__checked_there_too(tree: Tree, server: Server) -> None:
    here = make_token(tree.payments, allowed_addresses=["127.0.0.0/8"]).plaintext
    elsewhere = make_token(tree.payments, allowed_addresses=["198.51.100.0/24"]).plaintext
    stream = "/api/v1/threads/01a22f3d-7c40-7e61-af65-a804e692d50a/stream"
    spoofed = {"X-Forwarded-For": "198.51.100.9"}
    for path, visible in ((HOT, 200), (stream, 404)):
        bearer = {"Authorization": f"Bearer {here}"}
        assert httpx.get(f"{server.url}{path}", headers=bearer).status_code == visible
        for headers in ({}, spoofed):
            bearer = {"Authorization": f"Bearer {elsewhere}"}
            answer = httpx.get(f"{server.url}{path}", headers=bearer | headers)
            assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated"), path


@pytest.mark.django_db(transaction=True)
def test_hot_route__use__keeps_the_address_and_stores_under_the_current_pepper(tree: Tree, server: Server) -> None:
    with override_settings(TOKEN_PEPPERS={1: "old"}):
        plaintext = make_token(tree.payments).plaintext
    with override_settings(TOKEN_PEPPERS={1: "old", 2: "new"}):
        assert httpx.get(f"{server.url}{HOT}", headers={"Authorization": f"Bearer {plaintext}"}).status_code == 200
    row = AccessToken.objects.get()
    assert (row.pepper_version, row.last_used_address) == (2, "127.0.0.1")
