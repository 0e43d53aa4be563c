"""The faults, each as a function of an installation with two web and two worker processes or more.

What it killed or stopped is replaced, unless ``restore`` says otherwise. Each ends with :meth:`Installation.check`: the
log is complete, every run has one end, what was acknowledged is there.
"""

import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from tests.faults.installation import LEASE_S, Installation, Viewer
from tests.support import runs
from tests.support.services import OwnRedis

#: A busy machine starts processes slowly; what must be quick is measured where it matters.
wait_until = partial(runs.wait_until, patience_s=90.0)

#: Some seconds of work in small steps.
STEPS = 60 if os.environ.get("FAULTS") == "full" else 30
LONG: list[dict[str, Any]] = [{"thought": "began"}, {"burst": STEPS, "chars": 40, "pause_ms": 100}, {"thought": "done"}]
ENDLESS: list[dict[str, Any]] = [{"thought": "began"}, {"block": True}]


def holder(it: Installation, thread_id: str) -> Any:
    """Return the worker process that works on the thread's run."""

    def pid() -> int | None:
        sql = f"SELECT lease_owner FROM investigations_thread WHERE id = '{thread_id}'"  # noqa: S608
        owner = str(it.rows(sql)[0][0])
        return int(owner.split(":")[1]) if owner else None

    wait_until(lambda: "began" in it.thoughts(thread_id), what="the run to begin")
    found = wait_until(pid, what="a worker to hold the run")
    return next(worker for worker in it.workers if worker.pid == found)


def worker_killed(it: Installation, *, restore: bool = True) -> None:
    """``kill -9`` of a worker: its run is interrupted in time, what it wrote stays, a follow-up completes."""
    thread_id = it.start(*ENDLESS)
    worker = holder(it, thread_id)
    it.say(thread_id, "said while it worked")
    worker.kill()
    worker.wait(10)
    killed = time.monotonic()
    wait_until(lambda: it.statuses(thread_id)[0] == ("interrupted", "worker_lost"), what="the sweep")
    assert time.monotonic() - killed <= LEASE_S + 5
    wait_until(lambda: it.statuses(thread_id)[1:] == [("completed", "")], what="what was said to be worked on")
    lost = "investigations_workerprocess WHERE stopped_at IS NULL AND seen_at < now() - interval '4 seconds'"
    wait_until(lambda: it.count(lost) >= 1, what="the worker to look lost")
    it.workers.remove(worker)
    if restore:
        it.add_worker()
    it.wait_settled()
    it.check()


def web_killed(it: Installation, *, restore: bool = True) -> None:
    """``kill -9`` of a web process: the run does not notice, its viewer goes on at the other one where it was."""
    thread_id = it.start(*LONG)
    viewer = Viewer(lambda: [web.url for web in it.webs], thread_id, it.base.token)
    viewer.start()
    wait_until(lambda: len(viewer.seqs) > 3, what="the viewer to see something")
    victim = it.webs.pop(0)
    victim.process.kill()
    victim.process.wait(10)
    it.say(thread_id, "said after the web process was killed")
    if restore:
        it.add_web()
    assert viewer.saw_everything()
    it.wait_ready()
    it.wait_settled()
    assert it.statuses(thread_id)[0] == ("completed", "")
    it.check()


def worker_drained(it: Installation, *, restore: bool = True) -> None:
    """SIGTERM to a worker: it hands its run over, the other one completes it, every thought is there once."""
    thread_id = it.start(*LONG)
    worker = holder(it, thread_id)
    viewer = Viewer(lambda: [web.url for web in it.webs], thread_id, it.base.token)
    viewer.start()
    worker.send_signal(signal.SIGTERM)
    assert worker.wait(20) == 0
    it.workers.remove(worker)
    it.wait_settled()
    assert it.statuses(thread_id) == [("completed", "")]
    assert it.thoughts(thread_id) == ["began", *["x" * 40] * STEPS, "done"]
    assert it.rows(f"SELECT attempt FROM investigations_run WHERE thread_id = '{thread_id}'") == [(2,)]  # noqa: S608
    assert viewer.saw_everything()
    if restore:
        it.add_worker()
        it.wait_ready()
    it.check()


def postgres_restarted(it: Installation) -> None:
    """PostgreSQL crashes and comes back: runs, streams and clients go on, nothing that was acknowledged is missing."""
    threads = [it.start(*LONG) for _ in range(4)]
    holder(it, threads[-1])
    viewer = Viewer(lambda: [web.url for web in it.webs], threads[0], it.base.token)
    viewer.start()
    wait_until(lambda: len(viewer.seqs) > 3, what="the viewer to see something")

    def talk(index: int) -> None:
        for number in range(8):
            it.say(threads[index], f"message {index}.{number} {threads[index]}", web=index)
            time.sleep(0.15)

    talking = [threading.Thread(target=talk, args=[index]) for index in range(4)]
    for each in talking:
        each.start()
    time.sleep(0.5)
    it.base.postgres.stop()
    time.sleep(0.5)
    it.base.postgres.start()
    for each in talking:
        each.join(90)
        assert not each.is_alive()
    assert viewer.saw_everything()
    it.wait_settled()
    assert {it.statuses(thread_id)[0] for thread_id in threads} == {("completed", "")}
    assert len(it.acknowledged.messages) >= 32
    it.wait_ready()
    it.check()


def stale_lease(it: Installation) -> None:
    """A worker sleeps through its lease and wakes after the takeover: it writes nothing and goes on claiming."""
    thread_id = it.start({"thought": "began"}, {"burst": 20_000, "chars": 4, "pause_ms": 200})
    worker = holder(it, thread_id)
    os.kill(worker.pid, signal.SIGSTOP)
    try:
        wait_until(lambda: it.statuses(thread_id)[0] == ("interrupted", "worker_lost"), what="the sweep")
        before = len(it.thoughts(thread_id))
        it.say(thread_id, f"go on {thread_id}")
    finally:
        os.kill(worker.pid, signal.SIGCONT)
    wait_until(lambda: it.statuses(thread_id)[1:] == [("completed", "")], what="the follow-up")
    first = f"investigations_event WHERE thread_id = '{thread_id}' AND type = 'thought' AND run_id IN"
    first += f" (SELECT id FROM investigations_run WHERE thread_id = '{thread_id}' AND number = 1)"  # noqa: S608
    assert it.count(first) == before
    other = next(each for each in it.workers if each is not worker)
    os.kill(other.pid, signal.SIGSTOP)
    try:
        again = it.start({"thought": "after"})
        wait_until(lambda: it.statuses(again) == [("completed", "")], what="the woken worker to claim")
    finally:
        os.kill(other.pid, signal.SIGCONT)
    it.wait_settled()
    it.check()


def duplicate_deliveries(it: Installation) -> None:
    """The same request five times at once at two processes: done once, and answered alike."""
    body = {"delivery_id": f"d-{time.monotonic_ns()}", "title": "checkout is slow", "severity": "critical"}
    before = it.count("investigations_thread")
    with ThreadPoolExecutor(10) as pool:
        starts = [pool.submit(it.start, {"thought": "once"}, key=f"k-{before}", web=index) for index in range(5)]
        alerts = [
            pool.submit(it.post, "/api/v1/alerts/generic", body, key=f"a-{before}", web=index) for index in range(5)
        ]
        assert len({start.result() for start in starts}) == 1
        for alert in alerts:
            alert.result()
    assert it.count("investigations_thread") == before + 2
    it.wait_settled()
    assert it.count("investigations_run") == it.count("investigations_event WHERE type = 'run_started'")
    it.check()


def alert_storm(it: Installation, *, alerts: int = 40) -> None:
    """So many alerts, sent three times: a thread for each, started once."""
    stamp = time.monotonic_ns()
    before = it.count("investigations_thread")
    limit = it.rows("SELECT count(*) FROM alerts_alertgroup")[0][0]

    def send(index: int) -> Any:
        body = {
            "delivery_id": f"storm-{stamp}-{index}",
            "title": f"host {index} is down",
            "labels": {"host": f"h{index}"},
        }
        return it.post("/api/v1/alerts/generic", body, web=index)

    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            list(pool.map(send, range(alerts)))
    assert it.count("alerts_alertgroup") == limit + alerts
    started = it.count("investigations_thread") - before
    # The team's alerts start at most thirty runs an hour; what is over it is recorded as skipped and starts none.
    assert started == min(alerts, 30) or started == it.count("alerts_alertgroup WHERE thread_id IS NOT NULL") - limit
    it.wait_settled(120)
    it.check()


def many_queued(it: Installation, *, amount: int) -> None:
    """So many runs at once on the two workers: each is worked on once and completes."""
    with ThreadPoolExecutor(8) as pool:
        threads = list(pool.map(lambda index: it.start({"thought": "a"}, {"thoughts": 3}, web=index), range(amount)))
    assert len(set(threads)) == amount
    it.wait_settled(180)
    wanted = ", ".join(f"'{thread_id}'" for thread_id in threads)
    sql = f"SELECT status, attempt, count(*) FROM investigations_run WHERE thread_id IN ({wanted}) GROUP BY 1, 2"  # noqa: S608
    assert it.rows(sql) == [("completed", 1, amount)]
    it.check()


def slow_client(it: Installation) -> None:
    """A client that stops reading holds up neither the run nor another viewer, and then gets all of it."""
    thread_id = it.start({"thought": "began"}, {"burst": 300, "chars": 20_000, "pause_ms": 2})
    request = (
        f"GET /api/v1/threads/{thread_id}/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n"
        f"Authorization: Bearer {it.base.token}\r\n\r\n"
    )
    with socket.socket() as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", it.webs[0].port))
        slow.sendall(request.encode())
        slow.recv(1024)
        quick = Viewer(lambda: [it.webs[0].url], thread_id, it.base.token)
        quick.start()
        assert quick.saw_everything()
        slow.settimeout(30)
        seen = 0
        received = b""
        while b"event: run_ended" not in received[-200_000:]:
            piece = slow.recv(65_536)
            assert piece, f"the slow client was cut off after {seen} bytes"
            received = received[-1_000_000:] + piece
            seen += len(piece)
    it.wait_settled()
    assert it.statuses(thread_id) == [("completed", "")]
    it.check()


def redis_restarted(it: Installation, redis: OwnRedis) -> None:
    """Redis dies and comes back while runs are followed: viewers miss nothing, in the meantime or afterwards."""
    thread_id = it.start(*LONG)
    viewer = Viewer(lambda: [web.url for web in it.webs], thread_id, it.base.token)
    viewer.start()
    wait_until(lambda: len(viewer.seqs) > 3, what="the viewer to see something")
    redis.stop()
    it.say(thread_id, f"said without Redis {thread_id}")
    while_down = it.start({"thought": "without Redis"})
    wait_until(lambda: it.statuses(while_down) == [("completed", "")], what="a run without Redis")
    redis.start()
    assert viewer.saw_everything()
    late = it.start(*LONG)
    following = Viewer(lambda: [it.webs[1].url], late, it.base.token)
    following.start()
    assert following.saw_everything()
    it.wait_settled()
    it.check()
