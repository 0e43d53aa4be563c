"""Gives a thread a long log, at once: ``python -m tests.bench.seed THREAD EVENTS``."""

import sys
from uuid import UUID

import django

django.setup()

from controlplane.core import clock  # noqa: E402 (after the setup)
from controlplane.investigations.models import Event, Thread  # noqa: E402

CHUNK = 5_000


def main(thread: str, events: str) -> None:
    row = Thread.objects.get(pk=UUID(thread))
    first, last, at = row.last_seq + 1, row.last_seq + int(events), clock.now()
    data = '{"text":"%s","subagent":null}' % ("x" * 180)
    for begin in range(first, last + 1, CHUNK):
        Event.objects.bulk_create(
            Event(thread=row, seq=seq, run_id=row.pk, type="thought", at=at, data=data)
            for seq in range(begin, min(begin + CHUNK, last + 1))
        )
    Thread.objects.filter(pk=row.pk).update(last_seq=last)


if __name__ == "__main__":
    main(*sys.argv[1:])
