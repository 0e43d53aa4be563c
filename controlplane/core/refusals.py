"""The port to what keeps a record of refusals: who was refused what, told once at the end of a request.

Whoever authenticates a request puts the actor on it as soon as it is known (:func:`carry_actor`), so that what is
refused later, or by a middleware, has a name. An accepted request costs nothing here.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from django.http import HttpRequest

from controlplane.core.actor import ANONYMOUS, Actor, Channel

if TYPE_CHECKING:
    from controlplane.core.errors import AppError

#: Statuses that are refusals: no valid credential, not allowed, not visible, too often.
NOTED: Final = frozenset({401, 403, 404, 429})


@dataclass(frozen=True, slots=True)
class KnownCredential:
    """A credential that was refused although it is known whose it is. Never told to the caller.

    Args:
        actor: who it would have been.
        code: why not: ``token_expired``, ``token_revoked``, ``token_wrong``, ``person_inactive``, ``address_refused``…
    """

    actor: Actor
    code: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """That ``actor`` was refused the route called ``route`` with ``status`` and a stable ``code``."""

    actor: Actor
    route: str
    status: int
    code: str

    @property
    def is_quiet(self) -> bool:
        """Whether nothing may be written before the answer is sent.

        A 401 says the same of every credential; if one of a known token took a statement longer, a stopwatch would
        tell which ids exist.
        """
        return self.status == 401


class RefusalRecord(Protocol):
    """Filled in by the app that keeps the record."""

    def note(self, refusal: Refusal) -> Callable[[], None] | None:
        """Take a refusal, in memory alone; return what is to be called outside of an event loop, where anything is."""


_record: RefusalRecord | None = None


def register_refusal_record(record: RefusalRecord) -> None:
    """Set the record. Called once, in ``AppConfig.ready()``."""
    global _record  # noqa: PLW0603 (one process-wide port is the point)
    _record = record


def note(refusal: Refusal | None) -> Callable[[], None] | None:
    """Note a refusal from wherever, also from an event loop.

    Returns:
        What a thread has to call then, to write it; ``None`` when there is nothing to write, which is usual in a flood.
    """
    return None if refusal is None or _record is None else _record.note(refusal)


def refusal_of(
    *,
    status: int,
    route: str,
    actor: Actor | None,
    error: "AppError | None" = None,
    code: str,
    channel: Channel,
    address: str | None,
) -> Refusal | None:
    """Return the refusal that an answer is, ``None`` where it is none to be noted.

    Nobody's 404, 403 or 401 is not: whoever scans for addresses fills no record. Nobody's 429 is, by the address.

    Args:
        status: of the answer.
        route: the route's name.
        actor: who asked, as far as that is known.
        error: what was answered, where it is at hand.
        code: of the error.
        channel, address: of a caller who is not known.
    """
    if status not in NOTED:
        return None
    known: KnownCredential | None = getattr(error, "known", None)
    if known is not None:
        return Refusal(known.actor, route, status, known.code)
    if actor is None:
        if status != 429:
            return None
        actor = replace(ANONYMOUS, channel=channel, address=address)
    return Refusal(actor, route, status, code)


def carry_actor(request: HttpRequest, actor: Actor) -> None:
    """Let ``request`` say from now on who makes it (``request.actor``)."""
    setattr(request, "actor", actor)  # noqa: B010 (Django's class declares no such attribute)


def carry_error(request: HttpRequest, error: "AppError") -> None:
    """Let ``request`` say with which error it is answered (``request.app_error``)."""
    setattr(request, "app_error", error)  # noqa: B010 (as above)
