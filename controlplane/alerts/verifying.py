"""How deliveries prove themselves: as each vendor signs them, or by a token where it does not.

Every comparison takes the same time whatever is wrong. A verifier looks at the bytes as they came and at the headers,
never at what a parser made of them.
"""

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from controlplane.configs.alert_sections import AlertSource
from controlplane.core import clock

#: How far a signed time may be off. Sources: Svix, "Verifying webhooks manually"; Grafana's page on HMAC signatures.
TOLERANCE_S: Final = 300
GRAFANA_HEADER: Final = "X-Grafana-Alerting-Signature"
GENERIC_HEADER: Final = "X-Signature-256"
TOKEN_HEADER: Final = "X-Webhook-Token"  # noqa: S105 (a header's name)


@dataclass(frozen=True, slots=True)
class Incoming:
    """A delivery as it arrived. ``headers`` know no case; ``token`` is what the address says after ``?token=``."""

    body: bytes = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    token: str = field(default="", repr=False)


Verifier = Callable[[Incoming, str, AlertSource], bool]


def by_token(incoming: Incoming, secret: str, _source: AlertSource) -> bool:
    """``Authorization: Bearer``, the password of ``Authorization: Basic``, or the header ``X-Webhook-Token``."""
    return _any_equal(_tokens(incoming), secret)


def by_token_or_address(incoming: Incoming, secret: str, _source: AlertSource) -> bool:
    """As :func:`by_token`, or ``?token=`` in the address, for Azure Monitor, whose action groups send no headers.

    Source: https://learn.microsoft.com/azure/azure-monitor/alerts/activity-log-alerts-webhook, "Authenticate the
    webhook": token-based authorization by a parameter of the address.
    """
    return _any_equal([*_tokens(incoming), incoming.token], secret)


def by_pagerduty(incoming: Incoming, secret: str, _source: AlertSource) -> bool:
    """``X-PagerDuty-Signature``: ``v1=`` and the hexadecimal HMAC-SHA256 of the body; several while secrets rotate.

    Source: https://developer.pagerduty.com/docs/verifying-webhook-signatures
    """
    given = incoming.headers.get("X-PagerDuty-Signature", "").split(",")
    expected = "v1=" + _hex_hmac(secret, incoming.body)
    return _any_equal((one.strip() for one in given), expected)


def by_sentry(incoming: Incoming, secret: str, _source: AlertSource) -> bool:
    """``Sentry-Hook-Signature``: the hexadecimal HMAC-SHA256 of the body with the integration's client secret.

    Source: https://docs.sentry.io/organization/integrations/integration-platform/webhooks/#sentry-hook-signature
    """
    return _any_equal([incoming.headers.get("Sentry-Hook-Signature", "")], _hex_hmac(secret, incoming.body))


def by_svix(incoming: Incoming, secret: str, _source: AlertSource) -> bool:
    """``webhook-id``, ``webhook-timestamp`` (at most five minutes off) and ``webhook-signature``, as incident.io sends.

    Signed is ``id.timestamp.body`` with the bytes that follow ``whsec_`` in base64; the signatures are a list separated
    by spaces, each ``v1,`` and base64. The headers may be called ``svix-…`` too.

    Sources: https://docs.incident.io/integrations/webhooks, https://docs.svix.com/receiving/verifying-payloads/how-manual
    """
    said = {
        name: incoming.headers.get(f"webhook-{name}", "") or incoming.headers.get(f"svix-{name}", "")
        for name in ("id", "timestamp", "signature")
    }
    if not said["id"] or not _recent(said["timestamp"]):
        return False
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        return False
    signed = f"{said['id']}.{said['timestamp']}.".encode() + incoming.body
    expected = "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    return _any_equal(said["signature"].split(), expected)


def by_grafana(incoming: Incoming, secret: str, source: AlertSource) -> bool:
    """``X-Grafana-Alerting-Signature``: the hexadecimal HMAC-SHA256 of the body, or of ``time:body`` where the source
    names the header of the time, which then may be at most five minutes off. With ``"signature": "token"`` a token.

    Source: https://grafana.com/docs/grafana/latest/alerting/configure-notifications/manage-contact-points/integrations/webhook-notifier/
    """
    if source.signature == "token":
        return by_token(incoming, secret, source)
    signed = incoming.body
    if source.timestamp_header:
        said = incoming.headers.get(source.timestamp_header, "")
        if not _recent(said):
            return False
        signed = f"{said}:".encode() + signed
    given = incoming.headers.get(source.signature_header or GRAFANA_HEADER, "")
    return _any_equal([given], _hex_hmac(secret, signed))


def by_choice(incoming: Incoming, secret: str, source: AlertSource) -> bool:
    """The HMAC-SHA256 of the body in ``X-Signature-256``, or the header that the source names: hexadecimal, with or
    without ``sha256=``. With ``"signature": "token"`` a token.
    """
    if source.signature == "token":
        return by_token(incoming, secret, source)
    given = incoming.headers.get(source.signature_header or GENERIC_HEADER, "").strip().removeprefix("sha256=")
    return _any_equal([given.lower()], _hex_hmac(secret, incoming.body))


def _tokens(incoming: Incoming) -> list[str]:
    scheme, _, credential = incoming.headers.get("Authorization", "").strip().partition(" ")
    credential = credential.strip()
    if scheme.lower() == "basic":
        credential = basic_password(credential)
    return [credential if scheme.lower() in {"bearer", "basic"} else "", incoming.headers.get(TOKEN_HEADER, "")]


def basic_password(credential: str) -> str:
    """Return the password of a Basic credential (RFC 7617), ``""`` where it is none."""
    try:
        decoded = base64.b64decode(credential, validate=True).decode("utf-8")
    except (binascii.Error, ValueError):
        return ""
    return decoded.partition(":")[2]


def _hex_hmac(secret: str, signed: bytes) -> str:
    return hmac.digest(secret.encode(), signed, hashlib.sha256).hex()


def _any_equal(given: Iterable[str], expected: str) -> bool:
    """Return whether any of some texts is the expected one; the first few are compared, each in constant time."""
    wanted = expected.encode("utf-8", "replace")
    found = False
    for one in list(given)[:10]:
        found |= hmac.compare_digest(one.encode("utf-8", "replace"), wanted) and bool(one)
    return found


def _recent(timestamp: str) -> bool:
    """Return whether seconds since 1970 are at most :data:`TOLERANCE_S` off; milliseconds are taken too."""
    if not timestamp.isascii() or not timestamp.isdecimal() or len(timestamp) > 15:
        return False
    seconds = int(timestamp) / (1000 if len(timestamp) > 11 else 1)
    return abs(clock.now().timestamp() - seconds) <= TOLERANCE_S
