"""The configuration a run has pinned."""

from typing import Any
from uuid import uuid4

import pytest

from controlplane.configs.pinned import config_pinned
from controlplane.configs.selectors import config_effective
from controlplane.configs.services import config_patch
from controlplane.core.errors import NotFound
from tests.factories import Tree


def test_config_pinned__later_writes_on_every_level__are_not_seen(tree: Tree) -> None:
    config_patch(actor=tree.system, node=tree.root, patch={"limits": {"max_turns": 5, "wall_clock_s": 60}})
    config_patch(actor=tree.system, node=tree.payments, patch={"limits": {"max_turns": 7}})
    before = config_effective(node_id=tree.payments.pk)
    config_patch(actor=tree.system, node=tree.root, patch={"limits": {"wall_clock_s": 90}})
    config_patch(actor=tree.system, node=tree.payments, patch={"limits": {"max_turns": 8}})

    assert config_pinned(before.chain) == before.document == {"limits": {"max_turns": 7, "wall_clock_s": 60}}


def test_config_pinned__nothing_ever_written__empty_without_a_query(tree: Tree, django_assert_num_queries: Any) -> None:
    with django_assert_num_queries(0):
        assert config_pinned([(tree.root.pk, 0), (tree.payments.pk, 0)]) == {}


def test_config_pinned__version_that_is_not_there__said(tree: Tree) -> None:
    with pytest.raises(NotFound) as caught:
        config_pinned([(uuid4(), 3)])

    assert caught.value.code == "unknown_version"
