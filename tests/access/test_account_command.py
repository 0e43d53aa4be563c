"""What an operator does for a person who cannot sign in."""

from io import StringIO

import pyotp
import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from controlplane.access.models import Authenticator, User
from controlplane.access.services import authenticator_begin, authenticator_confirm
from controlplane.audit.models import AuditEvent
from tests.factories import Tree, actor_for_user, make_operator, make_user


@pytest.fixture
def rita(tree: Tree) -> User:
    return make_user(tree.payments, username="rita")


def account(*arguments: str) -> str:
    out = StringIO()
    call_command("account", *arguments, stdout=out)
    return out.getvalue().strip()


def test_link__signs_in_once_without_code(rita: User, client: Client) -> None:
    authenticator_confirm(actor=actor_for_user(rita), user=rita, code=pyotp.TOTP(authenticator_begin(user=rita)).now())
    link = account("link", "rita")
    assert link.startswith("http://127.0.0.1:")
    path = "/" + link.split("/", 3)[3]
    assert client.post(path).status_code == 302
    assert client.get("/app/").status_code == 200
    assert Client().post(path).status_code == 410


def test_password__generated__is_shown_once_and_signs_in(rita: User, client: Client) -> None:
    client.force_login(rita)
    printed = account("password", "rita", "--generate")
    password = printed.rsplit(": ", 1)[1]
    assert client.get("/app/").status_code == 302
    assert Client().post("/login/", {"username": "rita", "password": password}).status_code == 302
    assert password not in str(list(AuditEvent.objects.values()))


def test_password__from_standard_input__keeps_the_rules(rita: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("short\n"))
    with pytest.raises(CommandError, match="too short"):
        account("password", "rita", "--stdin")
    monkeypatch.setattr("sys.stdin", StringIO("seven-green-lanterns-hum\n"))
    assert account("password", "rita", "--stdin") == "rita has a new password, and is signed out everywhere."
    rita.refresh_from_db()
    assert rita.check_password("seven-green-lanterns-hum")


def test_disable_totp__removes_app_and_codes(rita: User) -> None:
    with pytest.raises(CommandError, match="no authenticator"):
        account("disable-totp", "rita")
    authenticator_confirm(actor=actor_for_user(rita), user=rita, code=pyotp.TOTP(authenticator_begin(user=rita)).now())
    account("disable-totp", "rita")
    assert not Authenticator.objects.exists()
    assert not rita.recovery_codes.exists()


def test_every_act__is_recorded_as_the_installation_s(rita: User) -> None:
    account("unlock", "rita")
    account("link", "rita")
    account("password", "rita", "--generate")
    events = AuditEvent.objects.filter(actor="system:installation", object_id=str(rita.pk))
    assert set(events.values_list("action", flat=True)) >= {
        "user.unlock", "sign_in_link.create", "user.reset_password",
    }  # fmt: skip


def test_account__of_nobody_or_operator__says_so(db: None) -> None:
    make_operator()
    with pytest.raises(CommandError, match="no account 'nobody'"):
        account("link", "nobody")
    with pytest.raises(CommandError, match="Only active members"):
        account("link", "operator")
    assert account("unlock", "operator") == "Nothing was locked."
