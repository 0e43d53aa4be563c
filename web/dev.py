"""The server of ``make dev``: one process that serves the ASGI application until it is told to stop."""

import errno
import fcntl
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

import uvicorn
from typing_extensions import override

GRACEFUL_S: Final = 5
#: After this long the process ends whatever still hangs; what a run has written is in the database.
FORCED_EXIT_S: Final = 9.0
WILDCARDS: Final = frozenset({"0.0.0.0", "::", ""})  # noqa: S104 (recognised, not bound)


class StartError(Exception):
    """Why the server cannot start, in one sentence for the person at the terminal."""


def open_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens on ``host`` and ``port``: from now on nobody else gets the port.

    Raises:
        StartError: the port is taken, not allowed or out of range, or the host is no address of this machine.
    """
    if not 1 <= port <= 65535:
        raise StartError(f"PORT must be between 1 and 65535, not {port}.")
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError):
        raise StartError(f"HOST={host} is not an address of this machine.") from None
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        # Listening at once, long before the first answer: two sockets may be bound to one port, but only one listens.
        listener.listen(512)
    except OSError as error:
        listener.close()
        raise StartError(_why_not(error, host, port)) from None
    return listener


def _why_not(error: OSError, host: str, port: int) -> str:
    other = port + 1 if port < 65535 else port - 1
    if error.errno == errno.EADDRINUSE:
        return (
            f"Port {port} on {host} is in use, perhaps by an OpenSRE that already runs. "
            f"Stop it, or choose another port: make dev PORT={other}"
        )
    if error.errno in {errno.EACCES, errno.EPERM}:
        return f"Port {port} on {host} is not for everybody; choose one above 1023: make dev PORT=8000"
    return f"HOST={host} is not an address of this machine."


@contextmanager
def only_one(path: Path) -> Iterator[None]:
    """Hold a lock file for the length of the block: of two starts on one data directory the second waits its turn."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def base_url(host: str, port: int) -> str:
    """Return the URL to type on this machine: a wildcard host is reached through loopback."""
    name = "127.0.0.1" if host in WILDCARDS else host
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def serve(application: Any, listener: socket.socket, *, on_ready: Callable[[], None]) -> None:
    """Serve ``application`` on ``listener`` until SIGINT or SIGTERM, then stop everything within ten seconds.

    Args:
        application: an ASGI application with a lifespan.
        listener: see :func:`open_socket`.
        on_ready: called once, when requests are answered.

    Raises:
        StartError: the application's own start failed; its log says why.
    """
    config = uvicorn.Config(
        application,
        lifespan="on",
        log_config=None,  # the project's own is in force
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACEFUL_S,
    )
    server = _Server(config, on_ready)
    try:
        config.load()  # which sets the log levels of the project once more
        logging.getLogger("uvicorn.error").setLevel(logging.WARNING)  # we say ourselves when we start and stop
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        pass  # uvicorn sends the signal that stopped it once more, for those who wait for it
    except SystemExit:
        raise StartError("The application could not start; the log above says why.") from None


def interrupt_on_sigterm() -> None:
    """Make SIGTERM interrupt the process as SIGINT does, also where a shell made it ignore SIGINT."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    @override
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started:
            self._on_ready()

    @override
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if not self.should_exit:
            watchdog = threading.Timer(FORCED_EXIT_S, _exit_now)
            watchdog.daemon = True
            watchdog.start()
        super().handle_exit(sig, frame)


def _exit_now() -> None:
    sys.stderr.write("Something did not stop in time; its run shows as interrupted after the next start.\n")
    sys.stderr.flush()
    os._exit(0)
