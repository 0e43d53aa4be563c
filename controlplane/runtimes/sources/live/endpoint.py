"""Where a configured integration is reached, and what is sent with a request."""

import re
from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlsplit

from controlplane.configs.sections import INTEGRATION_KINDS, IntegrationSection, holds_reference
from controlplane.core.redaction import redact_text
from controlplane.runtimes.loose_json import mapping, text

DEFAULT_TIMEOUT_S: Final = 10.0
UNRESOLVABLE: Final = "credential not resolvable yet"
_LEAST_SECRET: Final = 4  # characters; replacing shorter ones would blank out ordinary words

#: Returns a text with its references replaced by their values, or ``None`` where one of them cannot be.
Resolve = Callable[[str], str | None]


def literal_only(value: str) -> str | None:
    """Resolve nothing: a text with a reference has no value."""
    return None if holds_reference(value) else value.replace("$${", "${")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An integration that can be asked.

    ``headers`` and ``secrets`` hold credentials: neither is ever shown, and every text of the server is cleared of the
    secrets before anybody sees it. ``timeout_s`` bounds one request, in seconds.
    """

    name: str
    kind: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    timeout_s: float = DEFAULT_TIMEOUT_S
    object_label: str = ""


@dataclass(frozen=True, slots=True)
class Integration:
    """An entry of ``integrations``. ``endpoint`` is ``None`` when it cannot be asked; ``problem`` says why then.

    ``credential`` is ``none`` (none is configured), ``ready``, or ``unresolved``; ``url`` is fit to be shown.
    """

    name: str
    kind: str
    enabled: bool
    url: str
    credential: str
    problem: str = ""
    endpoint: Endpoint | None = None


def integrations_in(document: Mapping[str, Any], resolve: Resolve = literal_only) -> list[Integration]:
    """Return the integrations of an effective document, by name.

    What no write accepts today (stored by an earlier release) is reported in ``problem``, never raised.
    """
    entries = mapping(document.get("integrations"))
    return [_integration(name, entry, resolve) for name, entry in sorted(entries.items()) if isinstance(entry, Mapping)]


def _integration(name: str, entry: Mapping[str, Any], resolve: Resolve) -> Integration:
    kind, enabled = text(entry.get("kind"))[:63], entry.get("enabled") is not False
    texts = list(_credentials(entry))
    resolved = {value: resolve(value) for value in {*texts, text(entry.get("url"))}}
    credential = "unresolved" if any(value is None for value in resolved.values()) else "ready" if texts else "none"
    problem, endpoint = "", None
    if kind not in INTEGRATION_KINDS:
        problem = f"is of a kind that is not read here ({kind})" if kind else "has no kind"
    elif not text(entry.get("url")):
        problem = "has no URL"
    elif credential == "unresolved":
        problem = f"was not asked: {UNRESOLVABLE}"
    else:
        endpoint = _endpoint(name, entry, {key: value or "" for key, value in resolved.items()})
        if endpoint is None:
            problem = "was not asked: its configuration breaks the rules of the section"
    return Integration(name, kind, enabled, shown_url(text(entry.get("url"))), credential, problem, endpoint)


def _credentials(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of an entry that may hold references to credentials."""
    auth = mapping(entry.get("auth"))
    yield from (text(auth.get(key)) for key in ("token", "username", "password") if text(auth.get(key)))
    yield from (text(value) for value in mapping(entry.get("headers")).values() if "${" in text(value))


def _endpoint(name: str, entry: Mapping[str, Any], resolved: Mapping[str, str]) -> Endpoint | None:
    url = resolved[text(entry.get("url"))]
    try:
        checked = IntegrationSection.model_validate({**entry, "url": url})
    except ValueError:
        return None
    headers = {key: resolved.get(value, value) for key, value in (checked.headers or {}).items()}
    auth = checked.auth
    token, password = (resolved.get(value or "", "") for value in ((auth and auth.token), (auth and auth.password)))
    user = resolved.get((auth and auth.username) or "", "")
    if auth is not None and auth.type == "bearer" and token:
        headers["Authorization"] = f"Bearer {token}"
    elif auth is not None and auth.type == "basic":
        headers["Authorization"] = "Basic " + b64encode(f"{user}:{password}".encode()).decode()
    if checked.tenant:
        headers["X-Scope-OrgID"] = checked.tenant
    own = [
        resolved[value] for value in _credentials(entry) if value != text(mapping(entry.get("auth")).get("username"))
    ]
    basic = headers.get("Authorization", "").partition(" ")[2]
    return Endpoint(
        name=name,
        kind=checked.kind or "",
        url=url.rstrip("/"),
        headers=headers,
        secrets=tuple(sorted({value for value in (*own, basic) if len(value) >= _LEAST_SECRET}, key=len, reverse=True)),
        timeout_s=checked.timeout_s or DEFAULT_TIMEOUT_S,
        object_label=(checked.labels.object if checked.labels else None) or "",
    )


def shown_url(url: str) -> str:
    """Return a URL without user name, password, query and fragment; a reference stays as it is written."""
    if "${" in url:
        return re.sub(r"//[^/@]*@", "//", url)
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return redact_text(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl())
