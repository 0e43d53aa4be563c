"""``manage.py`` as an operator runs it: what it says of an unsafe or impossible configuration."""

import os
import subprocess
import sys
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import call_command

ROOT = Path(__file__).resolve().parents[2]
KEY = "k" * 20 + "0123456789" * 4
SAFE = {
    "OPENSRE_MODE": "production",
    "DATABASE_URL": "postgres://opensre:hunter2@db.example/opensre",
    "SECRET_KEY": KEY,
    "TOKEN_PEPPERS": f'{{"1": "{KEY}"}}',
    "AUDIT_KEYS": f'{{"1": "{KEY}"}}',
    "ALLOWED_HOSTS": "opensre.example",
}


@pytest.fixture
def manage(tmp_path: Path) -> object:
    """Run ``manage.py`` with the project's own settings and no environment but the given one."""

    def run(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        base = {"PATH": os.environ["PATH"], "OPENSRE_DATA_DIR": str(tmp_path / "data")}
        return subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT, env=base | environ, text=True, capture_output=True, timeout=60, check=False,
        )  # fmt: skip

    return run


def test_check_deploy__production_with_nothing_set__names_every_variable(manage: object) -> None:
    assert callable(manage)
    done = manage("check", "--deploy", "--tag", "security", OPENSRE_MODE="production", DEBUG="true")
    assert done.returncode == 1
    for variable in ("SECRET_KEY", "TOKEN_PEPPERS", "AUDIT_KEYS", "ALLOWED_HOSTS", "DEBUG", "DATABASE_URL"):
        assert f") {variable} " in done.stderr, variable
    assert "Traceback" not in done.stderr


def test_check_deploy__safe_production__finds_no_error(manage: object) -> None:
    assert callable(manage)
    done = manage("check", "--deploy", "--tag", "security", "--fail-level", "WARNING", **SAFE)
    assert (done.returncode, done.stderr) == (0, "")
    assert "no issues" in done.stdout


def test_production__cookies__are_bound_to_this_host_and_https(manage: object) -> None:
    assert callable(manage)
    names = ("SESSION_COOKIE_NAME", "CSRF_COOKIE_NAME", "SESSION_COOKIE_SECURE", "CSRF_COOKIE_SECURE")
    shown = f"from django.conf import settings; print(*(getattr(settings, name) for name in {names}))"
    done = manage("shell", "--verbosity", "0", "-c", shown, **SAFE)
    assert done.stdout.split() == ["__Host-opensre_session", "__Host-opensre_csrf", "True", "True"]


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("TRUSTED_PROXIES", "0.0.0.0/0"),
        ("RATE_LIMITS", "exports=often"),
        ("RATE_LIMITS", "nothing=1/minute"),
        ("SIGN_IN_FAILURES", "1"),
        ("STREAMS_MAX", "0"),
        ("BUS_DATABASE_URL", "mysql://root:hunter2@db/x"),
        ("SESSION_IDLE_SECONDS", "0"),
    ],
)
def test_check__setting_that_protects_nobody__is_refused_by_name(manage: object, variable: str, value: str) -> None:
    assert callable(manage)
    done = manage("check", **SAFE, **{variable: value})
    assert done.returncode == 1
    assert variable in done.stderr
    assert "Traceback" not in done.stderr


def test_check__bus_without_its_server__is_refused_by_name(manage: object) -> None:
    assert callable(manage)
    for more, variable in (({"EVENT_BUS": "redis"}, "REDIS_URL"), ({"EVENT_BUS": "postgres"}, "EVENT_BUS")):
        done = manage("check", **{**SAFE, "DATABASE_URL": "", "OPENSRE_MODE": "local", **more})
        assert (done.returncode, variable in done.stderr) == (1, True)
    warned = manage("check", "--deploy", "--tag", "security", **SAFE, EVENT_BUS="process")
    assert "opensre.W007" in warned.stderr


def test_check_deploy__credentials_let_out_or_not_there__warned_of(manage: object, tmp_path: Path) -> None:
    assert callable(manage)
    wide = {"CREDENTIAL_ENV_ALLOW": "OPENSRE_CRED_*,*", "CREDENTIAL_FILES_DIR": str(tmp_path / "missing")}
    done = manage("check", "--deploy", "--tag", "security", "--fail-level", "WARNING", **SAFE, **wide)
    assert done.returncode == 1
    for variable in wide:
        assert f") {variable} " in done.stderr, variable


def test_check_deploy__local_mode__says_that_it_is_local_mode() -> None:
    err = StringIO()
    call_command("check", "--deploy", "--tag", "security", stderr=err, stdout=StringIO())
    assert "OPENSRE_MODE is 'local'" in err.getvalue()


def test_manage__wrong_variable__is_one_line_without_its_value(manage: object) -> None:
    assert callable(manage)
    done = manage("check", DATABASE_URL="mysql://root:hunter2@db/x")
    assert done.returncode == 1
    assert done.stderr == "Configuration error: DATABASE_URL must begin with postgres:// or sqlite:///.\n"


def test_dev__in_production__is_refused_before_anything_is_touched(manage: object, tmp_path: Path) -> None:
    assert callable(manage)
    done = manage("dev", **SAFE)
    assert done.returncode == 1
    assert "OPENSRE_MODE=local" in done.stderr
    assert not (tmp_path / "data" / "opensre.sqlite3").exists()
