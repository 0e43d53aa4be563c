"""What the size of a tree costs: nothing, wherever the work is about one node or a few."""

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from controlplane.configs.cache import Computed, effective_cache
from controlplane.configs.gitops.plans import tree_of
from controlplane.configs.models import ConfigDocument
from controlplane.configs.selectors import config_effective
from controlplane.configs.services import config_patch
from controlplane.orgs.models import Node, NodeAncestor, NodeKind
from tests.configs.support import patch, put
from tests.factories import Tree

pytestmark = pytest.mark.django_db
MANY = 60


def make_teams(tree: Tree, document: dict[str, Any]) -> None:
    """Add many teams with a document each, written straight to the tables."""
    teams = [
        Node(organization=tree.organization, parent=tree.engineering, kind=NodeKind.TEAM, slug=f"t{n}", name=f"T{n}")
        for n in range(MANY)
    ]
    Node.objects.bulk_create(teams)
    NodeAncestor.objects.bulk_create(
        NodeAncestor(ancestor=ancestor, descendant=team, depth=depth)
        for team in teams
        for depth, ancestor in enumerate((team, tree.engineering, tree.root))
    )
    ConfigDocument.objects.bulk_create(ConfigDocument(node=team, document=document, version=1) for team in teams)


def queries_of(job: Callable[[], Any]) -> int:
    with CaptureQueriesContext(connection) as queries:
        job()
    return len(queries)


def test_write_at_the_root__then_a_read_of_a_team__merges_that_team_alone(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    for node in (tree.root, tree.engineering, tree.payments, tree.platform):
        put(node, {"limits": {"max_turns": 5}, "team_context": {"about": node.slug}})
        config_effective(node_id=node.pk)
    merged: list[UUID] = []
    keep = effective_cache.put

    def noted(pk: UUID, computed: Computed) -> None:
        merged.append(pk)
        keep(pk, computed)

    monkeypatch.setattr(effective_cache, "put", noted)

    patch(tree.root, {"limits": {"wall_clock_s": 600}})
    assert merged == []
    assert queries_of(lambda: config_effective(node_id=tree.payments.pk)) == 2
    assert merged == [tree.payments.pk]
    assert queries_of(lambda: config_effective(node_id=tree.payments.pk)) == 1
    assert config_effective(node_id=tree.platform.pk).document["limits"] == {"max_turns": 5, "wall_clock_s": 600}
    assert merged == [tree.payments.pk, tree.platform.pk]


def test_write_of_a_team__many_teams_more__no_query_more(tree: Tree) -> None:
    writes = iter(range(10))

    def write() -> None:
        config_patch(
            actor=tree.system, node=tree.payments, patch={"agents": {"a": {"enabled": bool(next(writes) % 2)}}}
        )

    write()
    before = queries_of(write)
    make_teams(tree, {"agents": {"a": {"tools": {"think": True}}}})
    assert queries_of(write) == before


def test_write_at_the_root__of_what_nobody_below_touches__reads_no_document_below(tree: Tree) -> None:
    put(tree.root, {"agents": {"a": {"enabled": True}, "b": {"enabled": True}}})
    states = iter((False, None, True))

    def write() -> None:
        patch(tree.root, {"agents": {"b": {"enabled": next(states)}}})

    before = queries_of(write)
    make_teams(tree, {"agents": {"a": {"tools": {"think": True}}}})
    assert queries_of(write) == before
    with CaptureQueriesContext(connection) as queries:
        write()
    assert not [one for one in queries if "t0" in one["sql"]]


def test_export__many_teams__the_same_few_queries(tree: Tree) -> None:
    assert queries_of(lambda: tree_of(tree.organization)) == 4
    make_teams(tree, {"agents": {"a": {"tools": {"think": True}}}})
    assert queries_of(lambda: tree_of(tree.organization)) == 4
