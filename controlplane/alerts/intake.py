"""From the bytes of a delivery to what became of it: the one door, whoever sends."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

import structlog

from controlplane.access.limits.guard import limit_actor
from controlplane.alerts import metrics, sns
from controlplane.alerts.normalised import digest
from controlplane.alerts.parsers import MAX_BODY_BYTES, paired
from controlplane.alerts.services import Ingested, alert_ingest
from controlplane.alerts.sources import not_proven, sender_beside, sender_find
from controlplane.alerts.vendors import Read, Vendor, cloudwatch
from controlplane.alerts.verifying import Incoming
from controlplane.core import clock
from controlplane.core.actor import Actor
from controlplane.core.errors import AppError, PayloadTooLarge, PermissionDenied
from controlplane.core.strict_json import parse_json

log = structlog.get_logger(__name__)

#: How old a delivery may be that nothing but a signature vouches for: its id is known for twice as long.
REPLAY_WINDOW: Final = timedelta(days=7)
_AHEAD: Final = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class TakenIn:
    """What became of a delivery, group by group; ``ignored`` says why there is nothing to take in."""

    ingested: tuple[Ingested, ...] = ()
    ignored: str = ""


def delivery_by_token(*, actor: Actor, vendor: Vendor, incoming: Incoming, name: str | None = None) -> TakenIn:
    """Take in what arrived with an access token. A signature is asked for too where the token's node has its secret.

    Args:
        actor: who delivers.
        vendor: who sends.
        incoming: the delivery.
        name: which of the node's sources it is, where there are several.

    Raises:
        NotAuthenticated: ``bad_signature``.
        MalformedRequest, InvalidInput, PayloadTooLarge, PermissionDenied: what is wrong with it.
    """
    with _counted(vendor):
        sender = None
        if name is not None or vendor.signs:
            sender = sender_beside(actor=actor, vendor=vendor, name=name)
        if sender is not None and sender.must_sign(vendor) and not sender.proves(vendor, incoming):
            raise not_proven(actor)
        body = parsed(incoming.body)
        if (about_itself := _envelope(vendor, body, topics=None)) is not None:
            return _noted(vendor, about_itself)
        read = vendor.read(body, sender.settings if sender else None)
        return _noted(vendor, taken_in(actor, _identified(read, vendor, incoming)))


def delivery_by_source(
    *, organization: str, node: str, name: str, vendor: Vendor, incoming: Incoming, address: str | None
) -> TakenIn:
    """Take in what arrived at the address of a source, which its signature or its token vouches for.

    Raises:
        NotAuthenticated: ``bad_signature``: there is no such source, or the delivery does not prove itself.
        PermissionDenied: ``stale_delivery``: it was signed too long ago to be told from a replay.
        TooManyRequests: ``rate_limited``: the source sends more than the rule ``alerts`` allows.
        MalformedRequest, InvalidInput, PayloadTooLarge: what is wrong with it.
    """
    with _counted(vendor):
        sender = sender_find(organization=organization, node=node, name=name, vendor=vendor)
        proven = sender.proves(vendor, incoming)
        topics = sender.settings.topics or []
        if not proven and not (vendor.source.value == "cloudwatch" and topics):
            raise not_proven(sender.actor(address))
        body = parsed(incoming.body)
        if not proven and not cloudwatch.is_envelope(body):
            raise not_proven(sender.actor(address))
        if (about_itself := _envelope(vendor, body, topics=topics or None)) is not None:
            return _noted(vendor, about_itself)
        read = vendor.read(body, sender.settings)
        _refuse_stale(read)
        actor = sender.actor(address)
        limit_actor("alerts", actor)
        return _noted(vendor, taken_in(actor, _identified(read, vendor, incoming)))


def taken_in(actor: Actor, read: Read) -> TakenIn:
    """Take in what a body says, group by group.

    Raises:
        PermissionDenied, InvalidInput: see :func:`alert_ingest`.
    """
    if read.ignored:
        return TakenIn(ignored=read.ignored)
    return TakenIn(tuple(alert_ingest(actor=actor, delivery=delivery) for delivery in read.deliveries))


def parsed(raw: bytes) -> Any:
    """Return the JSON value of a body, ``None`` for an empty one.

    Raises:
        PayloadTooLarge, MalformedRequest: it is larger than 8 MiB, or no usable JSON.
    """
    if len(raw) > MAX_BODY_BYTES:
        detail = f"An alert has at most {MAX_BODY_BYTES} bytes (8 MiB) here; lower max_alerts of the receiver."
        raise PayloadTooLarge(detail)
    return parse_json(paired(raw), max_bytes=MAX_BODY_BYTES) if raw else {}


def _envelope(vendor: Vendor, body: Any, *, topics: Sequence[str] | None) -> TakenIn | None:
    """Verify an envelope of SNS, and confirm the subscription it asks for; ``None`` where an alert is to be read."""
    if vendor.source.value != "cloudwatch" or not cloudwatch.is_envelope(body):
        return None
    sns.envelope_verify(body, topics=topics)
    if body["Type"] == "SubscriptionConfirmation":
        sns.subscription_confirm(body)
        return TakenIn(ignored="the subscription is confirmed")
    return None


def _identified(read: Read, vendor: Vendor, incoming: Incoming) -> Read:
    """Return what was read with the id of the delivery that is in a header, where the body has none."""
    found = next((value for name in vendor.id_headers if (value := incoming.headers.get(name, "").strip())), "")
    if not found:
        return read
    source = vendor.source.value
    keyed = [one if one.key else replace(one, key=digest(source, found, one.group_key)) for one in read.deliveries]
    return replace(read, deliveries=keyed)


def _refuse_stale(read: Read) -> None:
    at = read.occurred_at
    if at is not None and not clock.now() - REPLAY_WINDOW <= at <= clock.now() + _AHEAD:
        detail = f"This was signed more than {REPLAY_WINDOW.days} days ago, or for a time to come: it may be a replay."
        raise PermissionDenied(detail, code="stale_delivery")


def _noted(vendor: Vendor, taken: TakenIn) -> TakenIn:
    """Count what was in order and no alert; the others are counted where they are taken in."""
    if taken.ignored:
        metrics.deliveries_total.labels(source=vendor.source.value, action="ignored").inc()
    return taken


@contextmanager
def _counted(vendor: Vendor) -> Iterator[None]:
    """Count a delivery that is refused."""
    try:
        yield
    except AppError as error:
        log.info("alert.refused", vendor=vendor.source.value, code=error.code)
        metrics.deliveries_total.labels(source=vendor.source.value, action="refused").inc()
        raise
