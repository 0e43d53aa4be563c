"""Another process of the installation, on the bus: ``python -m tests.support.bus_peer``.

Each line of its input is a JSON list: ``["append", thread, count, characters, audience]``, ``["work"]``,
``["rights", organization]``, ``["heard"]``; it answers each with a line: ``done``, or what it has heard of the others.
"""

import json
import sys
from uuid import UUID

import django

django.setup()

from django.db import transaction  # noqa: E402 (after the setup)

from controlplane.access.revocations import rights_taken  # noqa: E402
from controlplane.core.db import run_job  # noqa: E402
from controlplane.investigations import bus, buses  # noqa: E402
from controlplane.investigations.log import append, new_event  # noqa: E402
from controlplane.investigations.models import Audience  # noqa: E402
from controlplane.runtimes.events import EventType, Thought  # noqa: E402
from tests.support.runs import wait_until  # noqa: E402

heard: list[str] = []


def act(kind: str, *rest: str | int) -> str:
    if kind == "append":
        thread, count, characters, audience = rest
        for _ in range(int(count)):
            thought = Thought(text="x" * int(characters))
            event = new_event(EventType.THOUGHT, thought, run_id=None, audience=Audience(str(audience)))
            append(thread_id=UUID(str(thread)), events=[event])
    elif kind == "work":
        bus.work.tell()
    elif kind == "rights":
        with transaction.atomic():
            rights_taken(UUID(str(rest[0])))
    elif kind == "heard":
        return json.dumps(heard)
    return "done"


def main() -> None:
    leave = buses.join()
    wait_until(buses.is_connected, what="the bus")
    bus.work.add(lambda: heard.append("work"))
    say("ready")
    for line in sys.stdin:
        say(run_job(act, *json.loads(line)))
    leave()


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
