"""Organizations with a provider, and browsers that sign in by it."""

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from django.test import Client

from controlplane.access.entra.mappings import role_mapping_set
from controlplane.access.entra.services import identity_provider_set
from controlplane.access.models import ExternalIdentity, IdentityProvider, Membership, User
from controlplane.audit.models import SecurityEvent
from controlplane.audit.security_stream import stream
from controlplane.core.actor import Actor, Role
from controlplane.orgs.models import Node
from tests.factories import Tree, actor_for_user, entrust, make_user
from tests.support.identity_provider import CLIENT_ID, TENANT, Provider

PUBLIC_URL: Final = "http://testserver"
SECRET_NAME: Final = "OPENSRE_CRED_SSO"


def owner_of(tree: Tree) -> Actor:
    """Return the actor of a new owner by hand."""
    return actor_for_user(make_user(tree.root, Role.OWNER))


def set_up(tree: Tree, peer: Provider, **fields: Any) -> IdentityProvider:
    """Set Entra as the provider of an organization, whose credential may be sent there."""
    entrust(tree.root, SECRET_NAME, ["localhost"])
    slug = tree.organization.slug
    peer.redirects.add(f"{PUBLIC_URL}/login/{slug}/callback")
    wanted: dict[str, Any] = {"kind": "entra", "client_id": CLIENT_ID, "client_secret": f"${{{SECRET_NAME}}}"}
    if fields.get("kind") != "oidc":
        wanted |= {"cloud": "test", "tenant": str(TENANT)}
    return identity_provider_set(actor=owner_of(tree), organization_slug=slug, **(wanted | fields))


def map_to(provider: IdentityProvider, kind: str, value: str, node: Node, role: str) -> None:
    """Let a role or group of the provider give a role."""
    owner = Membership.objects.filter(node__organization=node.organization, role="owner").first()
    assert owner is not None
    role_mapping_set(
        actor=actor_for_user(owner.user), provider=provider, kind=kind, value=value, node=node.slug, role=role
    )


@dataclass
class Visit:
    """A browser on the way through a sign-in."""

    peer: Provider
    org: str
    client: Client

    @classmethod
    def to(cls, peer: Provider, tree: Tree, client: Client | None = None) -> "Visit":
        return cls(peer, tree.organization.slug, client or Client())

    def begin(self, next_path: str = "/app/") -> str:
        """Press the button; return the provider's address to which it leads."""
        answer = self.client.get(f"/login/{self.org}/begin", {"next": next_path})
        assert answer.status_code == 302, answer.content.decode()
        return str(answer["Location"])

    def approved(self, username: str, next_path: str = "/app/") -> str:
        """Sign in at the provider; return the path and query to which it leads back."""
        back = urlsplit(self.peer.approve(self.begin(next_path), username))
        assert f"{back.scheme}://{back.netloc}" == PUBLIC_URL
        return f"{back.path}?{back.query}"

    def sign_in(self, username: str, next_path: str = "/app/") -> Any:
        """Sign in all the way; return the callback's answer."""
        return self.client.get(self.approved(username, next_path))

    @property
    def user_id(self) -> str | None:
        """Who is signed in."""
        found = self.client.session.get("_auth_user_id")
        return None if found is None else str(found)


def reasons() -> list[str]:
    """Return the codes of the refused sign-ins in the security stream, oldest first."""
    stream.write()
    rows = SecurityEvent.objects.filter(kind="sign_in_failed").order_by("first_at", "pk")
    return list(rows.values_list("code", flat=True))


def roles_of(user: User) -> set[tuple[str, str, str]]:
    """Return the roles of a person as ``(node, role, source)``."""
    return set(Membership.objects.filter(user=user).values_list("node__slug", "role", "source"))


def person(label: str) -> User:
    """Return whom the provider calls so."""
    return ExternalIdentity.objects.get(label=label).user
