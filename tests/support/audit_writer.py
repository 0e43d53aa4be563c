"""A process that appends to one audit chain: ``python -m tests.support.audit_writer ORGANIZATION_ID WRITER EVENTS``.

It says ``ready`` and begins with the first line it is sent, so that several begin together.
"""

import sys
from uuid import UUID

import django

django.setup()

from django.db import transaction  # noqa: E402 (after the setup)

from controlplane.audit.services import audit_record  # noqa: E402
from controlplane.core.actor import Actor, ActorKind  # noqa: E402


def main(organization_id: str, writer: str, events: str) -> None:
    actor = Actor(ActorKind.SYSTEM, f"system:{writer}", writer, UUID(organization_id))
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    for number in range(int(events)):
        with transaction.atomic():
            audit_record(
                actor=actor,
                organization_id=UUID(organization_id),
                action="thing.change",
                object_kind="thing",
                object_id=str(number),
            )


if __name__ == "__main__":
    main(*sys.argv[1:])
