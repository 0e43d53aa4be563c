"""A real Chromium before the real ASGI application, with an embedded worker and the suite's database.

Browser and server live for the whole session; each test has an organization of its own. The driver's event loop makes
Django take this thread for async code, so these tests run only when asked for (``-m browser``), in their own process.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from django.test import override_settings
from django.test.utils import setup_databases, teardown_databases
from playwright.sync_api import Browser, Page, expect, sync_playwright
from pytest_django import DjangoDbBlocker

from controlplane.core import clock
from controlplane.core.actor import Role
from controlplane.investigations import bus
from controlplane.investigations.models import ACTIVE_STATUSES, Run, Thread
from controlplane.orgs.models import Node
from tests.browser.support import ARGUMENTS, Site
from tests.factories import Tree, make_tree, make_user
from tests.support.runs import start_run
from tests.support.server import Server, serving
from tests.web.support import Person

_number = count(1)
expect.set_options(timeout=10_000)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip everything here unless the run is about browsers alone."""
    if "browser" in config.getoption("-m") and "not browser" not in config.getoption("-m"):
        return
    for item in items:
        if item.get_closest_marker("browser"):
            item.add_marker(pytest.mark.skip(reason="needs a process of its own: pytest -m browser"))


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if path is None:
        pytest.skip("there is no Chromium here")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def database(django_test_environment: None, django_db_blocker: DjangoDbBlocker) -> Iterator[None]:
    """The test database, open for the session: what a test writes is committed, so that the server sees it.

    Made here: pytest-django makes it for tests that ask for ``db`` and so for a transaction of their own.
    """
    with django_db_blocker.unblock():
        made = setup_databases(verbosity=0, interactive=False, aliases=None)
        yield
        teardown_databases(made, verbosity=0)


@pytest.fixture(scope="session")
def server(database: None) -> Iterator[Server]:
    """The application on a free port."""
    with override_settings(EMBEDDED_WORKER=True, DEFAULT_RUNTIME="scripted"), serving() as server:
        yield server


@pytest.fixture
def tree(server: Server) -> Iterator[Tree]:
    """An organization of this test's own; what still runs in it at the end is stopped."""
    tree = make_tree(f"demo-{next(_number)}")
    yield tree
    left = Run.objects.filter(thread__organization=tree.organization, status__in=ACTIVE_STATUSES)
    left.update(interrupt_requested_at=clock.now())
    bus.work.tell()


@pytest.fixture
def rita(tree: Tree) -> Person:
    """A responder on both teams."""
    user = make_user(tree.engineering, Role.RESPONDER, username=f"rita-{tree.organization.slug}")
    user.name = "Rita"
    user.save()
    return Person.signed_in(user)


@pytest.fixture
def ada(tree: Tree) -> Person:
    """An admin of the payments team."""
    user = make_user(tree.payments, Role.ADMIN, username=f"ada-{tree.organization.slug}")
    user.name = "Ada"
    user.save()
    return Person.signed_in(user)


@pytest.fixture
def rex(tree: Tree) -> Person:
    """A reviewer of the whole organization."""
    user = make_user(tree.root, Role.REVIEWER, username=f"rex-{tree.organization.slug}")
    user.name = "Rex"
    user.save()
    return Person.signed_in(user)


@pytest.fixture
def site(browser: Browser, server: Server) -> Iterator[Site]:
    """The visitors of this test; at the end no page may have broken the policy or logged an error."""
    site = Site(server, browser)
    yield site
    site.close()
    assert site.problems == []


@pytest.fixture
def page(site: Site, rita: Person) -> Page:
    """A page of Rita's browser."""
    return site.visit(rita)


@pytest.fixture
def run_script(rita: Person, tree: Tree) -> Callable[..., Thread]:
    """Start an investigation of Rita's that does the given steps."""

    def start(*steps: dict[str, Any], team: Node | None = None, **fields: Any) -> Thread:
        return start_run(rita.actor, team or tree.payments, *steps, **fields).thread

    return start
