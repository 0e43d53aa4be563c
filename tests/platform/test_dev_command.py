"""``manage.py dev`` up to the moment it serves: what it prepares, what it says, what a second start leaves alone."""

import re
import socket
from collections.abc import Callable
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from controlplane.access.models import AccessToken, User
from controlplane.core.errors import Unavailable
from controlplane.investigations.models import Run, Thread
from controlplane.orgs.models import Organization
from web import sample
from web.dev import StartError
from web.management.commands import dev

pytestmark = pytest.mark.django_db(transaction=True)

LINK = re.compile(r"http://127\.0\.0\.1:\d+(/login/link/\S+)")


@pytest.fixture(autouse=True)
def keep_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dev, "interrupt_on_sigterm", lambda: None)


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Start on a free port, with a server that is ready at once and then told to stop; return what was printed."""

    def run() -> str:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        out = StringIO()
        monkeypatch.setattr(dev, "serve", lambda _application, _listener, on_ready: on_ready())
        call_command("dev", port=port, host="127.0.0.1", stdout=out)
        return out.getvalue()

    return run


def test_dev__empty_database__is_filled_and_says_all_secrets_once(start: Callable[[], str]) -> None:
    printed = start()
    organization = Organization.objects.get()
    assert organization.slug == "demo"
    assert [node.kind for node in organization.nodes.order_by("pk")].count("team") == 2
    for prefix in ("osre_user_", "osre_admin_", "osre_team_"):
        assert len(set(re.findall(rf"{prefix}\w+", printed))) == 1
    assert User.objects.filter(is_superuser=True).count() == 1
    assert "OpenSRE is ready: http://127.0.0.1:" in printed
    assert printed.rstrip().endswith("Stopped.")


def test_dev__empty_database__queues_the_sample_for_the_whole_team(start: Callable[[], str]) -> None:
    start()
    thread = Thread.objects.get()
    assert (thread.sample, thread.visibility, thread.starter_id) == (True, "team", None)
    run = Run.objects.get()
    assert (run.status, run.runtime) == ("queued", "builtin")
    assert run.artifact is not None


def test_dev__second_start__makes_nothing_but_another_link(start: Callable[[], str]) -> None:
    first = start()
    before = (AccessToken.objects.count(), Thread.objects.count(), Organization.objects.count())
    passwords = set(User.objects.values_list("password", flat=True))
    second = start()
    assert (AccessToken.objects.count(), Thread.objects.count(), Organization.objects.count()) == before
    assert set(User.objects.values_list("password", flat=True)) == passwords
    assert "osre_" not in second
    assert "sample" not in second
    assert LINK.findall(first) != LINK.findall(second)


def test_dev__its_link__signs_the_owner_in_once(start: Callable[[], str]) -> None:
    (path,) = LINK.findall(start())
    client = Client()
    client.get(path)
    client.post(path)
    assert client.get("/app/").status_code == 200
    assert Client().post(path).status_code >= 400


def test_dev__owner_deactivated__serves_without_a_link(start: Callable[[], str]) -> None:
    start()
    User.objects.update(is_active=False)
    printed = start()
    assert "OpenSRE is ready" in printed
    assert "Sign in" not in printed


def test_dev__port_taken__touches_nothing_and_says_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(CommandError, match=rf"Port {port} on 127\.0\.0\.1 is in use") as caught:
            call_command("dev", port=port, host="127.0.0.1", stdout=StringIO())
    assert caught.value.returncode == 1
    assert not Organization.objects.exists()


@pytest.mark.parametrize("failure", [StartError("It cannot start."), Unavailable("It cannot start.")])
def test_dev__that_cannot_start__says_why_and_frees_the_port(
    monkeypatch: pytest.MonkeyPatch, start: Callable[[], str], failure: Exception
) -> None:
    def refuse(*_args: Any, **_kwargs: Any) -> None:
        raise failure

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setattr(dev, "serve", refuse)
    with pytest.raises(CommandError, match=r"^It cannot start\.$"):
        call_command("dev", port=port, host="127.0.0.1", stdout=StringIO())
    socket.create_server(("127.0.0.1", port)).close()


def test_dev__interrupted_while_preparing__stops_quietly(
    monkeypatch: pytest.MonkeyPatch, start: Callable[[], str]
) -> None:
    def interrupt() -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(dev, "sample_start", interrupt)
    assert start().rstrip().endswith("Stopped.")


def test_dev__all_interfaces__says_how_other_machines_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    out = StringIO()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    monkeypatch.setattr(dev, "serve", lambda _application, _listener, on_ready: on_ready())
    monkeypatch.setattr(dev, "open_socket", lambda _host, _port: socket.socket())
    call_command("dev", port=port, host="0.0.0.0", stdout=out)  # noqa: S104 (the case in question; nothing is bound)
    assert f"http://127.0.0.1:{port}" in out.getvalue()
    assert "ALLOWED_HOSTS" in out.getvalue()


def test_sample_start__without_an_owner__starts_nothing() -> None:
    assert sample.sample_start() is False
    assert not Thread.objects.exists()
