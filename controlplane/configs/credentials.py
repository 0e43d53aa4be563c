"""What the references of a configuration come to: their states for every reader, their values for runtimes alone.

A value is nowhere but in what :func:`config_resolve` and :class:`Credentials` return: no log, message, event, row,
metric or exception holds one.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from controlplane.access.grants import Held, sends_to
from controlplane.access.selectors import grants_held
from controlplane.audit.services import audit_record
from controlplane.configs.pointers import MISSING, Operation, Tokens, decode, encode, get
from controlplane.configs.references import Occurrence, occurrences, replace_texts
from controlplane.configs.selectors import Effective, Link, effective_of
from controlplane.configs.validation import ConfigWarning
from controlplane.core.actor import Actor
from controlplane.core.credentials import credential_allowed, credential_value
from controlplane.core.errors import NotFound, PermissionDenied
from controlplane.core.permissions import Action, allows
from controlplane.core.references import MalformedReference, Reference, resolve
from controlplane.orgs.models import Node

AUDITED_NAMES: Final = 200


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


@dataclass(frozen=True, slots=True)
class CredentialReport:
    """The states of an effective configuration's references, for every reader of it."""

    states: tuple[tuple[Occurrence, State], ...]

    def within(self, path: Tokens) -> list[dict[str, str]]:
        """Return ``credentials[]`` of the part of the document at ``path``."""
        return [
            {"pointer": encode(one.path), "name": one.name, "state": state.value}
            for one, state in self.states
            if one.path[: len(path)] == path
        ]

    def etag(self, etag: str) -> str:
        """Return the entity tag of an answer that has the states beside what ``etag`` is of."""
        if not self.states:
            return etag
        told = "\n".join(f"{one.name} {state}" for one, state in self.states)
        return f'"{hashlib.sha256((etag + told).encode()).hexdigest()[:32]}"'


def credential_report(found: Effective) -> CredentialReport:
    """Return the states of the references of ``found``. One query where it has any, else none."""
    if not found.references:
        return CredentialReport(())
    return _report(found.references, credentials_of(found.node_id, _ids(found.lineage)))


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """An effective configuration with the values in place, to be sent to a runtime and kept nowhere."""

    found: Effective
    document: Any = field(repr=False)
    report: CredentialReport


@transaction.atomic
def config_resolve(*, actor: Actor, chain: tuple[Link, ...], path: Tokens = ()) -> ResolvedConfig:
    """Return a node's effective configuration with the values of its references in place.

    A text of which one reference has no value is ``null``. The audit row has the names, never a value.

    Args:
        actor: needs ``config.resolve`` on the node, which no role gives: a token of a runtime.
        chain: of the node, read for this actor (:func:`controlplane.configs.selectors.chain_for`).
        path: of the part that is wanted; references elsewhere are not resolved.

    Raises:
        PermissionDenied: the actor may not.
        NotFound: ``pointer_not_found``: nothing is at ``path``.
    """
    if not allows(actor, Action.CONFIG_RESOLVE, _ids(chain)):
        raise PermissionDenied(f"You may not do this here (it needs {Action.CONFIG_RESOLVE.value}).")
    node_id = chain[-1].node_id
    found = effective_of(node_id, chain)
    part = get(found.document, path)
    if part is MISSING:
        raise NotFound("The effective configuration has nothing at this pointer.", code="pointer_not_found")
    credentials = credentials_of(node_id, _ids(found.lineage))
    inside = [one for one in found.references if one.path[: len(path)] == path]
    document = replace_texts(part, lambda text: credentials.resolve(text).text)
    _audit_resolve(actor, found, inside, path)
    return ResolvedConfig(found, document, _report(inside, credentials))


def credential_warnings(
    node: Node, document: Mapping[str, Any], operations: Sequence[Operation]
) -> list[ConfigWarning]:
    """Return what a writer should know of the references that ``operations`` brought into a node's own ``document``.

    Those it held before are in the state report of its readers. One query where there are any.
    """
    written = {decode(operation["pointer"]) for operation in operations if "after" in operation}
    listed = [
        one for one in occurrences(document) if any(one.path[:end] in written for end in range(1, len(one.path) + 1))
    ]
    if not listed:
        return []
    credentials = credentials_of(node.pk)
    details = {
        State.NOT_ALLOWED: "This installation does not allow the credential {name}; until it does, this has no value.",
        State.NOT_GRANTED: "The credential {name} is not granted here; until it is, this has no value.",
    }
    return [
        ConfigWarning(encode(one.path), f"credential_{state.value}", details[state].format(name=one.name))
        for one, state in _report(listed, credentials).states
        if state in details
    ]


def _report(listed: Iterable[Occurrence], credentials: Credentials) -> CredentialReport:
    return CredentialReport(tuple((one, credentials.state(one.name)) for one in listed))


def _ids(lineage: Sequence[Link]) -> tuple[UUID, ...]:
    return tuple(link.node_id for link in lineage)


def _audit_resolve(actor: Actor, found: Effective, listed: Sequence[Occurrence], path: Tokens) -> None:
    if actor.organization_id is None:
        raise PermissionDenied("You may not do this here.")
    names = sorted({one.name for one in listed if one.name})
    audit_record(
        actor=actor,
        organization_id=actor.organization_id,
        action="config.resolve",
        object_kind="config",
        object_id=str(found.node_id),
        node_id=found.node_id,
        after={
            "version": found.version,
            "pointer": encode(path),
            "credentials": len(names),
            "names": names[:AUDITED_NAMES],
        },
    )
