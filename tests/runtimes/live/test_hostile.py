"""Servers that send far more than is asked for, or what was sent to them: bounds hold, are told, and nothing leaks."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.outbound import Answer
from controlplane.runtimes.sources.live import http
from controlplane.runtimes.sources.live import prometheus as live_prometheus
from controlplane.runtimes.sources.live.endpoint import Endpoint
from controlplane.runtimes.sources.live.http import JsonApi, SourceError, without
from controlplane.runtimes.sources.live.matrix import Sampled, as_series
from controlplane.runtimes.sources.live.promql import Expression
from controlplane.runtimes.sources.live.source import LiveSource
from tests.runtimes.live.peer import Asked, Peer, PrometheusStub, Raw, answer, serving, success
from tests.runtimes.live.support import EVERYTHING, SECRET, alert, info_of, series_of, source

NOW = datetime.now(UTC)
TIMES = [NOW.timestamp() - 3600 + 30 * place for place in range(120)]


@pytest.fixture
def peer() -> Iterator[Peer]:
    with serving(Peer(PrometheusStub().respond)) as made:
        yield made


@asynccontextmanager
async def watched(held_s: list[float]) -> AsyncIterator[None]:
    """Append for how many seconds the loop was held longest within the block, and how long the block took."""
    longest, running = 0.0, True

    async def watch() -> None:
        nonlocal longest
        last = time.perf_counter()
        while running:
            await asyncio.sleep(0.001)
            longest, last = max(longest, time.perf_counter() - last), time.perf_counter()

    watching = asyncio.create_task(watch())
    began = time.perf_counter()
    yield
    took = time.perf_counter() - began
    running = False
    await watching
    held_s += [longest, took]


async def never_held(wanted: Callable[[], Awaitable[Any]]) -> Any:
    """Return what is wanted; fail where reading it held the loop for long."""
    held_s: list[float] = []
    async with watched(held_s):
        found = await wanted()
    longest, took = held_s
    # Others may take the processor away for a while; a piece that held the loop would show as most of the whole.
    assert longest < max(1.0, took / 2)
    return found


def prometheus(*series: Any, ask: str = "evil_gauge", **views: Any) -> Callable[[Asked], Raw]:
    """Return a server that answers range queries of ``ask`` with ``series``, and other paths' ends as ``views`` say."""
    stub = PrometheusStub(series=[{"__name__": ask, "service": "checkout"}])
    matrix = success({"resultType": "matrix", "result": list(series)})

    def respond(asked: Asked) -> Raw:
        end = asked.path.rpartition("/")[2]
        if end in views and asked.first("query") != "time()":
            return cast("Raw", views[end])
        return matrix if end == "query_range" and ask in asked.first("query") else stub.respond(asked)

    return respond


def sampled(*values: list[Any], **labels: str) -> dict[str, Any]:
    return {"metric": {"__name__": "evil_gauge", "service": "checkout", **labels}, "values": list(values)}


def problem_in(problems: tuple[str, ...], words: str) -> str:
    (found,) = [problem for problem in problems if words in problem]
    return found


async def problems_of(made: LiveSource) -> tuple[str, ...]:
    return tuple((await info_of(made)).problems)


async def test_series__thousands_of_labels__bounded_told_and_never_hold_the_loop(peer: Peer) -> None:
    fat = [
        sampled(*[[at, "1"] for at in TIMES[:3]], **{f"l{place}_{number}": "x" for number in range(1_500)})
        for place in range(30)
    ]
    peer.respond = prometheus(*fat)
    made = source(peer.url, alert=alert(NOW, service="checkout"))
    series = (await never_held(lambda: made.series(EVERYTHING))).records

    assert len(series) == 30
    assert all(len(one.statistic) <= 250 for one in series)
    assert len({one.statistic for one in series}) == 30
    told = problem_in(await problems_of(made), "label left out")
    assert told.startswith("label left out, at most 64 of one series are read")
    assert told.endswith(f"({30 * (1_502 - 64):,} times)")


def test_as_series__many_labels__takes_time_in_proportion() -> None:
    expression = Expression("q", "m", "", "", objects=("service",))

    def seconds(labels: int) -> float:
        kept = [
            Sampled(expression, {"service": "a", **{f"l{place}_{n}": "x" for n in range(labels)}}, (1.0,), (1.0,))
            for place in range(10)
        ]
        began = time.process_time()
        assert len(as_series("mon", kept, {})) == 10
        return time.process_time() - began

    small, large = (min(seconds(labels) for _ in range(3)) for labels in (200, 3_200))
    assert large < 80 * small  # sixteen times the labels; 256 times the work if each were compared with each


@given(
    st.lists(
        st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["", "x", "y"]), max_size=4), min_size=1, max_size=5
    )
)
def test_as_series__labels_that_differ__alone_tell_series_apart(labels: list[dict[str, str]]) -> None:
    expression = Expression("q", "m", "", "", ())
    found = as_series("mon", [Sampled(expression, one, (1.0,), (1.0,)) for one in labels], {})

    differing = {name for name in "abcd" if len({one.get(name, "") for one in labels}) > 1}
    expected = [", ".join(f"{name} {one[name]}" for name in sorted(differing) if one.get(name)) for one in labels]
    assert [one.statistic for one in found] == expected


async def test_series__long_names_and_values_of_labels__left_out_and_cut(peer: Peer) -> None:
    peer.respond = prometheus(sampled([TIMES[0], "1"], service="s" * 1_000, **{"n" * 201: "x"}))
    made = source(peer.url, alert=alert(NOW, service="checkout"))

    assert list(await series_of(made)) == [("evil_gauge", "s" * 200)]
    problems = await problems_of(made)
    assert problem_in(problems, "value of a label cut") == "value of a label cut after 200 characters"
    assert "with names up to 200 long" in problem_in(problems, "label left out")


async def test_series__samples_of_no_time__left_out_and_told_and_the_others_kept(peer: Peer) -> None:
    good = sampled(*[[at, "5"] for at in TIMES], service="checkout")
    mixed = sampled([1e300, "1"], [-5, "1"], [253_402_300_800, "1"], [TIMES[0], "7"], service="cart")
    peer.respond = prometheus(sampled([1e300, "1"]), mixed, good)
    made = source(peer.url, alert=alert(NOW, service="checkout"))

    found = await series_of(made)
    assert {object_: one.values for (_, object_), one in found.items()} == {"checkout": (5.0,) * 120, "cart": (7.0,)}
    words = "sample left out whose time is none (outside of 1970 to 9999) (4 times)"
    assert problem_in(await problems_of(made), "whose time is none") == words


@pytest.mark.parametrize("stated", [1e300, -1.0, 253_402_300_799.0, 0])
async def test_clock__that_tells_no_time__ours_is_used(peer: Peer, stated: float) -> None:
    stub = PrometheusStub(
        series=[{"__name__": "depth", "service": "mail"}],
        answers=[("depth", [({"__name__": "depth", "service": "mail"}, lambda _: 3)])],
        now=lambda: stated,
    )
    peer.respond = stub.respond

    assert list(await series_of(source(peer.url))) == [("depth", "mail")]
    start = datetime.fromtimestamp(float(peer.to("/query_range")[0].first("start")), UTC)
    assert abs(datetime.now(UTC) - timedelta(minutes=60) - start) < timedelta(minutes=1)


async def test_series__more_samples_than_were_asked_for__the_newest_are_kept(peer: Peer) -> None:
    begin = TIMES[0] - 3_000
    peer.respond = prometheus(sampled(*[[begin + place, str(place)] for place in range(1_200)]))
    made = source(peer.url, alert=alert(NOW, service="checkout"))

    (one,) = (await series_of(made)).values()
    assert (len(one.values), one.values[-1]) == (1_000, 1_199.0)
    assert problem_in(await problems_of(made), "older sample").endswith("at most 1,000 are read (200 times)")


async def test_states__tens_of_thousands_of_alerts__the_firing_first_the_rest_counted(peer: Peer) -> None:
    states = ("pending", "firing")
    listed = [{"labels": {"alertname": f"a{place}"}, "state": states[place >= 19_000]} for place in range(20_000)]
    peer.respond = prometheus(alerts=success({"alerts": listed}))
    made = source(peer.url)
    found = (await never_held(lambda: made.states(EVERYTHING))).records

    assert [one.object for one in found] == [f"a{place}" for place in [*range(19_000, 20_000), *range(1_000)]]
    assert "alert left out, at most 2,000 are read (18,000 times)" in await problems_of(made)


async def test_links__tens_of_thousands__bounded_and_the_rest_counted(peer: Peer) -> None:
    calls = [{"metric": {"client": f"s{place}", "server": "db"}, "value": [1, "5"]} for place in range(25_000)]
    peer.respond = prometheus(
        ask="traces_service_graph_request_total", query=success({"resultType": "vector", "result": calls})
    )
    made = source(peer.url)
    found = (await never_held(lambda: made.links(EVERYTHING))).records

    assert len(found) == len(set(found)) == 20_000
    assert "sample of an answer left out, at most 20,000 are read (5,000 times)" in await problems_of(made)


async def test_warnings__many_thousands__twenty_of_an_answer_are_told(peer: Peer) -> None:
    warned = {"status": "success", "data": {"result": []}, "warnings": [f"w {place}" for place in range(50_000)]}
    peer.respond = prometheus(query_range=answer(warned))
    made = source(peer.url, alert=alert(NOW, service="checkout"))
    await never_held(lambda: made.series(EVERYTHING))

    problems = await problems_of(made)
    told = {problem.partition(" (")[0] for problem in problems if problem.startswith("the server warns")}
    assert {f"the server warns: w {place}" for place in range(15)} <= told
    assert told <= {f"the server warns: w {place}" for place in range(20)}
    assert "at most 20 are read" in problem_in(problems, "warning of the server left out")


async def test_names__more_than_are_weighed__the_rest_counted(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_prometheus, "MOST_NAMES", 500)
    peer.respond = prometheus(values=success([f"m{place}_bytes" for place in range(700)]))
    made = source(peer.url)
    await never_held(lambda: made.series(EVERYTHING))

    assert any("family left out, at most 500 are read (200 times)" in one for one in await problems_of(made))


def loki(*streams: Any, labels: Any = ("app",), values: Any = ("checkout",)) -> Callable[[Asked], Raw]:
    def respond(asked: Asked) -> Raw:
        if asked.path.endswith("/labels"):
            return success(labels)
        if asked.path.endswith("/values"):
            return success(values)
        return success({"resultType": "streams", "result": list(streams)})

    return respond


async def test_log_lines__server_knows_no_limit__the_newest_thousand_of_all_streams(peer: Peer) -> None:
    begin = int(NOW.timestamp() - 600) * 10**9
    streams = [
        {"stream": {"app": "checkout", "part": str(part)}, "values": [
            [str(begin + (2 * place + part) * 10**6), f"error {2 * place + part}"] for place in range(10_000)
        ]}
        for part in (0, 1)
    ]  # fmt: skip
    peer.respond = loki(*streams)
    made = source(peer.url, "loki", alert=alert(NOW, app="checkout"))
    lines = (await never_held(lambda: made.log_lines(EVERYTHING))).records

    assert [one.message for one in lines] == [f"error {number}" for number in range(19_000, 20_000)]
    assert (await problems_of(made))[0].startswith("only the newest 1,000 lines were read")


async def test_labels_and_values__many_thousands__five_thousand_are_read_and_the_rest_counted(peer: Peer) -> None:
    peer.respond = loki(labels=[f"l{place}" for place in range(6_000)] + ["x" * 300])
    made = source(peer.url, "loki", alert=alert(NOW, app="checkout"))
    problems = await never_held(lambda: problems_of(made))

    assert "label left out, at most 5,000 are read (1,000 times)" in problems
    assert "label left out that is longer than 200 characters" in problems


async def test_alertmanager__alerts_of_many_labels_and_long_words__bounded(peer: Peer) -> None:
    labels = {"alertname": "A", "zone": "z", "service": "cart"} | {f"l{place}": "x" for place in range(500)}
    peer.respond = lambda _: answer([{"labels": labels, "annotations": {"summary": "s" * 20_000}}] * 230)
    made = source(peer.url, "alertmanager")
    events = (await never_held(lambda: made.happenings(EVERYTHING))).records
    states = (await made.states(EVERYTHING)).records

    assert len(states) == len(events) == 200
    assert {(one.object, len(one.message), one.reason) for one in events} == {("cart", 4_000, "A")}
    assert {len(one.facts["tags"]) for one in states} == {63}
    assert "30 further alerts left out" in await problems_of(made)


AUTH: dict[str, Any] = {"auth": {"type": "bearer", "token": "${OPENSRE_CRED_MON}"}}


@pytest.mark.parametrize("escaped", [False, True])
async def test_credentials__echoed_in_labels_names_and_alerts__never_in_a_record(peer: Peer, escaped: bool) -> None:
    told = {"labels": {"alertname": f"n {SECRET}", SECRET: "x"}, "annotations": {"summary": SECRET}, "state": SECRET}
    respond = prometheus(
        {
            "metric": {"__name__": "evil_gauge", "service": f"svc {SECRET}", SECRET: SECRET},
            "values": [[at, "5"] for at in TIMES],
        },
        alerts=success({"alerts": [told]}),
        values=success(["evil_gauge", SECRET]),
    )

    def spelled(asked: Asked) -> Raw:
        raw = respond(asked)
        spelling = "".join(f"\\u{ord(letter):04x}" for letter in SECRET) if escaped else SECRET
        return Raw(raw.status, cast("bytes", raw.body).replace(SECRET.encode(), spelling.encode()))

    peer.respond = spelled
    made = source(peer.url, alert=alert(NOW, service="checkout"), **AUTH)
    found: list[Any] = [*(await made.series(EVERYTHING)).records, *(await made.states(EVERYTHING)).records]

    assert peer.asked[0].headers["authorization"] == f"Bearer {SECRET}"
    assert {one.object for one in found} == {"svc [redacted:credential]", "n [redacted:credential]"}
    assert SECRET not in f"{found} {await info_of(made)}"


async def test_credentials__echoed_in_log_lines__never_in_a_record(peer: Peer) -> None:
    spelled = "".join(f"\\u{ord(letter):04x}" for letter in SECRET)
    at = str(int(NOW.timestamp()) * 10**9)
    lines = [[at, f"got Bearer {SECRET}"], [at, f'{{"msg":"got {spelled}","level":"error"}}']]
    peer.respond = loki({"stream": {"app": f"checkout-{SECRET}"}, "values": lines})
    made = source(peer.url, "loki", alert=alert(NOW, app="checkout"), **AUTH)
    found = (await made.log_lines(EVERYTHING)).records

    words = ["got Bearer [redacted:credential]", "got [redacted:credential]"]
    assert sorted(one.message for one in found) == sorted(words)
    assert {one.object for one in found} == {"checkout-[redacted:credential]"}


async def test_credentials__echoed_as_the_type_of_an_answer__not_shown(peer: Peer) -> None:
    peer.respond = lambda _: Raw(200, b"no", f"text/{SECRET}")
    made = source(peer.url, **AUTH)

    assert SECRET not in str(await problems_of(made))
    assert "answers with something else instead of JSON" in (await problems_of(made))[0]


SPELLED = st.text(alphabet='ab1"\\/é\n', min_size=4, max_size=6)
TEXTS = st.text(alphabet='ab1"\\/é\n', max_size=12)
JSON = st.recursive(
    TEXTS | st.integers(0, 99_999) | st.none() | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)


def texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            yield from texts_in(item)


@given(secret=SPELLED, value=JSON, ascii_only=st.booleans())
def test_body__any_json_and_secret__no_text_holds_it_and_nothing_else_changes(
    secret: str, value: Any, ascii_only: bool
) -> None:
    whole = [value, f"x{secret}y"] if ascii_only else value
    api = JsonApi(Endpoint("mon", "prometheus", "http://x", secrets=(secret,)), cast("Any", None))
    body = json.dumps(whole, ensure_ascii=ascii_only).encode()
    read = asyncio.run(api._json(Answer(200, {}, body)))

    assert not any(secret in found for found in texts_in(read))
    assert read == without(whole, (secret,))


async def test_body__more_values_than_are_read__refused_before_it_is_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_MOST_VALUES", 100)
    api = JsonApi(Endpoint("mon", "prometheus", "http://x"), cast("Any", None))

    assert await api._json(Answer(200, {}, orjson.dumps([[]] * 49))) == [[]] * 49
    with pytest.raises(SourceError) as caught:
        await api._json(Answer(200, {}, orjson.dumps([[]] * 60)))
    assert (caught.value.code, str(caught.value)) == ("too_large", "The answer has more values than are read.")


@pytest.mark.parametrize("secrets", [(), (SECRET,)])
async def test_body__nested_without_end__is_no_answer(secrets: tuple[str, ...]) -> None:
    api = JsonApi(Endpoint("mon", "prometheus", "http://x", secrets=secrets), cast("Any", None))

    def body(depth: int) -> Answer:
        return Answer(200, {}, b"[" * depth + b'"\\u0061"' + b"]" * depth)

    assert await api._json(body(3)) == [[["a"]]]
    for depth in (1_000, 5_000) if secrets else (5_000,):
        with pytest.raises(SourceError) as caught:
            await api._json(body(depth))
        assert caught.value.code == "not_json"
