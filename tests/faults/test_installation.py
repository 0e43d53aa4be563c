"""Faults of a whole installation: two web and two worker processes, a PostgreSQL server of its own."""

from collections.abc import Callable
from functools import partial

import pytest
from django.conf import settings

from tests.faults import scenarios
from tests.faults.conftest import FULL, full
from tests.faults.installation import Base, Installation, installed
from tests.support.services import OwnRedis

pytestmark = [pytest.mark.faults, pytest.mark.usefixtures("only_once")]

EACH: dict[str, Callable[[Installation], None]] = {
    "worker_killed": scenarios.worker_killed,
    "web_killed": scenarios.web_killed,
    "worker_drained": scenarios.worker_drained,
    "postgres_restarted": scenarios.postgres_restarted,
    "stale_lease": scenarios.stale_lease,
    "duplicate_deliveries": scenarios.duplicate_deliveries,
    "alert_storm": scenarios.alert_storm,
    "many_queued": partial(scenarios.many_queued, amount=200),
    "slow_client": scenarios.slow_client,
}


@pytest.fixture
def only_once() -> None:
    """Run in one phase of ``make test``: the server is the tests' own, whatever database the phase is about."""
    if not FULL and settings.DATABASES["default"]["ENGINE"].endswith("sqlite3"):
        pytest.skip("runs in the phase of PostgreSQL")


@full
@pytest.mark.parametrize("fault", EACH)
def test_installation__fault__loses_nothing(base: Base, fault: str) -> None:
    with installed(base, webs=2, workers=2) as it:
        EACH[fault](it)


@full
@pytest.mark.skipif(not hasattr(settings, "EVENT_BUS"), reason="this release has no bus over Redis")
def test_redis__stopped_and_started__viewers_miss_nothing(base: Base, redis: OwnRedis) -> None:
    with installed(base, webs=2, workers=2, EVENT_BUS="redis", REDIS_URL=redis.url) as it:
        scenarios.redis_restarted(it, redis)


@pytest.mark.skipif(FULL, reason="each fault runs by itself")
def test_installation__short_form__loses_nothing(base: Base) -> None:
    with installed(base, webs=2, workers=2) as it:
        scenarios.many_queued(it, amount=20)
        scenarios.duplicate_deliveries(it)
        scenarios.postgres_restarted(it)
        scenarios.worker_drained(it, restore=False)
        scenarios.web_killed(it, restore=False)
