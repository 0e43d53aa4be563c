"""The chain's arithmetic: canonical text, the MAC of an event, and the seals of what stands around it.

Pure; writing and verifying share it. Events are under the numbered keys of ``AUDIT_KEYS`` themselves, heads,
checkpoints and verifications each under a key derived from them, so that nothing signed as one passes for another.
"""

import hashlib
import hmac
import json
from datetime import UTC, datetime
from typing import Any, Final

from django.conf import settings

from controlplane.audit.models import AuditCheckpoint, AuditEvent, AuditHead, AuditVerification

#: What stands for the predecessor's MAC in an organization's first event, and for the first checkpoint's predecessor.
GENESIS: Final = "0" * 64


def canonical(value: Any) -> str:
    """Return ``value`` as JSON text in one form only: keys sorted, no spaces, ASCII (NUL and surrogates escaped)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def current_key() -> int:
    """Return the number of the key that signs."""
    return max(settings.AUDIT_KEYS)


def event_mac(event: AuditEvent, *, org_seq: int | None = None) -> str:
    """Return the HMAC-SHA256 (hexadecimal) of an event's columns and its predecessor's MAC, under the event's key.

    Args:
        org_seq: another position than the event's, to find out whether it once had that one.

    Raises:
        KeyError: when ``AUDIT_KEYS`` has no key of the event's ``key_version``.
    """
    fields = [
        str(event.id),
        str(event.organization_id),
        event.org_seq if org_seq is None else org_seq,
        _time(event.at),
        event.action,
        event.actor,
        event.actor_label,
        event.credential_id,
        event.channel,
        event.address,
        event.object_kind,
        event.object_id,
        str(event.node_id or ""),
        event.before_json,
        event.after_json,
        event.reason,
        event.prev_mac,
        event.key_version,
    ]
    if event.impersonator:  # events from before there was one have none: their MACs stay what they are
        fields.append(event.impersonator)
    return _mac(settings.AUDIT_KEYS[event.key_version].encode(), fields)


def head_seal(head: AuditHead) -> str:
    """Return the seal that a head must have. Raises ``KeyError`` as :func:`event_mac` does."""
    fields = [
        str(head.organization_id),
        head.org_seq,
        head.mac,
        head.checkpoints,
        head.checkpoint_seq,
        _time(head.checkpoint_at),
        head.key_version,
    ]
    return _mac(_derived(head.key_version, "head"), fields)


def checkpoint_signature(checkpoint: AuditCheckpoint) -> str:
    """Return the signature that a checkpoint must have. Raises ``KeyError`` as :func:`event_mac` does."""
    fields = [
        str(checkpoint.organization_id),
        checkpoint.number,
        checkpoint.kind,
        checkpoint.org_seq,
        checkpoint.mac,
        checkpoint.count,
        _time(checkpoint.at),
        checkpoint.previous,
        checkpoint.key_version,
    ]
    return _mac(_derived(checkpoint.key_version, "checkpoint"), fields)


def verification_seal(found: AuditVerification) -> str:
    """Return the seal that a verification must have. Raises ``KeyError`` as :func:`event_mac` does."""
    fields = [
        str(found.organization_id),
        _time(found.at),
        _time(found.full_at),
        found.verified_seq,
        found.verified_mac,
        found.again_seq,
        found.intact,
        found.kind,
        found.broken_seq,
        found.broken_id,
        found.broken_action,
        found.problem,
        found.key_version,
    ]
    return _mac(_derived(found.key_version, "verification"), fields)


def same(one: str, other: str) -> bool:
    """Return whether two MACs are equal, in constant time."""
    return hmac.compare_digest(one.encode(), other.encode())


def _mac(key: bytes, fields: list[Any]) -> str:
    return hmac.new(key, canonical(fields).encode(), hashlib.sha256).hexdigest()


def _derived(key_version: int, purpose: str) -> bytes:
    return hmac.digest(settings.AUDIT_KEYS[key_version].encode(), f"opensre audit {purpose} 1".encode(), "sha256")


def _time(moment: datetime | None) -> str:
    return "" if moment is None else moment.astimezone(UTC).isoformat(timespec="microseconds")
