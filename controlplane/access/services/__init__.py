"""Writing people, roles and credentials."""

from controlplane.access.services.authenticators import (
    authenticator_begin,
    authenticator_check,
    authenticator_confirm,
    authenticator_remove,
    recovery_code_redeem,
    recovery_codes_renew,
)
from controlplane.access.services.credentials import credential_entrust, credential_grant, credential_revoke
from controlplane.access.services.impersonation import impersonation_begin, impersonation_end
from controlplane.access.services.links import (
    LINK_LIFETIME,
    sign_in_link_create,
    sign_in_link_person,
    sign_in_link_redeem,
)
from controlplane.access.services.members import (
    INVITATION_LIFETIME,
    InvitedBy,
    invitation_renew,
    person_deactivate,
    person_invite,
    person_reactivate,
    person_remove,
)
from controlplane.access.services.passwords import (
    account_confirm,
    account_unlock,
    password_change,
    password_choose,
    password_set,
)
from controlplane.access.services.people import (
    membership_grant,
    membership_revoke,
    user_create,
    user_reset_password,
)
from controlplane.access.services.sessions import (
    session_begin,
    session_end,
    session_forget,
    session_seen,
    sessions_end,
    sessions_open,
    sign_in_failed,
)
from controlplane.access.services.token_policies import PolicyTerms, token_policy_get, token_policy_set
from controlplane.access.services.token_sweeps import tokens_revoke, tokens_revoke_unused
from controlplane.access.services.tokens import IssuedToken, token_create, token_revoke, token_rotate

__all__ = [
    "INVITATION_LIFETIME",
    "LINK_LIFETIME",
    "InvitedBy",
    "IssuedToken",
    "PolicyTerms",
    "account_confirm",
    "account_unlock",
    "authenticator_begin",
    "authenticator_check",
    "authenticator_confirm",
    "authenticator_remove",
    "credential_entrust",
    "credential_grant",
    "credential_revoke",
    "impersonation_begin",
    "impersonation_end",
    "invitation_renew",
    "membership_grant",
    "membership_revoke",
    "password_change",
    "password_choose",
    "password_set",
    "person_deactivate",
    "person_invite",
    "person_reactivate",
    "person_remove",
    "recovery_code_redeem",
    "recovery_codes_renew",
    "session_begin",
    "session_end",
    "session_forget",
    "session_seen",
    "sessions_end",
    "sessions_open",
    "sign_in_failed",
    "sign_in_link_create",
    "sign_in_link_person",
    "sign_in_link_redeem",
    "token_create",
    "token_policy_get",
    "token_policy_set",
    "token_revoke",
    "token_rotate",
    "tokens_revoke",
    "tokens_revoke_unused",
    "user_create",
    "user_reset_password",
]
