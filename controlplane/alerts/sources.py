"""Senders that a node's configuration names, with secrets of their own instead of access tokens."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import structlog

from controlplane.alerts.models import Source
from controlplane.alerts.policy import alert_sources
from controlplane.alerts.vendors import Vendor
from controlplane.alerts.verifying import Incoming
from controlplane.configs.alert_sections import AlertSource
from controlplane.configs.credentials import credentials_of
from controlplane.configs.selectors import config_effective
from controlplane.core.actor import Actor, ActorKind, Channel
from controlplane.core.errors import InvalidInput, NotAuthenticated, invalid
from controlplane.core.permissions import RULES, Action
from controlplane.core.refusals import KnownCredential
from controlplane.orgs.models import Node, is_slug

log = structlog.get_logger(__name__)

#: Who is behind a delivery that proves itself by a source's secret.
PRINCIPAL: Final = "alert_source"


@dataclass(frozen=True, slots=True)
class Sender:
    """A source of a node. ``secrets`` are those that its deliveries may prove themselves by now."""

    node: Node
    name: str
    settings: AlertSource
    secrets: Sequence[str] = field(repr=False)

    def proves(self, vendor: Vendor, incoming: Incoming) -> bool:
        """Return whether a delivery proves itself with one of the secrets; all of them are tried."""
        proven = [vendor.verify(incoming, secret, self.settings) for secret in self.secrets]
        return any(proven)

    def must_sign(self, vendor: Vendor) -> bool:
        """Return whether deliveries with an access token have to be signed too."""
        return vendor.signs and self.settings.signature != "token" and self.settings.secret is not None

    def actor(self, address: str | None) -> Actor:
        """Return who delivers: the source, which may hand alerts in at its node and nothing else."""
        assert self.settings.kind is not None  # noqa: S101 (sources without a kind are none)
        label = f"{Source(self.settings.kind).label} ({self.name})"
        return Actor(
            kind=ActorKind.SYSTEM,
            principal=f"{PRINCIPAL}:{self.node.slug}/{self.name}"[:128],
            label=label[:200],
            organization_id=self.node.organization_id,
            scopes=RULES[Action.ALERT_INGEST].scopes,
            token_node_id=self.node.pk,
            credential_id=self.name,
            channel=Channel.ALERT,
            address=address,
        )


def not_proven(actor: Actor | None = None) -> NotAuthenticated:
    """Return the one answer to a delivery that proves nothing, whatever is wrong: no such source says the same.

    Args:
        actor: of the source, where there is one: for its organization's security stream.
    """
    return NotAuthenticated(
        "The signature or token of this delivery is not valid for this address.",
        code="bad_signature",
        known=KnownCredential(actor, "bad_signature") if actor else None,
    )


def sender_find(*, organization: str, node: str, name: str, vendor: Vendor) -> Sender:
    """Return the source that an address names, with its secrets. At most four queries.

    Raises:
        NotAuthenticated: ``bad_signature``: there is none of this vendor; what of the address is wrong stays unsaid.
    """
    if not (is_slug(organization) and is_slug(node) and is_slug(name)):
        raise not_proven()
    found = Node.objects.filter(organization__slug=organization, slug=node).first()
    if found is None:
        raise not_proven()
    settings = alert_sources(config_effective(node_id=found.pk).document).get(name)
    if settings is None or settings.kind != vendor.source.value:
        raise not_proven()
    return _sender(found, name, settings)


def sender_beside(*, actor: Actor, vendor: Vendor, name: str | None) -> Sender | None:
    """Return the source of a vendor that is configured where an access token is bound, ``None`` where there is none.

    Args:
        actor: who delivers with an access token.
        vendor: who sends.
        name: the source that is meant, where there are several.

    Raises:
        InvalidInput: ``unknown_source``, or ``source_unclear``: there are several and none is named.
    """
    if actor.token_node_id is None:
        if name is not None:
            raise invalid("/source", "unknown_source", "Only tokens of a node have sources: this credential has none.")
        return None
    settings = alert_sources(config_effective(node_id=actor.token_node_id).document)
    fitting = {key: one for key, one in settings.items() if one.kind == vendor.source.value}
    if name is not None:
        if name not in fitting:
            raise invalid("/source", "unknown_source", "The node of this token has no such source of this vendor.")
        fitting = {name: fitting[name]}
    if not fitting:
        return None
    if len(fitting) > 1:
        detail = "The node of this token has several sources of this vendor: say which with ?source=."
        raise InvalidInput(detail, code="source_unclear", extra={"sources": sorted(fitting)})
    key, one = next(iter(fitting.items()))
    return _sender(Node.objects.get(pk=actor.token_node_id), key, one)


def _sender(node: Node, name: str, settings: AlertSource) -> Sender:
    written = [text for text in (settings.secret, settings.previous_secret) if text]
    return Sender(node, name, settings, _secrets(node.pk, name, written) if written else ())


def _secrets(node_id: UUID, name: str, written: Sequence[str]) -> list[str]:
    credentials = credentials_of(node_id)
    resolved = [credentials.resolve(text) for text in written]
    for one in resolved:
        for missing, state in one.missing:
            log.warning(
                "alert.source_secret_missing", node=str(node_id), source=name, credential=missing, state=state.value
            )
    # A default in a reference is written in the document for everybody to read, and so is no secret.
    return [one.text.strip() for one in resolved if one.text and one.values and one.text.strip()]
