"""Why somebody is not let in: a code for log and audit. The person is told neutral words."""

from typing import Final

#: Reason → what an administrator reads of it. None has anything of a token, a code or a secret.
REASONS: Final[dict[str, str]] = {
    "not_enabled": "The organization has no identity provider that is switched on.",
    "no_public_url": "PUBLIC_URL is not set, so there is no redirect URI.",
    "credential": "The provider's client secret or certificate has no value that may be used here.",
    "discovery": "The provider's discovery document cannot be read, or does not name what it must.",
    "flow_unknown": "The answer belongs to no sign-in that this browser began within the last 10 minutes.",
    "provider_refused": "The provider ended the sign-in with an error.",
    "response_issuer": "The answer names another issuer than the provider that was asked.",
    "exchange": "The provider did not exchange the code for tokens.",
    "token_missing": "The provider sent no ID token.",
    "token_malformed": "The ID token cannot be read, or lacks a claim it must have.",
    "token_algorithm": "The ID token is signed by an algorithm that is not accepted.",
    "token_key": "No key of the provider is that of the ID token.",
    "token_signature": "The ID token's signature is wrong.",
    "token_audience": "The ID token is for another application.",
    "token_issuer": "The ID token is from another issuer.",
    "token_expired": "The ID token has expired.",
    "token_early": "The ID token is not valid yet; a clock is wrong.",
    "token_nonce": "The ID token is of another sign-in.",
    "token_version": "The ID token is not of version 2.0.",
    "tenant": "The person's directory is none of those allowed.",
    "guest": "The person is a guest of the directory, and guests are refused.",
    "email_domain": "The person's e-mail domain is none of those allowed, or is not verified.",
    "no_role": "No role or group of the person gives a role here.",
    "groups_unavailable": "The person's groups could not be read, and nothing else gives a role here.",
    "deactivated": "The person has been deactivated here.",
    "identity_taken": "The identity belongs to another person here, so it cannot be linked.",
    "link_session": "Another person was signed in when the sign-in began than when it ended.",
}


class SignInRefused(Exception):
    """A sign-in that ends here. ``reason`` is one of :data:`REASONS`; ``detail`` is for the log, free of secrets.

    ``label`` is what the provider calls the person, once its token has been checked.
    """

    def __init__(self, reason: str, detail: str = "") -> None:
        if reason not in REASONS:
            raise ValueError(f"no reason: {reason}")
        self.reason = reason
        self.detail = detail
        self.label = ""
        super().__init__(f"{REASONS[reason]} {detail}".strip())
