"""Two at the same moment on one tree."""

import pytest

from controlplane.core.errors import AppError
from controlplane.orgs.models import Node, NodeAncestor, NodeKind
from controlplane.orgs.services import node_delete, node_move
from tests.factories import make_node, make_tree
from tests.orgs.test_closure import recomputed
from tests.support.threads import at_once

pytestmark = pytest.mark.django_db(transaction=True)


def test_node_move__two_groups_below_each_other__no_cycle() -> None:
    tree = make_tree()
    ops = make_node(tree.root, "ops", NodeKind.GROUP)
    outcomes = at_once(
        lambda: node_move(actor=tree.system, node=tree.engineering, parent=ops),
        lambda: node_move(actor=tree.system, node=ops, parent=tree.engineering),
    )
    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["InvalidInput", "Node"]
    assert set(NodeAncestor.objects.values_list("ancestor_id", "descendant_id", "depth")) == recomputed()


def test_node_delete__while_a_child_is_made__never_an_orphan() -> None:
    tree = make_tree()
    outcomes = at_once(
        lambda: node_delete(actor=tree.system, node=tree.payments),
        lambda: make_node(tree.payments, "cards"),
    )
    assert sum(isinstance(outcome, AppError) for outcome in outcomes) == 1
    assert Node.objects.filter(slug="cards").exists() == Node.objects.filter(slug="payments").exists()
    assert set(NodeAncestor.objects.values_list("ancestor_id", "descendant_id", "depth")) == recomputed()
