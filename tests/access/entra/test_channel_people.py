"""People whom a channel knows by their directory's ids, as the Teams bot does."""

from typing import Any
from uuid import UUID, uuid4

import pytest

from controlplane.access.actors import actor_for_directory_identity
from controlplane.access.entra.services import identity_provider_set
from controlplane.access.models import ExternalIdentity, IdentityProvider
from controlplane.core.actor import Actor, ActorKind, Channel, Role
from controlplane.core.errors import NotAuthenticated
from tests.access.entra.support import SECRET_NAME, Visit, map_to, owner_of, person, set_up
from tests.factories import Tree, make_tree
from tests.support.identity_provider import CLIENT_ID, TENANT, Account, Provider

ADA = Account("ada@example.com", roles=("sre",))


@pytest.fixture
def provider(tree: Tree, peer: Provider) -> IdentityProvider:
    made = set_up(tree, peer)
    map_to(made, "role", "sre", tree.payments, "responder")
    peer.add(ADA)
    Visit.to(peer, tree).sign_in(ADA.username)
    return made


def oid_of_ada() -> UUID:
    oid = ExternalIdentity.objects.get(label=ADA.username).oid
    assert oid is not None
    return oid


def known(organization_id: UUID, tid: UUID = TENANT, oid: UUID | None = None) -> Actor:
    return actor_for_directory_identity(
        organization_id=organization_id, tid=tid, oid=oid or oid_of_ada(), channel=Channel.TEAMS
    )


def test_directory_identity__signed_in_once__acts_as_the_person_by_its_roles(
    tree: Tree, provider: IdentityProvider, django_assert_num_queries: Any
) -> None:
    oid = oid_of_ada()
    with django_assert_num_queries(2):
        actor = known(tree.organization.pk, oid=oid)
    assert (actor.kind, actor.user_id, actor.channel) == (ActorKind.USER, person(ADA.username).pk, Channel.TEAMS)
    assert [(grant.node_id, grant.role) for grant in actor.grants] == [(tree.payments.pk, Role.RESPONDER)]
    assert actor.scopes is None


def test_directory_identity__unknown_person_directory_or_organization__nobody(
    tree: Tree, provider: IdentityProvider
) -> None:
    other = make_tree("other").organization.pk
    for organization_id, tid, oid in (
        (tree.organization.pk, TENANT, uuid4()),
        (tree.organization.pk, uuid4(), oid_of_ada()),
        (other, TENANT, oid_of_ada()),
    ):
        with pytest.raises(NotAuthenticated):
            known(organization_id, tid, oid)


def test_directory_identity__deactivated_here__nobody(tree: Tree, provider: IdentityProvider) -> None:
    user = person(ADA.username)
    user.is_active = False
    user.save()
    with pytest.raises(NotAuthenticated):
        known(tree.organization.pk)


@pytest.mark.parametrize("change", [{"enabled": False}, {"tenant": str(uuid4())}], ids=["switched off", "another"])
def test_directory_identity__provider_no_longer_vouches_for_the_directory__nobody(
    tree: Tree, provider: IdentityProvider, change: dict[str, object]
) -> None:
    fields: dict[str, object] = {
        "kind": "entra",
        "cloud": "test",
        "client_id": CLIENT_ID,
        "client_secret": f"${{{SECRET_NAME}}}",
        "tenant": str(TENANT),
    }
    identity_provider_set(actor=owner_of(tree), organization_slug=tree.organization.slug, **(fields | change))  # type: ignore[arg-type]
    with pytest.raises(NotAuthenticated):
        known(tree.organization.pk)
