"""Services of the security stream. Call them outside of the transaction that fails, or after it.

They never raise and never wait for the audit chain, so a flood of refusals slows nothing. See
:mod:`controlplane.audit.security_stream` for what is coalesced and how much is kept.
"""

import asyncio
from collections.abc import Callable
from typing import Final
from uuid import UUID

from django.db import connections
from typing_extensions import override

from controlplane.audit.models import INSTALLATION, SecurityKind
from controlplane.audit.security_stream import Sighting, stream
from controlplane.audit.text import column_text
from controlplane.core.actor import Actor, Channel
from controlplane.core.redaction import redact_text
from controlplane.core.refusals import Refusal, RefusalRecord

__all__ = [
    "SecurityKind",
    "SecurityRefusals",
    "Unwritten",
    "audit_denied",
    "audit_denied_later",
    "secret_recorded",
    "sign_in_record",
]

#: What is kept of the name of an object.
OBJECT_LENGTH: Final = 200


def audit_denied(
    *,
    actor: Actor,
    action: str,
    code: str,
    kind: SecurityKind = SecurityKind.DENIED,
    object_kind: str = "",
    object_id: str = "",
    node_id: UUID | None = None,
    organization_id: UUID | None = None,
) -> None:
    """Note that ``actor`` was refused something. At most one statement, and none for a repetition.

    For what the organization should know of and no refused request says: a view of a team. Refused requests come from
    the end of each, by :class:`SecurityRefusals`.

    Args:
        actor: who tried; for a refused credential that is known, the actor it would have been.
        action: what was tried: the name of a route (``member-list``) or of an action (``token.create``). Never a path,
            which may hold a one-time link.
        code: the error's stable code, for example ``permission_denied``.
        kind: what kind of refusal.
        object_kind, object_id: on what, as far as the caller said it; redacted here.
        node_id: the node it is below, where it is known that it exists.
        organization_id: whose stream; without it the actor's own, and the installation's for an actor of none.
    """
    if stream.note(_denied(actor, action, code, kind, object_kind, object_id, node_id, organization_id)):
        stream.write()


def audit_denied_later(
    *,
    actor: Actor,
    action: str,
    code: str,
    kind: SecurityKind = SecurityKind.DENIED,
    object_id: str = "",
    node_id: UUID | None = None,
) -> Callable[[], None] | None:
    """Do what :func:`audit_denied` does from an event loop: note it at once, and return what a thread has to call.

    Returns:
        ``None`` when there is nothing to write, which is usual in a flood.
    """
    due = stream.note(_denied(actor, action, code, kind, "", object_id, node_id, None))
    return stream.write if due else None


class SecurityRefusals(RefusalRecord):
    """Refused requests, from the end of each: see :mod:`controlplane.core.refusals`.

    A 401 is only kept in memory by its request and written by the next writing, within seconds. What a token of a node
    is refused stands under that node, so that who administers the node reads it.
    """

    @override
    def note(self, refusal: Refusal) -> Callable[[], None] | None:
        write = audit_denied_later(
            actor=refusal.actor,
            action=refusal.route,
            code=refusal.code,
            kind=_KINDS[refusal.status],
            node_id=refusal.actor.token_node_id,
        )
        return None if refusal.is_quiet else write


_KINDS: Final = {
    401: SecurityKind.NOT_AUTHENTICATED,
    403: SecurityKind.DENIED,
    404: SecurityKind.NOT_VISIBLE,
    429: SecurityKind.LIMITED,
}


def sign_in_record(
    *,
    ok: bool,
    method: str,
    principal: str,
    label: str,
    organization_id: UUID | None,
    address: str | None,
    reason: str = "",
    channel: Channel = Channel.WEB,
) -> None:
    """Note a sign-in, or the refusal of one.

    Args:
        ok: whether somebody is signed in now.
        method: ``password``, ``link``, ``totp``, ``entra``, ``oidc``.
        principal: ``user:<uuid>`` of a known account, else ``unknown``.
        label: the account's name; for an unknown one, what was typed is redacted and cut, and may be left empty.
        organization_id: of the account or of the sign-in page; ``None`` when there is none (the installation's stream).
        address: of the client.
        reason: stable code of the refusal (``wrong_password``, ``locked``, ``bad_token``…), never a secret.
        channel: where.
    """
    kind = SecurityKind.SIGN_IN if ok else SecurityKind.SIGN_IN_FAILED
    sighting = Sighting(
        organization_id=organization_id or INSTALLATION,
        kind=kind.value,
        code=column_text(reason, 64),
        actor=column_text(principal, 128),
        actor_label=column_text(redact_text(label[:200]), 200),
        credential_id="",
        impersonator="",
        channel=channel.value,
        address=column_text(address or "", 64),
        action=column_text(f"sign-in.{method}", 128),
        object_kind="",
        object_id="",
        node_id=None,
    )
    if stream.note(sighting):
        stream.write()


def secret_recorded(*, actor: Actor, action: str, object_kind: str, object_id: str, node_id: UUID | None) -> None:
    """Note that ``actor`` was given the values of secrets. ``object_id`` names them, never their values.

    At most :data:`OBJECT_LENGTH` characters of it are kept.
    """
    if stream.note(_denied(actor, action, "", SecurityKind.SECRET, object_kind, object_id, node_id, None)):
        stream.write()


class Unwritten:
    """What a server process has noted and not written; an ASGI application closes it when it stops."""

    async def close(self) -> None:
        """Write it, counts that would wait included."""
        await asyncio.to_thread(_write_everything)


def _write_everything() -> None:
    try:
        stream.write(everything=True)
    finally:
        connections.close_all()  # of this thread, which nobody uses again


def _denied(
    actor: Actor,
    action: str,
    code: str,
    kind: SecurityKind,
    object_kind: str,
    object_id: str,
    node_id: UUID | None,
    organization_id: UUID | None,
) -> Sighting:
    return Sighting(
        organization_id=organization_id or actor.organization_id or INSTALLATION,
        kind=kind.value,
        code=column_text(code, 64),
        actor=column_text(actor.principal, 128),
        actor_label=column_text(actor.label, 200),
        credential_id=column_text(actor.credential_id or "", 64),
        impersonator=column_text(actor.impersonator or "", 128),
        channel=actor.channel.value,
        address=column_text(actor.address or "", 64),
        action=column_text(action, 128),
        object_kind=column_text(object_kind, 32),
        object_id=column_text(redact_text(object_id[: 2 * OBJECT_LENGTH]), OBJECT_LENGTH),
        node_id=node_id,
    )
