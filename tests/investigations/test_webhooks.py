"""Telling receivers that runs ended: what is told, how it is signed, and what faults come to."""

import base64
import hashlib
import hmac
import json
import logging
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction

from controlplane.audit.models import AuditEvent
from controlplane.core import clock
from controlplane.core.errors import Conflict, NotFound
from controlplane.investigations.log import append, new_event
from controlplane.investigations.models import Audience, DeliveryState, WebhookDelivery
from controlplane.investigations.webhooks import sending
from controlplane.investigations.webhooks.outbox import deliveries_forget, delivery_resend, webhook_test
from controlplane.investigations.webhooks.sending import MAX_ATTEMPTS, delay_s, deliveries_send
from controlplane.investigations.webhooks.signing import key_of, signed_headers
from controlplane.runtimes import events
from controlplane.runtimes.events import EventType
from tests.configs.support import put
from tests.factories import Tree, api_client, make_admin_token, make_grant, make_team_token, make_user
from tests.investigations.conftest import LeaseClock
from tests.support.receivers import Receiver, receiver
from tests.support.runs import in_threads
from tests.web.support import Person, finish, start

KEY = b"thirty-two bytes of a signing key"
SECRET = "whsec_" + base64.b64encode(KEY).decode()


@pytest.fixture
def told() -> Iterator[Receiver]:
    with receiver() as one:
        yield one


@pytest.fixture
def hooked(tree: Tree, told: Receiver, monkeypatch: pytest.MonkeyPatch) -> Tree:
    """The team payments with one receiver, ``ops``; nothing is sent before a test says so."""
    monkeypatch.setenv("OPENSRE_CRED_HOOK", SECRET)
    monkeypatch.setattr(sending, "deliveries_wake", lambda: None)
    make_grant(tree.root, "OPENSRE_CRED_HOOK", ["127.0.0.1"])
    configure(tree, told)
    return tree


def configure(tree: Tree, told: Receiver, **fields: Any) -> None:
    hook = {"url": f"{told.url}/in", "secret": "${OPENSRE_CRED_HOOK}"} | fields
    put(tree.payments, {"webhooks": {"ops": hook}})


def ended(tree: Tree, *, visibility: str = "team", **fields: Any) -> Any:
    return finish(start(Person.signed_in(make_user(tree.payments)), tree.payments, visibility=visibility), **fields)


def one() -> WebhookDelivery:
    return WebhookDelivery.objects.get()


# ---- what is told ----------------------------------------------------------------------------------------------------


def test_delivery__completed_run__signed_with_its_answer(hooked: Tree, told: Receiver) -> None:
    started = ended(hooked)

    assert deliveries_send() == 1

    (request,) = told.received
    body = json.loads(request.body)
    signed = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + request.body
    mac = base64.b64encode(hmac.new(KEY, signed, hashlib.sha256).digest()).decode()
    assert request.headers["webhook-signature"] == f"v1,{mac}"
    assert request.headers["webhook-id"] == f"msg_{one().pk.hex}"
    assert abs(int(request.headers["webhook-timestamp"]) - clock.now().timestamp()) < 60
    assert (request.path, request.headers["content-type"]) == ("/in", "application/json")
    assert (body["type"], body["data"]["team"]) == ("run.completed", "payments")
    assert body["data"]["run"]["id"] == str(started.run.pk)
    assert body["data"]["answer"]["text"].startswith("# Done")
    assert body["data"]["report"]["root_cause"]["object"] == "payments-prod"
    assert (one().state, one().last_status, one().attempts) == ("delivered", 204, 1)
    assert deliveries_send() == 0


def test_signing__standard_webhooks_example__same_signature() -> None:
    headers = signed_headers(
        id_="msg_p5jXN8AQM9LWM0D4loKWxJek",
        at=1614265330,
        body=b'{"test": 2432232314}',
        secrets=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"],
    )
    assert headers["webhook-signature"] == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    assert key_of("plain") == b"plain"
    assert key_of("whsec_not base64") == b"whsec_not base64"


def test_delivery__secret_changes__signed_with_both(
    hooked: Tree, told: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENSRE_CRED_OLD", "old")
    make_grant(hooked.root, "OPENSRE_CRED_OLD", ["127.0.0.1"])
    configure(hooked, told, previous_secret="${OPENSRE_CRED_OLD}")
    ended(hooked)
    deliveries_send()
    assert len(told.received[0].headers["webhook-signature"].split(" ")) == 2


@pytest.mark.parametrize(("status", "event"), [("failed", "run.failed"), ("timeout", "run.timeout")])
def test_delivery__other_ends__told_by_their_event(hooked: Tree, told: Receiver, status: str, event: str) -> None:
    ended(hooked, status=status, reason="because")
    deliveries_send()
    body = json.loads(told.received[0].body)
    assert (body["type"], body["data"]["run"]["reason"]) == (event, "because")


def test_delivery__events_chosen__others_are_not_told(hooked: Tree, told: Receiver) -> None:
    configure(hooked, told, events=["run.failed"])
    ended(hooked)
    assert not WebhookDelivery.objects.exists()


def test_delivery__sample__told_to_nobody(hooked: Tree) -> None:
    finish(start(Person.signed_in(make_user(hooked.payments)), hooked.payments, visibility="team", sample=True))
    assert not WebhookDelivery.objects.exists()


def test_delivery__private_thread__nothing_by_default(hooked: Tree) -> None:
    ended(hooked, visibility="private")
    assert not WebhookDelivery.objects.exists()


def test_delivery__private_thread_noticed__no_word_of_it(hooked: Tree, told: Receiver) -> None:
    configure(hooked, told, private_threads="notice")
    started = ended(hooked, visibility="private")
    deliveries_send()

    data = json.loads(told.received[0].body)["data"]
    assert data["thread"]["id"] == str(started.thread.pk)
    assert set(data) == {"organization", "team", "thread", "run"}
    assert "title" not in data["thread"]
    assert "requested_by" not in data["run"]
    assert b"checkout" not in told.received[0].body


def test_delivery__rolled_back_end__leaves_nothing(hooked: Tree) -> None:
    person = Person.signed_in(make_user(hooked.payments))
    started = start(person, hooked.payments, visibility="team")
    with transaction.atomic():
        finish(started)
        transaction.set_rollback(True)
    assert not WebhookDelivery.objects.exists()


def test_delivery__secret__is_in_no_row_and_no_log(
    hooked: Tree, told: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    told.answers = [(500, {})] * MAX_ATTEMPTS
    with caplog.at_level(logging.DEBUG):
        ended(hooked)
        deliveries_send()
    assert SECRET not in caplog.text
    assert told.url not in caplog.text
    assert not any(SECRET in str(value) or told.url in str(value) for value in vars(one()).values())


# ---- faults ----------------------------------------------------------------------------------------------------------


def test_fault__500_then_good__retried_with_the_same_id_and_bytes(
    hooked: Tree, told: Receiver, lease_clock: LeaseClock
) -> None:
    told.answers = [(500, {})]
    ended(hooked)

    deliveries_send()
    assert (one().state, one().last_status, one().last_error) == ("pending", 500, "bad_status")
    assert deliveries_send() == 0
    lease_clock.forward(10)
    deliveries_send()

    first, second = told.received
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    assert (one().state, one().attempts) == ("delivered", 2)


def test_fault__never_good__dead_after_its_attempts(hooked: Tree, told: Receiver, lease_clock: LeaseClock) -> None:
    told.answers = [(503, {})] * 20
    ended(hooked)
    for _ in range(MAX_ATTEMPTS + 3):
        deliveries_send()
        lease_clock.forward(8 * 3600)
    assert len(told.received) == MAX_ATTEMPTS
    assert (one().state, one().attempts, one().next_at) == ("dead", MAX_ATTEMPTS, None)


def test_fault__410__dead_at_once(hooked: Tree, told: Receiver) -> None:
    told.answers = [(410, {})]
    ended(hooked)
    deliveries_send()
    assert (one().state, one().last_error) == ("dead", "gone")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_fault__redirect__not_followed(hooked: Tree, told: Receiver, status: int) -> None:
    told.answers = [(status, {"Location": "/elsewhere"})]
    ended(hooked)
    deliveries_send()
    assert [request.path for request in told.received] == ["/in"]
    assert (one().state, one().last_error) == ("pending", "redirect_refused")


def test_fault__slow_receiver__times_out_and_others_go_on(
    hooked: Tree, told: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sending, "TIMEOUT_S", 0.3)
    told.answers = [(0, {})]
    ended(hooked)
    ended(hooked)
    assert deliveries_send() == 2
    assert sorted(WebhookDelivery.objects.values_list("state", "last_error")) == [
        ("delivered", ""),
        ("pending", "timeout"),
    ]


def test_fault__nobody_listens__retried(hooked: Tree, told: Receiver) -> None:
    configure(hooked, told, url="http://127.0.0.1:1/in")
    ended(hooked)
    deliveries_send()
    assert (one().state, one().last_status, one().last_error) == ("pending", None, "connection_failed")


def test_fault__retry_after__honoured(hooked: Tree, told: Receiver) -> None:
    told.answers = [(429, {"Retry-After": "600"})]
    ended(hooked)
    before = clock.now()
    deliveries_send()
    waits = one().next_at
    assert waits is not None
    assert timedelta(seconds=595) < waits - before < timedelta(seconds=620)


@pytest.mark.parametrize("text", ["Wed, 21 Oct 2099 07:28:00 GMT", "soon", "-5", "99999999999999", ""])
def test_fault__odd_retry_after__bounded(hooked: Tree, told: Receiver, text: str) -> None:
    told.answers = [(503, {"Retry-After": text})]
    ended(hooked)
    deliveries_send()
    waits = one().next_at
    assert waits is not None
    assert timedelta() < waits - clock.now() <= timedelta(hours=6)


def test_delay__attempts__grow_with_chance_and_end_at_six_hours() -> None:
    assert [round(delay_s(n) / (5 * 4 ** (n - 1))) for n in (1, 2, 3, 4)] == [1, 1, 1, 1]
    assert len({delay_s(3) for _ in range(20)}) > 10
    assert delay_s(40) <= 1.2 * 6 * 3600
    assert delay_s(1, retry_after_s=10**9) == 6 * 3600


@pytest.mark.parametrize(
    ("grant", "value", "code"),
    [(["elsewhere.example.com"], SECRET, "secret_unresolved"), (["127.0.0.1"], "", "secret_unresolved")],
)
def test_fault__secret_not_to_be_had__nothing_is_sent(
    tree: Tree, told: Receiver, monkeypatch: pytest.MonkeyPatch, grant: list[str], value: str, code: str
) -> None:
    monkeypatch.setenv("OPENSRE_CRED_HOOK", value)
    make_grant(tree.root, "OPENSRE_CRED_HOOK", grant)
    configure(tree, told)
    ended(tree)
    deliveries_send()
    assert (told.received, one().state, one().last_error) == ([], "pending", code)


def test_fault__receiver_taken_away__cancelled(hooked: Tree, told: Receiver) -> None:
    ended(hooked)
    put(hooked.payments, {})
    deliveries_send()
    assert (told.received, one().state, one().last_error) == ([], "cancelled", "webhook_removed")


def test_fault__private_address_not_opened__refused(hooked: Tree, told: Receiver, settings: Any) -> None:
    settings.OUTBOUND_PRIVATE_ALLOW = []
    ended(hooked)
    deliveries_send()
    assert (told.received, one().last_error) == ([], "address_private")


# ---- order and claims ------------------------------------------------------------------------------------------------


def test_order__earlier_run_of_the_thread_waits__later_one_too(
    hooked: Tree, told: Receiver, lease_clock: LeaseClock
) -> None:
    person = Person.signed_in(make_user(hooked.payments))
    started = finish(start(person, hooked.payments, visibility="team"))
    person.client.post(f"/app/threads/{started.thread.pk}/messages", {"text": "more"})
    started.thread.refresh_from_db()
    finish(type(started)(started.thread, started.thread.runs.latest("number")))
    told.answers = [(500, {})]

    assert deliveries_send() == 1
    assert deliveries_send() == 0
    lease_clock.forward(10)
    assert (deliveries_send(), deliveries_send()) == (1, 1)
    assert [json.loads(body)["data"]["run"]["number"] for body in told.bodies] == [1, 1, 2]


@pytest.mark.django_db(transaction=True)
def test_claim__two_processes_at_once__each_delivery_sent_once(hooked: Tree, told: Receiver) -> None:
    for _ in range(5):
        ended(hooked)
    outcomes = in_threads(deliveries_send, deliveries_send)
    assert sum(outcomes) == 5
    assert len({request.headers["webhook-id"] for request in told.received}) == len(told.received) == 5


def test_claim__sender_dies__sent_again_after_its_lease(hooked: Tree, told: Receiver, lease_clock: LeaseClock) -> None:
    ended(hooked)
    dead = sending._claim(one().pk)
    assert dead is not None
    assert deliveries_send() == 0
    lease_clock.forward(70)
    assert deliveries_send() == 1
    sending._settle(dead, sending.Outcome(status=500))
    assert one().state == "delivered"


# ---- looking at them -------------------------------------------------------------------------------------------------


def test_api__list__newest_first_without_private_ids(
    hooked: Tree, told: Receiver, django_assert_num_queries: Any
) -> None:
    configure(hooked, told, private_threads="notice")
    started = ended(hooked)
    ended(hooked, visibility="private")
    client = api_client(token=make_admin_token(hooked.root))
    url = "/api/v1/orgs/demo/nodes/engineering/webhooks/deliveries"
    client.get(url)

    with django_assert_num_queries(4):  # token, node, its rights, the page
        private, team = client.get(url).json()["results"]

    assert (private["run_id"], private["thread_id"]) == (None, None)
    assert (team["run_id"], team["webhook"], team["state"]) == (str(started.run.pk), "ops", "pending")
    assert client.get(f"{url}?state=dead").json()["results"] == []
    assert client.get(f"{url}?state=odd").json()["code"] == "unknown_state"


def test_resend__dead__pending_again_and_audited(hooked: Tree, told: Receiver) -> None:
    told.answers = [(410, {})]
    ended(hooked)
    deliveries_send()
    client = api_client(token=make_admin_token(hooked.payments))
    url = f"/api/v1/orgs/demo/nodes/payments/webhooks/deliveries/{one().pk}/resend"

    assert (client.post(url).status_code, client.post(url).json()["code"]) == (202, "delivery_pending")
    deliveries_send()

    assert one().state == "delivered"
    assert AuditEvent.objects.filter(action="webhook.resend", object_id=str(one().pk)).count() == 1
    WebhookDelivery.objects.update(state=DeliveryState.PENDING)
    with pytest.raises(Conflict):
        delivery_resend(actor=hooked.system, node=hooked.payments, delivery_id=one().pk)
    with pytest.raises(NotFound):
        delivery_resend(actor=hooked.system, node=hooked.platform, delivery_id=one().pk)


def test_test__receiver__told_and_unknown_one_not_found(hooked: Tree, told: Receiver) -> None:
    webhook_test(actor=hooked.system, node=hooked.payments, hook="ops")
    deliveries_send()
    assert json.loads(told.received[0].body)["type"] == "webhook.test"
    client = api_client(token=make_admin_token(hooked.payments))
    answer = client.post("/api/v1/orgs/demo/nodes/payments/webhooks/nobody/test")
    assert (answer.status_code, answer.json()["code"]) == (404, "unknown_webhook")


def test_api__team_token__may_not_resend(hooked: Tree) -> None:
    ended(hooked)
    client = api_client(token=make_team_token(hooked.payments))
    url = f"/api/v1/orgs/demo/nodes/payments/webhooks/deliveries/{one().pk}/resend"
    assert client.post(url).status_code == 403


def test_forget__over_for_a_month__removed(hooked: Tree) -> None:
    ended(hooked)
    ended(hooked)
    old = WebhookDelivery.objects.first()
    assert old is not None
    WebhookDelivery.objects.filter(pk=old.pk).update(state="dead", ended_at=clock.now() - timedelta(days=31))
    assert deliveries_forget() == 1
    assert WebhookDelivery.objects.count() == 1


@pytest.mark.parametrize(
    ("entry", "code"),
    [
        ({"url": "ftp://x.example.com/"}, "url_form"),
        ({"url": "https://u:p@x.example.com/"}, "url_userinfo"),
        ({"secret": "hunter2hunter2"}, "reference_required"),
        ({"events": ["run.started"]}, "literal_error"),
        ({"colour": "red"}, "extra_forbidden"),
    ],
)
def test_config__bad_receiver__refused(tree: Tree, entry: dict[str, Any], code: str) -> None:
    client = api_client(token=make_admin_token(tree.payments))
    answer = client.patch("/api/v1/orgs/demo/nodes/payments/config", {"webhooks": {"ops": entry}})
    assert answer.status_code == 422
    assert code in json.dumps(answer.json())
    assert "hunter2" not in json.dumps(answer.json())


def test_result__to_the_starter_alone__is_left_out(hooked: Tree, told: Receiver) -> None:
    person = Person.signed_in(make_user(hooked.payments))
    started = start(person, hooked.payments, visibility="team")
    result = events.Result(text="only for you", success=True)
    append(
        thread_id=started.thread.pk,
        events=[new_event(EventType.RESULT, result, run_id=started.run.pk, audience=Audience.STARTER)],
    )
    finish(started, status="interrupted")
    deliveries_send()
    assert b"only for you" not in told.received[0].body
