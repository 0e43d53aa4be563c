"""The floor of the stream benchmark: the least ASGI code that sends one producer's frames to many viewers.

No log, no permission, no resume: frames in memory, one list, one event per viewer.
"""

import asyncio
import time
from typing import Any

frames: list[bytes] = []
viewers: set[asyncio.Event] = set()


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        await _lifespan(receive, send)
    elif scope["path"].startswith("/emit/"):
        _, _, count, pause_us = scope["path"].split("/")
        await _emit(int(count), int(pause_us) / 1e6)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})
    else:
        await _stream(receive, send)


async def _lifespan(receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


async def _emit(count: int, pause_s: float) -> None:
    frames.clear()
    for number in range(1, count + 1):
        at = time.time()
        data = b'{"seq":%d,"type":"thought","at":%.6f,"data":{"text":"%s"}}' % (number, at, b"x" * 180)
        frames.append(b"id: %d\nevent: thought\ndata: %s\n\n" % (number, data))
        for viewer in viewers:
            viewer.set()
        await asyncio.sleep(pause_s)


async def _stream(receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    await send({"type": "http.response.body", "body": b": open\n\n", "more_body": True})
    pump = asyncio.create_task(_pump(send))
    gone = asyncio.create_task(_gone(receive))
    await asyncio.wait({pump, gone}, return_when=asyncio.FIRST_COMPLETED)
    pump.cancel()
    gone.cancel()


async def _pump(send: Any) -> None:
    changed, cursor = asyncio.Event(), 0
    viewers.add(changed)
    try:
        while True:
            await changed.wait()
            changed.clear()
            if cursor < len(frames):
                body = b"".join(frames[cursor:])
                cursor = len(frames)
                await send({"type": "http.response.body", "body": body, "more_body": True})
    finally:
        viewers.discard(changed)


async def _gone(receive: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
