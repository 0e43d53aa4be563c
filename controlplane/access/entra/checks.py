"""Trying an identity provider out: each step of a sign-in that needs nobody to sign in, told one by one."""

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from django.db import transaction

from controlplane.access.credential_values import State
from controlplane.access.entra.application import application_of
from controlplane.access.entra.discovery import DiscoveryFault, Endpoints, cloud_of, discover, discovery_url
from controlplane.access.entra.flow import callback_url
from controlplane.access.entra.groups import GroupsUnavailable, error_code, graph_token
from controlplane.access.entra.id_tokens import signing_keys
from controlplane.access.entra.outgoing import Unreachable, ask, document_at, forget_documents
from controlplane.access.entra.refusals import SignInRefused
from controlplane.access.entra.selectors import credential_state, identity_provider_get
from controlplane.access.models import IdentityProvider, MappingKind, ProviderKind
from controlplane.audit.services import audit_record
from controlplane.core.actor import Actor
from controlplane.core.permissions import Action

_STATES: Final = {
    State.SET: "has a value.",
    State.UNSET: "has no value in this installation's environment or files.",
    State.NOT_GRANTED: "is not granted to the organization.",
    State.NOT_ALLOWED: "is not allowed by this installation (CREDENTIAL_ENV_ALLOW).",
    State.HOST_NOT_GRANTED: "is not granted for this host.",
    State.MALFORMED: "is no reference.",
}


@dataclass(frozen=True, slots=True)
class Check:
    """One step. ``state`` is ``ok``, ``failed`` or ``skipped``; ``detail`` is for an administrator, free of secrets."""

    name: str
    state: str
    detail: str


def identity_provider_test(*, actor: Actor, organization_slug: str) -> list[Check]:
    """Try an organization's provider as it is set, and return every step. Blocks for some seconds at worst.

    URLs are made of the configured cloud and directory, or of the issuer that is set; none is taken from the caller.

    Raises:
        NotFound, PermissionDenied: the actor is no owner of the organization, or there is no provider.
    """
    provider = identity_provider_get(
        actor=actor, organization_slug=organization_slug, action=Action.IDENTITY_PROVIDER_WRITE
    )
    checks = _checks(provider)
    with transaction.atomic():
        audit_record(
            actor=actor,
            organization_id=provider.organization_id,
            action="identity_provider.test",
            object_kind="identity_provider",
            object_id=str(provider.pk),
            after={check.name: check.state for check in checks},
        )
    return checks


def _checks(provider: IdentityProvider) -> list[Check]:
    forget_documents()
    checks = [_redirect(provider), _credential(provider)]
    try:
        endpoints = discover(provider)
    except (Unreachable, DiscoveryFault) as error:
        words = f"{discovery_url(provider)}: {error}" if provider.kind == ProviderKind.OIDC else str(error)
        rest = [Check(name, "skipped", "Needs the discovery document.") for name in ("Signing keys", "Client")]
        return [*checks, Check("Discovery", "failed", words), *rest]
    checks.append(Check("Discovery", "ok", f"Issuer {endpoints.issuer}"))
    checks.append(_keys(endpoints))
    if checks[1].state == "failed":
        return [*checks, Check("Client", "skipped", "Needs the client's secret or certificate.")]
    return [*checks, *_client(provider, endpoints)]


def _redirect(provider: IdentityProvider) -> Check:
    try:
        url = callback_url(provider.organization.slug)
    except SignInRefused as refused:
        return Check("Redirect URI", "failed", str(refused))
    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname != "localhost":
        return Check("Redirect URI", "failed", f"{url} is not https; providers accept http for localhost alone.")
    return Check("Redirect URI", "ok", f"Register exactly {url}")


def _credential(provider: IdentityProvider) -> Check:
    found = credential_state(provider)
    state = "ok" if found.state == State.SET else "failed"
    return Check("Credential", state, f"{found.name} {_STATES[found.state]}")


def _keys(endpoints: Endpoints) -> Check:
    try:
        keys = signing_keys(document_at(endpoints.keys, max_age_s=0))
    except Unreachable as error:
        return Check("Signing keys", "failed", str(error))
    if not keys:
        return Check("Signing keys", "failed", "The key set has no RSA or EC key that may sign.")
    return Check("Signing keys", "ok", f"{len(keys)} usable")


def _client(provider: IdentityProvider, endpoints: Endpoints) -> list[Check]:
    host = urlsplit(endpoints.token).hostname or ""
    if provider.kind == ProviderKind.OIDC:
        # Many providers give this kind of client no token of its own, so a refusal would say nothing.
        try:
            application_of(provider)
        except (SignInRefused, ValueError) as error:
            return [Check("Client", "failed", _words(error))]
        return [
            Check("Client", "ok", f"The secret may be sent to {host}; the first sign-in shows whether it is right.")
        ]
    try:
        application, _ = application_of(provider, provider.tenant)
        answer = application.acquire_token_for_client([f"{cloud_of(provider).graph}/.default"])
    except (Unreachable, DiscoveryFault, SignInRefused, ValueError, RuntimeError) as error:
        return [Check("Client", "failed", _words(error))]
    if "access_token" not in answer:
        return [Check("Client", "failed", f"{host} refused it: {error_code(answer)}")]
    return [Check("Client", "ok", f"{host} accepts the id and the credential."), _graph(provider)]


def _graph(provider: IdentityProvider) -> Check:
    name = "Groups from Graph"
    if not provider.mappings.filter(kind=MappingKind.GROUP).exists():
        return Check(name, "skipped", "No group is mapped, so Graph is never asked.")
    graph = cloud_of(provider).graph
    try:
        headers = {"Authorization": f"Bearer {graph_token(provider)}"}
        answer = ask("GET", f"{graph}/v1.0/groups?$top=1&$select=id", headers=headers)
    except (GroupsUnavailable, Unreachable) as error:
        return Check(name, "failed", str(error))
    if answer.status != 200:
        words = "Grant the application GroupMember.Read.All and User.ReadBasic.All, with an administrator's consent."
        return Check(name, "failed", f"Graph answered {answer.status}. {words}")
    return Check(name, "ok", "People with too many groups for a token are looked up.")


def _words(error: Exception) -> str:
    told = isinstance(error, Unreachable | DiscoveryFault | SignInRefused)
    return str(error) if told else "The credential cannot be used: is the certificate file whole?"
