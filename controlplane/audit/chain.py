"""The chain's arithmetic: canonical text and the MAC of an event. Pure; writing and verifying share it."""

import hashlib
import hmac
import json
from datetime import UTC
from typing import Any, Final

from django.conf import settings

from controlplane.audit.models import AuditEvent

#: What stands for the predecessor's MAC in an organization's first event.
GENESIS: Final = "0" * 64


def canonical(value: Any) -> str:
    """Return ``value`` as JSON text in one form only: keys sorted, no spaces, ASCII (NUL and surrogates escaped)."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def event_mac(event: AuditEvent) -> str:
    """Return the HMAC-SHA256 (hexadecimal) of an event's columns and its predecessor's MAC, under the event's key.

    Raises:
        KeyError: when ``AUDIT_KEYS`` has no key of the event's ``key_version``.
    """
    key = settings.AUDIT_KEYS[event.key_version].encode()
    fields = [
        str(event.id),
        str(event.organization_id),
        event.org_seq,
        event.at.astimezone(UTC).isoformat(timespec="microseconds"),
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
    return hmac.new(key, canonical(fields).encode(), hashlib.sha256).hexdigest()
