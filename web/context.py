"""What every page's template knows: no query beyond the session's user, and for reviewers one that counts."""

from dataclasses import dataclass
from functools import cached_property

from django.http import HttpRequest

from controlplane.core.actor import Actor
from controlplane.core.permissions import Action, nodes_that_allow
from controlplane.reviews.selectors import reviews_waiting
from web.settings_pages import SettingsLink, settings_links

#: Route name → the entry of the main navigation it belongs to.
SECTIONS = {
    "home": "home",
    "investigation_new": "home",
    "thread": "runs",
    "runs": "runs",
    "alerts": "alerts",
    "alert": "alerts",
    "config": "config",
    "config_node": "config",
    "config_edit": "config",
    "config_history": "config",
    "config_compare": "config",
    "config_policies": "config",
    "config_policy_remove": "config",
    "config_credentials": "config",
    "config_grant_revoke": "config",
    "reviews": "reviews",
    "review": "reviews",
    "review_decide": "reviews",
}
#: From this number on the navigation says "many".
COUNTED = 100


@dataclass(frozen=True, slots=True)
class Person:
    """The signed-in person as the page's corner shows it. ``operator`` may open the administration."""

    name: str
    username: str
    operator: bool

    @property
    def initials(self) -> str:
        words = self.name.split() or [self.username]
        return "".join(word[0] for word in words[:2])


class PageContext:
    """Worked out when a template asks: an error page must not touch the session."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    @cached_property
    def person(self) -> Person | None:
        """The signed-in member, ``None`` for nobody and for operators, who have no pages here."""
        user = getattr(self._request, "user", None)
        if user is None or not user.is_authenticated or user.organization_id is None:
            return None
        return Person(name=user.display_name, username=user.username, operator=user.is_staff)

    @cached_property
    def reviews_waiting(self) -> int:
        """How many reviews wait for this person, counted up to :data:`COUNTED`; 0 for who decides none."""
        actor: Actor | None = getattr(self._request, "actor", None)
        if actor is None or not nodes_that_allow(actor, Action.REVIEW_DECIDE):
            return 0
        return reviews_waiting(actor).order_by()[:COUNTED].count()

    @cached_property
    def viewing(self) -> str:
        """``<person> as team <team>`` while somebody views as a team, else ``""``."""
        actor: Actor | None = getattr(self._request, "actor", None)
        return actor.label if actor is not None and actor.impersonator is not None else ""

    @cached_property
    def settings(self) -> list[SettingsLink]:
        """The settings pages that this person is shown; none on pages that nobody need sign in for."""
        actor: Actor | None = getattr(self._request, "actor", None)
        return [] if actor is None else settings_links(actor, self._request.path)

    @cached_property
    def section(self) -> str:
        """The entry of the main navigation that is current, or ``""``."""
        if any(link.current for link in self.settings):
            return "settings"
        match = self._request.resolver_match
        return SECTIONS.get(match.url_name or "", "") if match else ""


def page_context(request: HttpRequest) -> dict[str, PageContext]:
    """Context processor: ``page``."""
    return {"page": PageContext(request)}
