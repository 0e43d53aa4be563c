"""Operators give organizations credentials in the admin, through the services and into the audit log."""

import pytest
from django.test import Client
from django.urls import reverse

from controlplane.access.models import CredentialGrant
from controlplane.access.services import credential_grant
from controlplane.audit.models import AuditEvent
from controlplane.core.actor import Role
from tests.factories import Tree, make_operator, make_user

pytestmark = pytest.mark.django_db
ADD = "admin:access_credentialgrant_add"
LIST = "admin:access_credentialgrant_changelist"


@pytest.fixture
def client(tree: Tree) -> Client:
    client = Client()
    client.force_login(make_operator())
    return client


def given(tree: Tree, **changes: str) -> dict[str, str]:
    form = {"organization": str(tree.organization.pk), "name": "OPENSRE_CRED_PROM", "inherited": "on"}
    return form | {"host_lines": "prometheus.example\n*.internal.example"} | changes


def test_credential_add__by_an_operator__is_entrusted_and_audited(client: Client, tree: Tree) -> None:
    assert "Where the control plane may send it" in client.get(reverse(ADD)).content.decode()
    assert client.post(reverse(ADD), given(tree)).status_code == 302
    grant = CredentialGrant.objects.get()
    assert (grant.node, grant.name, grant.inherited) == (None, "OPENSRE_CRED_PROM", True)
    assert grant.hosts == ["*.internal.example", "prometheus.example"]
    event = AuditEvent.objects.get(action="credential.grant")
    assert event.actor_label == grant.granted_by_label == "operator operator"


def test_credential_add__name_not_allowed_by_the_installation__is_given_and_pointed_out(
    client: Client, tree: Tree
) -> None:
    page = client.post(reverse(ADD), given(tree, name="ELSEWHERE"), follow=True).content.decode()
    assert "is not allowed by CREDENTIAL_ENV_ALLOW" in page
    assert CredentialGrant.objects.get().name == "ELSEWHERE"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "1 name"}, "begins with no digit"),
        ({"name": "DATABASE_URL"}, "a variable of the installation itself"),
        ({"host_lines": "https://prometheus.example"}, "no scheme, port or path"),
        ({"organization": "00000000-0000-0000-0000-000000000000"}, "Select a valid choice"),
    ],
)
def test_credential_add__refused_by_the_service__is_said_at_the_field(
    client: Client, tree: Tree, changes: dict[str, str], words: str
) -> None:
    answer = client.post(reverse(ADD), given(tree, **changes))
    assert answer.status_code == 200
    assert words in answer.content.decode()
    assert not CredentialGrant.objects.exists()


def test_take_back__what_was_granted_below_from_it__ends_too(client: Client, tree: Tree) -> None:
    client.post(reverse(ADD), given(tree))
    top = CredentialGrant.objects.get()
    below = credential_grant(actor=tree.system, node=tree.payments, name=top.name, hosts=["prometheus.example"])
    client.post(reverse(LIST), {"action": "take_back", "_selected_action": [str(top.pk)]})
    for grant in (top, below):
        grant.refresh_from_db()
        assert grant.revoked_at is not None
    assert AuditEvent.objects.filter(action="credential.revoke").count() == 2


def test_credential_admin__grant__is_shown_and_never_edited(client: Client, tree: Tree) -> None:
    client.post(reverse(ADD), given(tree))
    change = reverse("admin:access_credentialgrant_change", args=[CredentialGrant.objects.get().pk])
    assert "OPENSRE_CRED_PROM" in client.get(change).content.decode()
    assert client.post(change, given(tree, name="OTHER")).status_code == 403
    assert CredentialGrant.objects.get().name == "OPENSRE_CRED_PROM"


def test_credential_admin__member__is_not_let_in(tree: Tree) -> None:
    client = Client()
    client.force_login(make_user(tree.root, Role.OWNER))
    assert client.post(reverse(ADD), given(tree)).status_code == 302
    assert not CredentialGrant.objects.exists()
