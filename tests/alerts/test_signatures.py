"""Deliveries that prove themselves by their vendor's signature or by a token, at the address of a configured source."""

import base64
import json
from datetime import UTC, datetime
from typing import Any

import pytest

from controlplane.alerts.models import Alert, AlertGroup
from controlplane.alerts.verifying import Incoming, by_svix
from controlplane.audit.models import SecurityEvent, SecurityKind
from controlplane.audit.security_stream import stream
from controlplane.configs.alert_sections import AlertSource
from controlplane.configs.services import config_patch
from controlplane.core import clock
from controlplane.core.errors import InvalidInput
from controlplane.investigations.models import Run, Thread
from tests.alerts import samples
from tests.factories import Tree, api_client, entrust, make_team_token, make_user

NAME = "OPENSRE_CRED_ALERTS"
SECRET = "whsec_" + base64.b64encode(b"made-up for tests only, 32 bytes").decode()
OLD = "the-one-before-it"
VERIFIED = ("grafana", "pagerduty", "opsgenie", "datadog", "sentry", "azure", "incidentio", "generic", "alertmanager")
BODIES = {**samples.ALL, "alertmanager": samples.grafana() | {"version": "4"}}


@pytest.fixture(autouse=True)
def credentials(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ((NAME, SECRET), (f"{NAME}_OLD", OLD)):
        monkeypatch.setenv(name, value)
        entrust(tree.root, name)


def source(tree: Tree, kind: str, **more: Any) -> str:
    """Configure a source of a team and return its address."""
    entry = {"kind": kind, "secret": f"${{{NAME}}}", **more}
    config_patch(actor=tree.system, node=tree.payments, patch={"alerts": {"sources": {"main": entry}}})
    return f"/api/v1/alerts/{kind}/demo/payments/main"


def signed(kind: str, body: bytes, secret: str = SECRET) -> dict[str, str]:
    """Return the headers that prove a body."""
    match kind:
        case "pagerduty":
            return {"X-PagerDuty-Signature": f"v1={'0' * 64},v1={samples.hex_hmac(secret, body)}"}
        case "sentry":
            return {"Sentry-Hook-Signature": samples.hex_hmac(secret, body), "Sentry-Hook-Resource": "event_alert"}
        case "grafana":
            return {"X-Grafana-Alerting-Signature": samples.hex_hmac(secret, body)}
        case "generic":
            return {"X-Signature-256": "sha256=" + samples.hex_hmac(secret, body)}
        case "incidentio":
            return samples.svix_headers(secret, body)
        case _:
            return {"Authorization": f"Bearer {secret}"}


def post(url: str, body: bytes, headers: dict[str, str]) -> Any:
    return api_client().generic("POST", url, body.decode(), content_type="application/json", headers=headers)


@pytest.mark.parametrize("kind", VERIFIED)
def test_source__proven__taken_in_for_its_team(tree: Tree, kind: str) -> None:
    url, body = source(tree, kind), samples.raw(BODIES[kind])

    response = post(url, body, signed(kind, body))

    assert (response.status_code, response.json()["action"]) == (202, "started"), response.content
    group, thread = AlertGroup.objects.get(), Thread.objects.get()
    assert (group.node_id, group.source) == (tree.payments.pk, kind)
    assert thread.started_by == "alert_source:payments/main"
    page = api_client(user=make_user(tree.payments)).get(f"/app/threads/{thread.pk}").content.decode()
    assert "with the source payments/main" in page


@pytest.mark.parametrize("kind", VERIFIED)
@pytest.mark.parametrize("fault", ["none", "other secret", "other body", "empty"])
def test_source__not_proven__refused_and_nothing_kept(tree: Tree, kind: str, fault: str) -> None:
    url, body = source(tree, kind), samples.raw(BODIES[kind])
    headers = signed(kind, body)
    if fault == "other secret":
        headers = signed(kind, body, "whsec_" + base64.b64encode(b"another").decode())
    elif fault == "other body" and "Authorization" not in headers:
        body = samples.raw({**BODIES[kind], "x": 1})
    else:
        headers = dict.fromkeys(headers, "") if fault == "empty" else {}

    response = post(url, body, headers)

    assert (response.status_code, response.json()["code"]) == (401, "bad_signature")
    assert "Basic" in response["WWW-Authenticate"]
    assert not AlertGroup.objects.exists()


@pytest.mark.parametrize("kind", ["pagerduty", "grafana", "opsgenie"])
def test_source__previous_secret__accepted_while_it_is_there(tree: Tree, kind: str) -> None:
    body = samples.raw(BODIES[kind])
    url = source(tree, kind, previous_secret=f"${{{NAME}_OLD}}")
    assert post(url, body, signed(kind, body, OLD)).status_code == 202


@pytest.mark.parametrize(
    "path",
    [
        "pagerduty/demo/payments/other",
        "pagerduty/demo/nowhere/main",
        "pagerduty/rival/payments/main",
        "sentry/demo/payments/main",
        "pagerduty/demo/engineering/main",
        "pagerduty/demo/platform/main",
    ],
)
def test_source__address_of_none__same_answer_as_a_wrong_signature(tree: Tree, path: str) -> None:
    source(tree, "pagerduty")
    body = samples.raw(samples.pagerduty())
    wrong = post("/api/v1/alerts/pagerduty/demo/payments/main", body, {})

    response = post(f"/api/v1/alerts/{path}", body, signed("pagerduty", body))

    assert (response.status_code, response.content) == (wrong.status_code, wrong.content)


def test_source__inherited__delivers_at_the_node_of_the_address(tree: Tree) -> None:
    entry = {"kind": "pagerduty", "secret": f"${{{NAME}}}"}
    config_patch(actor=tree.system, node=tree.root, patch={"alerts": {"sources": {"main": entry}}})
    body = samples.raw(samples.pagerduty())

    response = post("/api/v1/alerts/pagerduty/demo/platform/main", body, signed("pagerduty", body))

    assert response.status_code == 202
    assert AlertGroup.objects.get().node_id == tree.platform.pk


def test_source__of_a_group__routed_to_the_team_that_owns_the_pagerduty_service(tree: Tree) -> None:
    entry = {"kind": "pagerduty", "secret": f"${{{NAME}}}"}
    config_patch(actor=tree.system, node=tree.engineering, patch={"alerts": {"sources": {"main": entry}}})
    config_patch(actor=tree.system, node=tree.platform, patch={"routing": {"pagerduty_service_ids": ["PSVC1"]}})
    body = samples.raw(samples.pagerduty())

    response = post("/api/v1/alerts/pagerduty/demo/engineering/main", body, signed("pagerduty", body))

    assert response.status_code == 202, response.content
    assert AlertGroup.objects.get().node_id == tree.platform.pk


@pytest.mark.parametrize(
    "more",
    [{"enabled": False}, {"secret": "${OPENSRE_CRED_MISSING}"}, {"secret": "${NOT_ALLOWED}"}, {"secret": None}],
)
def test_source__off_or_without_a_value_for_its_secret__refuses_all(tree: Tree, more: dict[str, Any]) -> None:
    url, body = source(tree, "opsgenie", **more), samples.raw(samples.opsgenie())
    for secret in (SECRET, "", "x", "${OPENSRE_CRED_MISSING}"):
        assert post(url, body, {"Authorization": f"Bearer {secret}"}).status_code == 401


def test_source__not_proven__in_the_security_stream_of_its_organization(tree: Tree) -> None:
    url, body = source(tree, "opsgenie"), samples.raw(samples.opsgenie())
    assert post(url, body, {"Authorization": "Bearer wrong"}).status_code == 401
    assert post(f"{url}-nothing", body, {"Authorization": "Bearer wrong"}).status_code == 401
    stream.write(everything=True)
    (row,) = SecurityEvent.objects.filter(code="bad_signature")
    assert (row.kind, row.organization_id, row.node_id) == (
        SecurityKind.NOT_AUTHENTICATED, tree.organization.pk, tree.payments.pk,
    )  # fmt: skip
    assert row.actor.startswith("alert_source:payments/")


def test_source__secret_written_as_a_default__refused(tree: Tree) -> None:
    with pytest.raises(InvalidInput):
        source(tree, "opsgenie", secret="${OPENSRE_CRED_MISSING:-guess}")


@pytest.mark.parametrize("off_s", [-301, 301, -86_400])
def test_incidentio__time_too_far_off__refused(tree: Tree, off_s: int) -> None:
    url, body = source(tree, "incidentio"), samples.raw(samples.incidentio_alert())
    headers = samples.svix_headers(SECRET, body, at=clock.now().timestamp() + off_s)
    assert post(url, body, headers).json()["code"] == "bad_signature"


def test_incidentio__headers_called_svix__accepted(tree: Tree) -> None:
    url, body = source(tree, "incidentio"), samples.raw(samples.incidentio_alert())
    headers = {name.replace("webhook-", "svix-"): value for name, value in samples.svix_headers(SECRET, body).items()}
    assert post(url, body, headers).status_code == 202


def test_svix__vector_of_the_documentation__accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The example on https://docs.svix.com/receiving/verifying-payloads/how-manual."""
    monkeypatch.setattr(clock, "now", lambda: datetime.fromtimestamp(1614265330, UTC))
    headers = {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    incoming = Incoming(body=b'{"test": 2432232314}', headers=headers)
    assert by_svix(
        incoming, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", AlertSource.model_validate({"kind": "incidentio"})
    )


def test_grafana__time_is_signed_too__needed_and_recent(tree: Tree) -> None:
    url = source(tree, "grafana", timestamp_header="X-Grafana-Alerting-Timestamp")
    body = samples.raw(samples.grafana())

    def headers(at: float, signed_at: float | None = None) -> dict[str, str]:
        stamp = str(int(at if signed_at is None else signed_at))
        return {
            "X-Grafana-Alerting-Signature": samples.hex_hmac(SECRET, f"{stamp}:".encode() + body),
            "X-Grafana-Alerting-Timestamp": str(int(at)),
        }

    now = clock.now().timestamp()
    assert post(url, body, headers(now)).status_code == 202
    assert post(url, body, headers(now - 400)).status_code == 401
    assert post(url, body, headers(now, signed_at=now - 400)).status_code == 401
    assert post(url, body, signed("grafana", body)).status_code == 401


def test_grafana_and_generic__token_chosen__accepted(tree: Tree) -> None:
    for kind in ("grafana", "generic"):
        url, body = source(tree, kind, signature="token"), samples.raw(BODIES[kind])
        assert post(url, body, {"Authorization": f"Bearer {SECRET}"}).status_code == 202
        assert post(url, body, signed(kind, body)).status_code == 401


def test_generic__header_of_ones_own__counts(tree: Tree) -> None:
    url, body = source(tree, "generic", signature_header="X-Shop-Signature"), samples.raw(BODIES["generic"])
    assert post(url, body, {"X-Shop-Signature": samples.hex_hmac(SECRET, body)}).status_code == 202
    assert post(url, body, signed("generic", body)).status_code == 401


def test_azure__token_in_the_address__accepted_there_alone(tree: Tree) -> None:
    url, body = source(tree, "azure"), samples.raw(samples.azure())
    assert post(f"{url}?token={SECRET}", body, {}).status_code == 202
    assert post(f"{url}?token=x", body, {}).status_code == 401
    other = source(tree, "opsgenie")
    response = post(f"{other}?token={SECRET}", samples.raw(samples.opsgenie()), {})
    assert (response.status_code, response.json()["code"]) == (400, "unknown_parameter")


def test_token_types__basic_password_and_header_of_its_own__accepted(tree: Tree) -> None:
    url, body = source(tree, "opsgenie"), samples.raw(samples.opsgenie())
    basic = base64.b64encode(f"opensre:{SECRET}".encode()).decode()
    assert post(url, body, {"Authorization": f"Basic {basic}"}).status_code == 202
    assert post(url, body, {"X-Webhook-Token": SECRET}).status_code == 202
    assert post(url, body, {"Authorization": "Basic !!"}).status_code == 401


def test_pagerduty__signed_long_ago__refused_as_a_replay(tree: Tree) -> None:
    url, event = source(tree, "pagerduty"), samples.pagerduty()
    event["event"]["occurred_at"] = samples.now_text(days=8)
    body = samples.raw(event)
    response = post(url, body, signed("pagerduty", body))
    assert (response.status_code, response.json()["code"]) == (403, "stale_delivery")


@pytest.mark.parametrize("kind", ["pagerduty", "opsgenie", "datadog", "sentry", "azure", "incidentio"])
def test_same_delivery_id__sent_again__duplicate_and_counted_once(tree: Tree, kind: str) -> None:
    url, body = source(tree, kind), samples.raw(BODIES[kind])

    actions = [post(url, body, signed(kind, body)).json()["action"] for _ in range(3)]

    assert actions == ["started", "duplicate", "duplicate"]
    assert (Run.objects.count(), AlertGroup.objects.get().deliveries, Alert.objects.get().times) == (1, 1, 1)


# ---- beside access tokens ------------------------------------------------------------------------------------------


def test_access_token__node_has_the_vendors_secret__signature_needed_too(tree: Tree) -> None:
    source(tree, "pagerduty")
    client, body = api_client(token=make_team_token(tree.payments, ["alerts:ingest"])), samples.raw(samples.pagerduty())

    def deliver(headers: dict[str, str]) -> int:
        path = "/api/v1/alerts/pagerduty"
        answer = client.generic("POST", path, body.decode(), content_type="application/json", headers=headers)
        return int(answer.status_code)

    assert deliver({}) == 401
    assert deliver(signed("pagerduty", body)) == 202


def test_access_token__as_basic_password__accepted(tree: Tree) -> None:
    token = make_team_token(tree.payments, ["alerts:ingest"])
    basic = base64.b64encode(f"opensre:{token}".encode()).decode()
    body = samples.raw(samples.azure())

    assert post("/api/v1/alerts/azure", body, {"Authorization": f"Basic {basic}"}).status_code == 202
    asked = post("/api/v1/alerts/azure", body, {})
    assert (asked.status_code, "Basic" in asked["WWW-Authenticate"]) == (401, True)
    other = base64.b64encode(b"user:osre_team_x_y_z").decode()
    assert post("/api/v1/alerts/azure", body, {"Authorization": f"Basic {other}"}).status_code == 401


def test_generic__mapping_of_the_source__reads_what_it_says(tree: Tree) -> None:
    mapping = {
        "alerts": "/checks",
        "name": "/what",
        "severity": "/grade",
        "status": "/now",
        "resolved_values": ["fine"],
        "service": "/shop",
        "host": "/where/0",
        "starts_at": "/since",
        "fingerprint": "/no",
        "group": "/batch",
        "delivery_id": "/id",
        "labels": {"region": "/meta~1data/region"},
    }
    source(tree, "generic", signature="token", mapping=mapping)
    client = api_client(token=make_team_token(tree.payments, ["alerts:ingest"]))
    checks = [
        {"what": "Slow", "grade": "P2", "now": "bad", "where": ["h1"], "since": 1764496800, "no": 1},
        {"what": "Slow", "grade": "P2", "now": "fine", "where": ["h2"], "no": 2},
    ]
    body = {"id": "d-1", "batch": "b", "shop": "cart", "meta/data": {"region": "eu"}, "checks": checks}

    response = client.post("/api/v1/alerts/generic", json.dumps(body), content_type="application/json")

    assert response.status_code == 202, response.content
    alerts = list(Alert.objects.order_by("host"))
    assert [(one.name, one.severity, one.status, one.service, one.host) for one in alerts] == [
        ("Slow", "high", "firing", "cart", "h1"),
        ("Slow", "high", "resolved", "cart", "h2"),
    ]
    assert alerts[0].details["labels"]["region"] == "eu"
    again = client.post("/api/v1/alerts/generic", json.dumps(body), content_type="application/json")
    assert again.json()["action"] == "duplicate"


def test_generic__mapping_that_finds_nothing__refused_with_the_pointer(tree: Tree) -> None:
    source(tree, "generic", signature="token", mapping={"name": "/event/title"})
    client = api_client(token=make_team_token(tree.payments, ["alerts:ingest"]))
    response = client.post("/api/v1/alerts/generic", '{"title": "x"}', content_type="application/json")
    assert (response.status_code, response.json()["errors"][0]["pointer"]) == (422, "/event/title")


def test_generic__several_sources__the_one_that_is_named(tree: Tree) -> None:
    entry = {"kind": "generic", "signature": "token", "secret": f"${{{NAME}}}"}
    sources = {"a": entry | {"mapping": {"name": "/a"}}, "b": entry | {"mapping": {"name": "/b"}}}
    config_patch(actor=tree.system, node=tree.payments, patch={"alerts": {"sources": sources}})
    client = api_client(token=make_team_token(tree.payments, ["alerts:ingest"]))

    def deliver(query: str) -> Any:
        body = '{"a": "of a", "b": "of b"}'
        return client.post(f"/api/v1/alerts/generic{query}", body, content_type="application/json").json()

    assert deliver("")["code"] == "source_unclear"
    assert deliver("?source=c")["code"] == "unknown_source"
    assert deliver("?source=b")["action"] == "started"
    assert Alert.objects.get().name == "of b"


@pytest.mark.parametrize(
    ("entry", "pointer"),
    [
        ({"kind": "nagios"}, "/kind"),
        ({"kind": "generic", "secret": "plain"}, "/secret"),
        ({"kind": "generic", "mapping": {"name": "title"}}, "/mapping/name"),
        ({"kind": "cloudwatch", "topics": ["arn:aws:s3:::x"]}, "/topics/0"),
        ({"kind": "generic", "sekret": "${X}"}, "/sekret"),
    ],
)
def test_config__broken_source__refused_with_the_field(tree: Tree, entry: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        config_patch(actor=tree.system, node=tree.root, patch={"alerts": {"sources": {"main": entry}}})
    assert [error.pointer for error in caught.value.errors] == [f"/alerts/sources/main{pointer}"]
