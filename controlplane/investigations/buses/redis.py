"""The bus over Redis pub/sub (https://redis.io/docs/latest/develop/pubsub/): at most once, nothing is stored."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from redis.asyncio import Redis
from redis.asyncio.client import PubSub
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

#: Redis itself takes more; larger events are better read from the log by those who watch the thread.
LIMIT: Final = 64 * 1024


class RedisLink:
    def __init__(self, client: "Redis", pubsub: PubSub, channel: str) -> None:
        self._client = client
        self._pubsub = pubsub
        self._channel = channel

    async def send(self, payloads: Sequence[bytes]) -> None:
        pipeline = self._client.pipeline(transaction=False)
        for payload in payloads:
            pipeline.publish(self._channel, payload)
        await pipeline.execute()

    async def receive(self, timeout_s: float) -> list[bytes]:
        received: list[bytes] = []
        message = await self._next(timeout_s)
        while message is not None:
            received.append(message["data"])
            message = await self._next(0) if len(received) < 64 else None
        return received

    async def _next(self, timeout_s: float) -> dict[str, Any] | None:
        message: dict[str, Any] | None = await self._pubsub.get_message(
            ignore_subscribe_messages=True, timeout=timeout_s
        )
        return message


class RedisTransport:
    """Args:
    url: ``redis://``, ``rediss://`` or ``unix://``, as the client takes it.
    channel: the installation's channel; Redis' channels are the same for all of its databases.
    """

    limit = LIMIT

    def __init__(self, url: str, channel: str) -> None:
        self._url = url
        self._channel = channel

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[RedisLink]:
        # No retries: the client would connect again by itself, and nobody would know that messages were missed.
        client = Redis.from_url(
            self._url,
            retry=Retry(NoBackoff(), 0),
            socket_connect_timeout=5,
            socket_timeout=10,
            socket_keepalive=True,
            client_name="opensre-bus",
        )
        pubsub = client.pubsub()
        try:
            await pubsub.subscribe(self._channel)
            await pubsub.get_message(timeout=5)  # the confirmation: from here on everything arrives
            yield RedisLink(client, pubsub, self._channel)
        finally:
            await pubsub.aclose()  # type: ignore[no-untyped-call]
            await client.aclose()
