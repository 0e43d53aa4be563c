"""A token as it is looked up on every request: with its organization, its person and the person's roles, by one query.

What is asked depends on the kind, which the text of a token says: a token of no person has no roles to be joined.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db.models import QuerySet

from controlplane.access.models import AccessToken, TokenKind
from controlplane.core import clock
from controlplane.core.actor import Grant, Role
from controlplane.core.fixed_query import FixedQuery


class StoredToken(NamedTuple):
    """What is stored of a token, and ``grants``, what its person holds. A token of nobody has no person fields.

    ``node_name`` is there of tokens that view as a team.
    """

    id: UUID
    public_id: str
    kind: str
    digest: str
    pepper_version: int
    name: str
    scopes: Sequence[str]
    allowed_addresses: Sequence[str]
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    node_id: UUID
    organization_id: UUID
    user_id: UUID | None = None
    username: str = ""
    user_name: str = ""
    user_is_active: bool = True
    user_organization_id: UUID | None = None
    node_name: str = ""
    grants: tuple[Grant, ...] = ()

    @property
    def is_view(self) -> bool:
        """Whether its person views as a team by it."""
        return self.kind == TokenKind.VIEW.value

    @property
    def label(self) -> str:
        """What its person is called, or the token itself where there is none."""
        return self.name if self.user_id is None else self.user_name or self.username

    @property
    def fault(self) -> str:
        """Why it no longer works: ``token_revoked``, ``token_expired``, ``person_inactive``; empty while it does."""
        if self.revoked_at is not None:
            return "token_revoked"
        if self.expires_at is not None and self.expires_at <= clock.now():
            return "token_expired"
        return "" if self.user_is_active else "person_inactive"

    @property
    def works(self) -> bool:
        """Whether it is neither revoked nor expired nor of somebody who has been deactivated."""
        return not self.fault


_MACHINES: Final = frozenset({TokenKind.TEAM.value, TokenKind.ADMIN.value})
_OF_TOKEN: Final = (
    "id", "public_id", "kind", "digest", "pepper_version", "name", "scopes", "allowed_addresses", "expires_at",
    "revoked_at", "last_used_at", "node_id",
)  # fmt: skip
_OF_PERSON: Final = ("user_id", "user__username", "user__name", "user__is_active")
_OF_ROLES: Final = ("user__memberships__node_id", "user__memberships__role")


def _query(*columns: str) -> FixedQuery:
    def build(public_id: str) -> "QuerySet[Any, Any]":
        return AccessToken.objects.filter(public_id=public_id).order_by().values_list(*columns)

    return FixedQuery(build)


_of_machine: Final = _query(*_OF_TOKEN, "node__organization_id")
# A person's token is of the person's organization, and so needs no node.
_of_person: Final = _query(*_OF_TOKEN, "user__organization_id", *_OF_PERSON, *_OF_ROLES)
_of_view: Final = _query(
    *_OF_TOKEN, "node__organization_id", *_OF_PERSON, "user__organization_id", "node__name", *_OF_ROLES
)


def stored_token(public_id: str, kind: str) -> StoredToken | None:
    """Return the token of a public id, ``None`` where there is none such of that kind. One query: a row for each role.

    Args:
        public_id: as the token's text has it.
        kind: as the token's text has it.
    """
    if kind in _MACHINES:
        rows = _of_machine.rows(public_id)
        return StoredToken(*rows[0]) if rows and rows[0][2] == kind else None
    rows = (_of_person if kind == TokenKind.USER.value else _of_view).rows(public_id)
    if not rows or rows[0][2] != kind:
        return None
    grants = tuple(Grant(row[-2], Role(row[-1])) for row in rows if row[-2] is not None)
    return StoredToken(*rows[0][:-2])._replace(grants=grants)


def stored_token_of(public_id: str) -> StoredToken | None:
    """Return the token of a public id whose kind is not known. One query more."""
    kind = AccessToken.objects.filter(public_id=public_id).values_list("kind", flat=True).first()
    return None if kind is None else stored_token(public_id, kind)
