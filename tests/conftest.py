"""Fixtures of the whole suite."""

import os
from typing import Any

import hypothesis
import pytest
from django.db import connection

from tests.factories import Tree, make_tree

# Enough examples to find a slip, few enough for every commit; HYPOTHESIS_PROFILE=deep looks longer.
hypothesis.settings.register_profile("suite", max_examples=30, deadline=None)
hypothesis.settings.register_profile("deep", max_examples=1000, deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None, django_db_blocker: Any) -> None:
    """Let SQLite empty the audit table between transactional tests: Django's flush deletes row by row there.

    PostgreSQL truncates, which the trigger does not see. ``tests/audit`` puts the trigger back where it is the subject.
    """
    with django_db_blocker.unblock():
        if connection.vendor == "sqlite":
            with connection.cursor() as cursor:
                cursor.execute("DROP TRIGGER IF EXISTS audit_no_delete")


@pytest.fixture
def tree(db: None) -> Tree:
    """The organization ``demo``: root, group ``engineering``, teams ``payments`` and ``platform``."""
    return make_tree()


@pytest.fixture
def other_tree(db: None) -> Tree:
    """A second organization, ``rival``, with nodes of the same slugs."""
    return make_tree("rival")
