"""Servers that are down, slow, lying or hostile: the turn goes on, the reason is said, and no credential shows."""

import asyncio
import contextlib
import json
import logging
import math
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import repeat
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.configs.credentials import Resolved
from controlplane.core.references import resolve
from controlplane.runtimes.sources.live.endpoint import Endpoint
from controlplane.runtimes.sources.live.http import JsonApi, Reply, SourceError
from controlplane.runtimes.sources.live.integrations import live_sources
from controlplane.runtimes.sources.live.loki import LokiSource
from controlplane.runtimes.sources.live.prometheus import PrometheusSource
from controlplane.runtimes.sources.live.source import LiveSource, Reading
from controlplane.runtimes.sources.records import Series
from tests.runtimes.live.peer import Asked, Peer, PrometheusStub, Raw, answer, failure, serving, success
from tests.runtimes.live.support import EVERYTHING, SECRET, alert, evidence, info_of, resolved, source, unresolved

HTML = b"<!DOCTYPE html><html><body><form>Sign in to your account</form></body></html>"
KINDS = ("prometheus", "alertmanager", "loki")


def endless() -> Iterator[bytes]:
    """Ten million samples, as one series."""
    yield b'{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"1"]'
    yield from repeat(b',[1735689600.123,"0.123456789"]' * 2_000, 5_000)
    yield b"]}]}}"


BAD: dict[str, tuple[Callable[[Asked], Raw], str]] = {
    "a page instead of JSON": (lambda _: Raw(200, HTML, "text/html"), "answers with text/html instead of JSON"),
    "broken JSON": (lambda _: Raw(200, b'{"status":'), "answers with something else instead of JSON"),
    "JSON of another API": (lambda _: answer({"hello": "world"}), "another form than this API's"),
    "a list of nothing known": (lambda _: success([1, None, {"a": []}]), ""),
    "unauthorized": (lambda _: Raw(401, b"no", "text/plain"), "does not accept the credentials (HTTP 401): no"),
    "server error with a page": (lambda _: Raw(500, HTML, "text/html"), "answers with an error (HTTP 500)."),
    "unavailable": (lambda _: failure(503, "unavailable", "Service Unavailable"), "is unavailable (HTTP 503)"),
    "another host": (lambda _: Raw(302, b"", headers={"Location": "http://other.example/"}), "redirects to another"),
    "ten million samples": (lambda _: Raw(200, endless()), "larger than is read"),
}


@pytest.fixture
def peer() -> Iterator[Peer]:
    with serving(Peer(PrometheusStub().respond)) as made:
        yield made


async def missing_of(made: LiveSource) -> str:
    """Return what a turn says about the source, by the tool that every runtime calls first."""
    result = await evidence([made])
    assert result.ok
    (said,) = [one.value["reason"] for one in result.observations if one.value.get("type") == "missing"]
    assert [one.value["problems"] for one in result.observations if one.value.get("type") == "source"] == [[said]]
    return str(said)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("case", BAD)
async def test_source__server_answers_badly__turn_goes_on_and_says_why(peer: Peer, kind: str, case: str) -> None:
    peer.respond, words = BAD[case]
    made = source(peer.url, kind)

    if words:
        assert words in await missing_of(made)
    assert (await made.series(EVERYTHING)).records == []
    assert (await made.states(EVERYTHING)).records == []
    assert (await made.log_lines(EVERYTHING)).records == []


@pytest.mark.parametrize("kind", KINDS)
async def test_source__nobody_listens__says_that_it_cannot_be_reached(kind: str) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        said = await missing_of(source(f"http://127.0.0.1:{probe.getsockname()[1]}", kind))

    assert said == "could not be read: The server cannot be reached (host 127.0.0.1)."


@pytest.mark.parametrize("kind", KINDS)
async def test_source__server_never_answers__ends_by_its_setting(peer: Peer, kind: str) -> None:
    peer.stall = True

    assert "did not answer in time" in await missing_of(source(peer.url, kind, timeout_s=0.1))


async def test_source__everything_takes_too_long__ends_with_its_own_time(peer: Peer) -> None:
    peer.stall = True
    for kind in (PrometheusSource, LokiSource):
        made = kind(Endpoint("mon", "x", peer.url), time_s=0.1)

        assert await missing_of(made) == "could not be read: Not everything was answered within 0.1 s."


@dataclass
class Answering:
    """An API that answers one thing to everything, wrapped as Prometheus and Loki do."""

    data: Any

    async def get(self, path: str, params: Any = ()) -> Any:
        body = self.data if path.startswith("/api/v2") else {"status": "success", "data": self.data, "warnings": ["w"]}
        return json.loads(json.dumps(body))

    async def reply(self, path: str, params: Any = ()) -> Reply:
        return Reply(await self.get(path, params), None, 0.0)

    def clean(self, words: str) -> str:
        return words


KEYS = st.sampled_from(
    ["result", "resultType", "metric", "values", "value", "alerts", "labels", "stream", "status", "alertname", "pod",
     "__name__", "state", "activeAt", "startsAt", "annotations", "namespace", "service"]
)  # fmt: skip
LEAVES = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**40), 2**40), st.floats(), st.text(max_size=8), KEYS,
    st.sampled_from(["scalar", "NaN", "up", "kube_pod_info", "istio_requests_total", "a_requests_total", "17"]),
)  # fmt: skip
ANYTHING = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=5), max_leaves=20
)


@pytest.mark.parametrize("kind", KINDS)
@given(data=ANYTHING)
def test_collect__any_json__is_read_or_refused_in_our_words(kind: str, data: Any) -> None:
    made = source("http://127.0.0.1:9", kind, alert=alert(service="a", namespace="b"))
    reading = Reading(made.kinds)
    with contextlib.suppress(SourceError):
        asyncio.run(made.collect(cast("JsonApi", Answering(data)), reading))

    for one in reading.records.get(Series, []):
        assert len(one.times) == len(one.values) > 0
        assert all(math.isfinite(value) for value in one.values)
    assert {record.source for records in reading.records.values() for record in records} <= {"mon"}


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("http://169.254.169.254/latest", "link-local"),
        ("http://[fe80::1]/", "link-local"),
        ("http://10.1.2.3:9090", "private network"),
    ],
)
async def test_source__address_out_of_bounds__never_fetched_and_said(url: str, words: str) -> None:
    assert words in await missing_of(source(url))


async def test_sources__one_of_two_is_down__the_other_is_read(peer: Peer) -> None:
    peer.respond = PrometheusStub(
        series=[{"__name__": "queue_depth", "service": "mail"}],
        answers=[("queue_depth", [({"__name__": "queue_depth", "service": "mail"}, lambda _: 3)])],
    ).respond
    down = source("http://127.0.0.1:9", "loki")
    result = await evidence([down, source(peer.url)], "query_metrics")

    assert result.ok
    assert [one.object for one in result.observations if one.value.get("metric")] == ["mail"]


@pytest.mark.parametrize(
    "auth",
    [
        {"type": "bearer", "token": "${OPENSRE_CRED_MON}"},
        {"type": "basic", "username": "reader", "password": "${OPENSRE_CRED_MON}"},
    ],
)
@pytest.mark.parametrize("kind", KINDS)
async def test_credentials__echoed_by_the_server__never_in_a_message_or_log(
    peer: Peer, kind: str, auth: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="controlplane")
    peer.respond = lambda asked: failure(403, "forbidden", f"{asked.headers['authorization']} {SECRET} may not")
    made = source(peer.url, kind, auth=auth)
    said = await missing_of(made)

    sent = peer.asked[0].headers["authorization"]
    assert sent.partition(" ")[2] not in said
    assert SECRET not in f"{said} {caplog.text} {await info_of(made)} {made._endpoint!r}"
    assert "does not permit this (HTTP 403)" in said
    assert "[redacted:credential]" in said


@pytest.mark.parametrize(
    "entry",
    [
        {"kind": "prometheus", "url": "URL", "auth": {"type": "bearer", "token": "${OPENSRE_CRED_MON}"}},
        {"kind": "loki", "url": "URL", "headers": {"X-Api-Key": "${OPENSRE_CRED_MON:-none}"}},
        {"kind": "alertmanager", "url": "http://${OPENSRE_CRED_HOST}/"},
    ],
)
async def test_credentials__not_resolvable__nothing_is_sent_and_it_is_said(peer: Peer, entry: dict[str, Any]) -> None:
    entry = {**entry, "url": entry["url"].replace("URL", peer.url)}
    (made,) = live_sources({"integrations": {"mon": entry}}, alert=None, resolve=unresolved)

    assert await missing_of(made) == "was not asked: the credential OPENSRE_CRED_MON is not granted here"
    assert peer.asked == []


async def test_headers_and_tenant__configured__are_sent(peer: Peer) -> None:
    await info_of(source(peer.url, tenant="team-a", headers={"X-Team": "a", "X-Api-Key": "${OPENSRE_CRED_MON}"}))

    sent = peer.asked[0].headers
    assert (sent["x-scope-orgid"], sent["x-team"], sent["x-api-key"]) == ("team-a", "a", SECRET)


def unescaped(text: str, _host: str | None) -> Resolved:
    """Return a text without references as it is sent."""
    return Resolved(resolve(text, lambda _reference: None))


async def test_headers__escaped_reference__is_sent_as_the_literal_text(peer: Peer) -> None:
    entry = {"kind": "prometheus", "url": peer.url, "headers": {"X-Template": "a$${TEAM}b"}}
    (made,) = live_sources({"integrations": {"mon": entry}}, alert=None, resolve=unescaped)
    await info_of(made)

    assert {one.headers["x-template"] for one in peer.asked} == {"a${TEAM}b"}


async def test_credentials__escaped_reference_stored_earlier__nothing_is_sent_and_it_is_said(peer: Peer) -> None:
    entry = {"kind": "prometheus", "url": peer.url, "auth": {"type": "bearer", "token": "$${literal}"}}
    (made,) = live_sources({"integrations": {"mon": entry}}, alert=None, resolve=resolved)

    assert await missing_of(made) == "was not asked: its configuration breaks the rules of the section"
    assert peer.asked == []


async def test_url__with_a_path__is_kept(peer: Peer) -> None:
    await info_of(source(f"{peer.url}/prom/"))

    assert {one.path.startswith("/prom/api/v1/") for one in peer.asked} == {True}


@pytest.mark.parametrize(
    "entry",
    [
        None,
        "text",
        {"kind": "prometheus"},
        {"kind": "prometheus", "url": "ftp://example.org"},
        {"kind": "prometheus", "url": "http://x", "auth": {"type": "bearer", "token": 7}},
        {"kind": "prometheus", "url": "http://x", "timeout_s": "soon"},
        {"kind": "prometheus", "url": "http://x", "enabled": False},
        {"kind": "datadog", "url": "http://x"},
        {"url": "http://x"},
        [],
    ],
)
async def test_live_sources__entry_no_write_accepts_or_nothing_to_read__is_no_crash(entry: Any) -> None:
    for made in live_sources({"integrations": {"mon": entry}}, alert=None, resolve=resolved):
        assert (await info_of(made)).counts == {}
        assert made.context()["missing"]
    assert live_sources({"integrations": entry}, alert=None, resolve=resolved) == []
