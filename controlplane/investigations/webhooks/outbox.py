"""The outbox: what is to be told to whom, written where the run ends, and looked at by who configures the team."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import orjson
import structlog
from django.db import transaction
from django.db.models import Exists, OuterRef

from controlplane.audit.services import audit_record
from controlplane.configs.selectors import config_effective
from controlplane.core import clock
from controlplane.core.actor import Actor
from controlplane.core.errors import Conflict, NotFound, invalid
from controlplane.core.pagination import Page, page_of
from controlplane.core.permissions import Action
from controlplane.investigations.models import DeliveryState, Run, Thread, Visibility, WebhookDelivery
from controlplane.investigations.webhooks.hooks import TEST_EVENT, hooks_in, wants
from controlplane.investigations.webhooks.payload import run_payload
from controlplane.orgs.models import Node, NodeAncestor
from controlplane.orgs.selectors import node_require

log = structlog.get_logger(__name__)

KEPT: Final = timedelta(days=30)
"""How long a delivery that is over stays to be looked at and sent again."""
_AT_ONCE: Final = 1_000


def deliveries_queue(run: Run, *, at: datetime) -> int:
    """Write down whom to tell that ``run`` ended, inside the caller's transaction; return how many.

    Samples are told to nobody. What cannot be told never holds up the end of a run: it is logged and left out.
    """
    thread = Thread.objects.select_related("node", "organization").get(pk=run.thread_id)
    if thread.sample:
        return 0
    event = f"run.{run.status}"
    private = thread.visibility == Visibility.PRIVATE
    hooks = hooks_in(config_effective(node_id=thread.node_id).document)
    told = [name for name, hook in hooks.items() if wants(hook, event, private=private)]
    if not told:
        return 0
    try:
        payload = run_payload(run, thread, event=event, at=at)
    except ValueError:  # the answer is no result any more: written by another release
        log.exception("webhook.no_payload", run=str(run.pk))
        return 0
    WebhookDelivery.objects.bulk_create(
        WebhookDelivery(
            organization_id=thread.organization_id,
            node_id=thread.node_id,
            hook=name,
            event=event,
            thread=thread,
            run=run,
            position=run.number,
            payload=payload,
            next_at=at,
        )
        for name in told
    )
    transaction.on_commit(_wake)
    return len(told)


def _wake() -> None:
    from controlplane.investigations.webhooks.sending import deliveries_wake

    deliveries_wake()


@transaction.atomic
def webhook_test(*, actor: Actor, node: Node, hook: str) -> WebhookDelivery:
    """Queue a delivery of the event ``webhook.test`` to one receiver of the node's effective configuration.

    Raises:
        NotFound, PermissionDenied: the node is not the actor's to configure; the node has no such receiver.
    """
    node_require(actor=actor, action=Action.CONFIG_WRITE, node=node)
    if hook not in hooks_in(config_effective(node_id=node.pk).document):
        raise NotFound("No receiver of that name is on here, with a URL and a secret.", code="unknown_webhook")
    now = clock.now()
    data = {"organization": node.organization.slug, "team": node.slug, "by": actor.label}
    delivery = WebhookDelivery.objects.create(
        organization_id=node.organization_id,
        node=node,
        hook=hook,
        event=TEST_EVENT,
        payload=orjson.dumps({"type": TEST_EVENT, "timestamp": clock.rfc3339(now), "data": data}).decode(),
        next_at=now,
    )
    _audited(actor, delivery, "webhook.test")
    transaction.on_commit(_wake)
    return delivery


@transaction.atomic
def delivery_resend(*, actor: Actor, node: Node, delivery_id: UUID) -> WebhookDelivery:
    """Send a delivery that is over once more, under the same id, with all its attempts before it.

    Raises:
        NotFound, PermissionDenied: the node is not the actor's to configure, or has no such delivery.
        Conflict: ``delivery_pending``: it is still being tried.
    """
    node_require(actor=actor, action=Action.CONFIG_WRITE, node=node)
    delivery = WebhookDelivery.objects.select_for_update(of=("self",)).filter(pk=delivery_id, node=node).first()
    if delivery is None:
        raise NotFound
    if delivery.state == DeliveryState.PENDING:
        raise Conflict("This delivery is still being tried.", code="delivery_pending")
    before = delivery.state
    delivery.state, delivery.attempts, delivery.next_at = DeliveryState.PENDING, 0, clock.now()
    delivery.ended_at = None
    delivery.save(update_fields=["state", "attempts", "next_at", "ended_at"])
    _audited(actor, delivery, "webhook.resend", before={"state": before})
    transaction.on_commit(_wake)
    return delivery


def _audited(actor: Actor, delivery: WebhookDelivery, action: str, before: Mapping[str, Any] | None = None) -> None:
    audit_record(
        actor=actor,
        organization_id=delivery.organization_id,
        action=action,
        object_kind="webhook_delivery",
        object_id=str(delivery.pk),
        node_id=delivery.node_id,
        before=before,
        after={"hook": delivery.hook, "event": delivery.event},
    )


def deliveries_page(
    *, actor: Actor, node: Node, state: str | None = None, cursor: str | None = None, limit: int | str = 50
) -> Page[WebhookDelivery]:
    """Return the deliveries of a node and everything below it, newest first. One query.

    Raises:
        NotFound, PermissionDenied: the node's configuration is not the actor's to read.
        InvalidInput: ``unknown_state``.
        MalformedRequest: ``bad_cursor`` or ``bad_limit``.
    """
    node_require(actor=actor, action=Action.CONFIG_READ, node=node)
    below = NodeAncestor.objects.filter(descendant_id=OuterRef("node_id"), ancestor_id=node.pk)
    rows = WebhookDelivery.objects.filter(Exists(below)).select_related("node", "thread").defer("payload")
    if state:
        if state not in DeliveryState.values:
            raise invalid("/state", "unknown_state", f"A state is one of {', '.join(DeliveryState.values)}.")
        rows = rows.filter(state=state)
    return page_of(rows, ordering=("-created_at", "-id"), params={"cursor": cursor, "limit": limit})


def deliveries_forget() -> int:
    """Remove deliveries that have been over for a month, a thousand at a time; return how many."""
    old = WebhookDelivery.objects.filter(ended_at__lt=clock.now() - KEPT).values_list("pk", flat=True)[:_AT_ONCE]
    return WebhookDelivery.objects.filter(pk__in=list(old)).delete()[0]


def delivery_json(delivery: WebhookDelivery) -> dict[str, Any]:
    """Return a delivery as the API shows it; of a private investigation nothing says which it was."""
    thread = delivery.thread
    hidden = thread is not None and thread.visibility == Visibility.PRIVATE
    return {
        "id": delivery.pk,
        "webhook": delivery.hook,
        "event": delivery.event,
        "team": delivery.node.slug,
        "thread_id": None if hidden else delivery.thread_id,
        "run_id": None if hidden else delivery.run_id,
        "state": delivery.state,
        "attempts": delivery.attempts,
        "next_at": _time(delivery.next_at) if delivery.state == DeliveryState.PENDING else None,
        "last_status": delivery.last_status,
        "last_error": delivery.last_error,
        "created_at": _time(delivery.created_at),
        "ended_at": _time(delivery.ended_at),
    }


def _time(moment: datetime | None) -> str | None:
    return clock.rfc3339(moment) if moment else None
