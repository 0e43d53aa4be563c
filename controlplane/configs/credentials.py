"""What the references of a configuration come to: their states for every reader, their values for runtimes alone.

A value is nowhere but in what :func:`config_resolve` and :class:`~controlplane.access.credential_values.Credentials`
return: no log, message, event, row, metric or exception holds one.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from controlplane.access.credential_values import Credentials, Resolved, State, credentials_of
from controlplane.audit.security import OBJECT_LENGTH, secret_recorded
from controlplane.configs.pointers import MISSING, Operation, Tokens, decode, encode, get
from controlplane.configs.references import Occurrence, occurrences, replace_texts
from controlplane.configs.selectors import Effective, Link, effective_of
from controlplane.configs.validation import ConfigWarning
from controlplane.core.actor import Actor
from controlplane.core.errors import NotFound, PermissionDenied
from controlplane.core.permissions import Action, allows
from controlplane.orgs.models import Node

__all__ = [
    "CredentialReport",
    "Credentials",
    "Resolved",
    "ResolvedConfig",
    "State",
    "config_resolve",
    "credential_report",
    "credential_warnings",
    "credentials_of",
]


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


def config_resolve(*, actor: Actor, chain: tuple[Link, ...], path: Tokens = ()) -> ResolvedConfig:
    """Return a node's effective configuration with the values of its references in place.

    A text of which one reference has no value is ``null``. Who was given what stands in the security stream, by the
    names of the credentials, repeats counted: a runtime reads its configuration at every turn, and must not hold the
    audit chain by it.

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
    _record(actor, found, inside)
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


def _record(actor: Actor, found: Effective, listed: Sequence[Occurrence]) -> None:
    """Note who was given which credentials: every name whole, in as many rows as that takes; none for no names."""
    row = ""
    for name in sorted({one.name for one in listed if one.name}):
        if row and len(row) + len(name) + 2 > OBJECT_LENGTH:
            _record_row(actor, found, row)
            row = ""
        row = f"{row}, {name}" if row else name
    if row:
        _record_row(actor, found, row)


def _record_row(actor: Actor, found: Effective, names: str) -> None:
    secret_recorded(
        actor=actor, action="config.resolve", object_kind="credentials", object_id=names, node_id=found.node_id
    )
