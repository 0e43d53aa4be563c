"""Fixtures of more than one file of tests."""

from pathlib import Path

import pytest

from tests.configs.gitops_support import Files
from tests.configs.support import guard, put
from tests.factories import Tree


@pytest.fixture
def guarded(tree: Tree) -> Tree:
    """The team has a model, which the organization wants approved when it changes."""
    put(tree.payments, {"agents": {"k8s": {"model": "a", "prompt": "p"}}})
    guard(tree.root)
    return tree


@pytest.fixture
def files(tree: Tree, tmp_path: Path) -> Files:
    put(tree.root, {"limits": {"max_turns": 10}})
    put(tree.payments, {"agents": {"a": {"model": "m"}}, "empty": {}})
    made = Files(tree, tmp_path)
    made.export()
    return made
