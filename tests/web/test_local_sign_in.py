"""Lock-out, second factor, sessions and the page of one's own account."""

import time
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pyotp
import pytest
import time_machine
from django.conf import settings
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.test import Client, override_settings

from controlplane.access import totp
from controlplane.access.actors import VIEW_AS
from controlplane.access.models import (
    Authenticator,
    BrowserSession,
    IdentityProvider,
    RecoveryCode,
    User,
)
from controlplane.access.services import authenticator_begin, authenticator_confirm, sign_in_link_create
from controlplane.access.services.sessions import sessions_sweep
from controlplane.access.sessions import SignInMethod
from controlplane.audit.models import SecurityEvent
from controlplane.core.actor import Role
from tests.factories import PASSWORD, Tree, actor_for_user, make_operator, make_user

SECOND_STEP = "/login/second/step"
NEW_PASSWORD = "seven-green-lanterns-hum"


def sign_in(client: Client, username: str, password: str = PASSWORD, organization: str = "", **extra: Any) -> Any:
    typed = {"username": username, "password": password, "organization": organization}
    return client.post("/login/", typed, **extra)


def enrol(user: User) -> tuple[pyotp.TOTP, list[str]]:
    """Give ``user`` a confirmed authenticator; its first code counts as used."""
    app = pyotp.TOTP(authenticator_begin(user=user))
    return app, authenticator_confirm(actor=actor_for_user(user), user=user, code=app.now())


def next_code(app: pyotp.TOTP) -> str:
    return app.at(int(time.time()), counter_offset=1)


@pytest.fixture
def rita(tree: Tree) -> User:
    return make_user(tree.payments, username="rita")


class TestLockOut:
    def test_lock__five_wrong_passwords__right_one_is_refused_from_that_address_alone(
        self, rita: User, client: Client
    ) -> None:
        assert [sign_in(client, "rita", "wrong").status_code for _ in range(5)] == [422, 422, 422, 422, 429]
        refused = sign_in(client, "rita")
        assert refused.status_code == 429
        assert 0 < int(refused["Retry-After"]) <= 900
        assert "Too many wrong passwords for this username" in refused.content.decode()
        # neither another person here nor this person elsewhere is touched
        assert sign_in(Client(), "rita", REMOTE_ADDR="192.0.2.7").status_code == 302
        make_user(rita.memberships.get().node, username="carl")
        assert sign_in(Client(), "carl").status_code == 302

    def test_lock__unknown_username__looks_the_same(self, rita: User, client: Client) -> None:
        known = [sign_in(client, "rita", "wrong") for _ in range(6)]
        unknown = [sign_in(client, "nobody", "wrong") for _ in range(6)]
        assert [answer.status_code for answer in known] == [answer.status_code for answer in unknown]
        for one, other in zip(known, unknown, strict=True):
            assert one.context["error"] == other.context["error"]

    def test_lock__time_is_up__opens_again(self, rita: User, client: Client) -> None:
        with time_machine.travel("2026-12-01T10:00:00Z", tick=False) as clock:
            for _ in range(5):
                sign_in(client, "rita", "wrong")
            clock.shift(899)
            assert sign_in(client, "rita").status_code == 429
            clock.shift(2)
            assert sign_in(client, "rita").status_code == 302

    def test_lock__success_between__counts_anew(self, rita: User, client: Client) -> None:
        for _ in range(3):
            for _ in range(4):
                assert sign_in(client, "rita", "wrong").status_code == 422
            assert sign_in(client, "rita").status_code == 302

    def test_lock__forwarded_header__gives_no_other_address(self, rita: User, client: Client) -> None:
        statuses = [
            sign_in(client, "rita", "wrong", headers={"X-Forwarded-For": f"198.51.100.{number}"}).status_code
            for number in range(6)
        ]
        assert statuses[-2:] == [429, 429]

    def test_lock__is_audited_once_with_the_address(self, rita: User, client: Client) -> None:
        for _ in range(8):
            sign_in(client, "rita", "wrong")
        locked = SecurityEvent.objects.get(code="locked", actor=f"user:{rita.pk}")
        assert (locked.address, locked.organization_id) == ("127.0.0.1", rita.organization_id)

    def test_lock__lifted_by_command__opens(self, rita: User, client: Client) -> None:
        for _ in range(6):
            sign_in(client, "rita", "wrong")
        call_command("account", "unlock", "rita")
        assert sign_in(client, "rita").status_code == 302

    def test_lock__operator_too__and_the_admin_has_no_other_door(self, client: Client, db: None) -> None:
        make_operator()
        for _ in range(6):
            sign_in(client, "operator", "wrong")
        assert sign_in(client, "operator").status_code == 429
        answer = client.post("/admin/login/?next=/admin/", {"username": "operator", "password": PASSWORD})
        assert (answer.status_code, answer["Location"]) == (302, "/login/?next=/admin/")

    @override_settings(RATE_LIMITS={"sign_in": "3/minute"})
    def test_address__many_usernames__is_limited_over_all(self, rita: User, client: Client) -> None:
        for number in range(3):
            assert sign_in(client, f"user-{number}", "wrong").status_code == 422
        refused = sign_in(client, "rita")
        assert refused.status_code == 429
        assert refused["Retry-After"]
        assert client.get("/login/link/" + "x" * 43).status_code == 429


class TestPageOfAnOrganization:
    def test_sign_in__wrong_password__the_providers_button_stays(self, tree: Tree, rita: User, client: Client) -> None:
        provider = IdentityProvider.objects.create(
            organization=tree.organization, kind="oidc", name="IdP", authority="https://id.example/", client_id="x",
            client_secret="${OPENSRE_CRED_X}",
        )  # fmt: skip
        organization = tree.organization.slug
        assert f'name="organization" value="{organization}"' in client.get(f"/login/{organization}").content.decode()
        for named, shown in ((organization, True), ("nobodys", False), ("a b\n", False)):
            refused = sign_in(client, "rita", "wrong", organization=named)
            assert refused.status_code == 422
            assert (f"Sign in with {provider.name}" in refused.content.decode()) is shown


class TestPasswordsClosed:
    def test_sign_in__organization_without_passwords__same_words_as_a_wrong_one(
        self, tree: Tree, rita: User, client: Client
    ) -> None:
        provider = IdentityProvider.objects.create(
            organization=tree.organization, kind="oidc", name="IdP", authority="https://id.example/", client_id="x",
            client_secret="${OPENSRE_CRED_X}", password_sign_in=False,
        )  # fmt: skip
        refused = sign_in(client, "rita")
        wrong = sign_in(client, "rita", "wrong")
        assert (refused.status_code, refused.context["error"]) == (wrong.status_code, wrong.context["error"])
        # the way in when the provider is down
        link = sign_in_link_create(user=rita)
        assert client.post(f"/login/link/{link}").status_code == 302
        assert "switched off in your organization" in client.get("/app/security").content.decode()
        provider.enabled = False
        provider.save()
        assert sign_in(Client(), "rita").status_code == 302


class TestSecondFactor:
    def test_sign_in__with_app__password_alone_signs_nobody_in(self, rita: User, client: Client) -> None:
        app, _ = enrol(rita)
        answer = client.post("/login/", {"username": "rita", "password": PASSWORD, "next": "/app/runs"})
        assert answer["Location"] == SECOND_STEP
        assert client.get("/app/")["Location"].startswith("/login/")
        assert client.get("/api/v1/me").status_code == 401
        assert "rita" in client.get(SECOND_STEP).content.decode()
        assert client.post(SECOND_STEP, {"code": "000000"}).status_code == 422
        done = client.post(SECOND_STEP, {"code": next_code(app)})
        assert (done.status_code, done["Location"]) == (302, "/app/runs")
        assert client.get("/app/").status_code == 200
        assert BrowserSession.objects.get().method == SignInMethod.PASSWORD_TOTP

    def test_code__passwords_switched_off_meanwhile__signs_nobody_in(
        self, rita: User, client: Client, tree: Tree
    ) -> None:
        app, _ = enrol(rita)
        client.post("/login/", {"username": "rita", "password": PASSWORD})
        IdentityProvider.objects.create(
            organization=tree.organization, kind="entra", tenant=uuid4(), client_secret="${A}", password_sign_in=False
        )
        assert client.post(SECOND_STEP, {"code": next_code(app)})["Location"] == "/login/"
        assert client.get("/app/").status_code == 302

    def test_code__used_once__works_nowhere_again(self, rita: User) -> None:
        app, _ = enrol(rita)
        code = next_code(app)
        for expected in (302, 422):
            client = Client()
            sign_in(client, "rita")
            assert client.post(SECOND_STEP, {"code": code}).status_code == expected

    def test_code__older_or_much_later__is_refused(self, rita: User, client: Client) -> None:
        app, _ = enrol(rita)
        sign_in(client, "rita")
        for offset in (-3, 3):
            assert (
                client.post(SECOND_STEP, {"code": app.at(int(time.time()), counter_offset=offset)}).status_code == 422
            )

    def test_recovery_code__works_once(self, rita: User) -> None:
        _, codes = enrol(rita)
        for expected in (302, 422):
            client = Client()
            sign_in(client, "rita")
            assert client.post(SECOND_STEP, {"code": codes[0].upper().replace("-", " ")}).status_code == expected
        assert RecoveryCode.objects.filter(used_at__isnull=False).count() == 1
        assert not any(code.replace("-", "") in str(list(RecoveryCode.objects.values())) for code in codes)

    def test_code__too_many_tries__are_stopped_with_the_right_one_too(self, rita: User, client: Client) -> None:
        app, _ = enrol(rita)
        sign_in(client, "rita")
        statuses = [client.post(SECOND_STEP, {"code": "000000"}).status_code for _ in range(11)]
        assert statuses == [422] * 10 + [429]
        assert client.post(SECOND_STEP, {"code": next_code(app)}).status_code == 429

    def test_code__without_password_or_too_late_or_password_changed__begins_again(
        self, rita: User, client: Client
    ) -> None:
        app, _ = enrol(rita)
        assert client.post(SECOND_STEP, {"code": next_code(app)})["Location"] == "/login/"
        with time_machine.travel(time.time(), tick=False) as clock:
            sign_in(client, "rita")
            clock.shift(301)
            assert client.post(SECOND_STEP, {"code": next_code(app)})["Location"] == "/login/"
        sign_in(client, "rita")
        rita.set_password(NEW_PASSWORD)
        rita.save()
        assert client.post(SECOND_STEP, {"code": next_code(app)})["Location"] == "/login/"

    def test_pepper__rotated__secret_is_stored_under_the_new_one_at_the_next_use(
        self, rita: User, client: Client
    ) -> None:
        app, _ = enrol(rita)
        peppers = {**settings.TOKEN_PEPPERS, max(settings.TOKEN_PEPPERS) + 1: "p" * 40}
        with override_settings(TOKEN_PEPPERS=peppers):
            sign_in(client, "rita")
            assert client.post(SECOND_STEP, {"code": next_code(app)}).status_code == 302
            assert Authenticator.objects.get().pepper_version == max(peppers)
        assert app.secret not in Authenticator.objects.get().secret

    @override_settings(TOTP_REQUIRED_FOR_ADMINS=True)
    def test_required__admin_without_app__adds_one_before_anything_else(self, tree: Tree, client: Client) -> None:
        make_user(tree.root, Role.ADMIN, username="ada")
        sign_in(client, "ada")
        assert client.get("/app/")["Location"] == "/app/security"
        refused = client.get("/api/v1/me")
        assert (refused.status_code, refused.json()["code"]) == (403, "authenticator_required")
        assert "asks owners and admins" in client.get("/app/security").content.decode()
        client.post("/app/security/authenticator/begin", {"current": PASSWORD})
        secret = "".join(client.get("/app/security/authenticator").context["secret"].split())
        codes = client.post("/app/security/authenticator", {"code": pyotp.TOTP(secret).now()})
        assert len(codes.context["codes"]) == totp.RECOVERY_CODES
        assert client.get("/app/").status_code == 200
        make_user(tree.payments, Role.RESPONDER, username="rob")
        other = Client()
        assert sign_in(other, "rob")["Location"] == "/app/"
        assert other.get("/app/").status_code == 200


class TestSecurityPage:
    @pytest.fixture
    def browser(self, rita: User) -> Client:
        client = Client()
        sign_in(client, "rita", headers={"User-Agent": "Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101 Firefox/140.0"})
        return client

    def test_page__shows_where_one_is_signed_in(self, browser: Client) -> None:
        page = browser.get("/app/security").content.decode()
        assert "Firefox on Linux" in page
        assert "this one" in page

    def test_browsers__signed_out_everywhere_else__at_once(self, rita: User, browser: Client) -> None:
        other = Client()
        sign_in(other, "rita")
        assert other.get("/app/").status_code == 200
        browser.post("/app/security/browsers/end")
        assert other.get("/app/").status_code == 302
        assert other.get("/api/v1/me").status_code == 401
        assert browser.get("/app/").status_code == 200
        assert BrowserSession.objects.count() == 1

    def test_browser__one_signed_out__by_its_owner_alone(self, tree: Tree, rita: User, browser: Client) -> None:
        other = Client()
        sign_in(other, "rita")
        row = BrowserSession.objects.exclude(session_key=browser.session.session_key).get()
        stranger = Client()
        stranger.force_login(make_user(tree.root, Role.OWNER))
        assert stranger.post(f"/app/security/browsers/{row.pk}/end").status_code == 404
        assert other.get("/app/").status_code == 200
        browser.post(f"/app/security/browsers/{row.pk}/end")
        assert other.get("/app/").status_code == 302

    def test_password__changed__other_browsers_out_this_one_goes_on_under_a_new_key(
        self, rita: User, browser: Client
    ) -> None:
        other = Client()
        sign_in(other, "rita")
        key = browser.session.session_key
        form = {"current": PASSWORD, "password": NEW_PASSWORD, "again": NEW_PASSWORD}
        assert browser.post("/app/security/password", form).status_code == 302
        assert browser.session.session_key != key
        assert browser.get("/app/").status_code == 200
        assert other.get("/app/").status_code == 302
        assert sign_in(Client(), "rita").status_code == 422
        assert sign_in(Client(), "rita", NEW_PASSWORD).status_code == 302

    @pytest.mark.parametrize(
        ("form", "words"),
        [
            ({"current": "wrong", "password": NEW_PASSWORD, "again": NEW_PASSWORD}, "This is not your password"),
            ({"current": PASSWORD, "password": NEW_PASSWORD, "again": "other"}, "The two new passwords differ"),
            ({"current": PASSWORD, "password": "short", "again": "short"}, "too short"),
            ({"current": PASSWORD, "password": "password1234", "again": "password1234"}, "too common"),
            ({"current": PASSWORD, "password": "839201748201", "again": "839201748201"}, "entirely numeric"),
            ({"current": PASSWORD, "password": PASSWORD, "again": PASSWORD}, "is the old one"),
            ({}, "This is not your password"),
        ],
    )
    def test_password__against_a_rule__is_said_at_its_field_and_changes_nothing(
        self, rita: User, browser: Client, form: dict[str, str], words: str
    ) -> None:
        answer = browser.post("/app/security/password", form)
        assert answer.status_code == 422
        assert words in answer.content.decode()
        assert NEW_PASSWORD not in answer.content.decode()
        rita.refresh_from_db()
        assert rita.check_password(PASSWORD)

    def test_password__first_one__is_chosen_after_a_one_time_link_alone(self, tree: Tree) -> None:
        ivy = make_user(tree.payments, username="ivy")
        ivy.set_unusable_password()
        ivy.save()
        form = {"password": NEW_PASSWORD, "again": NEW_PASSWORD}
        elsewhere, invited = Client(), Client()
        elsewhere.force_login(ivy)
        assert elsewhere.post("/app/security/password", form).status_code == 403
        assert sign_in(Client(), "ivy", NEW_PASSWORD).status_code == 422
        invited.post(f"/login/link/{sign_in_link_create(user=ivy)}")
        assert "This account has no password yet" in invited.get("/app/security").content.decode()
        assert invited.post("/app/security/password", form | {"password": "short", "again": "short"}).status_code == 422
        assert invited.post("/app/security/password", form).status_code == 302
        assert invited.get("/app/").status_code == 200
        assert elsewhere.get("/app/").status_code == 302
        assert sign_in(Client(), "ivy", NEW_PASSWORD).status_code == 302

    def test_password__guessed_from_a_session__is_stopped(self, browser: Client) -> None:
        form = {"current": "wrong", "password": NEW_PASSWORD, "again": NEW_PASSWORD}
        statuses = [browser.post("/app/security/password", form).status_code for _ in range(11)]
        assert statuses == [422] * 10 + [429]

    def test_authenticator__set_up_needs_the_password__and_its_secret_is_shown_until_confirmed(
        self, browser: Client
    ) -> None:
        assert browser.post("/app/security/authenticator/begin", {"current": "wrong"}).status_code == 422
        assert browser.get("/app/security/authenticator")["Location"] == "/app/security"
        browser.post("/app/security/authenticator/begin", {"current": PASSWORD})
        page = browser.get("/app/security/authenticator")
        assert "data:image/svg+xml" in page.content.decode()
        assert "no-store" in page["Cache-Control"]
        assert browser.post("/app/security/authenticator", {"code": "000000"}).status_code == 422
        secret = "".join(page.context["secret"].split())
        assert browser.post("/app/security/authenticator", {"code": pyotp.TOTP(secret).now()}).status_code == 200
        assert browser.get("/app/security/authenticator")["Location"] == "/app/security"

    def test_authenticator__removed_by_a_code__not_by_a_session_alone(self, rita: User, browser: Client) -> None:
        _, codes = enrol(rita)
        assert browser.post("/app/security/authenticator/remove", {"code": "000000"}).status_code == 422
        assert browser.post("/app/security/authenticator/remove", {"code": codes[3]}).status_code == 302
        assert not Authenticator.objects.exists()
        assert not RecoveryCode.objects.exists()

    def test_recovery_codes__renewed__old_ones_stop(self, rita: User, browser: Client) -> None:
        app, old = enrol(rita)
        new = browser.post("/app/security/recovery-codes", {"code": next_code(app)}).context["codes"]
        assert set(new).isdisjoint(old)
        client = Client()
        sign_in(client, "rita")
        assert client.post(SECOND_STEP, {"code": old[0]}).status_code == 422
        assert client.post(SECOND_STEP, {"code": new[0]}).status_code == 302

    def test_page__while_viewing_as_a_team__is_out_of_reach(self, browser: Client) -> None:
        session = browser.session
        session[VIEW_AS] = "whatever"
        session.save()
        assert browser.get("/app/security").status_code == 403
        assert browser.post("/app/security/browsers/end").status_code == 403

    def test_page__operator_and_nobody(self, client: Client, db: None) -> None:
        assert client.get("/app/security")["Location"].startswith("/login/")
        client.force_login(make_operator())
        assert client.get("/app/security").status_code == 200


class TestSessions:
    def test_sign_in__session_planted_before__gets_a_new_key_and_nothing_of_it(
        self, rita: User, client: Client
    ) -> None:
        client.get("/app/")
        session = client.session
        session["planted"] = "by somebody"
        session.save()
        client.cookies[settings.SESSION_COOKIE_NAME] = session.session_key or ""
        sign_in(client, "rita")
        assert client.session.session_key != session.session_key
        assert "planted" not in client.session
        assert not Session.objects.filter(session_key=session.session_key).exists()

    def test_session__idle__ends(self, rita: User, client: Client) -> None:
        with override_settings(SESSION_IDLE_SECONDS=3600), time_machine.travel(time.time(), tick=False) as clock:
            sign_in(client, "rita")
            for _ in range(3):
                clock.shift(3000)
                assert client.get("/app/").status_code == 200
            clock.shift(3601)
            assert client.get("/app/").status_code == 302
            assert not BrowserSession.objects.exists()

    def test_session__in_use__ends_at_the_latest_after_its_life(self, rita: User, client: Client) -> None:
        with time_machine.travel(time.time(), tick=False) as clock:
            sign_in(client, "rita")
            for _ in range(14):
                clock.shift(3000)
                assert client.get("/api/v1/me").status_code == 200
            clock.shift(3000)
            assert client.get("/api/v1/me").status_code == 401

    def test_session__every_request__costs_no_write(
        self, rita: User, client: Client, django_assert_num_queries: Any
    ) -> None:
        sign_in(client, "rita")
        with django_assert_num_queries(4):  # session, user, roles, results
            client.get("/app/evaluations")

    def test_sign_in__is_audited_with_its_method(self, rita: User, client: Client) -> None:
        sign_in(client, "rita")
        sign_in(Client(), "rita", "wrong")
        sign_in(Client(), "my-password-in-the-wrong-field", "rita")
        events = SecurityEvent.objects.order_by("first_at").values_list("kind", "action", "code", "actor")
        assert list(events) == [
            ("sign_in", "sign-in.password", "", f"user:{rita.pk}"),
            ("sign_in_failed", "sign-in.password", "wrong_password", f"user:{rita.pk}"),
            ("sign_in_failed", "sign-in.password", "wrong_password", "unknown"),
        ]
        assert "wrong-field" not in str(list(SecurityEvent.objects.values()))

    def test_sessions__gone__are_forgotten_at_the_next_sign_in(self, rita: User) -> None:
        for _ in range(3):
            sign_in(Client(), "rita")
        Session.objects.update(expire_date="2020-01-01T00:00:00Z")
        sign_in(Client(), "rita")
        assert BrowserSession.objects.count() == 1
        assert timedelta(seconds=settings.SESSION_COOKIE_AGE) == timedelta(hours=12)

    def test_sweep__sessions_that_have_run_out__are_gone_and_others_stay(self, rita: User, client: Client) -> None:
        sign_in(Client(), "rita")
        Session.objects.update(expire_date="2020-01-01T00:00:00Z")
        sign_in(client, "rita")
        sessions_sweep()
        assert Session.objects.count() == BrowserSession.objects.count() == 1
        assert client.get("/app/").status_code == 200
