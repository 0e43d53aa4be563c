"""Viewing as a team: short, read-only, under both names."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.conf import settings
from django.test import Client

from controlplane.access.actors import VIEW_AS, actor_for_principal, actor_for_session_cookie
from controlplane.access.models import AccessToken
from controlplane.access.services import impersonation_begin, token_create, token_revoke, token_rotate
from controlplane.audit.models import AuditEvent, SecurityEvent
from controlplane.audit.security_stream import stream
from controlplane.core import clock
from controlplane.core.actor import Actor, ActorKind, Channel, Role
from controlplane.core.errors import AppError, Conflict, NotAuthenticated
from controlplane.core.permissions import READING, RULES, VIEW_SCOPES, Action, allows, nodes_that_allow
from controlplane.investigations.models import Thread
from controlplane.orgs.selectors import node_lineage
from tests.factories import (
    Tree,
    actor_for_token,
    actor_for_user,
    api_client,
    make_admin_token,
    make_personal_token,
    make_team_token,
    make_user,
)

pytestmark = pytest.mark.django_db
URL = "/api/v1/orgs/demo/nodes/payments/impersonation"


def begin(tree: Tree, role: Role = Role.ADMIN, **fields: Any) -> tuple[Actor, str]:
    """Return an admin of payments and the text of its view of the team."""
    person = actor_for_user(make_user(tree.payments, role))
    return person, impersonation_begin(actor=person, node=tree.payments, **fields).plaintext


def test_impersonation__actor__is_the_team_reading_and_names_the_person(tree: Tree) -> None:
    person, plaintext = begin(tree)
    actor = actor_for_token(plaintext)
    assert (actor.kind, actor.impersonator) == (ActorKind.IMPERSONATION, person.principal)
    assert actor.label == f"{person.label} as team Payments"
    assert (actor.user_id, actor.is_person, actor.grants) == (None, False, ())
    assert (actor.token_node_id, actor.scopes) == (tree.payments.pk, VIEW_SCOPES)


def test_impersonation__every_action__reading_and_nothing_else(tree: Tree) -> None:
    actor = actor_for_token(begin(tree)[1])
    lineage = node_lineage(tree.payments.pk)
    assert {action for action in Action if allows(actor, action, lineage)} == READING
    assert {action for action in Action if nodes_that_allow(actor, action)} == READING
    assert not any(allows(actor, action, node_lineage(tree.platform.pk)) for action in Action)


def test_view_scopes__rules__open_no_action_that_is_not_reading() -> None:
    opened = {action for action, rule in RULES.items() if rule.scopes & VIEW_SCOPES}
    assert opened == READING


def test_impersonation__lifetime__fifteen_minutes_by_default_and_an_hour_at_most(tree: Tree) -> None:
    with time_machine.travel("2030-01-01T00:00:00Z", tick=False) as time:
        person, plaintext = begin(tree)
        token = AccessToken.objects.get(kind="view")
        assert token.expires_at == clock.now() + timedelta(minutes=15)
        time.shift(timedelta(minutes=15))
        with pytest.raises(NotAuthenticated):
            actor_for_token(plaintext)
        for minutes in (0, 61):
            with pytest.raises(AppError) as caught:
                impersonation_begin(actor=person, node=tree.payments, minutes=minutes)
            assert caught.value.code == "minutes"


@pytest.mark.parametrize(
    ("caller", "status"),
    [
        (lambda tree: api_client(user=make_user(tree.payments, Role.ADMIN)), 201),
        (lambda tree: api_client(user=make_user(tree.root, Role.OWNER)), 201),
        (
            lambda tree: api_client(
                token=make_personal_token(make_user(tree.payments, Role.ADMIN), tree.payments, ["admin:*"])
            ),
            201,
        ),
        (
            lambda tree: api_client(
                token=make_personal_token(make_user(tree.payments, Role.ADMIN), tree.payments, ["runs:read"])
            ),
            403,
        ),
        (lambda tree: api_client(user=make_user(tree.payments, Role.RESPONDER)), 403),
        (lambda tree: api_client(user=make_user(tree.payments, Role.REVIEWER)), 403),
        (lambda tree: api_client(token=make_admin_token(tree.root)), 403),
        (lambda tree: api_client(token=make_team_token(tree.payments)), 403),
        (lambda tree: api_client(user=make_user(tree.platform, Role.ADMIN)), 404),
        (lambda tree: api_client(token=begin(tree)[1]), 403),
        (lambda _tree: api_client(), 401),
    ],
)
def test_impersonation_rest__by_caller__people_who_administer_the_team(tree: Tree, caller: Any, status: int) -> None:
    answer = caller(tree).post(URL, {"minutes": 5, "reason": "why"}, format="json")
    assert answer.status_code == status, answer.json()
    if status == 201:
        assert answer.json()["kind"] == "view"
        assert answer["Cache-Control"] == "no-store"
        assert actor_for_token(answer.json()["token"]).impersonator is not None


def test_impersonation_rest__other_organization__404(tree: Tree, other_tree: Tree) -> None:
    client = api_client(user=make_user(other_tree.root, Role.OWNER))
    assert client.post(URL, {}, format="json").status_code == 404


def test_impersonation__node_that_is_no_team__refused(tree: Tree) -> None:
    client = api_client(user=make_user(tree.root, Role.OWNER))
    answer = client.post("/api/v1/orgs/demo/nodes/engineering/impersonation", {}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (422, "not_a_team")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("post", "/api/v1/orgs/demo/nodes/payments/tokens"),
        ("post", URL),
        ("patch", "/api/v1/orgs/demo/nodes/payments/config"),
        ("patch", "/api/v1/orgs/demo/nodes/payments/config?dry_run=true"),
        ("put", "/api/v1/orgs/demo/nodes/payments/config"),
        ("delete", "/api/v1/orgs/demo/nodes/payments"),
        ("post", "/api/v1/investigations"),
        ("post", "/api/v1/orgs/demo/tokens/revoke"),
        ("put", "/api/v1/orgs/demo/token-policy"),
        ("post", "/api/v1/reviews/01a22f3d-7c40-7e61-af65-a804e692d50a/approve"),
        ("post", "/api/v1/alerts/alertmanager"),
    ],
)
def test_impersonation_rest__anything_that_may_write__read_only(tree: Tree, method: str, path: str) -> None:
    client = api_client(token=begin(tree)[1])
    recorded = AuditEvent.objects.count()
    answer = getattr(client, method)(path, {"dry_run": True}, format="json")
    assert (answer.status_code, answer.json()["code"]) == (403, "read_only")
    assert AuditEvent.objects.count() == recorded


def test_impersonation_rest__reading__as_the_team_without_secrets(tree: Tree) -> None:
    client = api_client(token=begin(tree)[1])
    me = client.get("/api/v1/me").json()
    assert (me["kind"], me["node"], me["impersonator"]) == ("impersonation", "payments", me["impersonator"])
    assert me["impersonator"].startswith("user:")
    assert client.get("/api/v1/orgs/demo/nodes/payments/config/effective").status_code == 200
    assert client.get("/api/v1/orgs/demo/nodes/payments/config/effective?resolve=true").status_code == 403
    assert client.get("/api/v1/config/me/effective").status_code == 200
    assert client.get("/api/v1/orgs/demo/nodes/platform").status_code == 404
    assert client.get("/api/v1/orgs/demo/nodes/payments/tokens").status_code == 403
    assert client.get("/api/v1/orgs/demo/tokens").json()["results"] == []
    assert client.get("/api/v1/orgs/demo/audit").status_code in {403, 404}


def test_impersonation__private_thread_of_the_person_itself__not_visible(tree: Tree) -> None:
    person, plaintext = begin(tree)
    thread = Thread.objects.create(
        organization=tree.organization, node=tree.payments, starter_id=person.user_id, visibility="private", title="t"
    )
    assert api_client(token=plaintext).get(f"/api/v1/threads/{thread.pk}").status_code == 404


def test_impersonation__used__in_the_security_stream_under_both_names_coalesced(tree: Tree) -> None:
    stream.forget()
    person, plaintext = begin(tree)
    client = api_client(token=plaintext)
    for _ in range(5):
        client.get("/api/v1/me")
    stream.write()
    rows = SecurityEvent.objects.filter(kind="impersonation")
    assert rows.count() == 1
    row = rows.get()
    assert (row.impersonator, row.organization_id) == (person.principal, tree.organization.pk)
    assert row.actor_label == f"{person.label} as team Payments"
    begun = AuditEvent.objects.get(action="impersonation.begin")
    assert begun.actor == person.principal
    assert begun.after["name"] == f"{person.label} as team Payments"


@pytest.mark.parametrize("change", ["revoked", "deactivated", "role lost", "moved to a lesser role"])
def test_impersonation__right_taken__over_at_once(tree: Tree, change: str) -> None:
    person, plaintext = begin(tree)
    assert actor_for_token(plaintext).impersonator == person.principal
    token = AccessToken.objects.select_related("user", "node").get(kind="view")
    assert token.user is not None
    if change == "revoked":
        token_revoke(actor=person, token=token)
        assert AuditEvent.objects.filter(action="impersonation.end").exists()
    elif change == "deactivated":
        token.user.is_active = False
        token.user.save()
    elif change == "role lost":
        token.user.memberships.all().delete()
    else:
        token.user.memberships.update(role=Role.RESPONDER.value)
    with pytest.raises(NotAuthenticated):
        actor_for_token(plaintext)


def test_impersonation__token__is_neither_rotated_nor_made_by_the_usual_way(tree: Tree) -> None:
    person, _ = begin(tree)
    token = AccessToken.objects.get(kind="view")
    with pytest.raises(Conflict):
        token_rotate(actor=person, token=token)
    with pytest.raises(AppError):
        token_create(actor=person, kind="view", node=tree.payments, name="x")
    with pytest.raises(NotAuthenticated):  # nothing it did is done later in its name
        actor_for_principal(f"token:{token.public_id}", token.public_id, channel=Channel.SYSTEM)


def test_impersonation__by_a_personal_token__no_longer_and_from_nowhere_else(tree: Tree) -> None:
    user = make_user(tree.payments, Role.ADMIN)
    issued = token_create(
        actor=actor_for_user(user),
        kind="user",
        node=tree.payments,
        name="mine",
        scopes=["admin:*"],
        user=user,
        expires_at=clock.now() + timedelta(minutes=10),
        allowed_addresses=["192.0.2.0/24"],
    )
    actor = actor_for_token(issued.plaintext)
    with pytest.raises(AppError) as caught:
        impersonation_begin(actor=actor, node=tree.payments)
    assert caught.value.code == "expires_too_late"
    view = impersonation_begin(actor=actor, node=tree.payments, minutes=5).token
    assert view.allowed_addresses == ["192.0.2.0/24"]


def test_impersonation__session_of_a_browser__is_the_view_for_streams_too(tree: Tree, client: Client) -> None:
    user = make_user(tree.payments, Role.ADMIN)
    client.force_login(user)
    cookie = client.cookies[settings.SESSION_COOKIE_NAME].value

    def now() -> Actor | None:
        return actor_for_session_cookie(cookie, channel=Channel.WEB, address="192.0.2.1")

    client.post("/app/tokens/view-as", {"team": "payments", "minutes": "15"})
    actor = now()
    assert actor is not None
    assert (actor.kind, actor.user_id) == (ActorKind.IMPERSONATION, None)
    AccessToken.objects.update(expires_at=clock.now())
    assert now() is None
    client.post("/app/tokens/view-as/end")
    actor = now()
    assert actor is not None
    assert (actor.kind, actor.user_id) == (ActorKind.USER, user.pk)


def test_impersonation__session_naming_the_view_of_somebody_else__refused(tree: Tree, client: Client) -> None:
    _, plaintext = begin(tree)
    client.force_login(make_user(tree.payments, Role.ADMIN))
    session = client.session
    session[VIEW_AS] = plaintext.split("_")[2]
    session.save()
    assert client.get("/api/v1/me").status_code == 401
    for other in ("ghost", make_team_token(tree.payments).split("_")[2]):
        session[VIEW_AS] = other
        session.save()
        assert client.get("/api/v1/me").status_code == 401
