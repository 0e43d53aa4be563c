from typing import Any

import pytest
from django.core.checks import ERROR, INFO, CheckMessage
from django.test import override_settings

from controlplane.core.checks import check_numbers, check_production

KEY = "k" * 48
SAFE: dict[str, Any] = {
    "PRODUCTION": True,
    "DEBUG": False,
    "SECRET_KEY": KEY,
    "TOKEN_PEPPERS": {1: KEY, 2: KEY},
    "AUDIT_KEYS": {1: KEY},
    "METRICS_TOKEN": "",
    "ALLOWED_HOSTS": ["opensre.example"],
    "DATABASES": {"default": {"ENGINE": "django.db.backends.postgresql"}},
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
        [({"ALLOWED_HOSTS": ["*"]}, "ALLOWED_HOSTS"), ({"METRICS_TOKEN": "short"}, "METRICS_TOKEN")],
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
