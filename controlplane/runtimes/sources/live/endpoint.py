"""Where a configured integration is reached, and what is sent with a request."""

import re
from base64 import b64encode
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote, quote_plus, urlsplit

import orjson

from controlplane.configs.credentials import Resolved, State
from controlplane.configs.endpoint_sections import ServerSection
from controlplane.configs.sections import INTEGRATION_KINDS
from controlplane.core.outbound import host_of
from controlplane.core.redaction import redact_text
from controlplane.runtimes.loose_json import mapping, text

DEFAULT_TIMEOUT_S: Final = 10.0
_LEAST_SECRET: Final = 4  # characters; replacing shorter ones would blank out ordinary words
_HEADER_VALUE: Final = re.compile(r"[\x20-\x7e]*")
_WHY: Final = {
    State.UNSET: "the credential {name} has no value in this installation",
    State.NOT_GRANTED: "the credential {name} is not granted here",
    State.NOT_ALLOWED: "the credential {name} is not allowed by this installation",
    State.HOST_NOT_GRANTED: "the credential {name} is not granted for {host}",
    State.MALFORMED: "a reference to a credential is malformed",
}

#: Returns a text with its references replaced by their values. The second argument is the host that the text is to be
#: sent to, ``None`` when it is only read to find out which host that is.
Resolve = Callable[[str, str | None], Resolved]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An integration that can be asked.

    ``headers`` and ``secrets`` hold credentials: neither is ever shown, and everything the server sends is cleared of
    the secrets before anybody sees it. ``secret_url`` says that the address comes from credentials too, so that not
    even the host's name is shown. ``timeout_s`` bounds one request, in seconds.
    """

    name: str
    kind: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)
    timeout_s: float = DEFAULT_TIMEOUT_S
    object_label: str = ""
    secret_url: bool = False


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


def integrations_in(document: Mapping[str, Any], resolve: Resolve) -> list[Integration]:
    """Return the integrations of an effective document, by name.

    A credential is resolved only for the host of the integration's own URL. What no write accepts today (stored by an
    earlier release) is reported in ``problem``, never raised.
    """
    entries = mapping(document.get("integrations"))
    return [integration(name, entry, resolve) for name, entry in sorted(entries.items()) if isinstance(entry, Mapping)]


def integration(
    name: str, entry: Mapping[str, Any], resolve: Resolve, *, kinds: Collection[str] = INTEGRATION_KINDS
) -> Integration:
    """Return one entry; see :func:`integrations_in`.

    Args:
        name: of the entry.
        entry: with ``kind``, ``url`` and, where there are any, ``auth``, ``headers`` and ``timeout_s``.
        resolve: gives the values of credentials.
        kinds: those that can be asked.
    """
    kind, enabled = text(entry.get("kind"))[:63], entry.get("enabled") is not False
    written = text(entry.get("url"))
    texts = [*_credentials(entry), *([written] if "${" in written else [])]
    located = resolve(written, None)
    host = host_of(located.text or "")
    resolved = {value: resolve(value, host) for value in dict.fromkeys([*texts, written])}
    missing = dict(one for found in resolved.values() for one in found.missing)
    if located.text is None:  # nothing is known of a host, which would be the reason for all the others
        missing = dict(located.missing)
    credential = "unresolved" if missing else "ready" if texts else "none"
    problem, endpoint = "", None
    if kind not in kinds:
        problem = f"is of a kind that is not read here ({kind})" if kind else "has no kind"
    elif not written:
        problem = "has no URL"
    elif missing:
        problem = f"was not asked: {why_missing(missing, written, host)}"
    else:
        values = {value for found in resolved.values() for value in found.values}
        endpoint = _endpoint(name, entry, {key: found.text or "" for key, found in resolved.items()}, values)
        if endpoint is None:
            problem = "was not asked: its configuration breaks the rules of the section"
        elif not all(_HEADER_VALUE.fullmatch(value) for value in endpoint.headers.values()):
            problem, endpoint = "was not asked: a credential has characters that cannot be sent in a header", None
    return Integration(name, kind, enabled, shown_url(written), credential, problem, endpoint)


def why_missing(missing: Mapping[str, State], url: str, host: str) -> str:
    """Return why credentials have no value; ``url`` is as it is written: of one with references no host is shown."""
    host = "its host" if "${" in url else host or "a URL without a host"
    return "; ".join(_WHY[state].format(name=name, host=host) for name, state in missing.items())


def _credentials(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield the texts of an entry that may hold references to credentials."""
    auth = mapping(entry.get("auth"))
    yield from (text(auth.get(key)) for key in ("token", "username", "password") if text(auth.get(key)))
    values = (*mapping(entry.get("headers")).values(), entry.get("tenant"))
    yield from (text(value) for value in values if "${" in text(value))


def _endpoint(
    name: str, entry: Mapping[str, Any], resolved: Mapping[str, str], values: Iterable[str]
) -> Endpoint | None:
    """Return where to ask; ``resolved`` has the text of each text, ``values`` those of all credentials in them."""
    url = resolved[text(entry.get("url"))]
    try:
        checked = ServerSection.model_validate({**entry, "url": url})
    except ValueError:
        return None
    tenant = text(entry.get("tenant"))
    headers = {key: resolved.get(value, value) for key, value in (checked.headers or {}).items()}
    auth = checked.auth
    token, password = (resolved.get(value or "", "") for value in ((auth and auth.token), (auth and auth.password)))
    user = resolved.get((auth and auth.username) or "", "")
    if auth is not None and auth.type == "bearer" and token:
        headers["Authorization"] = f"Bearer {token}"
    elif auth is not None and auth.type == "basic":
        headers["Authorization"] = "Basic " + b64encode(f"{user}:{password}".encode()).decode()
    if tenant:
        headers["X-Scope-OrgID"] = resolved.get(tenant, tenant)
    own = [
        resolved[value] for value in _credentials(entry) if value != text(mapping(entry.get("auth")).get("username"))
    ]
    basic = headers.get("Authorization", "").partition(" ")[2]
    return Endpoint(
        name=name,
        kind=text(entry.get("kind")),
        url=url.rstrip("/"),
        headers=headers,
        secrets=spellings([*own, *values, basic]),
        timeout_s=checked.timeout_s or DEFAULT_TIMEOUT_S,
        object_label=text(mapping(entry.get("labels")).get("object")),
        secret_url="${" in text(entry.get("url")),
    )


def spellings(values: Iterable[str]) -> tuple[str, ...]:
    """Return the secrets, the longest first, as a server may repeat them: as they are, in JSON, in a URL."""
    long = [value for value in values if len(value) >= _LEAST_SECRET]
    spelled = {
        spelling
        for value in long
        for spelling in (value, orjson.dumps(value).decode()[1:-1], quote(value, safe=""), quote_plus(value))
    }
    return tuple(sorted(spelled, key=len, reverse=True))


def shown_url(url: str) -> str:
    """Return a URL without user name, password, query and fragment; a reference stays as it is written."""
    if "${" in url:
        return re.sub(r"//[^/@]*@", "//", url)
    try:
        parts = urlsplit(url)
    except ValueError:
        return ""
    return redact_text(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="").geturl())
