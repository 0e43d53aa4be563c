"""How long a browser stays signed in: what a session remembers of its beginning and of its last request."""

from collections.abc import MutableMapping
from typing import Any, Final

from django.conf import settings
from django.db.models import TextChoices


class SignInMethod(TextChoices):
    """What somebody signed in with."""

    PASSWORD = "password", "password"
    PASSWORD_TOTP = "totp", "password and code"
    PASSWORD_RECOVERY = "recovery", "password and recovery code"
    LINK = "link", "one-time link"
    ENTRA = "entra", "Microsoft Entra"
    OIDC = "oidc", "OpenID Connect"


SIGNED_IN_AT: Final = "signed_in_at"
SEEN_AT: Final = "seen_at"
#: Set while a person has to add an authenticator app before anything else.
MUST_ENROL: Final = "must_enrol"
#: A request is written down as seen at most this often: a session costs no write per request.
SEEN_EVERY_S: Final = 60

_BROWSERS: Final = (
    ("Edg", "Edge"), ("OPR", "Opera"), ("Firefox", "Firefox"), ("Chrome", "Chrome"), ("Safari", "Safari"),
)  # fmt: skip
_SYSTEMS: Final = (
    ("Android", "Android"), ("iPhone", "iPhone"), ("iPad", "iPad"), ("Windows", "Windows"), ("Macintosh", "macOS"),
    ("CrOS", "ChromeOS"), ("Linux", "Linux"),
)  # fmt: skip


def begin(session: MutableMapping[str, Any], now: float) -> None:
    """Note that somebody signs in now."""
    session[SIGNED_IN_AT] = session[SEEN_AT] = int(now)


def is_over(session: MutableMapping[str, Any], now: float) -> bool:
    """Return whether a signed-in session has been idle too long, or has lasted as long as one may."""
    began, seen = session.get(SIGNED_IN_AT), session.get(SEEN_AT)
    if not isinstance(began, int) or not isinstance(seen, int):
        return False  # made by Django's own login(): its cookie age holds
    return now - began >= settings.SESSION_COOKIE_AGE or now - seen >= settings.SESSION_IDLE_SECONDS


def is_seen_due(session: MutableMapping[str, Any], now: float) -> bool:
    """Return whether this request is to be written down."""
    seen = session.get(SEEN_AT)
    return isinstance(seen, int) and now - seen >= SEEN_EVERY_S


def browser_label(user_agent: str) -> str:
    """Return a User-Agent in a few words of ours, such as ``Firefox on Linux``: nothing of a client's is kept."""
    browser = next((name for mark, name in _BROWSERS if mark in user_agent), "")
    system = next((name for mark, name in _SYSTEMS if mark in user_agent), "")
    return f"{browser or 'Browser'} on {system}" if system else browser or "Unknown browser"
