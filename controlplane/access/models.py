"""People, their roles, and the credentials of people and machines."""

from typing import ClassVar

from django.contrib.auth.models import AbstractBaseUser, BaseUserManager, PermissionsMixin
from django.db import models
from django.db.models import Q
from typing_extensions import override

from controlplane.core.actor import Role
from controlplane.core.ids import new_id
from controlplane.orgs.models import Node, Organization


class UserManager(BaseUserManager["User"]):
    """Django's manager plus ``createsuperuser``: an operator belongs to no organization."""

    def create_superuser(self, username: str, password: str | None = None, **fields: object) -> "User":
        user = self.model(username=username, is_staff=True, is_superuser=True, **fields)
        user.set_password(password)
        user.save(using=self._db)
        return user


class User(AbstractBaseUser, PermissionsMixin):
    """A person. Members belong to one organization; operators of the installation (superusers) to none."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(
        Organization, null=True, blank=True, on_delete=models.PROTECT, related_name="users"
    )
    username = models.CharField(max_length=150, unique=True)
    name = models.CharField(max_length=200, blank=True)
    email = models.EmailField(blank=True)
    is_active = models.BooleanField(default=True)
    is_staff = models.BooleanField(default=False, help_text="May open the operators' admin.")
    created_at = models.DateTimeField(auto_now_add=True)

    objects = UserManager()

    USERNAME_FIELD = "username"
    REQUIRED_FIELDS: ClassVar[list[str]] = []

    class Meta:
        ordering = ["username"]
        constraints = [
            models.CheckConstraint(
                condition=Q(is_superuser=False) | Q(organization__isnull=True), name="user_operator_has_no_organization"
            ),
        ]

    @override
    def __str__(self) -> str:
        return self.username

    @property
    def display_name(self) -> str:
        return self.name or self.username


class MembershipSource(models.TextChoices):
    MANUAL = "manual"
    SSO = "sso"


class Membership(models.Model):
    """A role of a user on a node; it holds for the node's subtree."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="memberships")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=[(role.value, role.value) for role in Role])
    source = models.CharField(max_length=8, choices=MembershipSource, default=MembershipSource.MANUAL)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "node", "role", "source"], name="membership_once"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.user_id} {self.role} on {self.node_id}"


class TokenKind(models.TextChoices):
    TEAM = "team"
    ADMIN = "admin"
    USER = "user"


class AccessToken(models.Model):
    """A bearer credential. Stored: its public id and an HMAC of the secret under a numbered pepper."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    kind = models.CharField(max_length=8, choices=TokenKind)
    public_id = models.CharField(max_length=32, unique=True)
    digest = models.CharField(max_length=64, help_text="HMAC-SHA256 of the secret, hexadecimal.")
    pepper_version = models.PositiveSmallIntegerField()
    name = models.CharField(max_length=200)
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="tokens")
    user = models.ForeignKey(User, null=True, blank=True, on_delete=models.CASCADE, related_name="tokens")
    scopes = models.JSONField(default=list)
    created_by = models.CharField(max_length=128, help_text="Principal of the creator.")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.CheckConstraint(
                condition=Q(kind=TokenKind.USER, user__isnull=False) | (~Q(kind=TokenKind.USER) & Q(user__isnull=True)),
                name="token_personal_has_user",
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"osre_{self.kind}_{self.public_id}"


class CredentialGrant(models.Model):
    """That a node may use a credential by its name, ``${name}``. Grants add up; none takes anything away.

    ``node`` is ``None`` for what the operator has given to the organization: its root holds that. Any other grant was
    given from ``given_from``, a node above (or the same) that held the name, and counts only while that one does.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(Organization, on_delete=models.CASCADE, related_name="credential_grants")
    node = models.ForeignKey(Node, null=True, blank=True, on_delete=models.CASCADE, related_name="credential_grants")
    given_from = models.ForeignKey(Node, null=True, blank=True, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=128)
    hosts = models.JSONField(default=list, help_text="Hosts it may be sent to: host, *.domain or *. Empty: none.")
    inherited = models.BooleanField(default=True, help_text="Whether the nodes below hold it too.")
    granted_by = models.CharField(max_length=128, help_text="Principal of the giver.")
    granted_by_label = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        ordering = ["name", "created_at", "id"]
        constraints = [
            models.CheckConstraint(
                condition=Q(node__isnull=True, given_from__isnull=True)
                | Q(node__isnull=False, given_from__isnull=False),
                name="credential_grant_given_from_a_node",
            ),
        ]
        indexes = [
            models.Index(
                fields=["organization", "name"], condition=Q(revoked_at__isnull=True), name="credential_grant_live"
            )
        ]

    @override
    def __str__(self) -> str:
        return f"{self.name} to {self.node_id or self.organization_id}"


class SignInLink(models.Model):
    """A one-time sign-in link; only the digest of its secret is stored."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="sign_in_links")
    digest = models.CharField(max_length=64, unique=True)
    pepper_version = models.PositiveSmallIntegerField()
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    @override
    def __str__(self) -> str:
        return f"link for {self.user_id}"
