"""People, their roles, and the credentials of people and machines."""

from controlplane.access.models.credentials import CredentialGrant
from controlplane.access.models.people import Membership, MembershipSource, SignInLink, User, UserManager
from controlplane.access.models.sso import (
    ExternalIdentity,
    GuestPolicy,
    IdentityProvider,
    MappingKind,
    ProviderKind,
    RoleMapping,
)
from controlplane.access.models.tokens import AccessToken, TokenKind

__all__ = [
    "AccessToken",
    "CredentialGrant",
    "ExternalIdentity",
    "GuestPolicy",
    "IdentityProvider",
    "MappingKind",
    "Membership",
    "MembershipSource",
    "ProviderKind",
    "RoleMapping",
    "SignInLink",
    "TokenKind",
    "User",
    "UserManager",
]
