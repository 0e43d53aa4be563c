"""Several processes write one chain at once."""

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import UUID, uuid4

import pytest

from controlplane.audit.chain import GENESIS
from controlplane.audit.models import AuditEvent
from controlplane.audit.selectors import audit_verify
from tests.support.processes import ROOT, environment

EVENTS = 100


@contextmanager
def writer(organization_id: UUID, name: str) -> Iterator[Any]:
    command = [sys.executable, "-m", "tests.support.audit_writer", str(organization_id), name, str(EVENTS)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, env=environment(), text=True, stdin=pipe, stdout=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.django_db(transaction=True)
def test_audit_record__two_processes_a_hundred_events_each__one_gapless_chain() -> None:
    organization_id = uuid4()
    with ExitStack() as stack:
        writers = [stack.enter_context(writer(organization_id, name)) for name in ("one", "two")]
        assert [process.stdout.readline() for process in writers] == ["ready\n"] * 2
        for process in writers:
            process.stdin.write("go\n")
            process.stdin.flush()
        assert [process.wait(120) for process in writers] == [0, 0]
    rows = list(AuditEvent.objects.filter(organization_id=organization_id).order_by("org_seq"))
    assert [row.org_seq for row in rows] == list(range(1, 2 * EVENTS + 1))
    assert [row.prev_mac for row in rows] == [GENESIS, *(row.mac for row in rows[:-1])], "no two follow one event"
    assert Counter(row.actor for row in rows) == {"system:one": EVENTS, "system:two": EVENTS}
    assert len({row.prev_mac for row in rows}) == 2 * EVENTS
    report = audit_verify(organization_id)
    assert (report.intact, report.events) == (True, 2 * EVENTS)
