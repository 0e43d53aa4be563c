"""What a browser's session keeps of sign-ins by a provider: those that have begun, and which provider signed it in."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.sessions.models import Session
from django.db import transaction
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render

from controlplane.access.entra.flow import Begun

#: Sign-ins that may be under way in one browser at once (tabs), and how long each may take.
MAX_FLOWS: Final = 5
LIFETIME_S: Final = 600
_FLOWS: Final = "sso_flows"
_SIGNED_IN_BY: Final = "sso_signed_in_by"


@dataclass(frozen=True, slots=True)
class Kept:
    """A sign-in that this browser began. ``link_to`` is who asked to link an identity, ``None`` for a plain sign-in."""

    provider: str
    flow: dict[str, Any]
    next: str
    link_to: str | None


def keep(request: HttpRequest, begun: Begun, *, provider: object, goes: str, link_to: object = None) -> None:
    """Keep a sign-in that begins; of more than :data:`MAX_FLOWS` the oldest are forgotten."""
    with _flows(request) as flows:
        flows[begun.state] = {
            "provider": str(provider),
            "flow": begun.flow,
            "next": goes,
            "link_to": None if link_to is None else str(link_to),
            "at": int(time.time()),
        }
        for state in list(flows)[:-MAX_FLOWS]:
            del flows[state]


def take(request: HttpRequest, state: str) -> Kept | None:
    """Return a sign-in that this browser began and forget it; of two at once one gets it. ``None``: there is none."""
    if not state or request.session.session_key is None:
        return None
    with _flows(request) as flows:
        found = flows.pop(state, None)
    return None if found is None else Kept(found["provider"], found["flow"], found["next"], found["link_to"])


@contextmanager
def _flows(request: HttpRequest) -> Iterator[dict[str, Any]]:
    """Open the session's sign-ins for writing, as they are in the database now, with the session's row locked."""
    session = request.session
    if session.session_key is None:
        session.create()
    key = session.session_key or ""
    with transaction.atomic():
        Session.objects.select_for_update().filter(session_key=key).first()
        stored = type(session)(key)
        now = time.time()
        kept: dict[str, Any] = stored.get(_FLOWS, {})
        flows = {state: one for state, one in kept.items() if 0 <= now - one["at"] <= LIFETIME_S}
        yield flows
        if stored.session_key == key:  # else the session has ended meanwhile, and nothing is kept
            stored[_FLOWS] = flows
            stored.save()
    session[_FLOWS] = flows


def remember_provider(request: HttpRequest, *, organization: str, client_id: str, end_session: str) -> None:
    """Note who signed this browser in, so that signing out can go on there."""
    request.session[_SIGNED_IN_BY] = {"organization": organization, "client": client_id, "end_session": end_session}


def sign_out_address(request: HttpRequest) -> tuple[str, str]:
    """Return the slug of the organization whose provider signed this browser in, and where it signs out there.

    Both ``""`` for a browser signed in otherwise; the second ``""`` where the provider has no such address. Source:
    OpenID Connect RP-Initiated Logout 1.0, section 2.
    """
    by = request.session.get(_SIGNED_IN_BY)
    if not isinstance(by, dict):
        return "", ""
    if not by["end_session"]:
        return by["organization"], ""
    query = urlencode(
        {
            "client_id": by["client"],
            "post_logout_redirect_uri": f"{settings.PUBLIC_URL}/login/{by['organization']}",
        }
    )
    return by["organization"], f"{by['end_session']}{'&' if '?' in by['end_session'] else '?'}{query}"


def leave(request: HttpRequest, url: str, *, heading: str) -> HttpResponse:
    """Return the page from which the browser goes on to ``url``, by itself where it may and by a link where not.

    Not a redirect: browsers hold what a form's answer redirects to against ``form-action``, which allows us alone.
    """
    answer = render(request, "web/leaving.html", {"url": url, "heading": heading})
    answer["Refresh"] = f"0; url={url}"
    answer["Referrer-Policy"] = "no-referrer"
    return answer
