"""Writing people, roles and credentials."""

from controlplane.access.services.credentials import credential_entrust, credential_grant, credential_revoke
from controlplane.access.services.links import (
    LINK_LIFETIME,
    sign_in_link_create,
    sign_in_link_person,
    sign_in_link_redeem,
)
from controlplane.access.services.people import (
    membership_grant,
    membership_revoke,
    user_create,
    user_reset_password,
)
from controlplane.access.services.tokens import IssuedToken, token_create, token_revoke, token_rotate

__all__ = [
    "LINK_LIFETIME",
    "IssuedToken",
    "credential_entrust",
    "credential_grant",
    "credential_revoke",
    "membership_grant",
    "membership_revoke",
    "sign_in_link_create",
    "sign_in_link_person",
    "sign_in_link_redeem",
    "token_create",
    "token_revoke",
    "token_rotate",
    "user_create",
    "user_reset_password",
]
