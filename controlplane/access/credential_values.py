"""The credentials that a node holds: their states, and their values for code that is about to send one.

A value is nowhere but in what :class:`Credentials` returns: no log, message, event, row, metric or exception holds one.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from uuid import UUID

from controlplane.access.grants import Held, sends_to
from controlplane.access.selectors import grants_held
from controlplane.core.credentials import credential_allowed, credential_value
from controlplane.core.references import MalformedReference, Reference, resolve


class State(StrEnum):
    """What is there for a name. ``host_not_granted`` is said where it is to be sent, ``malformed`` of a text alone."""

    SET = "set"
    UNSET = "unset"
    NOT_GRANTED = "not_granted"
    NOT_ALLOWED = "not_allowed"
    HOST_NOT_GRANTED = "host_not_granted"
    MALFORMED = "malformed"


@dataclass(frozen=True, slots=True)
class Resolved:
    """A text with its references replaced; ``text`` is ``None`` when one of them has no value.

    ``values`` are those of the credentials in it, which must not show anywhere; a default is none. ``missing`` names
    those without a value, each with its state.
    """

    text: str | None = field(repr=False)
    values: tuple[str, ...] = field(default=(), repr=False)
    missing: tuple[tuple[str, State], ...] = ()


class Credentials:
    """The credentials that one node holds, each read once; made for one use and not kept."""

    def __init__(self, held: Held) -> None:
        self._held = held
        self._values: dict[str, str | None] = {}

    def state(self, name: str, host: str | None = None) -> State:
        """Return the state of a name: first whether it may be used, and only then whether there is a value.

        Args:
            host: where it is to be sent; ``None`` when it is not sent by this installation.
        """
        if not name:
            return State.MALFORMED
        if not credential_allowed(name):
            return State.NOT_ALLOWED
        if not self._held.holds(name):
            return State.NOT_GRANTED
        if host is not None and not self._held.holds(name, sends_to(host)):
            return State.HOST_NOT_GRANTED
        return State.UNSET if self._value(name) is None else State.SET

    def resolve(self, text: str, host: str | None = None) -> Resolved:
        """Return ``text`` with the values of its references; a default stands in for ``unset`` alone."""
        values: list[str] = []
        missing: dict[str, State] = {}

        def value_of(reference: Reference) -> str | None:
            state = self.state(reference.name, host)
            value = self._value(reference.name) if state is State.SET else None
            if value is not None:
                values.append(value)
                return value
            if state is State.UNSET and reference.default is not None:
                return reference.default
            missing[reference.name] = state
            return None

        try:
            found = resolve(text, value_of)
        except MalformedReference:
            return Resolved(None, (), (("", State.MALFORMED),))
        return Resolved(found, tuple(dict.fromkeys(values)), tuple(missing.items()))

    def _value(self, name: str) -> str | None:
        if name not in self._values:
            self._values[name] = credential_value(name)
        return self._values[name]


def credentials_of(node_id: UUID, lineage: Sequence[UUID] | None = None) -> Credentials:
    """Return the credentials a node holds, for code that has already been permitted to act on it.

    Args:
        lineage: the ids of its ancestors and itself, root first, where they are known. One query then, else two.
    """
    return Credentials(grants_held(node_id, lineage))
