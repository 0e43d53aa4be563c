"""People with browsers, and investigations in every state."""

import pytest
from django.test import Client

from controlplane.core.actor import Role
from controlplane.investigations.models import Thread
from tests.factories import Tree, make_user
from tests.web.support import Person, finish, start


@pytest.fixture
def responder(tree: Tree) -> Person:
    """A responder on the group above both teams, signed in."""
    return Person.signed_in(make_user(tree.engineering, Role.RESPONDER, username="rita"))


@pytest.fixture
def colleague(tree: Tree) -> Person:
    """A second responder of the same teams."""
    return Person.signed_in(make_user(tree.engineering, Role.RESPONDER, username="carl"))


@pytest.fixture
def viewer(tree: Tree) -> Person:
    """Somebody who may read the payments team's runs and no more."""
    return Person.signed_in(make_user(tree.payments, Role.VIEWER, username="vera"))


@pytest.fixture
def outsider(other_tree: Tree) -> Person:
    """An owner of another organization."""
    return Person.signed_in(make_user(other_tree.root, Role.OWNER, username="olaf"))


@pytest.fixture
def anonymous(db: None) -> Client:
    return Client()


@pytest.fixture
def team_thread(tree: Tree, responder: Person) -> Thread:
    """A finished investigation that the team sees."""
    return finish(start(responder, tree.payments, visibility="team")).thread


@pytest.fixture
def private_thread(tree: Tree, responder: Person) -> Thread:
    """A finished investigation that its starter alone sees."""
    return finish(start(responder, tree.payments, visibility="private")).thread


@pytest.fixture
def admin(tree: Tree) -> Person:
    """An admin of the payments team alone."""
    return Person.signed_in(make_user(tree.payments, Role.ADMIN, username="ada"))


@pytest.fixture
def reviewer(tree: Tree) -> Person:
    """Somebody who decides the reviews of the whole organization."""
    return Person.signed_in(make_user(tree.root, Role.REVIEWER, username="rex"))


@pytest.fixture
def owner(tree: Tree) -> Person:
    """The owner of the organization."""
    return Person.signed_in(make_user(tree.root, Role.OWNER, username="otto"))
