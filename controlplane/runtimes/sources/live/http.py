"""Asking a JSON API through the outbound client; every failure is a problem in our own words."""

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Final
from urllib.parse import urlencode

import orjson

from controlplane.core.outbound import Answer, OutboundClient, OutboundError
from controlplane.core.redaction import redact_text
from controlplane.runtimes.loose_json import mapping, text
from controlplane.runtimes.sources.live.endpoint import Endpoint

MOST_AT_ONCE: Final = 4
_ERROR_CHARS: Final = 200
_RAW_CHARS: Final = 4_000
_BESIDE_LOOP_BYTES: Final = 100_000  # a larger body is parsed in a thread
_MOST_VALUES: Final = 1_000_000  # of one body: parsing cannot be interrupted, and each takes its time
_MARKER: Final = "[redacted:credential]"
_UNPRINTABLE: Final = re.compile(r"[^\x20-\x7e\u00a0-\uffff]+")
_STATUS: Final = {
    401: ("not_authenticated", "does not accept the credentials"),
    403: ("not_permitted", "does not permit this"),
    404: ("not_found", "has no such API at this address"),
    422: ("refused", "could not answer the query"),
    429: ("too_many_requests", "gets too many requests"),
    503: ("unavailable", "is unavailable"),
}

Params = Sequence[tuple[str, str]]


class SourceError(Exception):
    """A request that brought no answer. ``code`` is stable; the text is ours and says what the server did."""

    def __init__(self, code: str, text: str) -> None:
        self.code = code
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class Reply:
    """A JSON answer. ``date`` is the server's clock as its header tells it; ``seconds`` is how long the answer took."""

    body: Any
    date: datetime | None
    seconds: float


class JsonApi:
    """The API of one endpoint; at most four requests at once."""

    def __init__(self, endpoint: Endpoint, client: OutboundClient) -> None:
        self._endpoint = endpoint
        self._client = client
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)

    async def get(self, path: str, params: Params = ()) -> Any:
        """Return the JSON at ``path`` (below the endpoint's URL); see :meth:`reply`."""
        return (await self.reply(path, params)).body

    async def reply(self, path: str, params: Params = ()) -> Reply:
        """Return the JSON answer at ``path``.

        Raises:
            SourceError: the server was not reached, was not allowed to be, or gave no JSON of a 2xx status. The code is
                the outbound client's, or one of ``not_authenticated``, ``not_permitted``, ``not_found``, ``refused``,
                ``too_many_requests``, ``unavailable``, ``http_error``, ``not_json``.
        """
        url = f"{self._endpoint.url}{path}" + (f"?{urlencode(params)}" if params else "")
        async with self._slots:
            began = time.monotonic()
            try:
                answer = await self._client.get(url, headers={"Accept": "application/json", **self._endpoint.headers})
            except OutboundError as error:
                shown = OutboundError(error.code) if self._endpoint.secret_url else error
                raise SourceError(error.code, without(str(shown), self._endpoint.secrets)) from None
            seconds = time.monotonic() - began
        return Reply(await self._json(answer), _date(answer), seconds)

    async def _json(self, answer: Answer) -> Any:
        if not 200 <= answer.status < 300:
            code, words = _STATUS.get(answer.status, ("http_error", "answers with an error"))
            said = self._said(answer)
            raise SourceError(code, f"The server {words} (HTTP {answer.status}){f': {said}' if said else ''}.")
        body = answer.body
        try:
            if len(body) > _BESIDE_LOOP_BYTES:
                return await asyncio.to_thread(self._read, body)
            return self._read(body)
        except (orjson.JSONDecodeError, RecursionError):
            kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
            what = kind if re.fullmatch(r"[a-z]+/[a-z0-9.+-]{1,60}", kind) and not answer.is_json else "something else"
            if any(secret.lower() in what for secret in self._endpoint.secrets):
                what = "something else"
            detail = f"The server answers with {what} instead of JSON; the URL may not be that of the API."
            raise SourceError("not_json", detail) from None

    def _read(self, body: bytes) -> Any:
        """Return the JSON of a body, without the secrets that were sent.

        Raises:
            SourceError: ``too_large``: it has more values than are read.
            orjson.JSONDecodeError, RecursionError: it is no JSON, or nested too deeply.
        """
        if body.count(b",") + body.count(b"[") + body.count(b"{") > _MOST_VALUES:
            raise SourceError("too_large", "The answer has more values than are read.")
        value = orjson.loads(body)
        secrets = self._endpoint.secrets
        return without(value, secrets) if secrets and _may_hold(value, body, secrets) else value

    def _said(self, answer: Answer) -> str:
        """Return the server's own words about an error, of one line, cut, without secrets; none of a page of HTML."""
        kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
        raw = answer.body[:_BESIDE_LOOP_BYTES].decode("utf-8", "replace")
        try:
            parsed = orjson.loads(raw)
        except orjson.JSONDecodeError:
            return "" if kind == "text/html" or raw.lstrip().startswith("<") else self.clean(raw)
        if isinstance(parsed, str):
            return self.clean(parsed)
        said = (text(mapping(parsed).get(key)) for key in ("error", "message", "detail", "title"))
        return self.clean(next((one for one in said if one), ""))

    def clean(self, words: str, most: int = _ERROR_CHARS) -> str:
        """Return a text of the server as one line of at most ``most`` characters, without secrets."""
        words = without(words, self._endpoint.secrets)[: 4 * _RAW_CHARS]
        # Far more than is shown is redacted, so that the cut of the raw text never shows.
        words = redact_text(" ".join(_UNPRINTABLE.sub(" ", words).split())[:_RAW_CHARS]).rstrip(".")
        return words if len(words) <= most else words[: most - 1] + "…"


def without(value: Any, secrets: Sequence[str]) -> Any:
    """Return a JSON value with a marker in place of each secret, in keys too."""
    match value:
        case str():
            for secret in secrets:
                value = value.replace(secret, _MARKER)
            return value
        case list():
            return [without(item, secrets) for item in value]
        case dict():
            return {without(key, secrets): without(item, secrets) for key, item in value.items()}
        case int() | float() if str(value) in secrets:
            return _MARKER
        case _:
            return value


def _may_hold(value: Any, body: bytes, secrets: Sequence[str]) -> bool:
    """Return whether a secret may be in a body, so that most bodies need not be walked through."""
    if b"\\" in body:  # an escape can spell any character: compared is what has only those that JSON needs
        try:
            body = orjson.dumps(value)
        except orjson.JSONEncodeError:  # nested more deeply than is written
            return True
    return any(orjson.dumps(secret)[1:-1] in body for secret in secrets)


def client_for(endpoint: Endpoint, *, timeout_s: float | None = None) -> OutboundClient:
    """Return an outbound client with the endpoint's bound on a request, or a shorter one."""
    return OutboundClient(timeout_s=min(endpoint.timeout_s, timeout_s or endpoint.timeout_s))


def _date(answer: Answer) -> datetime | None:
    try:
        at = parsedate_to_datetime(answer.headers.get("date", ""))
    except ValueError:
        return None
    return at if at.tzinfo else at.replace(tzinfo=UTC)
