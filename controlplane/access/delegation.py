"""The delegation ceiling: nobody hands on more than it holds. Pure: what binds is gathered by the service.

Every *level* that binds a new token, the creator's own token, its roles, the organization's policy, says what it lets
through. What is wished for must pass all of them; the error names the level that does not let it through.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from controlplane.access.addresses import networks_within
from controlplane.core.clock import rfc3339
from controlplane.core.errors import FieldError, InvalidInput

TOKEN: Final = "token"  # noqa: S105 (a level, not a secret)
ROLE: Final = "role"
POLICY: Final = "policy"


@dataclass(frozen=True, slots=True)
class Level:
    """One thing that binds. ``None`` and ``()`` let everything through.

    Args:
        kind: ``token``, ``role`` or ``policy``.
        name: how an error calls it, such as ``your token "CI" (osre_admin_…)``.
        scopes: those it lets through.
        until: no token may live longer.
        endless: whether a token may live for ever; false wherever ``until`` is given.
        networks: where a token may be used from at most.
    """

    kind: str
    name: str
    scopes: frozenset[str] | None = None
    until: datetime | None = None
    endless: bool = True
    networks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wish:
    """What a token is asked for with; ``networks`` of ``None``: as wide as may be. See :func:`settle`."""

    scopes: frozenset[str]
    expires_at: datetime | None = None
    endless: bool = False
    networks: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Terms:
    """What a token is made with."""

    scopes: frozenset[str]
    expires_at: datetime | None
    networks: tuple[str, ...]


def settle(wish: Wish, levels: Sequence[Level], *, default_until: datetime | None = None) -> Terms:
    """Return what a token gets.

    What is asked for by name and not held is an error; what is left open is as much as every level lets through: the
    expiry is ``default_until`` or the earliest end of a level, the networks are those of the level that names any.

    Raises:
        InvalidInput: ``scope_not_held``, ``expires_too_late``, ``expiry_required`` or ``addresses_too_wide``; the
            member ``binding`` of the problem names the level.
    """
    for level in levels:
        beyond = wish.scopes - level.scopes if level.scopes is not None else frozenset()
        if beyond:
            detail = f"You cannot grant what you do not hold: {', '.join(sorted(beyond))} (bound by {level.name})."
            raise _refusal("/scopes", "scope_not_held", detail, level)
    return Terms(wish.scopes, _expiry(wish, levels, default_until), _networks(wish, levels))


def _expiry(wish: Wish, levels: Sequence[Level], default_until: datetime | None) -> datetime | None:
    ends = [level for level in levels if level.until is not None]
    if wish.expires_at is not None:
        binding = min(ends, key=_until, default=None)
        if binding is not None and wish.expires_at > _until(binding):
            detail = f"This may be at most {rfc3339(_until(binding))}: no later than {binding.name} allows."
            raise _refusal("/expires_at", "expires_too_late", detail, binding)
        return wish.expires_at
    moments = [_until(level) for level in ends] + ([default_until] if default_until else [])
    mortal = next((level for level in levels if level.until is not None or not level.endless), None)
    if mortal is not None and (wish.endless or not moments):
        detail = f"A token that never expires is not allowed: it is bound by {mortal.name}."
        raise _refusal("/expires_at", "expiry_required", detail, mortal)
    return None if wish.endless else min(moments, default=None)


def _networks(wish: Wish, levels: Sequence[Level]) -> tuple[str, ...]:
    bound = [level for level in levels if level.networks]
    wished = wish.networks
    if wished is None:
        # One level at most, the creator's token, has networks of its own.
        wished = bound[0].networks if bound else ()
    for level in bound:
        if not networks_within(wished, level.networks):
            detail = f"The networks must lie within those of {level.name}: {', '.join(level.networks)}."
            raise _refusal("/allowed_addresses", "addresses_too_wide", detail, level)
    return wished


def _until(level: Level) -> datetime:
    if level.until is None:
        raise ValueError("this level has no end")
    return level.until


def _refusal(pointer: str, code: str, detail: str, level: Level) -> InvalidInput:
    binding = {"level": level.kind, "name": level.name}
    return InvalidInput(detail, code=code, errors=[FieldError(pointer, code, detail)], extra={"binding": binding})
