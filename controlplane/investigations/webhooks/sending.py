"""Sending what is in the outbox: at least once, in order within a thread, by one process at a time.

A claim is one conditional UPDATE with a lease by the database's clock, longer than a request may take: a process that
dies leaves the delivery to whoever sweeps next, which sends it under the same id.
"""

import asyncio
import random
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final
from uuid import UUID, uuid4

import structlog
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django_tasks import task

from controlplane.configs.credentials import credentials_of
from controlplane.configs.selectors import config_effective
from controlplane.core import clock
from controlplane.core.outbound import Answer, OutboundClient, OutboundError, host_of
from controlplane.investigations import metrics
from controlplane.investigations.models import DeliveryState, WebhookDelivery
from controlplane.investigations.webhooks.hooks import hooks_in
from controlplane.investigations.webhooks.signing import signed_headers

log = structlog.get_logger(__name__)

MAX_ATTEMPTS: Final = 8
TIMEOUT_S: Final = 10.0
MAX_ANSWER_BYTES: Final = 256 * 1024
LEASE: Final = timedelta(seconds=60)
#: What is due now is written down by another clock than the one that says so.
SKEW: Final = timedelta(seconds=1)
FIRST_DELAY_S: Final = 5.0
MAX_DELAY_S: Final = 6 * 3600.0
BATCH: Final = 20
_GONE: Final = 410

_sending = threading.Lock()


@dataclass(frozen=True, slots=True)
class Claimed:
    """A delivery that this process may send, with what it needs for that; ``problem`` is why it cannot be sent."""

    id: UUID
    claim: UUID
    attempts: int
    body: bytes = field(repr=False)
    url: str = field(default="", repr=False)
    headers: dict[str, str] = field(default_factory=dict, repr=False)
    problem: str = ""
    cancelled: bool = False


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one attempt. ``retry_after_s``: how long the receiver asked to be left alone."""

    status: int | None = None
    error: str = ""
    retry_after_s: float = 0.0

    @property
    def delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300


# ---- when ------------------------------------------------------------------------------------------------------------


def deliveries_wake() -> None:
    """Have a background thread of this process send what is due."""
    webhooks_send.enqueue()


def deliveries_sweep() -> None:
    """Wake the sender if something is due; every process does so each few seconds. One query."""
    if _due().exists():
        deliveries_wake()


@task()
def webhooks_send() -> None:
    """Send everything that is due. One at a time in a process: a second call has nothing to add."""
    if not _sending.acquire(blocking=False):
        return
    try:
        while deliveries_send():
            pass
    finally:
        _sending.release()


def deliveries_send() -> int:
    """Send up to 20 deliveries that are due, all at once, and return how many were tried."""
    claims = [claimed for delivery_id in list(_due()[:BATCH]) if (claimed := _claim(delivery_id)) is not None]
    if not claims:
        return 0
    outcomes = asyncio.run(_send_all([claim for claim in claims if not claim.problem]))
    for claim in claims:
        _settle(claim, outcomes.get(claim.id) or Outcome(error=claim.problem))
    return len(claims)


# ---- claiming --------------------------------------------------------------------------------------------------------


def _due() -> QuerySet[WebhookDelivery, UUID]:
    now = clock.lease_now(plus=SKEW)
    earlier = WebhookDelivery.objects.filter(
        state=DeliveryState.PENDING,
        thread_id=OuterRef("thread_id"),
        hook=OuterRef("hook"),
        position__lt=OuterRef("position"),
    )
    free = Q(lease_until__isnull=True) | Q(lease_until__lt=clock.lease_now())
    due = WebhookDelivery.objects.filter(free, ~Exists(earlier), state=DeliveryState.PENDING, next_at__lte=now)
    return due.order_by("next_at").values_list("pk", flat=True)


def _claim(delivery_id: UUID) -> Claimed | None:
    """Take a delivery, or return ``None`` where another process was first."""
    claim = uuid4()
    now = clock.lease_now(plus=SKEW)
    free = Q(lease_until__isnull=True) | Q(lease_until__lt=clock.lease_now())
    taken = WebhookDelivery.objects.filter(free, pk=delivery_id, state=DeliveryState.PENDING, next_at__lte=now).update(
        claim=claim, lease_until=clock.lease_now(plus=LEASE), attempts=F("attempts") + 1
    )
    if not taken:
        return None
    return _prepared(WebhookDelivery.objects.get(pk=delivery_id), claim)


def _prepared(delivery: WebhookDelivery, claim: UUID) -> Claimed:
    """Return the request, with address and secret as the team has them now: a receiver taken away is told nothing."""
    claimed = Claimed(delivery.pk, claim, delivery.attempts, delivery.payload.encode())
    hook = hooks_in(config_effective(node_id=delivery.node_id).document).get(delivery.hook)
    if hook is None or not hook.url or not hook.secret:
        return _unsendable(claimed, "webhook_removed", cancelled=True)
    credentials = credentials_of(delivery.node_id)
    host = host_of(credentials.resolve(hook.url).text or "")
    url = credentials.resolve(hook.url, host).text if host else None
    if url is None:
        return _unsendable(claimed, "url_unresolved")
    wanted = [hook.secret, *filter(None, [hook.previous_secret])]
    secrets = [resolved.text for text in wanted if (resolved := credentials.resolve(text, host)).text]
    if credentials.resolve(hook.secret, host).text is None:
        return _unsendable(claimed, "secret_unresolved")
    headers = signed_headers(
        id_=message_id(delivery.pk),
        at=int(clock.now().timestamp()),
        body=claimed.body,
        secrets=[secret for secret in secrets if secret],
    )
    return Claimed(delivery.pk, claim, delivery.attempts, claimed.body, url, headers)


def _unsendable(claimed: Claimed, problem: str, *, cancelled: bool = False) -> Claimed:
    return Claimed(claimed.id, claimed.claim, claimed.attempts, claimed.body, problem=problem, cancelled=cancelled)


def message_id(delivery_id: UUID) -> str:
    """Return a delivery's ``webhook-id``: the same however often it is sent."""
    return f"msg_{delivery_id.hex}"


# ---- sending ---------------------------------------------------------------------------------------------------------


async def _send_all(claims: Sequence[Claimed]) -> dict[UUID, Outcome]:
    async with OutboundClient(timeout_s=TIMEOUT_S, max_bytes=MAX_ANSWER_BYTES, follow_redirects=False) as client:
        outcomes = await asyncio.gather(*(_send(client, claim) for claim in claims))
    return {claim.id: outcome for claim, outcome in zip(claims, outcomes, strict=True)}


async def _send(client: OutboundClient, claim: Claimed) -> Outcome:
    headers = claim.headers | {"Content-Type": "application/json"}
    try:
        answer = await client.request("POST", claim.url, headers=headers, content=claim.body)
    except OutboundError as error:
        return Outcome(error=error.code)
    except Exception:
        log.exception("webhook.attempt_broken", delivery=str(claim.id))
        return Outcome(error="attempt_broken")
    return Outcome(answer.status, _error_of(answer), _retry_after(answer))


def _error_of(answer: Answer) -> str:
    if 200 <= answer.status < 300:
        return ""
    if 300 <= answer.status < 400:
        return "redirect_refused"
    return "gone" if answer.status == _GONE else "bad_status"


def _retry_after(answer: Answer) -> float:
    """Return the seconds of ``Retry-After`` (RFC 9110, section 10.2.3), a number or a date; 0 where it says nothing."""
    text = answer.headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - clock.now()).total_seconds())


# ---- settling --------------------------------------------------------------------------------------------------------


def _settle(claim: Claimed, outcome: Outcome) -> None:
    """Write down what came of an attempt, unless the claim is another's by now."""
    now = clock.now()
    state, next_at = _next(claim, outcome, now)
    settled = WebhookDelivery.objects.filter(pk=claim.id, claim=claim.claim).update(
        state=state,
        next_at=next_at,
        last_status=outcome.status,
        last_error=outcome.error,
        ended_at=None if state == DeliveryState.PENDING else now,
        claim=None,
        lease_until=None,
    )
    result = "retried" if state == DeliveryState.PENDING else str(state)
    metrics.webhook_attempts_total.labels(result=result).inc()
    if settled and state == DeliveryState.DEAD:
        log.warning("webhook.dead", delivery=str(claim.id), status=outcome.status, error=outcome.error)


def _next(claim: Claimed, outcome: Outcome, now: datetime) -> tuple[DeliveryState, datetime | None]:
    if outcome.delivered:
        return DeliveryState.DELIVERED, None
    if claim.cancelled:
        return DeliveryState.CANCELLED, None
    if claim.attempts >= MAX_ATTEMPTS or outcome.status == _GONE:
        return DeliveryState.DEAD, None
    return DeliveryState.PENDING, now + timedelta(seconds=delay_s(claim.attempts, outcome.retry_after_s))


def delay_s(attempts: int, retry_after_s: float = 0.0) -> float:
    """Return the seconds until the next attempt after ``attempts`` failed ones.

    5, 20, 80 seconds and so on, four times the one before, six hours at most, each with a fifth of chance; never
    earlier than the receiver asked for, where that is within six hours.
    """
    planned: float = min(MAX_DELAY_S, FIRST_DELAY_S * 4 ** (attempts - 1))
    jittered = planned * random.uniform(0.8, 1.2)  # noqa: S311 (chance against crowds, no secret)
    return max(jittered, min(retry_after_s, MAX_DELAY_S))
