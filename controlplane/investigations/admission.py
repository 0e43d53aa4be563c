"""How many streams a process holds open, in all and for one organization, so that no one can take all places."""

import contextlib
from collections import Counter
from collections.abc import Iterator
from typing import Final
from uuid import UUID

from django.conf import settings

from controlplane.core.errors import TooManyRequests, Unavailable
from controlplane.investigations import metrics

RETRY_AFTER_S: Final = 5


class Places:
    """The places of one event loop: event streams, WebSockets, whatever stays open."""

    def __init__(self) -> None:
        self.taken = 0
        self._by_organization: Counter[UUID] = Counter()

    @contextlib.contextmanager
    def take(self, organization_id: UUID) -> Iterator[None]:
        """Hold a place for the length of the block.

        Raises:
            Unavailable: ``streams_full``: the process has ``STREAMS_MAX`` open; another one may have room.
            TooManyRequests: ``too_many_streams``: the organization has ``STREAMS_MAX_PER_ORGANIZATION`` open here.
        """
        if self.taken >= settings.STREAMS_MAX:
            metrics.streams_refused_total.labels(why="process").inc()
            raise Unavailable(
                "This server has no room for another stream.",
                code="streams_full",
                headers={"Retry-After": str(RETRY_AFTER_S)},
            )
        if self._by_organization[organization_id] >= settings.STREAMS_MAX_PER_ORGANIZATION:
            metrics.streams_refused_total.labels(why="organization").inc()
            raise TooManyRequests(
                "Your organization has as many streams open as one server holds for it.",
                code="too_many_streams",
                headers={"Retry-After": str(RETRY_AFTER_S)},
            )
        with self.hold(organization_id):
            yield

    @contextlib.contextmanager
    def hold(self, organization_id: UUID) -> Iterator[None]:
        """Hold a place whether there is room or not, for what cannot be refused any more."""
        self.taken += 1
        self._by_organization[organization_id] += 1
        try:
            yield
        finally:
            self.taken -= 1
            self._by_organization[organization_id] -= 1
            if not self._by_organization[organization_id]:
                del self._by_organization[organization_id]
