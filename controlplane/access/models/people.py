"""People, their roles and their one-time links."""

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
