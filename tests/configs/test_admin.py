"""The operators' admin shows configuration and changes none."""

import pytest
from django.test import Client
from django.urls import reverse

from controlplane.configs.models import ConfigVersion
from controlplane.core.actor import Role
from tests.configs.support import put
from tests.factories import Tree, make_operator, make_user

pytestmark = pytest.mark.django_db


def test_admin__operator__sees_documents_and_versions(tree: Tree, client: Client) -> None:
    put(tree.payments, {"agents": {"planner": {"enabled": True}}}, reason="first light")
    client.force_login(make_operator())
    version = ConfigVersion.objects.get()
    for name, args in (
        ("configdocument_changelist", []),
        ("configdocument_change", [tree.payments.pk]),
        ("configversion_changelist", []),
        ("configversion_change", [version.pk]),
    ):
        response = client.get(reverse(f"admin:configs_{name}", args=args))
        assert response.status_code == 200
        assert "payments" in response.content.decode()


def test_admin__operator__cannot_add_change_or_delete(tree: Tree, client: Client) -> None:
    put(tree.payments, {"a": 1})
    client.force_login(make_operator())
    node = tree.payments.pk
    assert client.get(reverse("admin:configs_configdocument_add")).status_code == 403
    assert client.post(reverse("admin:configs_configdocument_change", args=[node]), {"version": 9}).status_code == 403
    assert client.post(reverse("admin:configs_configdocument_delete", args=[node]), {"post": "yes"}).status_code == 403
    assert list(ConfigVersion.objects.values_list("version", flat=True)) == [1]


def test_admin__member__has_no_access(tree: Tree, client: Client) -> None:
    client.force_login(make_user(tree.root, Role.OWNER))
    assert client.get(reverse("admin:configs_configdocument_changelist")).status_code == 302
