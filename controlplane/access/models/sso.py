"""Identity providers of organizations, what their roles and groups come to, and the people they have signed in."""

from typing import ClassVar
from uuid import UUID

from django.db import models
from django.db.models import Q
from typing_extensions import override

from controlplane.access.models.people import User
from controlplane.core.actor import Role
from controlplane.core.ids import new_id
from controlplane.orgs.models import Node, Organization


class ProviderKind(models.TextChoices):
    ENTRA = "entra", "Microsoft Entra"
    OIDC = "oidc", "OpenID Connect"


class GuestPolicy(models.TextChoices):
    """What a guest of the Entra tenant gets: nothing, or its mapped roles cut down to one."""

    DENY = "deny", "refused"
    VIEWER = "viewer", "viewer at most"
    RESPONDER = "responder", "responder at most"


class MappingKind(models.TextChoices):
    ROLE = "role", "role of the application"
    GROUP = "group", "group"


class IdentityProvider(models.Model):
    """Who vouches for the people of one organization. Secrets are references by name, never values."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.OneToOneField(Organization, on_delete=models.CASCADE, related_name="identity_provider")
    kind = models.CharField(max_length=8, choices=ProviderKind)
    name = models.CharField(max_length=60, help_text="On the sign-in button.")
    enabled = models.BooleanField(default=True)
    cloud = models.CharField(max_length=32, blank=True, help_text="Of Entra: a name in ENTRA_CLOUDS.")
    tenant = models.UUIDField(null=True, blank=True, help_text="Of Entra: the directory's id.")
    allowed_tenants = models.JSONField(default=list, blank=True, help_text="Of Entra: more directories than that one.")
    authority = models.CharField(max_length=500, blank=True, help_text="Of OpenID Connect: the issuer, exactly.")
    client_id = models.CharField(max_length=200)
    client_secret = models.CharField(max_length=160, blank=True, help_text="${NAME} of the client's secret.")
    client_certificate = models.CharField(
        max_length=160, blank=True, help_text="${NAME} of a PEM file with the client's private key and certificate."
    )
    email_domains = models.JSONField(default=list, blank=True, help_text="Who else is refused. Empty: nobody.")
    guests = models.CharField(max_length=16, choices=GuestPolicy, default=GuestPolicy.DENY)
    password_sign_in = models.BooleanField(default=True, help_text="Whether members may use passwords besides.")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(kind=ProviderKind.ENTRA, tenant__isnull=False, authority="")
                | Q(kind=ProviderKind.OIDC, tenant__isnull=True) & ~Q(authority=""),
                name="identity_provider_of_one_kind",
            ),
            models.CheckConstraint(
                condition=Q(client_secret="") ^ Q(client_certificate=""), name="identity_provider_one_credential"
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.name} of {self.organization_id}"

    @property
    def directories(self) -> frozenset[UUID]:
        """The directories whose people an Entra provider lets in; none of another kind."""
        own = {self.tenant} if self.tenant else set()
        return frozenset(own | {UUID(text) for text in self.allowed_tenants})


class RoleMapping(models.Model):
    """A role of the application, or a group of the directory, that gives a role on a node for as long as it is held."""

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    provider = models.ForeignKey(IdentityProvider, on_delete=models.CASCADE, related_name="mappings")
    kind = models.CharField(max_length=8, choices=MappingKind)
    value = models.CharField(max_length=200, help_text="The role's value; the group's id, of OpenID Connect its name.")
    node = models.ForeignKey(Node, on_delete=models.CASCADE, related_name="role_mappings")
    role = models.CharField(max_length=16, choices=[(role.value, role.value) for role in Role])
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering: ClassVar[list[str]] = ["kind", "value", "id"]
        constraints = [
            models.UniqueConstraint(fields=["provider", "kind", "value", "node", "role"], name="role_mapping_once"),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.kind} {self.value}: {self.role} on {self.node_id}"


class ExternalIdentity(models.Model):
    """Who a person is at an identity provider, as its directory names it for good.

    Of Entra ``(tid, oid)``, whatever application asks; of any other provider ``(issuer, subject)``. E-mail addresses
    and names are for showing: their owners change them at will. ``tid`` and ``oid`` come from Microsoft's hosts alone.
    """

    id = models.UUIDField(primary_key=True, default=new_id, editable=False)
    organization = models.ForeignKey(Organization, on_delete=models.CASCADE, related_name="external_identities")
    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="external_identities")
    tid = models.UUIDField(null=True, blank=True)
    oid = models.UUIDField(null=True, blank=True)
    issuer = models.CharField(max_length=500, blank=True)
    subject = models.CharField(max_length=255, blank=True)  # at most 255: OpenID Connect Core, section 2
    label = models.CharField(max_length=200, blank=True, help_text="What the provider calls the person, for showing.")
    created_at = models.DateTimeField(auto_now_add=True)
    last_sign_in_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["organization", "tid", "oid"], condition=Q(tid__isnull=False), name="external_identity_entra"
            ),
            models.UniqueConstraint(
                fields=["organization", "issuer", "subject"], condition=~Q(issuer=""), name="external_identity_oidc"
            ),
            models.CheckConstraint(
                condition=Q(tid__isnull=False, oid__isnull=False, issuer="", subject="")
                | Q(tid__isnull=True, oid__isnull=True) & ~Q(issuer="") & ~Q(subject=""),
                name="external_identity_of_one_kind",
            ),
        ]

    @override
    def __str__(self) -> str:
        return f"{self.label} is {self.user_id}"
