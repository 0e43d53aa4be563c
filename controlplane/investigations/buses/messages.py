"""What processes say to each other on a bus, as bytes.

A message is lines of UTF-8: its signature, who sent it, then any number of items:

* ``e THREAD SEQ RUN|- TYPE AT AUDIENCE`` and, on a line of its own, the event's encoded data;
* ``h THREAD SEQ``: the thread was written up to there, the event was too large to carry;
* ``w``: there may be work; ``r ORGANIZATION``: rights were taken there; ``p``: nothing, to hear that the bus carries.

The signature is a keyed BLAKE2b (RFC 7693) over the rest: whoever can reach the broker, or shares it with another
installation, cannot put anything on the screens of this one.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final
from uuid import UUID

from django.conf import settings

from controlplane.investigations.envelope import LoggedEvent

_SIGNATURE: Final = 32
_ORIGIN: Final = 32
#: Bytes of a message before its first item.
ENVELOPE_BYTES: Final = _SIGNATURE + 1 + _ORIGIN


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it was received; events are in the order in which they were sent."""

    origin: str
    events: list[LoggedEvent] = field(default_factory=list)
    heads: list[tuple[UUID, int]] = field(default_factory=list)
    rights: list[UUID] = field(default_factory=list)
    work: bool = False


def bus_key() -> bytes:
    """Return the key of the installation's messages."""
    return hashlib.blake2b(settings.SECRET_KEY.encode(), person=b"opensre-bus", digest_size=32).digest()


def channel_name(key: bytes) -> str:
    """Return the name of the channel on which the installation with this key speaks: 24 characters, lower case."""
    return f"opensre_{hashlib.blake2b(b'channel', key=key, digest_size=8).hexdigest()}"


def event_item(event: LoggedEvent, limit: int) -> bytes:
    """Return an event as an item of at most ``limit`` bytes: bare, as a head, where it is larger."""
    data = event.data.encode()
    run = str(event.run_id) if event.run_id else "-"
    line = f"e {event.thread_id} {event.seq} {run} {event.type} {event.at.isoformat()} {event.audience}\n".encode()
    if len(line) + len(data) > limit or b"\n" in data:
        return head_item(event.thread_id, event.seq)
    return line + data


def head_item(thread_id: UUID, seq: int) -> bytes:
    return b"h %s %d" % (str(thread_id).encode(), seq)


def rights_item(organization_id: UUID) -> bytes:
    return b"r %s" % str(organization_id).encode()


WORK_ITEM: Final = b"w"
PING_ITEM: Final = b"p"


def encode(items: Iterable[bytes], *, origin: str, key: bytes, limit: int) -> Iterator[bytes]:
    """Yield messages of at most ``limit`` bytes that carry all items, in order.

    Args:
        items: each at most ``limit - ENVELOPE_BYTES - 1`` bytes.
        origin: 32 characters that name the sending process.
        key: see :func:`bus_key`.
        limit: bytes.
    """
    packed: list[bytes] = []
    size = ENVELOPE_BYTES
    for item in items:
        if packed and size + len(item) + 1 > limit:
            yield _signed(packed, origin, key)
            packed, size = [], ENVELOPE_BYTES
        packed.append(item)
        size += len(item) + 1
    if packed:
        yield _signed(packed, origin, key)


def decode(payload: bytes, *, key: bytes) -> Message | None:
    """Return the message, or ``None`` for what is not one of this installation."""
    signature, _, body = payload.partition(b"\n")
    if signature != _sign(body, key):
        return None
    lines = iter(body.decode().split("\n"))
    message = Message(next(lines))
    work = False
    for line in lines:
        kind, *words = line.split(" ")
        if kind == "e":
            message.events.append(_event(words, next(lines)))
        elif kind == "h":
            message.heads.append((UUID(words[0]), int(words[1])))
        elif kind == "r":
            message.rights.append(UUID(words[0]))
        elif kind == "w":
            work = True
    return Message(message.origin, message.events, message.heads, message.rights, work)


def _event(words: Sequence[str], data: str) -> LoggedEvent:
    thread, seq, run, type_, at, audience = words
    run_id = None if run == "-" else UUID(run)
    return LoggedEvent(UUID(thread), int(seq), run_id, type_, datetime.fromisoformat(at), audience, data)


def _signed(items: Sequence[bytes], origin: str, key: bytes) -> bytes:
    body = b"\n".join([origin.encode(), *items])
    return _sign(body, key) + b"\n" + body


def _sign(body: bytes, key: bytes) -> bytes:
    return hashlib.blake2b(body, key=key, digest_size=_SIGNATURE // 2).hexdigest().encode()
