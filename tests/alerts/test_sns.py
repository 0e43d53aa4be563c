"""Amazon SNS: what is signed is taken in, everything else is refused, and a subscription is confirmed at SNS alone."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.alerts import sns
from controlplane.alerts.models import Alert, AlertGroup
from controlplane.configs.services import config_patch
from controlplane.core.errors import Unavailable
from controlplane.core.outbound import Answer
from tests.alerts import samples
from tests.factories import Tree, api_client, make_team_token

URL = "/api/v1/alerts/cloudwatch/demo/payments/aws"
OTHER_TOPIC = "arn:aws:sns:eu-central-1:999999999999:alarms"


class Web:
    """What Amazon answers; ``asked`` are the addresses that were fetched."""

    def __init__(self, amazon: samples.Amazon) -> None:
        self.amazon = amazon
        self.asked: list[str] = []
        self.status = 200

    def __call__(self, url: str) -> Answer:
        self.asked.append(url)
        return Answer(self.status, {}, self.amazon.pem if url.endswith(".pem") else b"<ConfirmSubscriptionResponse/>")


@pytest.fixture(scope="module")
def amazon() -> samples.Amazon:
    return samples.Amazon()


@pytest.fixture
def web(amazon: samples.Amazon, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    web = Web(amazon)
    monkeypatch.setattr(sns, "fetched", web)
    monkeypatch.setattr(sns, "certificates", sns.CertificateStore())
    return web  # type: ignore[return-value]  # a fixture of a value


@pytest.fixture
def source(tree: Tree) -> Tree:
    entry = {"kind": "cloudwatch", "topics": [samples.TOPIC]}
    config_patch(actor=tree.system, node=tree.payments, patch={"alerts": {"sources": {"aws": entry}}})
    return tree


def post(body: Any, url: str = URL, token: str = "") -> Any:
    client = api_client(token=token) if token else api_client()
    return client.generic("POST", url, json.dumps(body), content_type="text/plain; charset=UTF-8")


@pytest.mark.parametrize("version", ["1", "2"])
def test_sns__signed_alarm__taken_in(source: Tree, amazon: samples.Amazon, web: Web, version: str) -> None:
    response = post(amazon.envelope(samples.alarm(), version=version))

    assert (response.status_code, response.json()["action"]) == (202, "started"), response.content
    alert = Alert.objects.get()
    assert (alert.name, alert.service, alert.status) == ("ledger-cpu", "ledger-1", "firing")
    assert alert.group.node_id == source.payments.pk
    assert web.asked == [samples.CERTIFICATE_URL]


def test_sns__certificate__fetched_once(source: Tree, amazon: samples.Amazon, web: Web) -> None:
    for number in range(3):
        post(amazon.envelope(samples.alarm(), MessageId=f"m-{number}"))
    assert len(web.asked) == 1


def test_sns__same_message_again__duplicate(source: Tree, amazon: samples.Amazon, web: Web) -> None:
    envelope = amazon.envelope(samples.alarm())
    assert [post(envelope).json()["action"] for _ in range(2)] == ["started", "duplicate"]


def test_sns__message_that_is_a_text__an_alert_by_its_subject(source: Tree, amazon: samples.Amazon, web: Web) -> None:
    post(amazon.envelope("Volume vol-1 is impaired", Subject="EBS volume impaired"))
    assert Alert.objects.get().name == "EBS volume impaired"


def test_sns__without_a_subject__signature_is_of_what_is_there(source: Tree, amazon: samples.Amazon, web: Web) -> None:
    envelope = amazon.envelope(samples.alarm())
    del envelope["Subject"]
    envelope["Signature"] = amazon.sign(envelope, "2")
    assert post(envelope).status_code == 202


@pytest.mark.parametrize(
    "changed",
    [
        {"Message": json.dumps(samples.alarm("OK"))},
        {"Subject": "other"},
        {"Timestamp": "2026-11-30T10:00:00.000Z"},
        {"TopicArn": OTHER_TOPIC},
        {"Signature": "AAAA"},
        {"Signature": "not base64!"},
        {"Signature": None},
        {"SignatureVersion": "3"},
        {"SignatureVersion": "1"},
    ],
)
def test_sns__changed_after_it_was_signed__refused(
    source: Tree, amazon: samples.Amazon, web: Web, changed: dict[str, Any]
) -> None:
    response = post(amazon.envelope(samples.alarm()) | changed)

    assert (response.status_code, response.json()["code"]) == (401, "bad_signature")
    assert not AlertGroup.objects.exists()


@pytest.mark.parametrize(
    "url",
    [
        "http://sns.eu-central-1.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem",
        "https://sns.eu-west-1.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem",
        "https://sns.eu-central-1.amazonaws.com.evil.example/SimpleNotificationService-0123456789abcdef.pem",
        "https://evil.example/SimpleNotificationService-0123456789abcdef.pem",
        "https://sns.eu-central-1.amazonaws.com@evil.example/SimpleNotificationService-0123456789abcdef.pem",
        "https://u:p@sns.eu-central-1.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem",
        "https://sns.eu-central-1.amazonaws.com:8443/SimpleNotificationService-0123456789abcdef.pem",
        "https://sns.eu-central-1.amazonaws.com/../x/SimpleNotificationService-0123456789abcdef.pem",
        "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem?x=1",
        "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem#x",
        "https://sns.eu-central-1.amazonaws.com/evil.pem",
        "https://sns.eu-central-1.amazonaws.com\\.evil.example/SimpleNotificationService-0123456789abcdef.pem",
        "https://s3.eu-central-1.amazonaws.com/SimpleNotificationService-0123456789abcdef.pem",
        "https://[::1]/SimpleNotificationService-0123456789abcdef.pem",
        "file:///etc/passwd",
        "",
        None,
        7,
    ],
)
def test_sns__certificate_from_elsewhere__never_fetched(
    source: Tree, amazon: samples.Amazon, web: Web, url: Any
) -> None:
    response = post(amazon.envelope(samples.alarm(), SigningCertURL=url))

    assert (response.status_code, response.json()["code"]) == (401, "bad_signature")
    assert web.asked == []


def test_sns__topic_that_is_not_expected__refused_however_well_it_is_signed(
    source: Tree, amazon: samples.Amazon, web: Web
) -> None:
    assert post(amazon.envelope(samples.alarm(), TopicArn=OTHER_TOPIC)).json()["code"] == "bad_signature"
    assert web.asked == []


@pytest.mark.parametrize("topic", ["arn:aws:sqs:eu-central-1:123456789012:alarms", "", "arn:aws-evil:sns:x:1:y"])
def test_sns__topic_of_no_form__refused(source: Tree, amazon: samples.Amazon, web: Web, topic: str) -> None:
    assert post(amazon.envelope(samples.alarm(), TopicArn=topic)).status_code == 401


def test_sns__certificate_expired__refused(source: Tree, web: Web) -> None:
    web.amazon = samples.Amazon(expired=True)
    assert post(web.amazon.envelope(samples.alarm())).status_code == 401


@pytest.mark.parametrize(("status", "expected"), [(404, 503), (500, 503)])
def test_sns__certificate_out_of_reach__try_again_later(
    source: Tree, amazon: samples.Amazon, web: Web, status: int, expected: int
) -> None:
    web.status = status
    assert post(amazon.envelope(samples.alarm())).status_code == expected
    web.status = 200
    assert post(amazon.envelope(samples.alarm())).status_code == 202


def test_sns__no_certificate_there__refused(source: Tree, amazon: samples.Amazon, web: Web) -> None:
    web.amazon = samples.Amazon()
    web.amazon.pem = b"<html>"
    assert post(amazon.envelope(samples.alarm())).status_code == 401


def test_sns__signed_days_ago__refused_as_a_replay(source: Tree, amazon: samples.Amazon, web: Web) -> None:
    response = post(amazon.envelope(samples.alarm(), Timestamp=samples.now_text(days=8)))
    assert (response.status_code, response.json()["code"]) == (403, "stale_delivery")


def test_sns__bare_alarm_without_a_signature__refused_at_a_source_with_topics_alone(source: Tree, web: Web) -> None:
    assert post(samples.alarm()).json()["code"] == "bad_signature"


def test_subscription__confirmed_at_sns_of_the_topics_region(source: Tree, amazon: samples.Amazon, web: Web) -> None:
    response = post(amazon.confirmation())

    assert (response.status_code, response.json()["action"]) == (202, "ignored")
    assert response.json()["reason"] == "the subscription is confirmed"
    assert web.asked == [samples.CERTIFICATE_URL, amazon.confirmation()["SubscribeURL"]]


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/?Action=ConfirmSubscription&TopicArn={topic}&Token=abc",
        "https://sns.us-east-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn={topic}&Token=abc",
        "http://sns.eu-central-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn={topic}&Token=abc",
        "https://sns.eu-central-1.amazonaws.com:444/?Action=ConfirmSubscription&TopicArn={topic}&Token=abc",
        "https://sns.eu-central-1.amazonaws.com/?Action=DeleteTopic&TopicArn={topic}",
        "https://sns.eu-central-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn=other&Token=abc",
        "https://sns.eu-central-1.amazonaws.com/x?Action=ConfirmSubscription&TopicArn={topic}&Token=abc",
        "http://169.254.169.254/latest/meta-data/",
    ],
)
def test_subscription__address_of_something_else__never_fetched(
    source: Tree, amazon: samples.Amazon, web: Web, url: str
) -> None:
    response = post(amazon.confirmation(SubscribeURL=url.format(topic=samples.TOPIC)))

    assert (response.status_code, response.json()["code"]) == (403, "subscribe_url")
    assert web.asked == [samples.CERTIFICATE_URL]


def test_subscription__not_signed__never_fetched(source: Tree, amazon: samples.Amazon, web: Web) -> None:
    assert post(amazon.confirmation() | {"Token": "other"}).status_code == 401
    assert web.asked == [samples.CERTIFICATE_URL]


def test_subscription__of_an_unexpected_topic__never_fetched(source: Tree, amazon: samples.Amazon, web: Web) -> None:
    url = f"https://sns.eu-central-1.amazonaws.com/?Action=ConfirmSubscription&TopicArn={OTHER_TOPIC}&Token=abc"
    assert post(amazon.confirmation(TopicArn=OTHER_TOPIC, SubscribeURL=url)).status_code == 401
    assert web.asked == []


def test_unsubscribe__signed__acknowledged_and_nothing_fetched_but_the_certificate(
    source: Tree, amazon: samples.Amazon, web: Web
) -> None:
    assert post(amazon.confirmation(Type="UnsubscribeConfirmation")).json()["action"] == "ignored"
    assert web.asked == [samples.CERTIFICATE_URL]


def test_access_token__envelope__is_verified_all_the_same(tree: Tree, amazon: samples.Amazon, web: Web) -> None:
    token = make_team_token(tree.payments, ["alerts:ingest"])
    url = "/api/v1/alerts/cloudwatch"

    assert post(amazon.envelope(samples.alarm()) | {"Subject": "x"}, url, token).status_code == 401
    assert post(amazon.envelope(samples.alarm()), url, token).status_code == 202


def test_fetched__nothing_answers__unavailable_without_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(django_settings, "OUTBOUND_PRIVATE_ALLOW", ["127.0.0.0/8"])
    with pytest.raises(Unavailable) as caught:
        sns.fetched("https://127.0.0.1:9/SimpleNotificationService-1.pem")
    assert "pem" not in caught.value.detail


@given(
    changed=st.dictionaries(
        st.sampled_from(["Type", "Message", "Signature", "SigningCertURL", "TopicArn", "Timestamp"]),
        st.none() | st.integers(-9, 9) | st.text(max_size=30) | st.lists(st.text(max_size=3), max_size=2),
        min_size=1,
    )
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sns__members_of_any_kind__refused_never_a_500(
    source: Tree, amazon: samples.Amazon, web: Web, changed: dict[str, Any]
) -> None:
    response = post(amazon.envelope(samples.alarm()) | changed)
    assert response.status_code in (400, 401, 403)
    assert not AlertGroup.objects.exists()
