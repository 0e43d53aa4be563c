"""Short ways to write and read configuration in tests."""

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from controlplane.configs.models import ConfigDocument, ConfigPolicy, ConfigVersion
from controlplane.configs.policy_services import policy_create
from controlplane.configs.selectors import config_effective
from controlplane.configs.services import WriteResult, config_patch, config_replace
from controlplane.core.actor import Actor, Role
from controlplane.core.errors import AppError
from controlplane.orgs.models import Node
from controlplane.reviews.models import ReviewRequest
from tests.factories import (
    Tree,
    actor_for_user,
    api_client,
    make_team_token,
    make_user,
    system_of,
)

EFFECTIVE = "/api/v1/orgs/demo/nodes/payments/config/effective"


def put(node: Node, document: dict[str, Any], *, actor: Actor | None = None, reason: str = "") -> WriteResult:
    """Replace the node's document as the system."""
    return config_replace(actor=actor or system_of(node), node=node, document=document, reason=reason)


def patch(node: Node, change: dict[str, Any], *, actor: Actor | None = None) -> WriteResult:
    """Patch the node's document as the system."""
    return config_patch(actor=actor or system_of(node), node=node, patch=change)


def stored(node: Node) -> dict[str, Any]:
    """Return the node's document as the database holds it."""
    row = ConfigDocument.objects.filter(pk=node.pk).first()
    return row.document if row else {}


def effective(node: Node) -> dict[str, Any]:
    """Return the node's effective configuration."""
    return config_effective(node_id=node.pk).document


def versions(node: Node) -> list[int]:
    """Return the numbers of the history rows, the oldest first."""
    return list(ConfigVersion.objects.filter(node=node).order_by("version").values_list("version", flat=True))


def policy(node: Node, pointer: str, kind: str = "locked", value: Any = None) -> ConfigPolicy:
    """Set a policy as the system."""
    return policy_create(actor=system_of(node), node=node, pointer=pointer, kind=kind, value=value)[0]


def untouched_refusal(job: Callable[[], Any]) -> AppError:
    """Return how a write is refused; nothing of it may stay."""
    before = list(ConfigDocument.objects.order_by("pk").values()), ConfigVersion.objects.count()
    with pytest.raises(AppError) as caught:
        job()
    assert (list(ConfigDocument.objects.order_by("pk").values()), ConfigVersion.objects.count()) == before
    return caught.value


def runtime(tree: Tree) -> APIClient:
    """A client with what a runtime of the team has: the default scopes of a team token."""
    return api_client(token=make_team_token(tree.payments))


def credentials(tree: Tree, document: dict[str, Any]) -> tuple[Any, list[dict[str, str]]]:
    """Return the resolved document and ``credentials[]`` of a document of the team."""
    put(tree.payments, document)
    response = runtime(tree).get(EFFECTIVE, {"resolve": "true"})
    assert response.status_code == 200
    body = response.json()
    return body["effective"], body.get("credentials", [])


def guard(node: Node, pointer: str = "/agents/*/model", kind: str = "requires_approval", value: Any = None) -> None:
    """Want changes of the agents' models approved, or set another policy."""
    policy_create(actor=system_of(node), node=node, pointer=pointer, kind=kind, value=value)


def admin(node: Node) -> Actor:
    """A new admin of the node."""
    return actor_for_user(make_user(node, Role.ADMIN))


def reviewer(node: Node) -> Actor:
    """A new reviewer of the node."""
    return actor_for_user(make_user(node, Role.REVIEWER))


def propose(node: Node, change: dict[str, Any], actor: Actor | None = None, **fields: Any) -> ReviewRequest:
    """Return the review that a patch becomes."""
    result = config_patch(actor=actor or admin(node), node=node, patch=change, **fields)
    assert result.review is not None
    return result.review


def refusal(job: Callable[[], Any]) -> AppError:
    """Return how something is refused."""
    with pytest.raises(AppError) as caught:
        job()
    return caught.value
