"""A proxy that cuts a connection over which no byte has gone for a while, as those between browsers and servers do."""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

CHUNK = 65_536


class IdleProxy:
    """Forwards TCP to ``target``; ``cut`` counts the connections that were ended for their silence."""

    def __init__(self, target: tuple[str, int], *, idle_s: float) -> None:
        self._target = target
        self._idle_s = idle_s
        self.cut = 0

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection."""
        inner_reader, inner_writer = await asyncio.open_connection(*self._target)
        loop = asyncio.get_running_loop()
        last = loop.time()

        async def forward(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            nonlocal last
            while piece := await source.read(CHUNK):
                last = loop.time()
                sink.write(piece)
                await sink.drain()

        async def watch() -> None:
            while True:
                left = last + self._idle_s - loop.time()
                if left <= 0:
                    self.cut += 1
                    return
                await asyncio.sleep(left)

        tasks = [
            asyncio.create_task(work)
            for work in (forward(reader, inner_writer), forward(inner_reader, writer), watch())
        ]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in (writer, inner_writer):
            each.close()
            with contextlib.suppress(OSError):
                await each.wait_closed()


@contextmanager
def idle_proxy(target: tuple[str, int], *, idle_s: float) -> Iterator[tuple[str, IdleProxy]]:
    """Run a proxy in a thread for the length of the block; yield its URL and itself."""
    proxy = IdleProxy(target, idle_s=idle_s)
    loop = asyncio.new_event_loop()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        listener.listen(64)
        server = loop.run_until_complete(asyncio.start_server(proxy.handle, sock=listener))
        thread = threading.Thread(target=loop.run_forever, name="idle-proxy")
        thread.start()
        try:
            yield f"http://127.0.0.1:{port}", proxy
        finally:
            loop.call_soon_threadsafe(server.close)
            asyncio.run_coroutine_threadsafe(_end_tasks(), loop).result(10)
            loop.call_soon_threadsafe(loop.stop)
            thread.join(10)
            loop.close()


async def _end_tasks() -> None:
    others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)
