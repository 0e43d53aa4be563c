"""Fixtures of the whole suite."""

import os
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
from django.db import connection

from controlplane.access.limits.limiter import limiter
from controlplane.audit import heads
from controlplane.audit.security_stream import stream
from tests.factories import Tree, make_tree

# Enough examples to find a slip, few enough for every commit; HYPOTHESIS_PROFILE=deep looks longer.
hypothesis.settings.register_profile("suite", max_examples=100, deadline=None)
hypothesis.settings.register_profile("deep", max_examples=1000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings: None) -> None:
    """Close what a test without a database may have opened: a pool keeps the name it was made with."""
    if connection.vendor == "postgresql":
        connection.close_pool()  # type: ignore[attr-defined]  # PostgreSQL's wrapper has it


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Let SQLite empty the audit table between transactional tests, and PostgreSQL drop the database at the end.

    Django's flush deletes row by row on SQLite, which a trigger forbids (``tests/audit`` puts it back where it is the
    subject). PostgreSQL drops no database that anybody is connected to: the pool of this process is closed first, and
    so are sessions of threads and processes that a test has left to themselves.
    """
    with django_db_blocker.unblock():
        if connection.vendor == "sqlite":
            with connection.cursor() as cursor:
                cursor.execute("DROP TRIGGER IF EXISTS audit_no_delete")
                cursor.execute("DROP TRIGGER IF EXISTS audit_checkpoint_no_delete")
    yield
    if connection.vendor == "postgresql":
        with django_db_blocker.unblock():
            with connection.cursor() as cursor:
                cursor.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )
            connection.close()
            connection.close_pool()  # type: ignore[attr-defined]  # PostgreSQL's wrapper has it


@pytest.fixture(autouse=True)
def no_limits_spent() -> None:
    """Forget what earlier tests have spent of the rate limits: one process runs thousands of requests a minute."""
    limiter.forget()


@pytest.fixture(autouse=True)
def nothing_noted() -> None:
    """Forget what earlier tests have put into the security stream, and how far their audit chains had come."""
    stream.forget()
    heads.forget()


@pytest.fixture
def tree(db: None) -> Tree:
    """The organization ``demo``: root, group ``engineering``, teams ``payments`` and ``platform``."""
    return make_tree()


@pytest.fixture
def other_tree(db: None) -> Tree:
    """A second organization, ``rival``, with nodes of the same slugs."""
    return make_tree("rival")
