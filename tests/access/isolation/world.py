"""One organization with an object of every kind, another with the same names, and everybody who may knock."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from django.test import Client

from controlplane.access.models import (
    AccessToken,
    IdentityProvider,
    MappingKind,
    ProviderKind,
    RoleMapping,
    User,
)
from controlplane.access.services import impersonation_begin
from controlplane.alerts.models import AlertGroup, Source
from controlplane.configs.policy_services import policy_create
from controlplane.configs.services import config_patch
from controlplane.core import clock
from controlplane.core.actor import Role
from controlplane.core.permissions import RULES, Action
from controlplane.investigations.files import file_from_run
from controlplane.investigations.models import ClientThread, LegalHold, ReportedRun, WebhookDelivery
from controlplane.orgs.models import Node
from tests.configs.support import put
from tests.factories import (
    Tree,
    actor_for_user,
    make_admin_token,
    make_grant,
    make_node,
    make_operator,
    make_personal_token,
    make_team_token,
    make_token,
    make_tree,
    make_user,
)
from tests.web.support import Person, finish, start

#: What clients of old installations, proxies and people who try put into requests to say who they are.
SPOOFED = {
    "X-Org-Id": "demo",
    "X-Team-Id": "payments",
    "X-Team-Node-Id": "payments",
    "X-Internal-Service": "sre-agent",
    "X-Admin-Token": "true",
    "X-User-Id": "owner",
    "X-User": "owner",
    "X-Role": "owner",
    "X-Forwarded-User": "owner",
    "X-Forwarded-Email": "owner@example.com",
    "X-Remote-User": "owner",
    "X-Auth-Request-User": "owner",
    "X-Impersonate-User": "owner",
    "X-MS-Client-Principal": "owner",
    "X-Original-URL": "/admin/",
    "X-Rewrite-URL": "/admin/",
    "X-HTTP-Method-Override": "DELETE",
    "X-Forwarded-Host": "evil.example.com",
    "X-Tenant-Id": "demo",
}


@dataclass(frozen=True)
class Objects:
    """What addresses can name, as the text they name it by."""

    org: str
    node: str
    names: dict[str, str]

    def fill(self, path: str) -> str:
        return "/" + path.format(**self.names, org=self.org, node=self.node, slug=self.node)


@dataclass(frozen=True, eq=False)
class Caller:
    """Somebody who knocks: a bearer token, a signed-in browser, headers, or none of them."""

    name: str
    token: str = ""
    person: User | None = None
    headers: dict[str, str] = field(default_factory=dict)
    view_as: str = ""

    def client(self) -> Client:
        client = Client(headers=self.headers | ({"Authorization": f"Bearer {self.token}"} if self.token else {}))
        if self.person is not None:
            client.force_login(self.person)
        if self.view_as:
            session = client.session
            session["view_as"] = self.view_as
            session.save()
        return client


@dataclass(frozen=True)
class World:
    """Everything."""

    tree: Tree
    rival: Tree
    here: Objects
    foreign: Objects
    nowhere: Objects
    callers: dict[str, Caller]
    scoped_callers: tuple[Caller, Caller]

    def scoped(self, action: Action | None) -> Caller:
        """Return an admin's token whose one scope does not open ``action``."""
        reading, ingesting = self.scoped_callers
        opens = RULES[action].scopes if action is not None else frozenset()
        return ingesting if "runs:read" in opens else reading


def build() -> World:
    """Make it. Everything of ``here`` hangs on the team ``payments``."""
    tree, rival = make_tree(), make_tree("rival")
    here, foreign = _objects(tree), _objects(rival)
    child = make_node(tree.payments, "child")
    admin = make_user(tree.payments, Role.ADMIN)
    gone = make_user(tree.payments, Role.ADMIN)
    gone_token = make_personal_token(gone, tree.payments)
    viewing = impersonation_begin(actor=actor_for_user(admin), node=tree.payments)

    def person(node: Node, role: Role | None) -> User:
        return make_user(node, role)

    viewer = person(tree.payments, Role.VIEWER)
    sibling = make_admin_token(tree.platform)
    callers = [
        Caller("nobody"),
        Caller("nobody, headers say owner", headers=SPOOFED),
        Caller("malformed token", token="osre_team_x"),
        Caller("expired token", token=_ended(make_admin_token(tree.payments), expired=True)),
        Caller("revoked token", token=_ended(make_admin_token(tree.payments), expired=False)),
        Caller("token of a deactivated person", token=gone_token),
        Caller("browser of a deactivated person", person=gone),
        Caller("owner of another organization", person=person(rival.root, Role.OWNER)),
        Caller("admin token of another organization", token=make_admin_token(rival.root)),
        Caller("admin of a sibling team", person=person(tree.platform, Role.ADMIN)),
        Caller("admin token of a sibling team", token=sibling),
        Caller("sibling team, headers name this one", token=sibling, headers=SPOOFED),
        Caller("admin of a child team", person=person(child, Role.ADMIN)),
        Caller("admin token of a child team", token=make_admin_token(child)),
        Caller("member without a role", person=person(tree.root, None)),
        Caller("viewer", person=viewer),
        Caller("viewer, headers say owner", person=viewer, headers=SPOOFED),
        Caller("responder", person=person(tree.payments, Role.RESPONDER)),
        Caller("reviewer", person=person(tree.payments, Role.REVIEWER)),
        Caller("admin", person=admin),
        Caller("owner", person=person(tree.root, Role.OWNER)),
        Caller("team token", token=make_team_token(tree.payments)),
        Caller("admin token", token=make_admin_token(tree.payments)),
        Caller("viewing as the team, by token", token=viewing.plaintext),
        Caller("viewing as the team, in a browser", person=admin, view_as=viewing.token.public_id),
        Caller("operator", person=make_operator()),
    ]
    scoped = [
        Caller(
            "token without the scope",
            token=make_personal_token(make_user(tree.root, Role.ADMIN), tree.payments, [scope]),
        )
        for scope in ("runs:read", "alerts:ingest")
    ]
    User.objects.filter(pk=gone.pk).update(is_active=False)
    return World(
        tree=tree,
        rival=rival,
        here=here,
        foreign=foreign,
        nowhere=_nowhere(),
        callers={caller.name: caller for caller in callers},
        scoped_callers=(scoped[0], scoped[1]),
    )


def _ended(plaintext: str, *, expired: bool) -> str:
    public_id = plaintext.split("_")[2]
    past = clock.now() - timedelta(minutes=1)
    AccessToken.objects.filter(public_id=public_id).update(
        **({"expires_at": past} if expired else {"revoked_at": past})
    )
    return plaintext


def _objects(tree: Tree) -> Objects:
    """Make an object of every kind on the team ``payments``, each made by somebody who does not call."""
    node = tree.payments
    hook = {"url": "https://hooks.example.com/in", "secret": "${OPENSRE_CRED_HOOK}", "events": []}
    routing = {"slack_channel_ids": ["C0123456789"]}
    put(node, {"limits": {"max_turns": 10}, "routing": routing, "webhooks": {f"ops-{tree.organization.slug}": hook}})
    starter = Person.signed_in(make_user(node, Role.RESPONDER))
    started = finish(start(starter, node, visibility="team"))
    member = make_user(node, Role.VIEWER)
    policy, _ = policy_create(actor=tree.system, node=node, pointer="/limits/max_turns", kind="locked")
    policy_create(actor=tree.system, node=tree.engineering, pointer="/limits/max_tokens", kind="requires_approval")
    author = actor_for_user(make_user(node, Role.ADMIN))
    review = config_patch(actor=author, node=node, patch={"limits": {"max_tokens": 20}}).review
    assert review is not None
    provider = IdentityProvider.objects.create(
        organization=tree.organization,
        name="Example ID",
        kind=ProviderKind.OIDC,
        authority="https://id.example.com",
        client_id="x",
        client_secret="${OPENSRE_CRED_SSO}",
        enabled=False,
    )
    mapping = RoleMapping.objects.create(
        provider=provider, kind=MappingKind.GROUP, value="g", node=tree.root, role="viewer"
    )
    group = AlertGroup.objects.create(
        organization=tree.organization,
        node=node,
        source=Source.GRAFANA,
        group_key="0" * 64,
        group_text="g",
        status="firing",
        title="An alert",
        thread=started.thread,
        first_at=clock.now(),
        last_at=clock.now(),
    )
    name = f"slack-{tree.organization.slug}"
    ClientThread.objects.create(node=node, name=name, thread=started.thread)
    delivery = WebhookDelivery.objects.create(
        organization=tree.organization, node=node, hook="ops-demo", event="webhook.test", payload="{}"
    )
    # Named as our own run is, so that one name serves both kinds of addresses.
    ReportedRun.objects.create(organization=tree.organization, node=node, name=str(started.run.pk), by="x")
    file = file_from_run(run=started.run, name="graph.txt", content=b"x")
    LegalHold.objects.create(organization=tree.organization, thread_id=started.thread.pk)
    names: dict[str, Any] = {
        "file_id": file.pk,
        "delivery_id": delivery.pk,
        "hook": f"ops-{tree.organization.slug}",
        "public_id": make_token(node).token.public_id,
        "membership_id": member.memberships.get().pk,
        "person_id": member.pk,
        "mapping_id": mapping.pk,
        "grant_id": make_grant(node, "OPENSRE_CRED_A", ["a.example.com"]).pk,
        "review_id": review.pk,
        "version": 1,
        "policy_id": policy.pk,
        "kind": "prometheus",
        "name": "prometheus",
        "thread_id": started.thread.pk,
        "thread_name": name,
        "run_id": started.run.pk,
        "secret": "x" * 43,
        "session_id": uuid4(),
        "identity_id": uuid4(),
        "group_id": group.pk,
        "vendor": "grafana",
        "organization": tree.organization.slug,
    }
    return Objects(tree.organization.slug, node.slug, {key: str(value) for key, value in names.items()})


def _nowhere() -> Objects:
    uuid = str(UUID(int=4 << 76 | 8 << 60))
    names = dict.fromkeys(
        (
            "person_id",
            "mapping_id",
            "grant_id",
            "review_id",
            "policy_id",
            "thread_id",
            "run_id",
            "session_id",
            "identity_id",
            "group_id",
            "delivery_id",
            "file_id",
        ),
        uuid,
    )
    return Objects(
        "ghost",
        "ghost",
        names
        | {
            "public_id": "x" * 16,
            "membership_id": "999999999",
            "version": "99",
            "kind": "ghost",
            "hook": "ghost",
            "name": "ghost",
            "secret": "y" * 43,
            "vendor": "grafana",
            "organization": "ghost",
            "thread_name": "slack-ghost",
        },
    )
