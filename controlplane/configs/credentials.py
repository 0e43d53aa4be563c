"""What the references of a configuration come to: their states for every reader, their values for runtimes alone.

A value is nowhere but in what :func:`config_resolve` and :class:`~controlplane.access.credential_values.Credentials`
return: no log, message, event, row, metric or exception holds one.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from controlplane.access.credential_values import Credentials, Resolved, State, credentials_of
from controlplane.audit.services import audit_record
from controlplane.configs.pointers import MISSING, Operation, Tokens, decode, encode, get
from controlplane.configs.references import Occurrence, occurrences, replace_texts
from controlplane.configs.selectors import Effective, Link, effective_of
from controlplane.configs.validation import ConfigWarning
from controlplane.core.actor import Actor
from controlplane.core.errors import NotFound, PermissionDenied
from controlplane.core.permissions import Action, allows
from controlplane.orgs.models import Node

__all__ = [
    "AUDITED_NAMES",
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

AUDITED_NAMES: Final = 200


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
