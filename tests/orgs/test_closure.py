"""The closure table equals the one recomputed from the parents, whatever was done to the tree."""

from uuid import UUID

import pytest
from django.db import transaction
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.core.errors import AppError
from controlplane.orgs.models import MAX_DEPTH, Node, NodeAncestor
from controlplane.orgs.services import node_create, node_delete, node_move
from tests.factories import make_tree

#: What is done to which two nodes, by their position among those there are.
steps = st.lists(
    st.tuples(st.sampled_from(["create", "create", "move", "move", "delete"]), st.integers(0, 30), st.integers(0, 30)),
    max_size=14,
)


def recomputed() -> set[tuple[UUID, UUID, int]]:
    parents = dict(Node.objects.values_list("pk", "parent_id"))
    links = set()
    for node in parents:
        ancestor, depth = node, 0
        while ancestor is not None:
            links.add((ancestor, node, depth))
            ancestor, depth = parents[ancestor], depth + 1
            assert depth <= MAX_DEPTH, "a cycle or too deep a tree"
    return links


@pytest.mark.django_db
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
def test_closure__any_steps__equals_recomputed(steps: list[tuple[str, int, int]]) -> None:
    with transaction.atomic():
        tree = make_tree()
        for number, (step, one, two) in enumerate(steps):
            nodes = list(Node.objects.order_by("created_at", "slug"))
            node, other = nodes[one % len(nodes)], nodes[two % len(nodes)]
            try:
                if step == "create":
                    node_create(
                        actor=tree.system,
                        organization=tree.organization,
                        parent=node,
                        slug=f"n-{number}",
                        name="N",
                        kind="group",
                    )
                elif step == "move":
                    node_move(actor=tree.system, node=node, parent=other)
                else:
                    node_delete(actor=tree.system, node=node)
            except AppError:
                pass  # a refusal must leave the closure right too
            assert set(NodeAncestor.objects.values_list("ancestor_id", "descendant_id", "depth")) == recomputed()
        transaction.set_rollback(True)
