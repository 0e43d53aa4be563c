"""Bodies as the vendors document them, made up here: names, ids and times are nobody's."""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

from controlplane.core import clock

TOPIC = "arn:aws:sns:eu-central-1:123456789012:alarms"
CERTIFICATE_URL = "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem"


def now_text(**back: float) -> str:
    return (clock.now() - timedelta(**back)).isoformat().replace("+00:00", "Z")


def grafana(*, status: str = "firing", pods: tuple[str, ...] = ("a",), **more: Any) -> dict[str, Any]:
    alerts = [
        {
            "status": status,
            "labels": {"alertname": "Latency", "service": "cart", "pod": f"cart-{pod}", "severity": "warning"},
            "annotations": {"summary": "p99 above 2 s"},
            "startsAt": "2026-11-30T10:00:00Z",
            "endsAt": "0001-01-01T00:00:00Z",
            "values": {"B": 2.4, "C": 1},
            "generatorURL": "https://grafana.example.com/alerting/grafana/abc/view",
            "fingerprint": f"f-{pod}",
            "dashboardURL": "https://grafana.example.com/d/abc",
        }
        for pod in pods
    ]
    return {
        "receiver": "opensre",
        "status": status,
        "orgId": 1,
        "alerts": alerts,
        "groupLabels": {"alertname": "Latency"},
        "commonLabels": {"alertname": "Latency", "service": "cart", "severity": "warning"},
        "commonAnnotations": {"summary": "p99 above 2 s"},
        "externalURL": "https://grafana.example.com/",
        "version": "1",
        "groupKey": '{}:{alertname="Latency"}',
        "truncatedAlerts": 0,
        "title": "[FIRING:1] Latency (cart)",
        "state": "alerting" if status == "firing" else "ok",
        "message": "**Firing**",
        **more,
    }


def pagerduty(kind: str = "incident.triggered", *, number: int = 7, event: str = "E1", **data: Any) -> dict[str, Any]:
    return {
        "event": {
            "id": f"01{event}",
            "event_type": kind,
            "resource_type": kind.partition(".")[0],
            "occurred_at": now_text(minutes=1),
            "agent": {"id": "PUSER", "type": "user_reference"},
            "client": None,
            "data": {
                "id": f"Q{number}",
                "type": "incident",
                "html_url": f"https://acme.pagerduty.com/incidents/Q{number}",
                "number": number,
                "status": "triggered",
                "incident_key": f"key-{number}",
                "created_at": now_text(minutes=2),
                "title": "Checkout answers 503",
                "service": {"id": "PSVC1", "summary": "checkout", "type": "service_reference"},
                "assignees": [],
                "escalation_policy": {"id": "PEP", "summary": "Default"},
                "teams": [{"id": "PT", "summary": "Payments"}],
                "priority": {"id": "PP", "summary": "P1"},
                "urgency": "high",
                "resolve_reason": None,
                **data,
            },
        }
    }


def opsgenie(action: str = "Create", *, alias: str = "disk-db-1", **alert: Any) -> dict[str, Any]:
    return {
        "source": {"name": "web", "type": "API"},
        "alert": {
            "alertId": "a1b2c3d4-0000-4000-8000-000000000001",
            "alias": alias,
            "message": "Disk nearly full on db-1",
            "tags": ["env:prod", "storage"],
            "tinyId": "23",
            "entity": "db-1",
            "source": "nagios",
            "priority": "P2",
            "createdAt": 1764496800000,
            "updatedAt": 1764496805000000000,
            "username": "System",
            "details": {"service": "ledger-db", "region": "eu-central-1"},
            **alert,
        },
        "action": action,
        "integrationId": "int-1",
        "integrationName": "opensre",
    }


def datadog(transition: str = "Triggered", **more: Any) -> dict[str, Any]:
    return {
        "id": "7654321",
        "title": f"[{transition}] CPU is high on web-1",
        "body": "CPU above 90 % for 5 m",
        "alert_id": "1234",
        "alert_transition": transition,
        "alert_type": "error",
        "alert_priority": "P3",
        "alert_scope": "host:web-1,service:storefront",
        "alert_status": "system.cpu.user over host:web-1 was > 90",
        "aggreg_key": "9bd4ac31",
        "tags": "env:prod,service:storefront,monitor",
        "hostname": "web-1",
        "date": "1764496800000",
        "link": "https://app.datadoghq.eu/event/event?id=7654321",
        **more,
    }


def sentry_event(**event: Any) -> dict[str, Any]:
    return {
        "action": "triggered",
        "installation": {"uuid": "24b3b6ac-0000-4000-8000-000000000000"},
        "data": {
            "event": {
                "event_id": "e4874d664c3540c1a32eab185f12c5ab",
                "issue_id": "1170820242",
                "title": "ZeroDivisionError: division by zero",
                "level": "error",
                "culprit": "app.pay in charge",
                "datetime": "2026-11-30T09:00:00.000000Z",
                "url": "https://sentry.io/api/0/projects/acme/billing/events/e487/",
                "web_url": "https://sentry.io/organizations/acme/issues/1170820242/events/e487/",
                "tags": [["environment", "prod"], ["server_name", "pay-1"]],
                "metadata": {"type": "ZeroDivisionError", "value": "division by zero"},
                **event,
            },
            "triggered_rule": "Errors of billing",
        },
        "actor": {"type": "application", "id": "sentry", "name": "Sentry"},
    }


def sentry_metric(action: str = "critical") -> dict[str, Any]:
    return {
        "action": action,
        "installation": {"uuid": "24b3b6ac-0000-4000-8000-000000000000"},
        "data": {
            "metric_alert": {
                "id": "5",
                "identifier": "7",
                "title": "Too many errors",
                "date_started": "2026-11-30T08:59:00Z",
                "date_closed": "2026-11-30T09:30:00Z" if action == "resolved" else None,
                "organization_id": "1",
                "projects": ["billing"],
                "alert_rule": {"id": "12", "name": "Too many errors", "aggregate": "count()", "query": "level:error"},
            },
            "description_title": f"{action.title()}: Too many errors",
            "description_text": "1000 events in the last 10 minutes",
            "web_url": "https://sentry.io/organizations/acme/alerts/12/",
        },
        "actor": {"type": "application", "id": "sentry", "name": "Sentry"},
    }


def alarm(state: str = "ALARM", **more: Any) -> dict[str, Any]:
    return {
        "AlarmName": "ledger-cpu",
        "AlarmDescription": "CPU of the ledger is high",
        "AWSAccountId": "123456789012",
        "NewStateValue": state,
        "NewStateReason": "Threshold Crossed: 1 datapoint [99.0] was greater than 90.0",
        "StateChangeTime": "2026-11-30T10:00:00.000+0000",
        "Region": "EU (Frankfurt)",
        "AlarmArn": "arn:aws:cloudwatch:eu-central-1:123456789012:alarm:ledger-cpu",
        "OldStateValue": "OK",
        "Trigger": {
            "MetricName": "CPUUtilization",
            "Namespace": "AWS/RDS",
            "Statistic": "AVERAGE",
            "Dimensions": [{"name": "DBInstanceIdentifier", "value": "ledger-1"}],
            "Threshold": 90.0,
            "ComparisonOperator": "GreaterThanThreshold",
        },
        **more,
    }


def azure(condition: str = "Fired", **essentials: Any) -> dict[str, Any]:
    target = (
        "/subscriptions/11111111-1111-1111-1111-111111111111/resourcegroups/shop-rg/providers/"
        "microsoft.web/sites/storefront"
    )
    return {
        "schemaId": "azureMonitorCommonAlertSchema",
        "data": {
            "essentials": {
                "alertId": "/subscriptions/1/providers/Microsoft.AlertsManagement/alerts/b9569717",
                "alertRule": "Http5xx",
                "severity": "Sev1",
                "signalType": "Metric",
                "monitorCondition": condition,
                "monitoringService": "Platform",
                "alertTargetIDs": [target],
                "configurationItems": ["storefront"],
                "originAlertId": "1_2",
                "firedDateTime": "2026-11-30T10:00:00.1234567Z",
                "resolvedDateTime": "2026-11-30T10:20:00Z" if condition == "Resolved" else None,
                "description": "5xx above 10",
                **essentials,
            },
            "alertContext": {
                "condition": {
                    "allOf": [
                        {
                            "metricName": "Http5xx",
                            "operator": "GreaterThan",
                            "threshold": "10",
                            "timeAggregation": "Total",
                            "metricValue": 31,
                            "dimensions": [{"name": "Instance", "value": "w1"}],
                        }
                    ]
                }
            },
            "customProperties": {"team_contact": "shop"},
        },
    }


def incidentio_alert(kind: str = "public_alert.alert_created_v1", **alert: Any) -> dict[str, Any]:
    return {
        "event_type": kind,
        kind: {
            "id": "01GW2G3V0S59R238FAHPDS1R66",
            "alert_source_id": "01GW2G3V0S59R238FAHPDS1R67",
            "title": "Queue of orders grows",
            "description": "52,400 messages unacknowledged",
            "status": "firing",
            "deduplication_key": "orders-queue",
            "source_url": "https://monitoring.example.com/alerts/7",
            "created_at": "2026-11-30T10:00:00Z",
            "attributes": [
                {"attribute": {"name": "service"}, "value": {"literal": "orders"}},
                {"attribute": {"name": "priority"}, "value": {"label": "Critical"}},
            ],
            **alert,
        },
    }


def incidentio_incident(kind: str = "public_incident.incident_created_v2", **incident: Any) -> dict[str, Any]:
    return {
        "event_type": kind,
        kind: {
            "id": "01FDAG4SAP5TYPT98WGR2N7W91",
            "reference": "INC-123",
            "name": "Orders are slow",
            "summary": "Since the deployment",
            "severity": {"name": "Major"},
            "incident_status": {"name": "Investigating", "category": "live"},
            "permalink": "https://app.incident.io/incidents/123",
            "created_at": "2026-11-30T10:00:00Z",
            "custom_field_entries": [
                {
                    "custom_field": {"name": "service"},
                    "values": [{"value_catalog_entry": {"name": "orders"}}],
                }
            ],
            **incident,
        },
    }


ALL: dict[str, dict[str, Any]] = {
    "grafana": grafana(),
    "pagerduty": pagerduty(),
    "opsgenie": opsgenie(),
    "datadog": datadog(),
    "sentry": sentry_event(),
    "cloudwatch": alarm(),
    "azure": azure(),
    "incidentio": incidentio_alert(),
    "generic": {"title": "Backups failed", "severity": "major", "host": "backup-1"},
}


# ---- what vendors sign ---------------------------------------------------------------------------------------------


def raw(body: Any) -> bytes:
    return json.dumps(body, separators=(", ", ": ")).encode()


def hex_hmac(secret: str, signed: bytes) -> str:
    return hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


def svix_headers(secret: str, body: bytes, *, id: str = "msg_1", at: float | None = None) -> dict[str, str]:  # noqa: A002
    stamp = str(int(clock.now().timestamp() if at is None else at))
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signature = base64.b64encode(hmac.new(key, f"{id}.{stamp}.".encode() + body, hashlib.sha256).digest()).decode()
    return {"webhook-id": id, "webhook-timestamp": stamp, "webhook-signature": f"v1,AAAA v1,{signature}"}


class Amazon:
    """A stand-in for Amazon SNS: a key, its certificate, and messages signed with it."""

    def __init__(self, *, expired: bool = False) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sns.amazonaws.com")])
        start = datetime(2020, 1, 1, tzinfo=UTC)
        end = datetime(2021 if expired else 2040, 1, 1, tzinfo=UTC)
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(self._key.public_key())
        built = builder.serial_number(1).not_valid_before(start).not_valid_after(end).sign(self._key, hashes.SHA256())
        self.pem = built.public_bytes(serialization.Encoding.PEM)

    def envelope(self, message: Any, *, version: str = "2", **more: Any) -> dict[str, Any]:
        """Return a signed notification; ``more`` replaces members before they are signed."""
        members: dict[str, Any] = {
            "Type": "Notification",
            "MessageId": "22b80b92-fdea-4c2c-8f9d-bdfb0c7bf324",
            "TopicArn": TOPIC,
            "Subject": 'ALARM: "ledger-cpu" in EU (Frankfurt)',
            "Message": message if isinstance(message, str) else json.dumps(message),
            "Timestamp": now_text(seconds=5),
            "SignatureVersion": version,
            "SigningCertURL": CERTIFICATE_URL,
            **more,
        }
        return members | {"Signature": self.sign(members, version)}

    def sign(self, members: Mapping[str, Any], version: str) -> str:
        names = ["Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type"]
        if members["Type"] != "Notification":
            names = ["Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type"]
        text = "".join(f"{name}\n{members[name]}\n" for name in names if name in members)
        digest = hashes.SHA1() if version == "1" else hashes.SHA256()  # noqa: S303 (version 1 of SNS)
        return base64.b64encode(self._key.sign(text.encode(), padding.PKCS1v15(), digest)).decode()

    def confirmation(self, **more: Any) -> dict[str, Any]:
        """Return a signed request to confirm a subscription."""
        url = f"https://sns.eu-central-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=abc"
        members = {
            "Type": "SubscriptionConfirmation",
            "MessageId": "165545c9-2a5c-472c-8df2-7ff2be2b3b1b",
            "Token": "abc",
            "TopicArn": TOPIC,
            "Message": "You have chosen to subscribe to the topic.",
            "SubscribeURL": url,
            "Timestamp": now_text(seconds=5),
            "SignatureVersion": "2",
            "SigningCertURL": CERTIFICATE_URL,
            **more,
        }
        return members | {"Signature": self.sign(members, "2")}
