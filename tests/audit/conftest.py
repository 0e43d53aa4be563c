"""The trees of these tests are made by the services, so that their making is in the log."""

import pytest

from tests.factories import Tree, make_audited_tree


@pytest.fixture
def tree(db: None) -> Tree:
    """The organization ``demo`` with four ``node.create`` events."""
    return make_audited_tree()


@pytest.fixture
def other_tree(db: None) -> Tree:
    """The same for ``rival``."""
    return make_audited_tree("rival")
