"""People, their roles, and the credentials of people and machines."""

from controlplane.access.models.credentials import CredentialGrant
from controlplane.access.models.limits import RateWindow
from controlplane.access.models.people import Membership, MembershipSource, SignInLink, User, UserManager
from controlplane.access.models.revocations import RightsStamp
from controlplane.access.models.sign_in import Authenticator, BrowserSession, RecoveryCode
from controlplane.access.models.sso import (
    ExternalIdentity,
    GuestPolicy,
    IdentityProvider,
    MappingKind,
    ProviderKind,
    RoleMapping,
)
from controlplane.access.models.tokens import AccessToken, TokenKind, TokenPolicy

__all__ = [
    "AccessToken",
    "Authenticator",
    "BrowserSession",
    "CredentialGrant",
    "ExternalIdentity",
    "GuestPolicy",
    "IdentityProvider",
    "MappingKind",
    "Membership",
    "MembershipSource",
    "ProviderKind",
    "RateWindow",
    "RecoveryCode",
    "RightsStamp",
    "RoleMapping",
    "SignInLink",
    "TokenKind",
    "TokenPolicy",
    "User",
    "UserManager",
]
