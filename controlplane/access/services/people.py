"""Writing people and their roles."""

from typing import Final

import structlog
from django.contrib.auth.hashers import make_password
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction

from controlplane.access.models import Membership, MembershipSource, User
from controlplane.access.passwords import clean_password
from controlplane.access.permissions import roles_grantable
from controlplane.access.revocations import rights_taken
from controlplane.audit.services import audit_record
from controlplane.core.actor import Actor, ActorKind, Role
from controlplane.core.errors import Conflict, FieldError, PermissionDenied, invalid
from controlplane.core.permissions import Action
from controlplane.core.text import name_line
from controlplane.orgs.models import Node, NodeKind, Organization
from controlplane.orgs.selectors import node_lineage, node_require

log = structlog.get_logger(__name__)

#: The longest address that a mail server takes (RFC 5321, section 4.5.3.1.3, less its brackets).
MAX_EMAIL: Final = 254


@transaction.atomic
def user_create(
    *,
    actor: Actor,
    organization: Organization,
    username: str,
    name: str = "",
    email: str = "",
    password: str | None = None,
) -> User:
    """Create a member of ``organization``, without any role yet. Without a password nobody signs in by one.

    Raises:
        NotFound, PermissionDenied: the actor may not write members of the organization's root.
        InvalidInput: a rule of the username, name, email or password (which is never quoted).
        Conflict: ``username_taken``; usernames are unique in the installation.
    """
    root = Node.objects.get(organization=organization, parent__isnull=True)
    node_require(actor=actor, action=Action.MEMBER_WRITE, node=root)
    user = User(organization=organization, username=name_line(username, pointer="/username", max_length=150))
    user.name = name_line(name, pointer="/name") if name.strip() else ""
    user.email = _clean_email(email)
    user.password = make_password(None if password is None else clean_password(password, user))
    try:
        with transaction.atomic():
            user.save(force_insert=True)
    except IntegrityError:
        detail = "This username is taken."
        taken = [FieldError("/username", "username_taken", detail)]
        raise Conflict(detail, code="username_taken", errors=taken) from None
    audit_user(actor, "user.create", user, after={"username": user.username, "name": user.name, "email": user.email})
    return user


@transaction.atomic
def user_reset_password(*, actor: Actor, user: User, password: str) -> None:
    """Set a member's password and so end its sessions.

    Raises:
        PermissionDenied: the actor is not the installation itself.
        InvalidInput: ``password``.
    """
    if actor.kind != ActorKind.SYSTEM or actor.organization_id != user.organization_id:
        raise PermissionDenied("Only the installation's operator resets passwords.")
    user.password = make_password(clean_password(password, user))
    user.save(update_fields=["password"])
    audit_user(actor, "user.reset_password", user)


@transaction.atomic
def operator_set_password(*, actor: Actor, username: str, password: str) -> User:
    """Set the password of the installation's operator, made when missing. Recorded where the actor acts from.

    Raises:
        PermissionDenied: the actor is not the installation itself.
        Conflict: ``username_taken`` by somebody who is no operator.
        InvalidInput: ``password``.
    """
    if actor.kind != ActorKind.SYSTEM or actor.organization_id is None:
        raise PermissionDenied("Only the installation itself makes operators.")
    user, created = User.objects.select_for_update().get_or_create(
        username=username, defaults={"name": "Operator", "is_staff": True, "is_superuser": True}
    )
    if not user.is_superuser:
        raise Conflict(f"The username {username} belongs to somebody else.", code="username_taken")
    user.password = make_password(clean_password(password, user))
    user.is_active = True
    user.save(update_fields=["password", "is_active"])
    audit_record(
        actor=actor,
        organization_id=actor.organization_id,
        action="operator.create" if created else "operator.reset_password",
        object_kind="user",
        object_id=str(user.pk),
        after={"username": username},
    )
    return user


def _clean_email(email: str) -> str:
    email = email.strip()
    if len(email) > MAX_EMAIL:
        raise invalid("/email", "email", f"An e-mail address has at most {MAX_EMAIL} characters.")
    if email:
        try:
            validate_email(email)
        except ValidationError:
            raise invalid("/email", "email", "This is not an e-mail address.") from None
    return email


def audit_user(actor: Actor, action: str, user: User, after: object = None) -> None:
    """Record an act on a member in the log of its organization."""
    if user.organization_id is None:
        raise ValueError("an operator belongs to no organization's audit log")
    audit_record(
        actor=actor,
        organization_id=user.organization_id,
        action=action,
        object_kind="user",
        object_id=str(user.pk),
        after=after,
    )


def audit_account(actor: Actor, action: str, user: User, after: object = None) -> None:
    """Record an act on an account; those of operators, who belong to no organization's log, go to the process's log."""
    if user.organization_id is not None:
        audit_user(actor, action, user, after)
    else:
        log.info("account.changed", action=action, user=str(user.pk), by=actor.principal)


@transaction.atomic
def membership_grant(*, actor: Actor, user: User, node: Node, role: str) -> Membership:
    """Grant a role on a node and everything below it. Granting what is held already changes nothing.

    Raises:
        NotFound, PermissionDenied: the actor may not write members of the node, or does not hold the role itself.
        InvalidInput: ``unknown_role``, ``unknown_user`` (of no or another organization), ``owner_root_only``.
    """
    node_require(actor=actor, action=Action.MEMBER_WRITE, node=node)
    wanted = _clean_role(role)
    if user.organization_id != node.organization_id or not user.is_active:
        raise invalid("/username", "unknown_user", "There is no such person in this organization.")
    if wanted == Role.OWNER and node.kind != NodeKind.ORG:
        raise invalid("/role", "owner_root_only", "The role owner is given on the root node only.")
    if wanted not in roles_grantable(actor, node_lineage(node.pk)):
        raise PermissionDenied("You cannot grant a role you do not hold.", code="role_not_held")
    membership, created = Membership.objects.get_or_create(
        user=user, node=node, role=wanted.value, source=MembershipSource.MANUAL
    )
    if created:
        _audit_membership(actor, "membership.grant", membership, after=_describe_membership(membership))
    return membership


@transaction.atomic
def membership_revoke(*, actor: Actor, membership: Membership) -> None:
    """Take a role back, in effect at the person's next request.

    Raises:
        NotFound, PermissionDenied: the actor may not write members of the node, or does not hold the role itself.
        Conflict: ``last_owner``: an organization keeps an owner.
    """
    node = membership.node
    node_require(actor=actor, action=Action.MEMBER_WRITE, node=node)
    if Role(membership.role) not in roles_grantable(actor, node_lineage(node.pk)):
        raise PermissionDenied("You cannot revoke a role you do not hold.", code="role_not_held")
    if membership.role == Role.OWNER:
        require_other_owner(node=node, user=membership.user)
    before, pk = _describe_membership(membership), membership.pk
    deleted, _ = Membership.objects.filter(pk=pk).delete()
    if deleted:
        _audit_membership(actor, "membership.revoke", membership, before=before)
        rights_taken(node.organization_id)


def require_other_owner(*, node: Node, user: User) -> None:
    """Check that an organization has an owner besides ``user``; holds the organization's lock until the commit.

    Raises:
        Conflict: ``last_owner``.
    """
    # Two owners must not revoke each other at once.
    Organization.objects.select_for_update(no_key=True).get(pk=node.organization_id)
    others = Membership.objects.filter(node=node, role=Role.OWNER.value, user__is_active=True).exclude(user=user)
    if not others.exists():
        raise Conflict("The organization would be left without an owner.", code="last_owner")


def _clean_role(role: str) -> Role:
    try:
        return Role(role)
    except ValueError:
        raise invalid("/role", "unknown_role", f"This must be one of {', '.join(Role)}.") from None


def _describe_membership(membership: Membership) -> dict[str, object]:
    return {"username": membership.user.username, "node": membership.node.slug, "role": membership.role}


def _audit_membership(
    actor: Actor, action: str, membership: Membership, *, before: object = None, after: object = None
) -> None:
    audit_record(
        actor=actor,
        organization_id=membership.node.organization_id,
        action=action,
        object_kind="user",
        object_id=str(membership.user_id),
        node_id=membership.node_id,
        before=before,
        after=after,
    )
