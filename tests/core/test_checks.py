from typing import Any

import pytest
from django.core.checks import ERROR, INFO, CheckMessage
from django.test import override_settings

from controlplane.core.checks import check_numbers, check_production, check_proxies

KEY = "k" * 48
SAFE: dict[str, Any] = {
    "PRODUCTION": True,
    "DEBUG": False,
    "SECRET_KEY": KEY,
    "TOKEN_PEPPERS": {1: KEY, 2: KEY},
    "AUDIT_KEYS": {1: KEY},
    "METRICS_TOKEN": "",
    "ALLOWED_HOSTS": ["opensre.example"],
    "SECURE_SSL_REDIRECT": True,
    "SECURE_HSTS_SECONDS": 31_536_000,
    "SESSION_COOKIE_SECURE": True,
    "SESSION_COOKIE_NAME": "__Host-opensre_session",
    "DATABASES": {"default": {"ENGINE": "django.db.backends.postgresql"}},
    "EVENT_BUS": "auto",
}
SQLITE = {"default": {"ENGINE": "django.db.backends.sqlite3"}}


def check(**changed: Any) -> list[CheckMessage]:
    with override_settings(**{**SAFE, **changed}):
        return check_production()


@pytest.mark.filterwarnings("ignore:Overriding setting DATABASES")
class TestProduction:
    def test_check__safe_production__finds_nothing(self) -> None:
        assert check() == []

    def test_check__local_mode__says_that_it_is_local_mode_and_no_more(self) -> None:
        (message,) = check(PRODUCTION=False, SECRET_KEY="", DEBUG=True, DATABASES=SQLITE)
        assert message.level == INFO
        assert "OPENSRE_MODE" in message.msg

    @pytest.mark.parametrize(
        ("changed", "variable", "check_id"),
        [
            ({"SECRET_KEY": ""}, "SECRET_KEY", "opensre.E001"),
            ({"SECRET_KEY": "short-secret"}, "SECRET_KEY", "opensre.E001"),
            ({"TOKEN_PEPPERS": {1: ""}}, "TOKEN_PEPPERS", "opensre.E002"),
            ({"TOKEN_PEPPERS": {1: KEY, 2: "short-secret"}}, "TOKEN_PEPPERS", "opensre.E002"),
            ({"AUDIT_KEYS": {1: ""}}, "AUDIT_KEYS", "opensre.E003"),
            ({"AUDIT_KEYS": {1: "short-secret"}}, "AUDIT_KEYS", "opensre.E003"),
            ({"DEBUG": True}, "DEBUG", "opensre.E004"),
            ({"ALLOWED_HOSTS": []}, "ALLOWED_HOSTS", "opensre.E005"),
            ({"DATABASES": SQLITE}, "DATABASE_URL", "opensre.E006"),
            ({"SESSION_COOKIE_SECURE": False}, "OPENSRE_MODE", "opensre.E008"),
            ({"SESSION_COOKIE_NAME": "opensre_session"}, "OPENSRE_MODE", "opensre.E008"),
        ],
    )
    def test_check__one_fault__is_an_error_that_names_the_variable(
        self, changed: dict[str, Any], variable: str, check_id: str
    ) -> None:
        (message,) = check(**changed)
        assert (message.level, message.id) == (ERROR, check_id)
        assert variable in message.msg
        assert "short-secret" not in f"{message.msg} {message.hint}"

    @pytest.mark.parametrize(
        ("changed", "variable"),
        [
            ({"ALLOWED_HOSTS": ["*"]}, "ALLOWED_HOSTS"),
            ({"METRICS_TOKEN": "short"}, "METRICS_TOKEN"),
            ({"SECURE_SSL_REDIRECT": False}, "SECURE_SSL_REDIRECT"),
            ({"SECURE_HSTS_SECONDS": 60}, "SECURE_HSTS_SECONDS"),
        ],
    )
    def test_check__weak_choice__is_a_warning(self, changed: dict[str, Any], variable: str) -> None:
        (message,) = check(**changed)
        assert message.level < ERROR
        assert variable in message.msg

    def test_check__everything_missing__names_everything_at_once(self) -> None:
        messages = check(
            SECRET_KEY="", TOKEN_PEPPERS={1: ""}, AUDIT_KEYS={1: ""}, ALLOWED_HOSTS=[], DEBUG=True, DATABASES=SQLITE
        )
        assert sorted(str(message.id) for message in messages) == [f"opensre.E00{number}" for number in range(1, 7)]


@pytest.mark.parametrize("name", ["WORKER_CONCURRENCY", "LEASE_SECONDS", "SWEEP_SECONDS", "STREAM_HEARTBEAT_SECONDS"])
def test_check_numbers__zero_or_less__is_an_error_that_names_the_variable(name: str) -> None:
    assert check_numbers() == []
    for value in (0, -1):
        with override_settings(**{name: value}):
            (message,) = check_numbers()
        assert message.level == ERROR
        assert message.msg.startswith(f"{name} must be at least")


@pytest.mark.parametrize("proxies", [["proxy.example"], ["0.0.0.0/0"], ["::/0"], ["10.0.0.1", "10.0.0.0/99"]])
def test_check_proxies__everybody_or_no_address__is_an_error(proxies: list[str]) -> None:
    with override_settings(TRUSTED_PROXIES=["10.0.0.0/8", "2001:db8::1"]):
        assert check_proxies() == []
    with override_settings(TRUSTED_PROXIES=proxies):
        (message,) = check_proxies()
    assert (message.level, message.id) == (ERROR, "opensre.E009")
