"""Fixtures of the faults: the server that installations run on."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.faults.installation import Base, base_make
from tests.support.services import OwnRedis, postgres_programs

#: ``make faults`` runs each fault by itself and at full size; ``make test`` runs a short form.
FULL = os.environ.get("FAULTS") == "full"
full = pytest.mark.skipif(not FULL, reason="at full size only: make faults")


@pytest.fixture(scope="session")
def base(tmp_path_factory: Any) -> Iterator[Base]:
    """A PostgreSQL server of our own with a prepared database."""
    if postgres_programs() is None:
        pytest.skip("initdb and postgres are not there")
    made = base_make(tmp_path_factory.mktemp("faults"))
    yield made
    made.postgres.close()


@pytest.fixture
def redis(tmp_path: Any) -> Iterator[OwnRedis]:
    """A Redis server of our own."""
    if shutil.which("redis-server") is None:
        pytest.skip("redis-server is not there")
    server = OwnRedis(tmp_path)
    yield server
    server.close()
