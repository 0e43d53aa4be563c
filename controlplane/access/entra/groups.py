"""The groups of a person whose ID token names none because there are too many: asked of Microsoft Graph.

The endpoint that the token names (``_claim_sources``) is never asked: it is the retired graph.windows.net, and what
answers there would be the token's choice. Sources: Microsoft, "Group overages" and "directoryObject: getMemberObjects".
"""

from typing import Any, Final

import orjson

from controlplane.access.entra.application import application_of
from controlplane.access.entra.discovery import DiscoveryFault, cloud_of
from controlplane.access.entra.id_tokens import Claims
from controlplane.access.entra.outgoing import Unreachable, ask
from controlplane.access.entra.refusals import SignInRefused
from controlplane.access.models import IdentityProvider

#: Graph answers at most 11,000 ids for a person; a page has 100 or more.
MAX_PAGES: Final = 110


class GroupsUnavailable(Exception):
    """Groups that could not be read whole. The text says why, and has no secret."""


def groups_of(claims: Claims, *, provider: IdentityProvider) -> frozenset[str]:
    """Return the ids of a person's groups, in lower case; from Graph where the token does not name them. Blocks.

    Raises:
        GroupsUnavailable: any page is missing: a part of the groups is none, so that nothing is decided by it.
    """
    if claims.groups is not None:
        return claims.groups
    graph = cloud_of(provider).graph
    headers = {"Authorization": f"Bearer {graph_token(provider, claims)}", "Content-Type": "application/json"}
    url = f"{graph}/v1.0/users/{claims.oid}/getMemberObjects"
    body: bytes | None = orjson.dumps({"securityEnabledOnly": True})
    found: set[str] = set()
    for _ in range(MAX_PAGES):
        document = _page(url, headers, body)
        values = document.get("value")
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise GroupsUnavailable("Graph's answer has no list of ids.")
        found.update(value.lower() for value in values)
        following = document.get("@odata.nextLink")
        if following is None:
            return frozenset(found)
        if not isinstance(following, str) or not following.startswith(f"{graph}/v1.0/"):
            raise GroupsUnavailable("Graph's next page is on another host.")
        url, body = following, None
    raise GroupsUnavailable(f"Graph has more than {MAX_PAGES} pages of groups.")


def graph_token(provider: IdentityProvider, claims: Claims | None = None) -> str:
    """Return a token of the application itself for Graph, in the person's directory or else the provider's. Blocks.

    Raises:
        GroupsUnavailable: the provider gives none.
    """
    try:
        application, _ = application_of(provider, claims.tid if claims else provider.tenant)
        answer: dict[str, Any] = application.acquire_token_for_client([f"{cloud_of(provider).graph}/.default"])
    except (Unreachable, DiscoveryFault, SignInRefused, ValueError, RuntimeError) as error:
        raise GroupsUnavailable(f"No token for Graph ({type(error).__name__}).") from None
    token = answer.get("access_token")
    if not isinstance(token, str):
        raise GroupsUnavailable(f"No token for Graph ({error_code(answer)}).")
    return token


def error_code(answer: dict[str, Any]) -> str:
    """Return the ``error`` of an OAuth answer, with the AADSTS number where Entra gives one; never its description."""
    codes = answer.get("error_codes")
    numbers = [f"AADSTS{code}" for code in codes if isinstance(code, int)] if isinstance(codes, list) else []
    error = answer.get("error")
    name = error if isinstance(error, str) and error.isascii() and error.replace("_", "").isalnum() else "unknown error"
    return " ".join([name[:60], *numbers[:3]])


def _page(url: str, headers: dict[str, str], body: bytes | None) -> dict[str, Any]:
    try:
        answer = ask("POST" if body else "GET", url, headers=headers, content=body)
    except Unreachable as error:
        raise GroupsUnavailable(str(error)) from None
    if answer.status != 200:
        hint = " The application lacks the permission GroupMember.Read.All." if answer.status == 403 else ""
        raise GroupsUnavailable(f"Graph answered {answer.status}.{hint}")
    return answer.document
