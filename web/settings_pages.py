"""The pages below "Settings", and who is shown a way to them. What a page does, its view and services decide."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from django.urls import NoReverseMatch, reverse

from controlplane.access.entra.selectors import may_read_provider
from controlplane.core.actor import Actor
from controlplane.core.permissions import Action, nodes_that_allow


@dataclass(frozen=True, slots=True)
class SettingsLink:
    """An entry of the settings' navigation."""

    label: str
    icon: str
    url: str
    current: bool


@dataclass(frozen=True, slots=True)
class _Page:
    route: str
    label: str
    icon: str
    shown: Callable[[Actor], bool]


def _may(action: Action, actor: Actor) -> bool:
    return bool(nodes_that_allow(actor, action))


def _everybody(_actor: Actor) -> bool:
    return True


#: Route of the page's first view; the views below its address belong to it too.
_PAGES: Final = (
    _Page("web:members", "Members", "team", partial(_may, Action.MEMBER_READ)),
    _Page("web:tokens", "Access tokens", "key", _everybody),
    _Page("web:sign_in_settings", "Sign-in", "lock", may_read_provider),
    _Page("web:audit", "Audit", "file", partial(_may, Action.AUDIT_READ)),
    _Page("web:security", "Your account", "eye", _everybody),
)


def settings_links(actor: Actor, path: str) -> list[SettingsLink]:
    """Return the settings pages that ``actor`` is shown, in order.

    Args:
        actor: the signed-in person.
        path: path of the request, to mark the page that is current.
    """
    links = []
    for page in _PAGES:
        url = page_address(page.route)
        if url is not None and page.shown(actor):
            current = path == url or path.startswith(f"{url.rstrip('/')}/")
            links.append(SettingsLink(page.label, page.icon, url, current))
    return links


def page_address(route: str) -> str | None:
    """Return the address of a page, ``None`` where the installation has none such."""
    try:
        return reverse(route)
    except NoReverseMatch:
        return None
