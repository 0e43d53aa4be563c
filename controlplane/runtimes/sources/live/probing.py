"""Testing the connection of an integration that runs do not read yet, by what the catalogue says of its kind."""

import asyncio
import re
import time
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from pydantic import TypeAdapter, ValidationError

from controlplane.configs.catalogue.definitions import NOT_TESTABLE, IntegrationDefinition, Step
from controlplane.configs.endpoint_sections import BaseUrl
from controlplane.configs.pointers import MISSING, get
from controlplane.configs.sections import IntegrationSection
from controlplane.core.outbound import host_of
from controlplane.runtimes.loose_json import text
from controlplane.runtimes.sources.live.connection import MOST_S, ConnectionResult
from controlplane.runtimes.sources.live.endpoint import Endpoint, Resolve, spellings, why_missing
from controlplane.runtimes.sources.live.http import JsonApi, SourceError, client_for

_FIELD: Final = re.compile(r"\{([a-z_.]+)\}")
_HEADER: Final = re.compile(r"[\x20-\x7e]{1,4000}")
_URL: Final[TypeAdapter[str]] = TypeAdapter(BaseUrl)
#: Words with which a vendor refuses a credential although the HTTP status is 200 (Slack's Web API).
_REFUSALS: Final = {
    **dict.fromkeys(("invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive"), 401),
    **dict.fromkeys(("missing_scope", "no_permission", "not_allowed_token_type", "access_denied"), 403),
}
_UNUSABLE: Final = "Its URL or credentials cannot be part of an HTTP request."
_CODES: Final = {401: "not_authenticated", 403: "not_permitted"}


@dataclass(frozen=True, slots=True)
class Probing:
    """A test that is ready to be made: where, with what, and the steps with their paths filled in."""

    endpoint: Endpoint
    definition: IntegrationDefinition
    steps: tuple[Step, ...]


def prepared(
    name: str, entry: Mapping[str, Any], definition: IntegrationDefinition, resolve: Resolve
) -> Probing | ConnectionResult:
    """Return the test of an entry, or why there can be none.

    Args:
        name: the integration's id.
        entry: as the effective configuration has it.
        definition: of its kind.
        resolve: gives the values of credentials' references, for the host they are sent to.
    """
    if definition.probe is None:
        reason = definition.untestable or "the catalogue knows no request for it"
        return ConnectionResult(False, "not_testable", f"{definition.title} is {NOT_TESTABLE}: {reason}.")
    unset = [one.name for one in definition.fields if one.required and get(entry, one.path) in (MISSING, None, "")]
    if unset:
        return ConnectionResult(False, "incomplete", f"These fields are not set: {', '.join(unset)}.")
    written = text(entry.get("url")) or definition.url
    if "${" not in written and not _is_url(written):
        return ConnectionResult(False, "not_testable", _UNUSABLE)
    host = host_of(resolve(written, None).text or "")
    texts = {one.name: value for one in definition.fields if isinstance(value := get(entry, one.path), str)}
    resolved = {one: resolve(value, host) for one, value in {**texts, "url": written}.items()}
    missing = sorted(one for one, found in resolved.items() if found.text is None)
    if missing:
        why = why_missing(dict(one for found in resolved.values() for one in found.missing), written, host)
        return ConnectionResult(False, "credential_unresolved", f"Nothing was sent for {', '.join(missing)}: {why}.")
    known = {one: found.text or "" for one, found in resolved.items()}
    headers = _headers(definition, known)
    if headers is None or not _is_url(known["url"]):
        return ConnectionResult(False, "not_testable", _UNUSABLE)
    secrets = [value for found in resolved.values() for value in found.values]
    secrets += [known.get(one.name, "") for one in definition.secret_fields]
    secrets.append(headers.get("Authorization", "").partition(" ")[2])
    endpoint = Endpoint(
        name=name,
        kind=definition.kind,
        url=known["url"].rstrip("/"),
        headers=headers,
        secrets=spellings(secrets),
        timeout_s=_timeout(entry),
        secret_url="${" in written,
    )
    steps = tuple(Step(_filled_path(one.path, known), one.expects, one.version) for one in definition.probe.steps)
    return Probing(endpoint, definition, steps)


async def probe(probing: Probing, *, most_s: float = MOST_S) -> ConnectionResult:
    """Make the test's requests, all GETs, one after the other.

    Args:
        most_s: seconds after which it ends with ``timeout``.
    """
    title = probing.definition.title
    began = time.monotonic()
    version = ""
    try:
        async with asyncio.timeout(most_s), client_for(probing.endpoint, timeout_s=most_s) as client:
            api = JsonApi(probing.endpoint, client)
            for step in probing.steps:
                body = await api.get(step.path)
                _require(step, body, title, api)
                version = (
                    version or api.clean(text(get(body, step.version.split("."))), 60) if step.version else version
                )
    except SourceError as error:
        return ConnectionResult(False, error.code, str(error), _since(began))
    except TimeoutError:
        return ConnectionResult(False, "timeout", "The server did not answer in time.", _since(began))
    shown = f" {version}" if version else ""
    return ConnectionResult(True, "ok", f"{title}{shown} answers.", _since(began), version)


def _require(step: Step, body: Any, title: str, api: JsonApi) -> None:
    """Accept an answer that has what the vendor's has.

    Raises:
        SourceError: ``not_authenticated``, ``not_permitted`` or ``refused`` as the answer's own words say, else
            ``not_json``: it is some other server's.
    """
    for path, wanted in step.expects.items():
        value = get(body, path.split("."))
        if isinstance(wanted, type):
            fits = isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))
        else:
            fits = type(value) is type(wanted) and value == wanted
        if fits:
            continue
        said = text(get(body, ("error",)))
        if said and wanted is True and value is False:
            code = _CODES.get(_REFUSALS.get(said, 0), "refused")
            raise SourceError(code, f"{title} refuses: {api.clean(said)}.")
        raise SourceError("not_json", f"This is no {title}: its answers have another form.")


def _headers(definition: IntegrationDefinition, known: Mapping[str, str]) -> dict[str, str] | None:
    """Return the headers to send, ``None`` when a value cannot be in one."""
    headers: dict[str, str] = {}
    if known.get("auth.token") and known.get("auth.type", "bearer") == "bearer":
        headers["Authorization"] = f"Bearer {known['auth.token']}"
    elif known.get("auth.type") == "basic":
        pair = f"{known.get('auth.username', '')}:{known.get('auth.password', '')}"
        headers["Authorization"] = f"Basic {b64encode(pair.encode()).decode()}"
    for header, template in definition.probe.headers.items() if definition.probe else ():
        names = _FIELD.findall(template)
        if all(known.get(name) for name in names):
            headers[header] = _FIELD.sub(lambda match: known[match[1]], template)
    return headers if all(_HEADER.fullmatch(value) for value in headers.values()) else None


def _filled_path(path: str, known: Mapping[str, str]) -> str:
    return _FIELD.sub(lambda match: quote(known.get(match[1], ""), safe=""), path)


def _is_url(url: str) -> bool:
    try:
        _URL.validate_python(url)
    except ValidationError:
        return False
    return "${" not in url


def _timeout(entry: Mapping[str, Any]) -> float:
    try:
        seconds = IntegrationSection.model_validate({"kind": "loki", "timeout_s": entry.get("timeout_s")}).timeout_s
    except ValidationError:
        seconds = None
    return seconds or MOST_S


def _since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)
