"""The agent server: who it is, and the calls of its protocol."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import orjson

from controlplane.core.outbound import OutboundClient, OutboundError, Streamed
from controlplane.runtimes.loose_json import mapping
from controlplane.runtimes.sources.live.endpoint import Endpoint, Integration, Resolve, integration
from controlplane.runtimes.sources.live.http import without

KIND: Final = "remote"
DEFAULT_IDLE_S: Final = 300.0
MAX_STREAM_BYTES: Final = 256 * 1024 * 1024
_MAX_ANSWER_BYTES: Final = 256 * 1024
_TIMEOUT_S: Final = 10.0


def server_in(document: Mapping[str, Any], resolve: Resolve) -> Integration:
    """Return the agent server that ``runtime`` of an effective document names, with this run's credentials.

    Args:
        document: the effective configuration the run has pinned.
        resolve: gives the values of credentials, for the host they are sent to.
    """
    section = mapping(document.get("runtime"))
    entry: dict[str, Any] = {"kind": KIND, "url": section.get("url")}
    if section.get("token"):
        entry["auth"] = {"type": "bearer", "token": section["token"]}
    return integration("runtime", entry, resolve, kinds=(KIND,))


def idle_in(document: Mapping[str, Any]) -> float:
    """Return the seconds of silence after which the server counts as stalled."""
    value = mapping(document.get("runtime")).get("idle_timeout_s")
    known = isinstance(value, int | float) and not isinstance(value, bool) and 1 <= value <= 3_600
    return float(value) if known and value is not None else DEFAULT_IDLE_S


@dataclass(frozen=True, slots=True)
class Reply:
    """The complete answer to a call: its status, and its body where that is a JSON object."""

    status: int
    body: Mapping[str, Any]


class AgentServer:
    """The protocol's calls to one server, for one thread."""

    def __init__(self, endpoint: Endpoint, thread_id: str, idle_s: float) -> None:
        self._endpoint = endpoint
        self._thread_id = thread_id
        self._idle_s = idle_s
        self._headers = {"Content-Type": "application/json", **endpoint.headers}

    def cleared(self, words: str) -> str:
        """Return what the server said without any of the credentials."""
        return str(without(words, self._endpoint.secrets))

    def told(self, error: OutboundError) -> str:
        """Return why a request failed, fit to be shown."""
        return self.cleared(str(OutboundError(error.code) if self._endpoint.secret_url else error))

    @asynccontextmanager
    async def investigate(self, prompt: str, resume_session_id: str = "") -> AsyncIterator[Streamed]:
        """Ask, and hand out the stream of events.

        Raises:
            OutboundError: the server cannot be reached, stalls or breaks off.
        """
        body = {"prompt": prompt, "thread_id": self._thread_id, "trigger_source": "api"}
        if resume_session_id:
            body["resume_session_id"] = resume_session_id
        async with (
            OutboundClient(timeout_s=_TIMEOUT_S, max_bytes=MAX_STREAM_BYTES) as client,
            client.stream(
                "POST",
                f"{self._endpoint.url}/investigate",
                headers={**self._headers, "Accept": "text/event-stream"},
                content=orjson.dumps(body),
                idle_s=self._idle_s,
            ) as answer,
        ):
            yield answer

    async def interrupt(self) -> Reply:
        """Ask the server to stop; the result comes on the stream."""
        return await self._call("POST", "/interrupt", {"thread_id": self._thread_id})

    async def queue_message(self, text: str) -> Reply:
        """Hand a message to the running turn; 404 or 409 when none runs or the server is older than that."""
        return await self._call("POST", f"/threads/{quote(self._thread_id)}/queue-message", {"text": text})

    async def answer(self, answers: Mapping[str, str]) -> Reply:
        """Answer the pending question; 404 or 409 when there is none any more."""
        return await self._call("POST", "/answer", {"thread_id": self._thread_id, "answers": dict(answers)})

    async def active(self) -> Reply:
        """Ask whether the thread has a running turn: ``{active, sdk_session_id}``."""
        return await self._call("GET", f"/threads/{quote(self._thread_id)}/active", None)

    async def _call(self, method: str, path: str, body: Mapping[str, Any] | None) -> Reply:
        content = None if body is None else orjson.dumps(body)
        async with OutboundClient(timeout_s=_TIMEOUT_S, max_bytes=_MAX_ANSWER_BYTES) as client:
            answer = await client.request(method, self._endpoint.url + path, headers=self._headers, content=content)
        try:
            value = orjson.loads(answer.body)
        except ValueError:
            value = None
        return Reply(answer.status, mapping(value))
