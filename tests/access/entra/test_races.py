"""A sign-in by the provider while somebody else changes the provider, the account or the tree."""

from collections.abc import Callable
from threading import Event, Thread
from typing import Any, TypeVar

import pytest
from django.db import connection
from django.test import Client

from controlplane.access.entra import sign_in
from controlplane.access.entra.mappings import external_identity_unlink
from controlplane.access.entra.services import identity_provider_remove
from controlplane.access.models import ExternalIdentity, IdentityProvider, Membership, User
from controlplane.access.services import person_deactivate
from controlplane.core.actor import Role
from tests.access.entra.support import Visit, map_to, owner_of, person, roles_of, set_up
from tests.factories import PASSWORD, Tree, actor_for_user, make_user
from tests.support.identity_provider import Account, Provider
from web.views import sign_in as by_password
from web.views import sso as by_provider

pytestmark = pytest.mark.django_db(transaction=True)
ADA = Account("ada@example.com", roles=("sre",))
T = TypeVar("T")


@pytest.fixture
def provider(transactional_db: None, tree: Tree, peer: Provider) -> IdentityProvider:
    made = set_up(tree, peer)
    map_to(made, "role", "sre", tree.payments, "responder")
    peer.add(ADA)
    return made


def meanwhile(monkeypatch: pytest.MonkeyPatch, name: str, work: Callable[[], object]) -> list[Thread]:
    """Have another thread do ``work`` once a sign-in has come to ``sign_in.<name>``, which goes on when it is done.

    Where the two exclude each other the work is done after the sign-in, which waits for it for half a second alone.
    """
    threads: list[Thread] = []
    real = getattr(sign_in, name)

    def first(*args: Any, **fields: Any) -> Any:
        found = real(*args, **fields)
        if not threads:
            done = Event()
            threads.append(Thread(target=in_background, args=(work, done)))
            threads[0].start()
            done.wait(0.5)
        return found

    monkeypatch.setattr(sign_in, name, first)
    return threads


def in_background(work: Callable[[], object], done: Event) -> None:
    try:
        work()
    finally:
        connection.close()
        done.set()


def finished(threads: list[Thread]) -> None:
    assert threads
    for thread in threads:
        thread.join(30)
        assert not thread.is_alive()


def test_sign_in__provider_removed_meanwhile__leaves_no_role_behind(
    tree: Tree, peer: Provider, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = owner_of(tree)
    threads = meanwhile(
        monkeypatch, "_roles_wanted", lambda: identity_provider_remove(actor=owner, organization_slug="demo")
    )
    Visit.to(peer, tree).sign_in(ADA.username)
    finished(threads)
    assert not IdentityProvider.objects.exists()
    assert not Membership.objects.filter(source="sso").exists()


@pytest.mark.parametrize("when", ["_identity", "_roles_wanted"])
def test_sign_in__identity_unlinked_meanwhile__leaves_no_role_without_one(
    tree: Tree, peer: Provider, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    Visit.to(peer, tree).sign_in(ADA.username)
    ada = person(ADA.username)
    ada.set_password(PASSWORD)
    ada.save()
    identity = ExternalIdentity.objects.get()
    Membership.objects.filter(user=ada).delete()
    actor = actor_for_user(ada)
    threads = meanwhile(monkeypatch, when, lambda: external_identity_unlink(actor=actor, identity_id=identity.pk))
    browser = Client(raise_request_exception=False)
    answer = Visit.to(peer, tree, browser).sign_in(ADA.username)
    finished(threads)
    assert answer.status_code == 302
    assert roles_of(ada) == set()
    assert not ExternalIdentity.objects.filter(user=ada).exists()


def test_sign_in__node_deleted_meanwhile__gives_the_roles_that_are_left(
    tree: Tree, peer: Provider, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    map_to(provider, "role", "sre", tree.platform, "viewer")
    real = sign_in._roles_wanted

    def then_deleted(*args: Any) -> Any:
        wanted = real(*args)
        tree.payments.delete()
        return wanted

    monkeypatch.setattr(sign_in, "_roles_wanted", then_deleted)
    answer = Visit.to(peer, tree, Client(raise_request_exception=False)).sign_in(ADA.username)
    assert answer.status_code == 302
    assert roles_of(person(ADA.username)) == {("platform", "viewer", "sso")}


@pytest.mark.parametrize("way", ["provider", "password"])
def test_sign_in__deactivated_before_the_session_began__is_not_signed_in_by_the_day_of_return(
    tree: Tree, peer: Provider, provider: IdentityProvider, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    Visit.to(peer, tree).sign_in(ADA.username)
    ada = person(ADA.username) if way == "provider" else make_user(tree.payments, Role.RESPONDER)
    owner = owner_of(tree)
    views = by_provider if way == "provider" else by_password
    real = views.begin_session

    def deactivated_first(request: Any, user: User, *, method: str) -> None:
        person_deactivate(actor=owner, user=ada)
        real(request, user, method=method)

    monkeypatch.setattr(views, "begin_session", deactivated_first)
    browser = Client()
    if way == "provider":
        answer = Visit.to(peer, tree, browser).sign_in(ADA.username)
    else:
        answer = browser.post("/login/", {"username": ada.username, "password": PASSWORD})
    assert answer.status_code == 401
    User.objects.filter(pk=ada.pk).update(is_active=True)
    assert browser.get("/app/").status_code == 302
    assert "_auth_user_id" not in browser.session
