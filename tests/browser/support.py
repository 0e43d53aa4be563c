"""Visiting the application as a person does."""

import re
from typing import Any

from django.conf import settings
from django.db.models import QuerySet
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Locator, Page

from controlplane.investigations.models import Run, Thread
from tests.factories import Tree
from tests.support.server import Server
from tests.web.support import Person

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
#: What Chromium itself logs for answers and cuts that a test provokes on purpose.
EXPECTED = re.compile(r"Failed to load resource|net::ERR_")


class Site:
    """The served application, and every page that visits it."""

    def __init__(self, server: Server, browser: Browser) -> None:
        self.server = server
        self.url = server.url
        self.problems: list[str] = []
        self._browser = browser
        self._contexts: list[BrowserContext] = []

    def visit(self, person: Person | None = None, **options: Any) -> Page:
        """Return a page of a new browser, signed in as ``person``."""
        options.setdefault("viewport", {"width": 1280, "height": 860})
        context = self._browser.new_context(base_url=self.url, reduced_motion="reduce", **options)
        context.set_default_timeout(10_000)
        self._contexts.append(context)
        if person is not None:
            session = person.client.cookies[settings.SESSION_COOKIE_NAME].value
            context.add_cookies([{"name": settings.SESSION_COOKIE_NAME, "value": session, "url": self.url}])
        page = context.new_page()
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.problems.append(f"page error: {error}"))
        return page

    def cut_connections(self) -> None:
        """Abort every open connection, as a proxy that restarts does."""
        for connection in list(self.server.uvicorn.server_state.connections):
            transport: Any = connection.transport
            connection.loop.call_soon_threadsafe(transport.abort)

    def close(self) -> None:
        for context in self._contexts:
            context.close()

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not EXPECTED.search(message.text):
            self.problems.append(f"{message.type}: {message.text}")


def threads(tree: Tree) -> QuerySet[Thread]:
    """The investigations of a test's organization."""
    return Thread.objects.filter(organization=tree.organization)


def run_of(thread: Thread, number: int = 1) -> Run:
    """A run of a thread, fresh."""
    return Run.objects.get(thread=thread, number=number)


def thread_path(thread: Any) -> str:
    return f"/app/threads/{thread.pk}"


def thoughts(page: Page) -> Locator:
    """The thoughts in the activity."""
    return page.locator(".step-thought .thought")


def status(page: Page) -> Locator:
    """The badge in the page's head."""
    return page.locator("[data-thread-status] .badge")


def fits(page: Page) -> bool:
    """Whether the page needs no scrolling sideways."""
    width: bool = page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    return width
