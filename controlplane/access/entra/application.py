"""msal's application of a provider, behind an HTTP client that reaches the provider's token endpoint alone."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit
from uuid import UUID

import msal
import orjson

from controlplane.access.credential_values import credentials_of
from controlplane.access.entra.discovery import Endpoints, authority_of, discover
from controlplane.access.entra.outgoing import JsonAnswer, Unreachable, ask
from controlplane.access.entra.refusals import SignInRefused
from controlplane.access.models import IdentityProvider, ProviderKind
from controlplane.orgs.models import Node

_DISCOVERY: Final = "/.well-known/openid-configuration"


class _Answer:
    """What msal wants of an answer."""

    def __init__(self, status: int, text: str, headers: Mapping[str, str]) -> None:
        self.status_code = status
        self.text = text
        self.headers = dict(headers)

    def raise_for_status(self) -> None:
        """Raise for an error status; msal calls it for 5xx alone."""
        if self.status_code >= 400:
            raise Unreachable(f"The provider answered {self.status_code}.", "status")


class TokenEndpointOnly:
    """msal's ``http_client``: the discovery document is the one already checked, a POST goes to its token endpoint.

    Every other request that msal might think of is refused, so nothing leaves that this project did not decide on.
    """

    def __init__(self, endpoints: Endpoints) -> None:
        self._endpoints = endpoints

    def get(self, url: str, **_options: Any) -> _Answer:
        """Answer msal's question for the discovery document."""
        if not url.endswith(_DISCOVERY):
            raise Unreachable("Nothing but the discovery document is read for msal.", "not_asked")
        document = {
            "issuer": self._endpoints.issuer,
            "authorization_endpoint": self._endpoints.authorization,
            "token_endpoint": self._endpoints.token,
        }
        return _Answer(200, orjson.dumps(document).decode(), {})

    def post(
        self,
        url: str,
        *,
        data: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        **_options: Any,
    ) -> _Answer:
        """Send msal's request for tokens."""
        if url != self._endpoints.token:
            raise Unreachable("Tokens are asked for at the token endpoint alone.", "not_asked")
        sent = {name: str(value) for name, value in (headers or {}).items()}
        sent |= {"Content-Type": "application/x-www-form-urlencoded"}
        answer: JsonAnswer = ask("POST", url, headers=sent, content=urlencode(data or {}).encode())
        return _Answer(answer.status, answer.text, answer.headers)

    def close(self) -> None:
        """Nothing is kept open between requests."""


def application_of(provider: IdentityProvider, tenant: UUID | None = None) -> tuple[Any, Endpoints]:
    """Return msal's application of a provider with an empty token cache, and the provider's endpoints. Blocks.

    Args:
        tenant: as :func:`~controlplane.access.entra.discovery.authority_of`.

    Raises:
        SignInRefused: ``credential``: it has no value, or may not be sent to the host of the token endpoint.
        Unreachable, DiscoveryFault: as :func:`~controlplane.access.entra.discovery.discover`.
    """
    endpoints = discover(provider, tenant)
    credential = _credential(provider, endpoints)
    options: dict[str, Any] = {"http_client": TokenEndpointOnly(endpoints), "instance_discovery": False}
    if provider.kind == ProviderKind.ENTRA:
        options["authority"] = authority_of(provider, tenant)
    else:
        # msal wants a path, which an issuer need not have; it then asks for a document that is already here.
        options["oidc_authority"] = f"https://{urlsplit(endpoints.issuer).netloc}/issuer"
    # No refresh token is asked for: sign-in keeps nothing that could be used later.
    made = msal.ConfidentialClientApplication(
        provider.client_id, client_credential=credential, exclude_scopes=["offline_access"], **options
    )
    return made, endpoints


def _credential(provider: IdentityProvider, endpoints: Endpoints) -> Any:
    root = Node.objects.only("pk").get(organization_id=provider.organization_id, parent__isnull=True)
    held = credentials_of(root.pk, [root.pk])
    if provider.client_secret:
        found = held.resolve(provider.client_secret, urlsplit(endpoints.token).hostname or "")
    else:
        found = held.resolve(provider.client_certificate)  # the key signs here and is sent nowhere
    if found.text is None:
        states = ", ".join(f"{name} {state.value}" for name, state in found.missing)
        raise SignInRefused("credential", states)
    return found.text if provider.client_secret else {"private_key": found.text, "public_certificate": found.text}
