"""An open stream ends within seconds once its reader may no longer read, whichever process took the right away."""

import time
from collections.abc import Callable, Iterator
from typing import Any
from uuid import UUID

import httpx
import pytest
from django.conf import settings
from django.test import Client

from controlplane.access.models import Membership, User
from controlplane.access.services import (
    membership_revoke,
    person_deactivate,
    person_remove,
    session_begin,
    sessions_end,
    token_revoke,
)
from controlplane.core.actor import Role
from controlplane.investigations import viewing
from controlplane.investigations.viewing import Credentials, Viewer
from tests.factories import Tree, actor_for_user, make_token, make_user
from tests.support.runs import start_run, wait_until
from tests.support.server import Server, serving

pytestmark = pytest.mark.django_db(transaction=True)

#: What the design promises.
WITHIN_S = 5.0


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        yield running


@pytest.fixture
def person(tree: Tree) -> User:
    return make_user(tree.payments, Role.VIEWER)


def cookie_of(person: User) -> dict[str, str]:
    browser = Client()
    browser.force_login(person)
    return {"Cookie": f"{settings.SESSION_COOKIE_NAME}={browser.cookies[settings.SESSION_COOKIE_NAME].value}"}


def seconds_until_closed(server: Server, thread_id: UUID, headers: dict[str, str], act: Callable[[], Any]) -> float:
    """Return how long after ``act`` an open stream ends."""
    url = f"{server.url}/api/v1/threads/{thread_id}/stream"
    with httpx.stream("GET", url, headers=headers, timeout=httpx.Timeout(20.0)) as response:
        assert response.status_code == 200
        lines = response.iter_lines()
        next(line for line in lines if line.startswith("data:"))
        act()
        acted = time.monotonic()
        for _ in lines:
            pass
    return time.monotonic() - acted


@pytest.mark.parametrize("elsewhere", [False, True], ids=["this process", "another process"])
@pytest.mark.parametrize("act", [person_deactivate, person_remove], ids=["deactivated", "removed"])
def test_stream__person_let_go__ends_within_seconds_and_does_not_open_again(
    tree: Tree, person: User, server: Server, monkeypatch: pytest.MonkeyPatch, act: Any, elsewhere: bool
) -> None:
    if elsewhere:  # another process tells nobody here
        monkeypatch.setattr("controlplane.access.revocations.taken._calls", ())
    thread = start_run(tree.system, tree.payments).thread
    headers = cookie_of(person)

    took = seconds_until_closed(server, thread.pk, headers, lambda: act(actor=tree.system, user=person))

    assert took < WITHIN_S
    if not elsewhere:
        assert took < 1
    url = f"{server.url}/api/v1/threads/{thread.pk}/stream"
    assert httpx.get(url, headers=headers).status_code == 401


def test_stream__role_or_token_or_session_taken__ends(tree: Tree, server: Server, person: User) -> None:
    thread = start_run(tree.system, tree.payments).thread
    token = make_token(tree.payments)
    membership = Membership.objects.select_related("user", "node").get(user=person)
    second = make_user(tree.payments, Role.VIEWER)
    browser = Client()
    browser.force_login(second)

    def sign_out_everywhere() -> None:
        key = browser.session.session_key or ""
        session_begin(actor=actor_for_user(second), user=second, session_key=key, method="password")
        sessions_end(actor=actor_for_user(second), user=second)

    bearer = {"Authorization": f"Bearer {token.plaintext}"}
    second_cookie = {"Cookie": f"{settings.SESSION_COOKIE_NAME}={browser.cookies[settings.SESSION_COOKIE_NAME].value}"}
    cases: list[tuple[dict[str, str], Callable[[], Any]]] = [
        (bearer, lambda: token_revoke(actor=tree.system, token=token.token)),
        (cookie_of(person), lambda: membership_revoke(actor=tree.system, membership=membership)),
        (second_cookie, sign_out_everywhere),
    ]
    for headers, act in cases:
        assert seconds_until_closed(server, thread.pk, headers, act) < WITHIN_S


def test_stream__somebody_elses_right_taken__goes_on(
    tree: Tree, server: Server, person: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks: list[UUID] = []
    authorise = viewing.viewer_again

    def noted(credentials: Credentials, thread_id: UUID) -> Viewer:
        checks.append(thread_id)
        return authorise(credentials, thread_id)

    monkeypatch.setattr("controlplane.investigations.live.viewer_again", noted)
    thread = start_run(tree.system, tree.payments).thread
    other = make_user(tree.payments, Role.VIEWER)

    def others_then_own() -> None:
        person_deactivate(actor=tree.system, user=other)
        wait_until(lambda: bool(checks), what="the stream to ask again")
        person_deactivate(actor=tree.system, user=person)

    assert seconds_until_closed(server, thread.pk, cookie_of(person), others_then_own) < WITHIN_S
    assert len(checks) >= 2
