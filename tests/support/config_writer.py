"""A process that patches distinct keys of one node: ``python -m tests.support.config_writer NODE_ID WRITER KEYS``.

It says ``ready`` and begins with the first line it is sent, so that several begin together.
"""

import sys
from uuid import UUID

import django

django.setup()

from controlplane.configs.services import config_patch  # noqa: E402 (after the setup)
from controlplane.core.actor import system_actor  # noqa: E402
from controlplane.orgs.models import Node  # noqa: E402


def main(node_id: str, writer: str, keys: str) -> None:
    node = Node.objects.get(pk=UUID(node_id))
    root = Node.objects.get(organization=node.organization_id, parent__isnull=True)
    actor = system_actor(name="test", organization_id=node.organization_id, root_id=root.pk)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.readline()
    for number in range(int(keys)):
        config_patch(actor=actor, node=node, patch={"k": {f"{writer}-{number}": number}})


if __name__ == "__main__":
    main(*sys.argv[1:])
