"""Who sends alerts: of each the parser, and how its deliveries are verified. One more is one more line here."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from controlplane.alerts import verifying
from controlplane.alerts.alertmanager import delivery_read
from controlplane.alerts.building import deliveries_of, delivery_of
from controlplane.alerts.delivery import Delivery
from controlplane.alerts.models import Source
from controlplane.alerts.normalised import Reading
from controlplane.alerts.vendors import (
    azure,
    cloudwatch,
    datadog,
    generic,
    grafana,
    incidentio,
    opsgenie,
    pagerduty,
    sentry,
)
from controlplane.configs.alert_sections import AlertSource

JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class Read:
    """What a body says: deliveries to be taken in, or why there are none. ``occurred_at`` is when it was sent."""

    deliveries: Sequence[Delivery] = ()
    ignored: str = ""
    occurred_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Vendor:
    """A sender of alerts.

    Args:
        source: its name in addresses, rows and configuration.
        read: makes deliveries of a body.
        verify: whether a delivery proves itself with a secret.
        signs: whether it signs; its signature is then asked for beside an access token too, where a secret is set.
        media: the content types it sends.
        id_headers: headers that have the id of a delivery, the same when it is sent again.
    """

    source: Source
    read: Callable[[Any, AlertSource | None], Read]
    verify: verifying.Verifier
    signs: bool = False
    media: tuple[str, ...] = (JSON,)
    id_headers: tuple[str, ...] = ()


def _by(parser: Callable[[Any], Reading], source: Source) -> Callable[[Any, AlertSource | None], Read]:
    return lambda body, _settings: _read(parser(body), source)


def _read(reading: Reading, source: Source) -> Read:
    return Read(deliveries_of(reading, source=source.value), reading.ignored, reading.occurred_at)


def _alertmanager(body: Any, _settings: AlertSource | None) -> Read:
    return Read([delivery_read(body)])


def _grafana(body: Any, _settings: AlertSource | None) -> Read:
    return Read([delivery_of(grafana.canonical(body), source=Source.GRAFANA.value)])


def _generic(body: Any, settings: AlertSource | None) -> Read:
    return _read(generic.read(body, settings.mapping if settings else None), Source.GENERIC)


VENDORS: Final = {
    vendor.source.value: vendor
    for vendor in (
        Vendor(Source.ALERTMANAGER, _alertmanager, verifying.by_token),
        Vendor(Source.GRAFANA, _grafana, verifying.by_grafana, signs=True),
        Vendor(Source.PAGERDUTY, _by(pagerduty.read, Source.PAGERDUTY), verifying.by_pagerduty, signs=True),
        Vendor(Source.OPSGENIE, _by(opsgenie.read, Source.OPSGENIE), verifying.by_token),
        Vendor(Source.DATADOG, _by(datadog.read, Source.DATADOG), verifying.by_token),
        Vendor(Source.SENTRY, _by(sentry.read, Source.SENTRY), verifying.by_sentry, signs=True),
        Vendor(
            Source.CLOUDWATCH,
            _by(cloudwatch.read, Source.CLOUDWATCH),
            verifying.by_token,
            media=(JSON, "text/plain"),  # what SNS says of its JSON
            id_headers=("x-amz-sns-message-id",),
        ),
        Vendor(Source.AZURE, _by(azure.read, Source.AZURE), verifying.by_token_or_address),
        Vendor(
            Source.INCIDENTIO,
            _by(incidentio.read, Source.INCIDENTIO),
            verifying.by_svix,
            signs=True,
            id_headers=("webhook-id", "svix-id"),
        ),
        Vendor(Source.GENERIC, _generic, verifying.by_choice, signs=True, id_headers=("Idempotency-Key",)),
    )
}
