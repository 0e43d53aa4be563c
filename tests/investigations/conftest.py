"""Fixtures of the investigation tests: threads, workers, and a shiftable lease clock."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from controlplane.core import clock


@pytest.fixture
def lease_clock() -> Iterator["LeaseClock"]:
    """The lease clock of this process, which a test may push forward instead of waiting."""
    lease = LeaseClock()
    yield lease
    clock.set_lease_offset(timedelta())


class LeaseClock:
    def __init__(self) -> None:
        self._offset = timedelta()

    def forward(self, seconds: float) -> None:
        self._offset += timedelta(seconds=seconds)
        clock.set_lease_offset(self._offset)
