"""The server of ``make dev``: the port, the address, starting, stopping."""

import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from web.dev import StartError, base_url, open_socket

ROOT = Path(__file__).resolve().parents[2]
SERVE = """
import sys, time
from web.dev import interrupt_on_sigterm, open_socket, serve

async def application(scope, receive, send):
    if scope["type"] == "lifespan":
        await receive()
        if "broken" in sys.argv:
            await send({"type": "lifespan.startup.failed", "message": "no"})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        print("lifespan ended", flush=True)
        await send({"type": "lifespan.shutdown.complete"})
    else:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"served"})

interrupt_on_sigterm()
serve(application, open_socket("127.0.0.1", int(sys.argv[1])), on_ready=lambda: print("ready", flush=True))
"""


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


# ---- the port ------------------------------------------------------------------------------------------------------


def test_open_socket__free_port__is_ours_from_then_on() -> None:
    port = free_port()
    with open_socket("127.0.0.1", port), pytest.raises(StartError):
        open_socket("127.0.0.1", port)
    open_socket("127.0.0.1", port).close()


def test_open_socket__taken_port__names_it_and_says_how_to_choose_another(taken_port: int) -> None:
    with pytest.raises(StartError) as caught:
        open_socket("127.0.0.1", taken_port)
    message = str(caught.value)
    assert f"Port {taken_port} on 127.0.0.1 is in use" in message
    assert f"make dev PORT={taken_port + 1}" in message
    assert "\n" not in message


@pytest.mark.parametrize("port", [0, -1, 65536, 10**9])
def test_open_socket__port_out_of_range__names_the_variable(port: int) -> None:
    with pytest.raises(StartError, match="PORT must be between 1 and 65535"):
        open_socket("127.0.0.1", port)


@pytest.mark.parametrize("host", ["203.0.113.7", "no such host", "256.1.1.1", "x" * 300])
def test_open_socket__host_that_is_not_here__names_the_variable(host: str) -> None:
    with pytest.raises(StartError, match=r"^HOST=.* is not an address of this machine"):
        open_socket(host, free_port())


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("localhost", "http://localhost:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),  # noqa: S104 (a name to recognise, not bound)
        ("::", "http://127.0.0.1:8000"),
        ("::1", "http://[::1]:8000"),
    ],
)
def test_base_url__any_host__is_what_one_types_on_this_machine(host: str, url: str) -> None:
    assert base_url(host, 8000) == url


# ---- serving -------------------------------------------------------------------------------------------------------


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SERVE, *arguments], cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_serve__told_to_stop__ends_the_lifespan_and_exits_with_0(stop: signal.Signals) -> None:
    port = free_port()
    with start(str(port)) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5) as answer:
            assert answer.read() == b"served"
        started = time.monotonic()
        process.send_signal(stop)
        out, err = process.communicate(timeout=10)
    assert (process.returncode, out, err) == (0, "lifespan ended\n", "")
    assert time.monotonic() - started < 5


def test_serve__application_that_cannot_start__says_so_and_is_never_ready() -> None:
    with start(str(free_port()), "broken") as process:
        out, err = process.communicate(timeout=10)
    assert process.returncode == 1
    assert out == ""
    assert "StartError: The application could not start" in err


def test_handle_exit__something_hangs__the_process_is_ended_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    import uvicorn

    from web import dev

    ended = threading.Event()
    monkeypatch.setattr(dev, "FORCED_EXIT_S", 0.01)
    monkeypatch.setattr(dev, "_exit_now", ended.set)
    server = dev._Server(uvicorn.Config("unused:unused", log_config=None), lambda: None)
    server.handle_exit(signal.SIGTERM, None)
    assert server.should_exit
    assert ended.wait(5)
