"""Where a provider is asked what: its discovery document, held to what this installation was told of the provider.

Sources: OpenID Connect Discovery 1.0, sections 3 and 4; Microsoft, "OpenID Connect on the Microsoft identity platform".
"""

from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit
from uuid import UUID

from django.conf import settings

from controlplane.access.entra.outgoing import document_at
from controlplane.access.models import IdentityProvider, ProviderKind

#: How long a discovery document is believed.
MAX_AGE_S: Final = 600.0
#: Entra's authority of every work or school directory; used only with a list of those allowed.
ORGANIZATIONS: Final = "organizations"


class DiscoveryFault(Exception):
    """A discovery document that does not fit. The text says which member."""


@dataclass(frozen=True, slots=True)
class Cloud:
    """Where one of Microsoft's clouds is: origins without a trailing slash."""

    login: str
    graph: str


@dataclass(frozen=True, slots=True)
class Endpoints:
    """What a discovery document says. ``end_session`` is ``""`` where there is none.

    ``issuer`` is that of the ID tokens; for Entra's ``organizations`` a template with ``{tenantid}``, which is none.
    """

    issuer: str
    authorization: str
    token: str
    keys: str
    end_session: str


def cloud_of(provider: IdentityProvider) -> Cloud:
    """Return the cloud of an Entra provider.

    Raises:
        DiscoveryFault: the installation no longer knows it.
    """
    found = settings.ENTRA_CLOUDS.get(provider.cloud)
    if found is None:
        raise DiscoveryFault(f"The installation knows no cloud {provider.cloud}.")
    return Cloud(found["login"], found["graph"])


def authority_of(provider: IdentityProvider, tenant: UUID | None = None) -> str:
    """Return the authority to ask, a URL without a trailing slash.

    Args:
        tenant: a directory to ask instead of all that are allowed, for what is asked in the application's own name.
    """
    if provider.kind == ProviderKind.OIDC:
        return provider.authority.rstrip("/")
    several = provider.directories != {provider.tenant}
    name = str(tenant or provider.tenant) if tenant or not several else ORGANIZATIONS
    return f"{cloud_of(provider).login}/{name}"


def discovery_url(provider: IdentityProvider, tenant: UUID | None = None) -> str:
    """Return where the discovery document is: of Entra made of the cloud's host and a GUID, never of typed text."""
    version = "/v2.0" if provider.kind == ProviderKind.ENTRA else ""
    return f"{authority_of(provider, tenant)}{version}/.well-known/openid-configuration"


def discover(provider: IdentityProvider, tenant: UUID | None = None, *, max_age_s: float = MAX_AGE_S) -> Endpoints:
    """Return the endpoints of a provider, from its discovery document.

    Raises:
        Unreachable: the document cannot be fetched.
        DiscoveryFault: it names another issuer, lacks an endpoint, or has one that is not https; of Entra also one on
            another host than the cloud's.
    """
    document = document_at(discovery_url(provider, tenant), max_age_s=max_age_s)
    issuer = _expected_issuer(provider, tenant)
    if document.get("issuer") != issuer:
        raise DiscoveryFault(f"The issuer must be {issuer}; the document names {_shown(document.get('issuer'))}.")
    origin = cloud_of(provider).login if provider.kind == ProviderKind.ENTRA else ""
    return Endpoints(
        issuer=issuer,
        authorization=_endpoint(document, "authorization_endpoint", origin),
        token=_endpoint(document, "token_endpoint", origin),
        keys=_endpoint(document, "jwks_uri", origin),
        end_session=_endpoint(document, "end_session_endpoint", origin, required=False),
    )


def _expected_issuer(provider: IdentityProvider, tenant: UUID | None) -> str:
    if provider.kind == ProviderKind.OIDC:
        return provider.authority
    authority = authority_of(provider, tenant)
    if authority.endswith(f"/{ORGANIZATIONS}"):
        return f"{cloud_of(provider).login}/{{tenantid}}/v2.0"
    return f"{authority}/v2.0"


def _endpoint(document: dict[str, Any], name: str, origin: str, *, required: bool = True) -> str:
    value = document.get(name)
    if value is None and not required:
        return ""
    if not isinstance(value, str) or len(value) > 2000 or not _is_https(value):
        raise DiscoveryFault(f"{name} is missing or no https URL.")
    if origin and not value.startswith(f"{origin}/"):
        raise DiscoveryFault(f"{name} is on another host than {origin}.")
    return value


def _is_https(value: str) -> bool:
    try:
        parts = urlsplit(value)
        return parts.scheme == "https" and bool(parts.hostname) and parts.username is None and not parts.fragment
    except ValueError:
        return False


def _shown(value: Any) -> str:
    return ascii(value)[:200] if isinstance(value, str) else "none"
