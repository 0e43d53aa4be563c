"""One sign-in between its two ends: where the browser is sent, and what its return comes to. Nothing is written."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings

from controlplane.access.entra.application import application_of
from controlplane.access.entra.discovery import DiscoveryFault
from controlplane.access.entra.groups import GroupsUnavailable, error_code, groups_of
from controlplane.access.entra.id_tokens import Claims, check_id_token
from controlplane.access.entra.outgoing import Unreachable
from controlplane.access.entra.refusals import SignInRefused
from controlplane.access.models import IdentityProvider, MappingKind

# msal would rather have ``form_post``, a POST by another site: it comes without the session's cookie (SameSite=Lax).
warnings.filterwarnings("ignore", message="response_mode='form_post'", category=UserWarning)


@dataclass(frozen=True, slots=True)
class Begun:
    """A sign-in that began: where to send the browser, and what to keep in its session under ``state``."""

    url: str
    state: str
    flow: dict[str, Any] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Vouched:
    """What the provider vouches for. ``problem`` says why the groups could not be read; then there are none."""

    claims: Claims
    groups: frozenset[str]
    problem: str
    end_session: str


def callback_url(organization_slug: str) -> str:
    """Return the redirect URI of an organization.

    Each has its own: an answer that another provider made the browser carry here would arrive at the wrong one, so that
    no provider gets hold of another's codes (RFC 9700, section 4.4). It never comes from a request.

    Raises:
        SignInRefused: ``no_public_url``.
    """
    if not settings.PUBLIC_URL:
        raise SignInRefused("no_public_url")
    return f"{settings.PUBLIC_URL}/login/{organization_slug}/callback"


def flow_begin(provider: IdentityProvider) -> Begun:
    """Return where to send a browser that wants to sign in. Blocks.

    Raises:
        SignInRefused: ``no_public_url``, ``credential``, ``discovery``.
    """
    redirect_uri = callback_url(provider.organization.slug)
    try:
        application, _ = application_of(provider)
        flow = application.initiate_auth_code_flow(["email"], redirect_uri=redirect_uri, response_mode="query")
    except (Unreachable, DiscoveryFault, ValueError, RuntimeError) as error:
        raise SignInRefused("discovery", _words(error)) from None
    return Begun(flow["auth_uri"], flow["state"], {key: value for key, value in flow.items() if key != "auth_uri"})


def flow_finish(provider: IdentityProvider, flow: Mapping[str, Any], answer: Mapping[str, str]) -> Vouched:
    """Return whom the provider vouches for, given the query its redirect came back with. Blocks.

    Args:
        flow: what :func:`flow_begin` gave, taken out of this browser's session for good.

    Raises:
        SignInRefused: with one of :data:`~controlplane.access.entra.refusals.REASONS`.
    """
    try:
        application, endpoints = application_of(provider)
    except (Unreachable, DiscoveryFault, ValueError, RuntimeError) as error:
        raise SignInRefused("discovery", _words(error)) from None
    if answer.get("iss", endpoints.issuer) != endpoints.issuer and "{" not in endpoints.issuer:  # RFC 9207
        raise SignInRefused("response_issuer")
    if answer.get("error"):
        raise SignInRefused("provider_refused", error_code(dict(answer)))
    try:
        tokens = application.acquire_token_by_auth_code_flow(dict(flow), dict(answer))
    except Unreachable as error:
        raise SignInRefused("exchange", str(error)) from None
    except (ValueError, RuntimeError, LookupError, TypeError, AttributeError) as error:
        # msal reads the token before anybody has checked it, and quotes what it compared: its words go nowhere.
        raise SignInRefused("token_nonce" if "nonce" in str(error) else "token_malformed") from None
    if "error" in tokens:
        raise SignInRefused("exchange", error_code(tokens))
    claims = check_id_token(tokens.get("id_token"), provider=provider, endpoints=endpoints, nonce=flow["nonce"])
    groups, problem = _groups(claims, provider)
    return Vouched(claims, groups, problem, endpoints.end_session)


def _groups(claims: Claims, provider: IdentityProvider) -> tuple[frozenset[str], str]:
    if not provider.mappings.filter(kind=MappingKind.GROUP).exists():
        return frozenset(), ""
    try:
        return groups_of(claims, provider=provider), ""
    except GroupsUnavailable as error:
        return frozenset(), str(error)


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, Unreachable | DiscoveryFault) else type(error).__name__
