"""Buses under test: PostgreSQL where the suite runs on it, and a Redis of our own; with another process on them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection

from tests.support.processes import ROOT, environment
from tests.support.redis_server import RedisServer, running_redis


class Peer:
    """Another process on the bus."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def do(self, *command: Any) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([str(word) for word in command]) + "\n")
        self._process.stdin.flush()
        return self.answer()


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    with running_redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="module", params=["postgres", "redis"])
def kind(request: pytest.FixtureRequest) -> str:
    if request.param == "postgres" and connection.vendor != "postgresql":
        pytest.skip("needs PostgreSQL")
    return str(request.param)


@pytest.fixture(scope="module")
def bus_environment(kind: str, request: pytest.FixtureRequest) -> dict[str, str]:
    if kind == "postgres":
        return {"EVENT_BUS": "postgres"}
    return {"EVENT_BUS": "redis", "REDIS_URL": request.getfixturevalue("redis").url}


@pytest.fixture(scope="module")
def peer(bus_environment: dict[str, str], django_db_setup: None) -> Iterator[Peer]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.bus_peer"],
        cwd=ROOT,
        env=environment(**bus_environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        found = Peer(process)
        assert found.answer() == "ready"
        yield found
    finally:
        process.communicate(timeout=20)
