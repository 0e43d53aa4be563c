"""What each vendor's documented bodies come to, and that nothing odd in them is an error of ours."""

import contextlib
import copy
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.alerts.models import Alert, AlertGroup
from controlplane.alerts.normalised import severity_of, status_of, time_of
from controlplane.alerts.vendors import VENDORS
from controlplane.core.errors import InvalidInput, MalformedRequest
from controlplane.investigations.models import Run
from tests.alerts import samples
from tests.alerts.support import ingest_token
from tests.factories import Tree, api_client

RAW = "application/json"


def post(tree: Tree, vendor: str, body: Any, token: str = "") -> Any:
    client = api_client(token=token or ingest_token(tree))
    return client.post(f"/api/v1/alerts/{vendor}", json.dumps(body), content_type=RAW)


CASES: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "grafana": (
        "grafana",
        samples.grafana(),
        {"name": "Latency", "severity": "warning", "status": "firing", "service": "cart", "workload": "cart-a"},
    ),
    "grafana without anything but a title": (
        "grafana",
        {"title": "[Alerting] Disk", "state": "alerting", "ruleName": "x"},
        {"name": "Disk", "status": "firing"},
    ),
    "pagerduty": (
        "pagerduty",
        samples.pagerduty(),
        {"name": "Checkout answers 503", "severity": "critical", "status": "firing", "service": "checkout"},
    ),
    "pagerduty without priority": (
        "pagerduty",
        samples.pagerduty(priority=None, urgency="low", service=None, teams=None),
        {"severity": "low", "service": ""},
    ),
    "opsgenie": (
        "opsgenie",
        samples.opsgenie(),
        {"name": "Disk nearly full on db-1", "severity": "high", "service": "ledger-db", "host": "db-1"},
    ),
    "datadog": (
        "datadog",
        samples.datadog(),
        {"name": "CPU is high on web-1", "severity": "medium", "service": "storefront", "host": "web-1"},
    ),
    "datadog's own default": (
        "datadog",
        {
            "body": "%%%\nCPU\n%%%",
            "last_updated": "1764496800000",
            "event_type": "query_alert_monitor",
            "title": "[Warn] CPU is high",
            "date": "1764496800000",
            "org": {"id": "1", "name": "acme"},
            "id": "99",
        },
        {"name": "CPU is high", "severity": "warning", "status": "firing"},
    ),
    "sentry issue alert": (
        "sentry",
        samples.sentry_event(),
        {"name": "ZeroDivisionError: division by zero", "severity": "error", "service": "billing", "host": "pay-1"},
    ),
    "sentry metric alert": (
        "sentry",
        samples.sentry_metric(),
        {"name": "Too many errors", "severity": "critical", "service": "billing"},
    ),
    "sentry issue": (
        "sentry",
        {
            "action": "created",
            "data": {
                "issue": {
                    "id": "9",
                    "shortId": "BILLING-9",
                    "title": "TypeError: x is undefined",
                    "level": "fatal",
                    "firstSeen": "2026-11-30T09:00:00Z",
                    "project": {"slug": "billing"},
                }
            },
        },
        {"name": "TypeError: x is undefined", "severity": "fatal", "service": "billing"},
    ),
    "sentry's plugin": (
        "sentry",
        {
            "id": "5",
            "project": "billing",
            "level": "error",
            "culprit": "pay",
            "message": "boom",
            "url": "https://sentry.io/acme/billing/issues/5/",
            "triggering_rules": ["Errors"],
            "event": {"event_id": "e1", "title": "RuntimeError: boom", "tags": [["release", "1"]]},
        },
        {"name": "RuntimeError: boom", "severity": "error", "service": "billing"},
    ),
    "cloudwatch alarm": (
        "cloudwatch",
        samples.alarm(),
        {"name": "ledger-cpu", "status": "firing", "service": "ledger-1"},
    ),
    "cloudwatch alarm of a metric query": (
        "cloudwatch",
        samples.alarm(
            Trigger={
                "Metrics": [
                    {"Id": "m1", "MetricStat": {"Metric": {"Dimensions": [{"value": "i-0abc", "name": "InstanceId"}]}}}
                ]
            }
        ),
        {"host": "i-0abc"},
    ),
    "cloudwatch event": (
        "cloudwatch",
        {
            "source": "aws.cloudwatch",
            "detail-type": "CloudWatch Alarm State Change",
            "account": "123456789012",
            "region": "eu-central-1",
            "resources": ["arn:aws:cloudwatch:eu-central-1:123456789012:alarm:q"],
            "detail": {
                "alarmName": "queue-age",
                "state": {"value": "ALARM", "reason": "old", "timestamp": "2026-11-30T10:00:00.000+0000"},
                "configuration": {
                    "metrics": [
                        {
                            "metricStat": {
                                "metric": {"name": "Age", "namespace": "AWS/SQS", "dimensions": {"QueueName": "q"}}
                            }
                        }
                    ]
                },
            },
        },
        {"name": "queue-age", "service": "q", "status": "firing"},
    ),
    "azure": (
        "azure",
        samples.azure(),
        {"name": "Http5xx", "severity": "error", "service": "storefront", "status": "firing"},
    ),
    "azure virtual machine": (
        "azure",
        samples.azure(
            alertTargetIDs=["/subscriptions/1/resourceGroups/r/providers/Microsoft.Compute/virtualMachines/vm-1"],
            configurationItems=None,
            severity="Sev0",
        ),
        {"host": "vm-1", "severity": "critical"},
    ),
    "azure activity log": (
        "azure",
        {
            "schemaId": "Microsoft.Insights/activityLogs",
            "data": {
                "status": "Activated",
                "context": {
                    "activityLog": {
                        "operationName": "Microsoft.Web/sites/stop/action",
                        "resourceId": "/subscriptions/1/resourceGroups/r/providers/Microsoft.Web/sites/storefront",
                        "level": "Error",
                        "eventTimestamp": "2026-11-30T10:00:00Z",
                    }
                },
            },
        },
        {"name": "Microsoft.Web/sites/stop/action", "service": "storefront", "severity": "error"},
    ),
    "incident.io alert": (
        "incidentio",
        samples.incidentio_alert(),
        {"name": "Queue of orders grows", "severity": "critical", "service": "orders"},
    ),
    "incident.io incident": (
        "incidentio",
        samples.incidentio_incident(),
        {"name": "Orders are slow", "severity": "major", "service": "orders"},
    ),
    "a plain text title": (
        "generic",
        {"title": "[Resolved] Backups", "severity": "P2"},
        {"name": "Backups", "severity": "high", "status": "resolved"},
    ),
    "a wrapped one": (
        "generic",
        {"payload": {"event": {"rule_name": "Disk", "state": "PROBLEM", "hostname": "db-7", "level": "WARN"}}},
        {"name": "Disk", "severity": "warning", "status": "firing", "host": "db-7"},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_vendor__documented_body__taken_in_with_its_fields(tree: Tree, case: str) -> None:
    vendor, body, expected = CASES[case]

    response = post(tree, vendor, body)

    assert response.status_code == 202, response.content
    alert = Alert.objects.get()
    assert {name: getattr(alert, name) for name in expected} == expected
    assert alert.group.source == vendor
    over = expected.get("status") == "resolved"
    assert response.json()["action"] == ("resolved" if over else "started")
    assert (alert.fate, Run.objects.count()) == (("skipped", 0) if over else ("investigated", 1))


#: The body that says an alert goes on, and the one that says it is over.
ENDS: dict[str, tuple[Any, Any]] = {
    "grafana": (samples.grafana(), samples.grafana(status="resolved")),
    "pagerduty": (samples.pagerduty(), samples.pagerduty("incident.resolved", event="E2", status="resolved")),
    "opsgenie": (samples.opsgenie(), samples.opsgenie("Close", updatedAt=1764496905000000000)),
    "datadog": (samples.datadog(), samples.datadog("Recovered", alert_type="success")),
    "sentry": (samples.sentry_metric(), samples.sentry_metric("resolved")),
    "cloudwatch": (samples.alarm(), samples.alarm("OK")),
    "azure": (samples.azure(), samples.azure("Resolved")),
    "incidentio": (
        samples.incidentio_alert(),
        samples.incidentio_alert("public_alert.alert_resolved_v1", status="resolved"),
    ),
    "generic": (
        {"name": "Backups failed", "status": "open", "host": "b-1"},
        {"name": "Backups failed", "status": "closed", "host": "b-1"},
    ),
}


@pytest.mark.parametrize("vendor", ENDS)
def test_vendor__resolved__tells_the_run_of_the_same_alert_and_starts_none(tree: Tree, vendor: str) -> None:
    token = ingest_token(tree)
    fires, over = ENDS[vendor]

    started = post(tree, vendor, fires, token).json()
    ended = post(tree, vendor, over, token).json()

    assert (started["action"], ended["action"]) == ("started", "updated")
    assert (ended["group"], ended["run_id"]) == (started["group"], started["run_id"])
    alert = Alert.objects.get()
    assert (alert.status, alert.fate, str(alert.run_id)) == ("resolved", "investigated", started["run_id"])
    assert (AlertGroup.objects.get().status, Run.objects.count()) == ("resolved", 1)


IGNORED: list[tuple[str, Any]] = [
    ("pagerduty", samples.pagerduty("pagey.ping")),
    ("pagerduty", samples.pagerduty("incident.annotated")),
    ("pagerduty", samples.pagerduty("service.updated")),
    ("pagerduty", samples.pagerduty("incident.acknowledged", status="acknowledged")),
    ("opsgenie", samples.opsgenie("AddNote")),
    ("opsgenie", samples.opsgenie("Acknowledge")),
    ("sentry", {"action": "created", "data": {"installation": {"uuid": "1"}}, "installation": {"uuid": "1"}}),
    ("sentry", {"action": "assigned", "data": {"issue": {"id": "1", "title": "x"}}}),
    (
        "incidentio",
        {"event_type": "private_incident.incident_created_v2", "private_incident.incident_created_v2": {"id": "1"}},
    ),
    ("incidentio", {"event_type": "public_incident.follow_up_created_v2", "public_incident.follow_up_created_v2": {}}),
]


@pytest.mark.parametrize(("vendor", "body"), IGNORED)
def test_vendor__event_that_is_no_alert__acknowledged_and_ignored_with_a_reason(
    tree: Tree, vendor: str, body: Any
) -> None:
    response = post(tree, vendor, body)

    assert (response.status_code, response.json()["action"]) == (202, "ignored")
    assert response.json()["reason"]
    assert not AlertGroup.objects.exists()


@pytest.mark.parametrize("vendor", sorted(VENDORS))
@pytest.mark.parametrize("body", [{}, {"a": 1}, {"event": 7}, {"alerts": []}, {"data": {"essentials": []}}])
def test_vendor__no_alert_in_it__refused_with_a_clear_problem(tree: Tree, vendor: str, body: Any) -> None:
    response = post(tree, vendor, body)

    assert (response.status_code, response.json()["code"]) == (422, "invalid_alert")
    assert response["Content-Type"] == "application/problem+json"
    assert response.json()["errors"]


@pytest.mark.parametrize("vendor", sorted(VENDORS))
@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"7", 400),
        (b'"x"', 400),
        (b"{", 400),
        (b"[" * 3000, 400),
        (b'{"a":' * 80 + b"1" + b"}" * 80, 400),
        (b"\xff", 400),
    ],
)
def test_vendor__no_usable_json__clear_problem(tree: Tree, vendor: str, raw: bytes, status: int) -> None:
    response = api_client(token=ingest_token(tree)).post(f"/api/v1/alerts/{vendor}", raw, content_type=RAW)
    assert response.status_code == status
    assert response["Content-Type"] == "application/problem+json"


def test_vendor__unknown__not_found(tree: Tree) -> None:
    assert post(tree, "nagios", {}).json()["code"] == "unknown_vendor"


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "multipart/form-data; boundary=x", ""])
def test_vendor__wrong_content_type__refused(tree: Tree, kind: str) -> None:
    client = api_client(token=ingest_token(tree))
    response = client.generic("POST", "/api/v1/alerts/pagerduty", json.dumps(samples.pagerduty()), content_type=kind)
    assert (response.status_code, response.json()["code"]) == (415, "unsupported_media_type")


def test_cloudwatch__text_plain_as_sns_says__accepted(tree: Tree) -> None:
    client = api_client(token=ingest_token(tree))
    kind = "text/plain; charset=UTF-8"
    response = client.generic("POST", "/api/v1/alerts/cloudwatch", json.dumps(samples.alarm()), content_type=kind)
    assert response.status_code == 202


def test_vendor__too_large__refused(tree: Tree) -> None:
    raw = b'{"title": "' + b"x" * (8 * 1024 * 1024) + b'"}'
    response = api_client(token=ingest_token(tree)).post("/api/v1/alerts/generic", raw, content_type=RAW)
    assert (response.status_code, response.json()["code"]) == (413, "payload_too_large")


def test_vendor__secrets_in_a_body__in_no_row(tree: Tree) -> None:
    token = "ghp_" + "a1B2" * 9
    body = samples.pagerduty(title=f"Leak {token}", html_url=f"https://x/?token={token}", extra={"password": token})

    assert post(tree, "pagerduty", body).status_code == 202

    run, alert, group = Run.objects.get(), Alert.objects.get(), AlertGroup.objects.get()
    stored = json.dumps([run.alert, run.prompt, alert.details, alert.name, alert.summary, alert.url, group.group_text])
    assert token not in stored


def test_vendor__link_that_is_none__not_kept_as_one(tree: Tree) -> None:
    post(tree, "generic", {"title": "x", "url": "javascript:alert(1)"})
    assert Alert.objects.get().url == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.text(max_size=10), part, max_size=4),
    max_leaves=12,
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(one for key, item in inner for one in _paths(item, (*path, key)))]


BODIES = [(vendor, body) for vendor, body, _ in CASES.values()] + IGNORED


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, Any]:
    """Return a documented body of which some members are replaced by anything, or are gone."""
    vendor, sample = draw(st.sampled_from(BODIES))
    body = copy.deepcopy(sample)
    for _ in range(draw(st.integers(1, 3))):
        path = draw(st.sampled_from(_paths(body)[1:] or [()]))
        if not path:
            break
        holder = body
        for key in path[:-1]:
            holder = holder[key]
        if draw(st.booleans()) and isinstance(holder, dict):
            del holder[path[-1]]
        else:
            holder[path[-1]] = draw(JSON)
    return draw(st.sampled_from([vendor, "generic"])), body


@given(damaged())
@settings(max_examples=400, suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_parsers__damaged_bodies__read_or_refused_never_an_error_of_ours(case: tuple[str, Any]) -> None:
    vendor, body = case
    with contextlib.suppress(MalformedRequest, InvalidInput):
        read = VENDORS[vendor].read(body, None)
        assert read.ignored or all(delivery.title and delivery.singles for delivery in read.deliveries)


@given(st.sampled_from(sorted(VENDORS)), JSON)
@settings(max_examples=200, deadline=None)
def test_parsers__any_json__read_or_refused_never_an_error_of_ours(vendor: str, body: Any) -> None:
    refused = False
    try:
        read = VENDORS[vendor].read(body, None)
    except (MalformedRequest, InvalidInput):
        refused = True
    assert refused or read.ignored or read.deliveries


@pytest.mark.django_db
@given(case=damaged())
@settings(
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
)
def test_door__damaged_bodies__taken_in_or_refused_never_a_500(tree: Tree, case: tuple[str, Any]) -> None:
    response = post(tree, case[0], case[1])
    assert response.status_code in (202, 400, 413, 422), response.content


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("2026-11-30T10:00:00Z", "2026-11-30T10:00:00Z"),
        ("2026-11-30T10:00:00.000+0000", "2026-11-30T10:00:00Z"),
        (1764496800, "2025-11-30T10:00:00Z"),
        ("1764496800000", "2025-11-30T10:00:00Z"),
        (1764496800000000000, "2025-11-30T10:00:00Z"),
        ("0001-01-01T00:00:00Z", ""),
        ("yesterday", ""),
        (True, ""),
        (1e400, ""),
        ([], ""),
    ],
)
def test_time_of__forms_that_vendors_send__iso_or_nothing(value: Any, expected: str) -> None:
    assert time_of(value) == expected


def test_words__of_states_and_severities__as_the_vendors_mean_them() -> None:
    assert [status_of(word) for word in ("Recovered", "OK", "closed", "Triggered", "No Data", "")] == [
        "resolved", "resolved", "resolved", "firing", "firing", "firing",
    ]  # fmt: skip
    assert [severity_of(word) for word in ("P1", "Sev 1", "WARN", "Major", "")] == [
        "critical", "error", "warning", "major", "",
    ]  # fmt: skip


SHAPES: dict[str, tuple[str, Any, dict[str, str]]] = {
    "a list of Prometheus": (
        "generic",
        [{"labels": {"alertname": "Up", "instance": "h:9100", "severity": "page"}, "annotations": {"summary": "s"}}],
        {"name": "Up", "severity": "page", "host": "h:9100"},
    ),
    "Zabbix": (
        "generic",
        {"event_name": "High load", "host_name": "db1", "event_severity": "High", "event_status": "PROBLEM"},
        {"name": "High load", "severity": "high", "host": "db1", "status": "firing"},
    ),
    "Dynatrace": (
        "generic",
        {
            "ProblemID": "P-1",
            "ProblemTitle": "Failures",
            "State": "RESOLVED",
            "ProblemSeverity": "ERROR",
            "ImpactedEntity": "checkout",
        },
        {"name": "Failures", "status": "resolved", "severity": "error", "service": "checkout"},
    ),
    "Google Cloud": (
        "generic",
        {
            "version": "1.2",
            "incident": {
                "incident_id": "0.a",
                "policy_name": "CPU",
                "state": "open",
                "severity": "Critical",
                "resource_name": "vm-1",
                "started_at": 1764496800,
            },
        },
        {"name": "CPU", "severity": "critical", "service": "vm-1", "status": "firing"},
    ),
    "an event for PagerDuty": (
        "generic",
        {
            "event_action": "resolve",
            "dedup_key": "k",
            "payload": {"summary": "Disk full", "severity": "critical", "component": "postgres"},
        },
        {"name": "Disk full", "status": "resolved", "service": "postgres"},
    ),
    "Nagios": (
        "generic",
        {"notification_type": "RECOVERY", "host_name": "h", "service_description": "HTTP", "service_state": "OK"},
        {"name": "HTTP", "status": "resolved", "host": "h"},
    ),
    "Sensu": (
        "generic",
        {"entity": {"metadata": {"name": "host-9"}}, "check": {"metadata": {"name": "cpu"}, "state": "failing"}},
        {"name": "cpu", "status": "firing", "service": "host-9"},
    ),
    "Splunk": (
        "generic",
        {"search_name": "Errors", "result": {"host": "web-1", "count": "7"}},
        {"name": "Errors", "host": "web-1"},
    ),
    "UptimeRobot": (
        "generic",
        {"monitorFriendlyName": "shop", "alertTypeFriendlyName": "Up"},
        {"name": "shop", "status": "resolved"},
    ),
    "labels of Alertmanager's kind at Datadog's door": (
        "datadog",
        {
            "alert": {
                "title": "[jobs] Errors in logs",
                "state": "alerting",
                "alert_id": "x-1",
                "commonLabels": {"alertname": "JobErrors", "severity": "critical", "pipeline_name": "nightly"},
                "commonAnnotations": {"kube_job": "nightly-1"},
            }
        },
        {"name": "JobErrors", "severity": "critical", "service": "nightly", "workload": "nightly-1"},
    ),
    "a flat one at Opsgenie's door": (
        "opsgenie",
        {"alert_name": "CPU", "status": "firing", "severity": "critical", "labels": {"service": "gateway"}},
        {"name": "CPU", "severity": "critical", "service": "gateway"},
    ),
    "common labels alone at Grafana's door": (
        "grafana",
        {
            "title": "[FIRING:1] Load",
            "state": "alerting",
            "commonLabels": {"alertname": "Load", "mysql_instance": "db"},
        },
        {"name": "Load", "status": "firing", "host": "db"},
    ),
    "resolved by its title alone": ("generic", {"title": "[RESOLVED:1] Load"}, {"name": "Load", "status": "resolved"}),
}


@pytest.mark.parametrize("case", SHAPES)
def test_door__other_shape_than_documented__read_all_the_same(tree: Tree, case: str) -> None:
    vendor, body, expected = SHAPES[case]
    assert post(tree, vendor, body).status_code == 202
    alert = Alert.objects.get()
    assert {name: getattr(alert, name) for name in expected} == expected


def test_generic__idempotency_key__sent_again_is_a_duplicate(tree: Tree) -> None:
    client = api_client(token=ingest_token(tree))
    headers = {"Idempotency-Key": "one"}
    answers = [client.post("/api/v1/alerts/generic", {"title": "x"}, headers=headers).json() for _ in range(2)]
    assert [answer["action"] for answer in answers] == ["started", "duplicate"]


def test_generic__ids_of_messages__firing_and_resolved_are_one_alert(tree: Tree) -> None:
    token = ingest_token(tree)
    for number, status in enumerate(("open", "closed")):
        post(tree, "generic", {"id": f"message-{number}", "title": "Queue is long", "status": status}, token)
    assert Alert.objects.get().status == "resolved"


def test_generic__ids_in_a_list__tell_alerts_apart(tree: Tree) -> None:
    post(tree, "generic", {"alerts": [{"id": number, "title": "Queue is long"} for number in range(3)]})
    assert (Alert.objects.count(), Run.objects.count()) == (3, 1)


def test_generic__thousands_of_alerts__refused_quickly(tree: Tree) -> None:
    response = post(tree, "generic", {"alerts": [{"title": "x"}] * 5_001})
    assert (response.status_code, response.json()["code"]) == (413, "too_many_alerts")
