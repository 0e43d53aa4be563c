"""The floor of the stream benchmark: a bare Starlette hub that sends one producer's frames to many viewers.

No log, no permission, no resume: frames in memory, one list, one event per viewer.
"""

import asyncio
import time
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

frames: list[bytes] = []
viewers: set[asyncio.Event] = set()


async def emit(request: Request) -> Response:
    """Produce ``count`` frames, ``pause_us`` microseconds apart."""
    count, pause_s = int(request.path_params["count"]), int(request.path_params["pause_us"]) / 1e6
    for number in range(1, count + 1):
        at = time.time()
        data = b'{"seq":%d,"type":"thought","at":%.6f,"data":{"text":"%s"}}' % (number, at, b"x" * 180)
        frames.append(b"id: %d\nevent: thought\ndata: %s\n\n" % (number, data))
        for viewer in viewers:
            viewer.set()
        await asyncio.sleep(pause_s)
    return PlainTextResponse("done")


async def stream(_request: Request) -> Response:
    return StreamingResponse(_pump(), media_type="text/event-stream")


async def socket(websocket: WebSocket) -> None:
    changed, cursor = asyncio.Event(), len(frames)
    await websocket.accept()
    await websocket.receive_text()
    viewers.add(changed)
    changed.set()
    try:
        while True:
            await changed.wait()
            changed.clear()
            while cursor < len(frames):
                frame = frames[cursor]
                cursor += 1
                await websocket.send_text(frame[frame.index(b"data: ") + 6 : -2].decode())
    finally:
        viewers.discard(changed)


async def _pump() -> AsyncIterator[bytes]:
    changed, cursor = asyncio.Event(), len(frames)
    viewers.add(changed)
    try:
        yield b": open\n\n"
        while True:
            await changed.wait()
            changed.clear()
            if cursor < len(frames):
                body = b"".join(frames[cursor:])
                cursor = len(frames)
                yield body
    finally:
        viewers.discard(changed)


application = Starlette(
    routes=[Route("/", stream), WebSocketRoute("/ws", socket), Route("/emit/{count}/{pause_us}", emit)]
)
