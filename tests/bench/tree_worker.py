"""What ``bench tree`` measures, in a process of its own for each tree: a line of JSON asked, a line answered.

Started with the settings of its database: ``python -m tests.bench.tree_worker``. A cost is wall time and CPU time, the
latter of this process and of its database connection's together, which a busy machine changes least.
"""

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import django

django.setup()

from django.db import connection  # noqa: E402 (after the setup, as everything below)
from django.test.utils import CaptureQueriesContext  # noqa: E402

from controlplane.audit.models import AuditEvent  # noqa: E402
from controlplane.configs.gitops.applying import config_apply, config_rehearse  # noqa: E402
from controlplane.configs.gitops.files import read_tree, write_tree  # noqa: E402
from controlplane.configs.gitops.plans import tree_of  # noqa: E402
from controlplane.configs.models import ConfigDocument, ConfigVersion  # noqa: E402
from controlplane.configs.pointers import Document, leaves  # noqa: E402
from controlplane.configs.selectors import config_effective  # noqa: E402
from controlplane.configs.services import config_patch  # noqa: E402
from controlplane.core import clock  # noqa: E402
from controlplane.core.actor import Actor, ActorKind, Channel, system_actor  # noqa: E402
from controlplane.core.ids import new_id  # noqa: E402
from controlplane.orgs.models import Node, NodeAncestor, NodeKind  # noqa: E402
from controlplane.orgs.services import organization_create  # noqa: E402
from tests.bench.servers import cpu_s  # noqa: E402

GROUP_SIZE: Final = 100
BATCH: Final = 2000


class Bench:
    """One tree, by its organization ``bench``. Teams are asked in turn, so that no answer comes from a cache."""

    def __init__(self) -> None:
        self._count = 0
        self._switched = False

    def build(self, teams: int) -> dict[str, Any]:
        """Make root, groups of up to a hundred teams, and documents of about 20, 1 and 1 KB, written straight in."""
        began = time.perf_counter()
        operator = Actor(ActorKind.SYSTEM, "system:bench", "bench", channel=Channel.CLI)
        organization = organization_create(actor=operator, slug="bench", name="Bench")
        root = organization.nodes.get()
        groups = [_node(root, f"group-{index}", NodeKind.GROUP) for index in range(-(-teams // GROUP_SIZE))]
        members = [_node(groups[index // GROUP_SIZE], f"team-{index}", NodeKind.TEAM) for index in range(teams)]
        Node.objects.bulk_create([*groups, *members], BATCH)
        NodeAncestor.objects.bulk_create(_links(root, groups, members), BATCH)
        documents = [(root, ROOT_DOCUMENT), *((group, _group_document(group.slug)) for group in groups)]
        documents += [(team, _team_document(index)) for index, team in enumerate(members)]
        rows = [_stored(node, document) for node, document in documents]
        ConfigDocument.objects.bulk_create([row for row, _ in rows], BATCH)
        ConfigVersion.objects.bulk_create([version for _, version in rows], BATCH)
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE")
        return {"nodes": 1 + len(groups) + len(members), "seconds": time.perf_counter() - began}

    def team_write(self, times: int) -> dict[str, Any]:
        """A new value in a team's document: the median of some writes."""
        return _median([self._cost(lambda: self._patch(self._team(), {"notes": {f"n{self._count}": 1}}))
                        for _ in range(times)])  # fmt: skip

    def root_write_then_read(self) -> dict[str, Any]:
        """A write at the root, then what the next read of a team costs and asks the database."""
        team = self._team()
        config_effective(node_id=team.pk)
        write = self._cost(lambda: self._patch(self._root, {"limits": {"max_turns": 10 + self._count % 50}}))
        with CaptureQueriesContext(connection) as queries:
            read = self._cost(lambda: config_effective(node_id=team.pk))
        return {"write": write, "read": read, "read_queries": len(queries)}

    def root_switch(self) -> dict[str, Any]:
        """Switching an integration at the root that one team in a hundred uses, which has those teams checked."""
        self._switched = not self._switched
        patch = {"integrations": {"spare": {"kind": "loki", "enabled": True if self._switched else None}}}
        return self._cost(lambda: config_patch(actor=self._actor, node=self._root, patch=patch, merge_patch=True))

    def preview(self, patch: Document) -> dict[str, Any]:
        """A dry run at the root, with the number of nodes that it says are affected."""
        found: list[int] = []

        def foresee() -> None:
            result = config_patch(actor=self._actor, node=self._root, patch=patch, dry_run=True)
            found.append(result.impact.count if result.impact else 0)

        return {**self._cost(foresee), "affected": found[0]}

    def gitops(self, folder: str) -> dict[str, Any]:
        """Export into an empty folder and again; plan nothing; change one file and ten, plan and apply."""
        place, organization = Path(folder), self._root.organization
        costs = {
            "export": self._cost(lambda: write_tree(place, tree_of(organization))),
            "export_again": self._cost(lambda: write_tree(place, tree_of(organization))),
        }
        costs["plan_nothing"] = self._cost(lambda: self._rehearse(place))
        for path in sorted(place.rglob("team-1/node.yaml")) + sorted(place.rglob("team-2/node.yaml")):
            path.write_text(path.read_text("utf-8").replace("system: team", "system: changed team"), "utf-8")
        costs["plan"] = self._cost(lambda: self._rehearse(place))
        costs["apply"] = self._cost(
            lambda: config_apply(actor=self._actor, organization=organization, tree=read_tree(place))
        )
        return costs

    def patch_keys(self, writer: int, keys: int) -> dict[str, Any]:
        """One of several processes that write distinct keys of the same team at once."""
        team = Node.objects.get(slug="team-0")
        for number in range(keys):
            self._patch(team, {"shared": {f"{writer}-{number}": number}})
        return {}

    def patched(self) -> dict[str, Any]:
        """What the processes of :meth:`patch_keys` left: keys, versions, and audit rows of them."""
        row = ConfigDocument.objects.get(node__slug="team-0")
        versions = ConfigVersion.objects.filter(node=row.node, document__has_key="shared")
        events = AuditEvent.objects.filter(node_id=row.node_id, action="config.patch")
        return {"keys": len(row.document.get("shared", {})), "versions": versions.count(), "events": events.count()}

    @property
    def _root(self) -> Node:
        return Node.objects.select_related("organization").get(parent__isnull=True, organization__slug="bench")

    @property
    def _actor(self) -> Actor:
        root = self._root
        return system_actor(name="bench", organization_id=root.organization_id, root_id=root.pk)

    def _team(self) -> Node:
        self._count += 1
        teams = Node.objects.filter(kind=NodeKind.TEAM)
        return teams.get(slug=f"team-{self._count * 37 % teams.count()}")

    def _patch(self, node: Node, patch: Document) -> None:
        config_patch(actor=self._actor, node=node, patch=patch)

    def _rehearse(self, folder: Path) -> None:
        root = self._root
        config_rehearse(actor=self._actor, organization=root.organization, tree=read_tree(folder))

    def _cost(self, job: Callable[[], Any]) -> dict[str, float]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_backend_pid()")
            backend = int(cursor.fetchone()[0])
        at, used, served = time.perf_counter(), time.process_time(), cpu_s(backend)
        job()
        cpu = time.process_time() - used + cpu_s(backend) - served
        return {"seconds": time.perf_counter() - at, "cpu_s": cpu}


def _median(costs: list[dict[str, float]]) -> dict[str, float]:
    """The median of the wall times; of the CPU times the mean, for a short one is finer than the clock of a process."""
    return {
        "seconds": statistics.median(cost["seconds"] for cost in costs),
        "cpu_s": statistics.fmean(cost["cpu_s"] for cost in costs),
    }


def _node(parent: Node, slug: str, kind: str) -> Node:
    return Node(organization=parent.organization, parent=parent, kind=kind, slug=slug, name=slug.title())


def _links(root: Node, groups: list[Node], members: list[Node]) -> Iterator[NodeAncestor]:
    for node in (*groups, *members):
        chain = [node]
        while chain[-1].parent is not None and chain[-1].pk != root.pk:
            chain.append(chain[-1].parent)
        for depth, ancestor in enumerate(chain):
            yield NodeAncestor(ancestor=ancestor, descendant=node, depth=depth)


ROOT_DOCUMENT: Final[Document] = {
    "agents": {
        "planner": {"enabled": True, "prompt": {"system": "Find the cause."}, "tools": {"search_logs": True}},
        **{
            f"agent-{index}": {"enabled": True, "prompt": {"system": "Look closely. " * 110}, "tools": {"think": True}}
            for index in range(12)
        },
    },
    "integrations": {"logs": {"enabled": True, "kind": "loki"}, "metrics": {"enabled": True, "kind": "prometheus"}},
    "tools": {"search_logs": {"enabled": True, "requires_integration": "logs"}, "think": {"enabled": True}},
    "limits": {"max_turns": 30},
}


def _group_document(slug: str) -> Document:
    return {"team_context": {"about": f"{slug} runs a part of the shop."}}


def _team_document(index: int) -> Document:
    """Every team words its planner; one in a hundred has limits of its own and names the integration ``spare``."""
    document: Document = {
        "agents": {"planner": {"prompt": {"system": f"team {index}: " + "What do the dashboards say? " * 25}}},
        "routing": {"services": [f"service-{index}", f"gateway-{index}"]},
        "preferences": {"language": "en", "tone": "short"},
    }
    if index % GROUP_SIZE == 0:
        document["limits"] = {"max_turns": 12}
        document["agents"]["helper"] = {"integrations": {"spare": True}}
    return document


def _stored(node: Node, document: Document) -> tuple[ConfigDocument, ConfigVersion]:
    at, revision = clock.now(), new_id()
    authors = {"1": {"by": "bench", "at": at.isoformat()}}
    versions = {pointer: 1 for pointer, _ in leaves(document)}
    row = ConfigDocument(node=node, document=document, version=1, revision=revision, leaf_versions=versions,
                         authors=authors, updated_at=at, updated_by="bench")  # fmt: skip
    return row, ConfigVersion(
        id=revision, node=node, version=1, document=document, at=at, by="bench", principal="system:bench"
    )


@contextmanager
def _connected() -> Iterator[None]:
    try:
        yield
    finally:
        connection.close()


def main() -> None:
    """Answer questions ``{"do": method, …arguments}`` until the input ends."""
    bench = Bench()
    with _connected():
        for line in sys.stdin:
            question = json.loads(line)
            answer = getattr(bench, question.pop("do"))(**question)
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
