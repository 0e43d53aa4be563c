"""Who is acting. An :class:`Actor` is made once at the edge and passed explicitly to every selector and service."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Self
from uuid import UUID


class Role(StrEnum):
    """Roles a person holds on a node and everything below it."""

    OWNER = "owner"
    ADMIN = "admin"
    REVIEWER = "reviewer"
    RESPONDER = "responder"
    VIEWER = "viewer"


class ActorKind(StrEnum):
    ANONYMOUS = "anonymous"
    USER = "user"
    PERSONAL_TOKEN = "personal_token"  # noqa: S105 (a kind, not a secret)
    TEAM_TOKEN = "team_token"  # noqa: S105
    ADMIN_TOKEN = "admin_token"  # noqa: S105
    IMPERSONATION = "impersonation"
    SYSTEM = "system"


class Channel(StrEnum):
    """Where the actor came in."""

    WEB = "web"
    API = "api"
    CLI = "cli"
    TEAMS = "teams"
    ALERT = "alert"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Grant:
    """A role on a node; it holds for the node's whole subtree."""

    node_id: UUID
    role: Role


@dataclass(frozen=True, slots=True)
class Actor:
    """A principal with everything a permission decision needs; nothing is looked up later.

    ``principal`` is the stable name of the human behind the credential where there is one (``user:<uuid>``), else of
    the credential (``token:<id>``) or the process (``system:<name>``). ``scopes`` is ``None`` for a session, which acts
    by role alone. ``token_node_id`` is the node a team or admin token is bound to; such a token acts by its scopes on
    that node's subtree. ``credential_id`` names the token in audit rows. ``impersonator`` is the principal of the
    person who views as a team: such an actor reads and does nothing else, see :mod:`controlplane.core.permissions`.
    """

    kind: ActorKind
    principal: str
    label: str
    organization_id: UUID | None = None
    user_id: UUID | None = None
    grants: tuple[Grant, ...] = ()
    scopes: frozenset[str] | None = None
    token_node_id: UUID | None = None
    credential_id: str | None = None
    channel: Channel = Channel.API
    impersonator: str | None = None
    address: str | None = field(default=None, compare=False)

    @property
    def is_person(self) -> bool:
        """Whether a human is behind the credential; only people own private threads."""
        return self.user_id is not None

    def via(self, channel: Channel) -> Self:
        """Return the same actor on another channel."""
        return replace(self, channel=channel)


ANONYMOUS = Actor(kind=ActorKind.ANONYMOUS, principal="anonymous", label="anonymous")


def system_actor(*, name: str, organization_id: UUID, root_id: UUID, channel: Channel = Channel.SYSTEM) -> Actor:
    """Return the actor of a process of the installation itself, acting as owner of one organization."""
    return Actor(
        kind=ActorKind.SYSTEM,
        principal=f"system:{name}",
        label=name,
        organization_id=organization_id,
        grants=(Grant(root_id, Role.OWNER),),
        channel=channel,
    )
