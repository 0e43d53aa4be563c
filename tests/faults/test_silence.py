"""A runtime that says nothing for minutes, behind a proxy that cuts what is silent; all shorter by one factor."""

import threading
from typing import Any

import httpx
import pytest

from tests.factories import Tree, make_team_token
from tests.faults.conftest import FULL
from tests.support.idle_proxy import idle_proxy
from tests.support.runs import start_run, wait_for_status, working
from tests.support.server import parse_sse, serving

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.faults]

#: Silent for 90 s, heartbeat each 15 s, cut after 20 s; the short form is thirty times as fast.
SCALE = 1.0 if FULL else 1 / 30
SILENT_S, HEARTBEAT_S, IDLE_S = 90 * SCALE, 15 * SCALE, 20 * SCALE


def follow(url: str, thread_id: Any, token: str) -> tuple[list[str], int]:
    """Follow a stream to the end of the run; return the types seen and the number of heartbeats."""
    types, heartbeats = [], 0
    address = f"{url}/api/v1/threads/{thread_id}/stream"
    with httpx.stream("GET", address, headers={"Authorization": f"Bearer {token}"}, timeout=120) as answer:
        for frame in parse_sse(answer.iter_lines()):
            heartbeats += "comment" in frame
            if "event" in frame:
                types.append(frame["event"])
            if types and types[-1] == "run_ended":
                break
    return types, heartbeats


def test_stream__silent_runtime_behind_a_proxy__is_never_cut(tree: Tree, settings: Any) -> None:
    settings.STREAM_HEARTBEAT_SECONDS = HEARTBEAT_S
    started = start_run(tree.system, tree.payments, {"thought": "a"}, {"sleep_ms": SILENT_S * 1000}, {"thought": "b"})
    with serving() as server, idle_proxy(("127.0.0.1", port_of(server.url)), idle_s=IDLE_S) as (url, proxy):
        with working():
            types, heartbeats = follow(url, started.thread.pk, make_team_token(tree.payments))
            wait_for_status(started.run)
        assert proxy.cut == 0

    assert types == ["run_started", "thought", "thought", "result", "run_ended"]
    assert heartbeats >= 4


def test_idle_proxy__nothing_is_said__cuts(tree: Tree, settings: Any) -> None:
    """The proxy does what the test above needs of it."""
    settings.STREAM_HEARTBEAT_SECONDS = 10.0
    started = start_run(tree.system, tree.payments)
    with serving() as server, idle_proxy(("127.0.0.1", port_of(server.url)), idle_s=0.3) as (url, proxy):
        with pytest.raises(httpx.RemoteProtocolError):
            follow(url, started.thread.pk, make_team_token(tree.payments))
        assert proxy.cut == 1
    assert not [thread for thread in threading.enumerate() if thread.name == "idle-proxy"]


def port_of(url: str) -> int:
    return int(url.rsplit(":", 1)[1])
