"""Checking ID tokens, all of it here: msal checks neither signature nor audience, issuer, expiry or tenant.

Sources: OpenID Connect Core 1.0, section 3.1.3.7; Microsoft, "ID token claims reference" and "Secure applications and
APIs by validating claims"; RFC 8725 (algorithms and keys).
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import jwt

from controlplane.access.entra.discovery import Endpoints, cloud_of
from controlplane.access.entra.outgoing import Unreachable, document_at
from controlplane.access.entra.refusals import SignInRefused
from controlplane.access.models import GuestPolicy, IdentityProvider, ProviderKind
from controlplane.core.redaction import redact_text
from controlplane.core.text import visible

LEEWAY_S: Final = 60
MAX_TOKEN: Final = 64 * 1024
#: How long keys are believed, and how soon they are fetched again for one that is not among them.
KEYS_MAX_AGE_S: Final = 3600.0
KEYS_AGAIN_AFTER_S: Final = 5.0
#: Asymmetric ones alone: with HS256 the provider's public key, which everybody has, would sign.
_ALGORITHMS: Final = {ProviderKind.ENTRA: ["RS256"], ProviderKind.OIDC: ["RS256", "PS256", "ES256"]}
_KEY_TYPES: Final = {"RSA", "EC"}
#: PyJWT's exceptions and what each comes to, the narrower before the wider.
_FAULTS: Final[tuple[tuple[type[Exception], str], ...]] = (
    (jwt.InvalidSignatureError, "token_signature"),
    (jwt.ExpiredSignatureError, "token_expired"),
    (jwt.ImmatureSignatureError, "token_early"),
    (jwt.InvalidAudienceError, "token_audience"),
    (jwt.InvalidIssuerError, "token_issuer"),
    (jwt.InvalidAlgorithmError, "token_algorithm"),
    (jwt.InvalidKeyError, "token_key"),
    (jwt.PyJWTError, "token_malformed"),
    (ValueError, "token_malformed"),
    (TypeError, "token_key"),
)


@dataclass(frozen=True, slots=True)
class Claims:
    """What a checked ID token says of a person.

    Of Entra ``tid`` and ``oid`` are the person's key, of any other provider ``issuer`` and ``subject``. ``groups`` is
    ``None`` where the token has too many to name them. ``label``, ``name`` and ``email`` are for showing.
    """

    tid: UUID | None
    oid: UUID | None
    issuer: str
    subject: str
    label: str
    name: str
    email: str
    guest: bool
    roles: frozenset[str] = field(default_factory=frozenset)
    groups: frozenset[str] | None = field(default_factory=frozenset)


def check_id_token(raw: object, *, provider: IdentityProvider, endpoints: Endpoints, nonce: str) -> Claims:
    """Return the claims of a genuine ID token, for this application, of this sign-in, and of somebody allowed.

    Args:
        raw: the token as the token endpoint sent it.
        nonce: the flow's; the token has the hexadecimal SHA-256 of it, as msal asked.

    Raises:
        SignInRefused: naming the rule that is broken. Nothing of the token is in it.
    """
    if not isinstance(raw, str) or not raw:
        raise SignInRefused("token_missing")
    if len(raw) > MAX_TOKEN:
        raise SignInRefused("token_malformed")
    payload = _verified(raw, provider, endpoints)
    expected = hashlib.sha256(nonce.encode()).hexdigest()
    if not hmac.compare_digest(_text(payload, "nonce").encode(), expected.encode()):
        raise SignInRefused("token_nonce")
    claims = _of_entra(payload, provider) if provider.kind == ProviderKind.ENTRA else _of_oidc(payload, endpoints)
    _check_domain(payload, provider)
    return claims


def _verified(raw: str, provider: IdentityProvider, endpoints: Endpoints) -> dict[str, Any]:
    algorithms = _ALGORITHMS[ProviderKind(provider.kind)]
    try:
        header = jwt.get_unverified_header(raw)
        if header.get("alg") not in algorithms:
            raise SignInRefused("token_algorithm")
        payload = jwt.decode(
            raw,
            _signing_key(header, endpoints),
            algorithms=algorithms,
            audience=provider.client_id,
            leeway=LEEWAY_S,
            options={"require": ["exp", "iat", "iss", "aud", "sub"]},
        )
    except tuple(kind for kind, _ in _FAULTS) as error:
        raise SignInRefused(next(reason for kind, reason in _FAULTS if isinstance(error, kind))) from None
    # Of several audiences any could have been handed the token, and hand it on.
    if payload["aud"] not in (provider.client_id, [provider.client_id]):
        raise SignInRefused("token_audience")
    return dict(payload)


def _signing_key(header: Mapping[str, Any], endpoints: Endpoints) -> jwt.PyJWK:
    kid = header.get("kid")
    for max_age_s in (KEYS_MAX_AGE_S, KEYS_AGAIN_AFTER_S):
        try:
            document = document_at(endpoints.keys, max_age_s=max_age_s)
        except Unreachable as error:
            raise SignInRefused("token_key", str(error)) from None
        keys = signing_keys(document)
        named = [key for key in keys if key.get("kid") == kid] if kid is not None else keys
        found = [key for key in named if key.get("alg", header["alg"]) == header["alg"]]
        if len(found) == 1:
            return jwt.PyJWK(found[0], algorithm=header["alg"])
    raise SignInRefused("token_key")


def signing_keys(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the public keys of a key set (RFC 7517) that may sign."""
    keys = document.get("keys")
    listed = keys if isinstance(keys, list) else []
    return [
        key
        for key in listed
        if isinstance(key, dict) and key.get("kty") in _KEY_TYPES and key.get("use", "sig") == "sig"
    ]


def _of_entra(payload: Mapping[str, Any], provider: IdentityProvider) -> Claims:
    if payload.get("ver") != "2.0":
        raise SignInRefused("token_version")
    tid, oid = _guid(payload, "tid"), _guid(payload, "oid")
    if tid not in provider.directories:
        raise SignInRefused("tenant")
    if payload["iss"] != f"{cloud_of(provider).login}/{tid}/v2.0":
        raise SignInRefused("token_issuer")
    foreign = payload.get("idp")
    guest = payload.get("acct") in (1, "1") or (foreign is not None and str(tid) not in str(foreign))
    if guest and provider.guests == GuestPolicy.DENY:
        raise SignInRefused("guest")
    groups = _strings(payload, "groups")
    names = payload.get("_claim_names")
    beyond = "groups" in names if isinstance(names, dict) else False
    # An empty list is "no groups"; only where the claim is missing may there be too many to name.
    overage = "groups" not in payload and (beyond or payload.get("hasgroups") in (True, "true"))
    return Claims(
        tid=tid,
        oid=oid,
        issuer="",
        subject="",
        label=shown(_text(payload, "preferred_username")) or str(oid),
        name=shown(_text(payload, "name")),
        email=shown(_text(payload, "email")),
        guest=guest,
        roles=_strings(payload, "roles"),
        groups=None if overage else frozenset(group.lower() for group in groups),
    )


def _of_oidc(payload: Mapping[str, Any], endpoints: Endpoints) -> Claims:
    if payload["iss"] != endpoints.issuer:
        raise SignInRefused("token_issuer")
    subject = payload["sub"]
    if not isinstance(subject, str) or not 0 < len(subject) <= 255 or "\x00" in subject:
        raise SignInRefused("token_malformed")
    label = _text(payload, "preferred_username") or _text(payload, "email") or subject
    return Claims(
        tid=None,
        oid=None,
        issuer=endpoints.issuer,
        subject=subject,
        label=shown(label) or "unnamed",
        name=shown(_text(payload, "name")),
        email=shown(_text(payload, "email")),
        guest=False,
        roles=_strings(payload, "roles"),
        groups=_strings(payload, "groups"),
    )


def _check_domain(payload: Mapping[str, Any], provider: IdentityProvider) -> None:
    """Hold the person's domain to those allowed: one more condition, never who somebody is.

    Of Entra it is that of the user name, whose domain the directory has proved to own; ``email`` there is whatever its
    administrator typed. Of any other provider it is that of ``email``, which it must say it has verified.
    """
    if not provider.email_domains:
        return
    if provider.kind == ProviderKind.ENTRA:
        address = _text(payload, "preferred_username")
    else:
        address = _text(payload, "email") if payload.get("email_verified") is True else ""
    local, at, domain = address.rpartition("@")
    if not (local and at and domain.lower() in provider.email_domains):
        raise SignInRefused("email_domain")


def _guid(payload: Mapping[str, Any], name: str) -> UUID:
    try:
        return UUID(_text(payload, name))
    except ValueError:
        raise SignInRefused("token_malformed", f"{name} is missing or no GUID") from None


def _text(payload: Mapping[str, Any], name: str) -> str:
    value = payload.get(name)
    return value if isinstance(value, str) else ""


def _strings(payload: Mapping[str, Any], name: str) -> frozenset[str]:
    value = payload.get(name)
    listed = value if isinstance(value, list) else []
    return frozenset(item for item in listed if isinstance(item, str) and item)


def shown(text: str) -> str:
    """Return a text of the provider fit to be stored and shown: visible, one line, no credential, 150 characters."""
    return " ".join(visible(redact_text(text.replace("\x00", "")[:1000])).split())[:150]
