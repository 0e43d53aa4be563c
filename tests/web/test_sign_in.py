"""Signing in and out."""

from datetime import timedelta

import pytest
import time_machine
from django.test import Client

from controlplane.access.models import SignInLink
from controlplane.access.services import sign_in_link_create
from controlplane.core.actor import Role
from tests.factories import PASSWORD, Tree, make_operator, make_user
from tests.web.support import Person


def test_sign_in__right_password__opens_the_home_page(tree: Tree, anonymous: Client) -> None:
    make_user(tree.payments, username="rita")
    answer = anonymous.post("/login/", {"username": "rita", "password": PASSWORD})
    assert (answer.status_code, answer["Location"]) == (302, "/app/")
    assert anonymous.get("/app/").status_code == 200


def test_sign_in__wrong_name_or_password_or_deactivated__same_words(tree: Tree, anonymous: Client) -> None:
    make_user(tree.payments, username="rita")
    gone = make_user(tree.payments, username="gone")
    gone.is_active = False
    gone.save()
    attempts = [
        ("rita", "wrong"),
        ("nobody", PASSWORD),
        ("gone", PASSWORD),
        ("ri\x00ta", PASSWORD),
        ("", ""),
        ("x" * 500, "y"),
    ]
    answers = [anonymous.post("/login/", {"username": name, "password": secret}) for name, secret in attempts]
    assert {answer.status_code for answer in answers} == {422}
    assert all("That username and password do not match" in answer.content.decode() for answer in answers)
    assert not any(PASSWORD in answer.content.decode() for answer in answers)


@pytest.mark.parametrize(
    ("wanted", "goes"),
    [
        ("/app/runs?status=failed", "/app/runs?status=failed"),
        ("https://evil.example/app/", "/app/"),
        ("//evil.example/", "/app/"),
        ("/\\evil.example", "/app/"),
        ("javascript:alert(1)", "/app/"),
        ("", "/app/"),
    ],
)
def test_sign_in__next__is_a_path_of_ours(tree: Tree, anonymous: Client, wanted: str, goes: str) -> None:
    make_user(tree.payments, username="rita")
    page = anonymous.get("/login/", {"next": wanted}).content.decode()
    assert f'name="next" value="{goes.replace("&", "&amp;")}"' in page
    answer = anonymous.post("/login/", {"username": "rita", "password": PASSWORD, "next": wanted})
    assert answer["Location"] == goes


def test_sign_in__operator__goes_to_the_administration(anonymous: Client) -> None:
    make_operator()
    answer = anonymous.post("/login/", {"username": "operator", "password": PASSWORD, "next": "/app/runs"})
    assert answer["Location"] == "/admin/"
    assert anonymous.get("/app/")["Location"] == "/admin/"
    assert anonymous.get("/login/")["Location"] == "/admin/"


def test_pages__nobody_signed_in__come_back_after_signing_in(anonymous: Client) -> None:
    assert anonymous.get("/app/runs?mine=1")["Location"] == "/login/?next=%2Fapp%2Fruns%3Fmine%3D1"
    assert anonymous.post("/app/new", {"prompt": "x"})["Location"] == "/login/?next=%2Fapp%2F"


def test_sign_in__already_signed_in__goes_on(responder: Person) -> None:
    assert responder.client.get("/login/?next=/app/runs")["Location"] == "/app/runs"


def test_sign_out__ends_the_session_by_post_only(responder: Person) -> None:
    assert responder.client.get("/logout/").status_code == 405
    assert responder.client.post("/logout/")["Location"] == "/login/"
    assert responder.client.get("/app/").status_code == 302


def test_sign_in__without_csrf_token__is_refused_on_a_page_of_ours(tree: Tree) -> None:
    client = Client(enforce_csrf_checks=True)
    answer = client.post("/login/", {"username": "rita", "password": PASSWORD})
    assert answer.status_code == 403
    assert "This page was out of date" in answer.content.decode()


def test_link__get__shows_whom_and_does_not_use_it_up(tree: Tree, anonymous: Client) -> None:
    secret = sign_in_link_create(user=make_user(tree.payments, username="rita"))
    for _ in range(2):
        page = anonymous.get(f"/login/link/{secret}")
        assert "Sign in as rita" in page.content.decode()
    assert SignInLink.objects.get().used_at is None
    assert anonymous.get("/app/").status_code == 302


def test_link__post__signs_in_once(tree: Tree, anonymous: Client) -> None:
    secret = sign_in_link_create(user=make_user(tree.payments, Role.VIEWER, username="vera"))
    assert anonymous.post(f"/login/link/{secret}")["Location"] == "/app/"
    assert "vera" in anonymous.get("/app/").content.decode()
    second = Client()
    for answer in (second.post(f"/login/link/{secret}"), second.get(f"/login/link/{secret}")):
        assert answer.status_code == 410
        assert "This link no longer works" in answer.content.decode()
    assert second.get("/app/").status_code == 302


def test_link__expired_or_unknown_or_hostile__says_so(tree: Tree, anonymous: Client) -> None:
    secret = sign_in_link_create(user=make_user(tree.payments))
    assert anonymous.get("/login/link/" + "x" * 500).status_code == 410
    assert anonymous.get("/login/link/%00").status_code == 410
    with time_machine.travel(SignInLink.objects.get().expires_at + timedelta(seconds=1), tick=False):
        assert anonymous.get(f"/login/link/{secret}").status_code == 410
        assert anonymous.post(f"/login/link/{secret}").status_code == 410


def test_signed_in_pages__are_kept_by_no_cache(responder: Person) -> None:
    for path in ("/app/", "/app/runs", "/app/new", "/app/config"):
        assert "no-store" in responder.client.get(path)["Cache-Control"]


def test_person_without_organization_or_staff__is_told(db: None, anonymous: Client, django_user_model: type) -> None:
    user = django_user_model.objects.create(username="lost")  # type: ignore[attr-defined]  # the project's user model
    anonymous.force_login(user)
    answer = anonymous.get("/app/")
    assert answer.status_code == 403
    assert "belongs to no organization" in answer.content.decode()
    assert "Sign in to OpenSRE" in anonymous.get("/login/").content.decode()
