"""Processes of the project under test, pointed at the database of the running test."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.db import connection

ROOT = Path(__file__).resolve().parent.parent.parent


def environment(**extra: str) -> dict[str, str]:
    """Return the environment of a child: the suite's settings, secrets and, above all, its current database."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV_"))}
    env |= {
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "OPENSRE_DATA_DIR": str(settings.DATA_DIR),
        "PYTHONUNBUFFERED": "1",
    }
    database = connection.settings_dict
    if connection.vendor == "postgresql":
        user, password = quote(database["USER"] or ""), quote(database["PASSWORD"] or "")
        host, port = database["HOST"] or "127.0.0.1", database["PORT"] or 5432
        credentials = f"{user}:{password}@" if password else f"{user}@"
        env["TEST_DATABASE_URL"] = f"postgres://{credentials}{host}:{port}/{database['NAME']}"
    else:
        env["OPENSRE_TEST_SQLITE"] = str(database["NAME"])
    return env | extra


@contextmanager
def manage(*arguments: str, **extra: str) -> Iterator["subprocess.Popen[str]"]:
    """Run ``manage.py arguments`` for the length of the block; kill what is left of it at the end."""
    process = subprocess.Popen(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment(**extra),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=20)


def run_manage(*arguments: str, timeout_s: float = 90.0, **extra: str) -> "subprocess.CompletedProcess[Any]":
    """Run ``manage.py arguments`` to its end and return what it printed."""
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=environment(**extra),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )
