"""Doing once what is asked for again: a client that lost an answer may repeat its request.

The key, the act and its answer are written in one transaction. So nothing is done twice, by whichever process, and
nothing is remembered of what was not done: a refused request may be repeated with the same key. Of two at once the
second waits for the first and gets its answer.

Source: draft-ietf-httpapi-idempotency-key-header-07, "The Idempotency-Key HTTP Header Field".
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

import orjson
from django.db import transaction

from controlplane.audit.chain import canonical
from controlplane.core import clock
from controlplane.core.actor import Actor
from controlplane.core.errors import InvalidInput, MalformedRequest
from controlplane.core.ids import new_id
from controlplane.investigations.models import IdempotentCall

#: How long an answer is kept. Clients repeat within minutes; a day covers a queue that was stopped over night.
KEPT: Final = timedelta(hours=24)
MAX_KEY: Final = 255
SWEEP_EVERY_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the act returned, a JSON object; ``replayed``: in an earlier call."""

    value: dict[str, Any]
    replayed: bool = False


def key_of(header: str) -> str:
    """Return the key that a header's value holds: a string of structured fields (RFC 9651), or the bare text.

    Raises:
        MalformedRequest: ``bad_idempotency_key``.
    """
    text = header.strip()
    if len(text) >= 2 and text[0] == text[-1] == '"':
        text = text[1:-1]
    if not (text.isascii() and text.isprintable() and 1 <= len(text) <= MAX_KEY) or '"' in text or "\\" in text:
        detail = f"Idempotency-Key must be 1 to {MAX_KEY} printable ASCII characters, without quotes and backslashes."
        raise MalformedRequest(detail, code="bad_idempotency_key")
    return text


@transaction.atomic
def call_once(*, actor: Actor, key: str, asked: Any, act: Callable[[], dict[str, Any]]) -> Answer:
    """Do ``act`` unless the actor has had it done under ``key`` already; then return what it returned. One write more.

    Args:
        actor: whose key it is; the same text of somebody else is another key.
        key: 1 to 255 characters, see :func:`key_of`.
        asked: what is asked for, a JSON value: the same key for something else is refused.
        act: what is to be done, in this transaction, so nothing slow; returns a JSON object.

    Raises:
        InvalidInput: ``idempotency_key_reused``: the key stands for another request.
        AppError: whatever ``act`` raises; the key is then as if it had never been used.
    """
    now = clock.now()
    ours = IdempotentCall(
        id=new_id(), principal=actor.principal, key=key, asked=_digest(asked), expires_at=now + KEPT, answer="{}"
    )
    known = IdempotentCall.objects.filter(principal=actor.principal, key=key)
    known.filter(expires_at__lte=now).delete()
    # Where another transaction has just written the key, this waits until it is known whether that one lasts.
    IdempotentCall.objects.bulk_create([ours], ignore_conflicts=True)
    row = known.get()
    if row.pk != ours.pk:
        if row.asked != ours.asked:
            detail = "This Idempotency-Key was used for another request. Use a new one for each request."
            raise InvalidInput(detail, code="idempotency_key_reused")
        return Answer(orjson.loads(row.answer), replayed=True)
    value = orjson.loads(orjson.dumps(act()))
    known.update(answer=orjson.dumps(value).decode())
    return Answer(value)


def calls_sweep() -> int:
    """Forget the answers whose time is over; return how many."""
    count, _ = IdempotentCall.objects.filter(expires_at__lte=clock.now()).delete()
    return count


def _digest(asked: Any) -> str:
    return hashlib.sha256(canonical(asked).encode()).hexdigest()
