"""The outbound client against real servers on loopback: what it reaches, what it refuses, where it stops."""

import asyncio
import gzip
import ipaddress
import socket
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.core.outbound import OutboundClient, OutboundError, OutboundPolicy, policy_from_settings
from controlplane.core.outbound.bodies import BodyError, BoundedBody
from controlplane.core.outbound.errors import CODES
from controlplane.core.outbound.policy import parse_networks

LOOPBACK = OutboundPolicy(private_allow=parse_networks(["127.0.0.0/8", "::1"]))
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def server(handler: Handler) -> AsyncIterator[str]:
    """Serve raw bytes on a free port; yields the base URL."""

    async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except (ConnectionError, asyncio.CancelledError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    running = await asyncio.start_server(guarded, "127.0.0.1", 0)
    port = running.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        running.close()


def answering(body: bytes, *, status: str = "200 OK", headers: str = "") -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readuntil(b"\r\n\r\n"):
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{headers}\r\n".encode() + body)
            await writer.drain()

    return handle


async def refusal(url: str, **options: Any) -> str:
    settings: dict[str, Any] = {"policy": LOOPBACK, "timeout_s": 5.0} | options
    async with OutboundClient(**settings) as client:
        with pytest.raises(OutboundError) as caught:
            await client.get(url)
    assert "secret" not in str(caught.value)
    return caught.value.code


async def test_get__plain_answer__status_headers_body() -> None:
    async with (
        server(answering(b'{"a": 1}', headers="Content-Type: application/json; charset=utf-8\r\n")) as url,
        OutboundClient(policy=LOOPBACK) as client,
    ):
        answer = await client.get(url, params={"query": "up"})

    assert (answer.status, answer.body, answer.is_json) == (200, b'{"a": 1}', True)


async def test_get__error_status__is_an_answer() -> None:
    async with server(answering(b"no", status="503 Busy")) as url, OutboundClient(policy=LOOPBACK) as client:
        answer = await client.get(url)

    assert (answer.status, answer.is_json) == (503, False)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("ftp://example.org/", "scheme_not_allowed"),
        ("file:///etc/passwd", "scheme_not_allowed"),
        ("gopher://127.0.0.1/", "scheme_not_allowed"),
        ("http://", "bad_url"),
        ("http://user:secret@127.0.0.1/", "bad_url"),
        ("http://127.0.0.1:99999/", "bad_url"),
        ("not a url", "scheme_not_allowed"),
        ("http://no-such-host.invalid/secret", "host_unknown"),
        ("http://169.254.169.254/latest/meta-data/", "address_denied"),
        ("http://[::ffff:169.254.169.254]/", "address_denied"),
        ("http://[64:ff9b::a9fe:a9fe]/", "address_denied"),
        ("http://[fd00:ec2::254]/", "address_denied"),
        ("http://100.100.100.200/", "address_denied"),
        ("http://0.0.0.0/", "address_denied"),
        ("http://[fe80::1]/", "address_denied"),
        ("http://224.0.0.1/", "address_denied"),
        ("http://255.255.255.255/", "address_denied"),
        ("http://10.1.2.3/", "address_private"),
        ("http://172.16.0.1/", "address_private"),
        ("http://192.168.1.1/", "address_private"),
        ("http://100.64.0.1/", "address_private"),
        ("http://[fd12::1]/", "address_private"),
        ("http://[::ffff:10.0.0.1]/", "address_private"),
        ("http://[2002:0a00:0001::]/", "address_private"),
        ("http://2130706433.nip/", "host_unknown"),
    ],
)
async def test_get__address_out_of_bounds__refused_before_any_connection(url: str, code: str) -> None:
    assert await refusal(url) == code


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9/", "http://localhost:9/", "http://[::1]:9/", "http://2130706433:9/"]
)
async def test_get__loopback_not_opened_by_the_operator__refused(url: str) -> None:
    assert await refusal(url, policy=OutboundPolicy()) == "address_private"


async def test_get__name_with_one_private_address_among_public_ones__refused(monkeypatch: pytest.MonkeyPatch) -> None:
    async def both(*_: Any, **__: Any) -> list[Any]:
        return [(socket.AF_INET, 1, 6, "", (text, 80)) for text in ("93.184.216.34", "10.0.0.1")]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", both)

    assert await refusal("http://two-faced.example/") == "address_private"


async def test_get__name_resolved_once__connection_goes_to_the_checked_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """DNS rebinding: the second answer of the resolver would be another address, but nobody asks again."""
    asked: list[str] = []

    async def rebinding(host: str, port: int, **_: Any) -> list[Any]:
        asked.append(host)
        address = "127.0.0.1" if len(asked) == 1 else "169.254.169.254"
        return [(socket.AF_INET, 1, 6, "", (address, port))]

    async with server(answering(b"ok")) as url, OutboundClient(policy=LOOPBACK) as client:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", rebinding)
        answer = await client.get(url.replace("127.0.0.1", "rebind.example"))

    assert (answer.body, asked) == (b"ok", ["rebind.example"])


async def test_get__redirect_on_the_same_origin__followed() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while request := await reader.readuntil(b"\r\n\r\n"):
            if request.startswith(b"GET /old"):
                writer.write(b"HTTP/1.1 302 Found\r\nLocation: /new\r\nContent-Length: 0\r\n\r\n")
            else:
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nnew")

    async with server(handle) as url, OutboundClient(policy=LOOPBACK) as client:
        assert (await client.get(f"{url}/old")).body == b"new"


@pytest.mark.parametrize(
    "location", ["http://169.254.169.254/", "https://127.0.0.1/", "//other.example/", "http://127.0.0.1:1/"]
)
async def test_get__redirect_elsewhere__refused(location: str) -> None:
    async with server(answering(b"", status="302 Found", headers=f"Location: {location}\r\n")) as url:
        assert await refusal(url) == "redirect_refused"


async def test_get__redirect_for_ever__refused() -> None:
    async with server(answering(b"", status="302 Found", headers="Location: /again\r\n")) as url:
        assert await refusal(url) == "too_many_redirects"


async def test_get__larger_than_allowed__stopped_early() -> None:
    sent = 0

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            sent += 65536
            await writer.drain()

    async with server(endless) as url:
        assert await refusal(url, max_bytes=100_000) == "too_large"
    assert sent < 50_000_000


async def test_get__compression_bomb__counted_after_decompression() -> None:
    bomb = gzip.compress(b"0" * 20_000_000)
    async with server(answering(bomb, headers="Content-Encoding: gzip\r\n")) as url:
        assert await refusal(url, max_bytes=1_000_000) == "too_large"


async def test_get__silent_server__times_out() -> None:
    async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with server(silent) as url:
        assert await refusal(url, timeout_s=0.2) == "timeout"


async def test_get__one_byte_at_a_time__whole_request_is_bounded() -> None:
    async def dripping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
        while True:
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.05)

    async with server(dripping) as url:
        assert await refusal(url, timeout_s=0.4) == "timeout"


async def test_get__not_http__protocol_error() -> None:
    async def noise(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"\x00\x01\x02 nonsense\r\n\r\n")
        await writer.drain()

    async with server(noise) as url:
        assert await refusal(url) == "protocol_error"


async def test_get__nobody_listens__connection_failed() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        assert await refusal(f"http://127.0.0.1:{port}/secret?token=secret") == "connection_failed"


async def test_get__plain_http_behind_https__tls_failed() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await writer.drain()

    async with server(plain) as url:
        assert await refusal(url.replace("http:", "https:")) == "tls_failed"


async def test_get__proxy_in_the_environment__not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:1")
    async with server(answering(b"direct")) as url, OutboundClient(policy=LOOPBACK) as client:
        assert (await client.get(url)).body == b"direct"


@given(st.ip_addresses(network="169.254.0.0/16") | st.ip_addresses(network="fe80::/10"))
def test_policy__link_local__denied_even_when_listed(address: Any) -> None:
    open_policy = OutboundPolicy(private_allow=parse_networks(["0.0.0.0/0", "::/0"]))

    with pytest.raises(OutboundError) as caught:
        open_policy.check(address, "h")

    assert caught.value.code == "address_denied"


@given(st.ip_addresses(v=4, network="10.0.0.0/8"))
def test_policy__private_network_opened__only_that_one(address: ipaddress.IPv4Address) -> None:
    policy = OutboundPolicy(private_allow=parse_networks(["10.0.0.0/8"]))

    policy.check(address, "h")
    with pytest.raises(OutboundError):
        policy.check(ipaddress.ip_address("192.168.0.1"), "h")


def test_policy_from_settings__local_mode__loopback_alone(settings: Any) -> None:
    assert policy_from_settings() == LOOPBACK
    settings.OUTBOUND_PRIVATE_ALLOW = []
    assert policy_from_settings() == OutboundPolicy()


def test_outbound_error__every_code__has_words() -> None:
    assert all(str(OutboundError(code, "h")).endswith(" (host h).") for code in CODES)


@pytest.mark.parametrize("encoding", ["gzip, gzip", "br", "deflate", "gzip,identity", "zstd"])
async def test_get__encoding_that_was_not_asked_for__is_refused_before_it_is_decoded(encoding: str) -> None:
    bomb = gzip.compress(gzip.compress(b"0" * 20_000_000))
    tracemalloc.start()
    async with server(answering(bomb, headers=f"Content-Encoding: {encoding}\r\n")) as url:
        assert await refusal(url) == "protocol_error"
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000


@given(st.binary(max_size=2_000), st.integers(1, 50), st.integers(1, 3))
def test_bounded_body__gzip_in_pieces_and_members__is_the_plain_body(content: bytes, size: int, members: int) -> None:
    sent = b"".join(gzip.compress(content) for _ in range(members))
    body = BoundedBody("gzip", 10_000)
    for start in range(0, len(sent), size):
        body.feed(sent[start : start + size])
    assert body.content == content * members


def test_bounded_body__bomb__stops_within_the_bound() -> None:
    body = BoundedBody("gzip", 1_000)
    with pytest.raises(BodyError) as caught:
        body.feed(gzip.compress(b"0" * 50_000_000))
    assert (caught.value.code, len(body.content)) == ("too_large", 1_001)


async def test_get__redirect_to_no_url__is_refused() -> None:
    answer = b"HTTP/1.1 302 Found\r\nLocation: http://[\r\nContent-Length: 0\r\n\r\n"

    async def redirecting(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()

    async with server(redirecting) as url:
        assert await refusal(url) == "redirect_refused"


@pytest.mark.parametrize("address", ["168.63.129.16", "fd20:ce::254", "192.88.99.1", "3fff::1"])
def test_policy__metadata_and_special_addresses__never_even_when_everything_private_is_open(address: str) -> None:
    everything = OutboundPolicy(private_allow=parse_networks(["0.0.0.0/0", "::/0"]))
    with pytest.raises(OutboundError) as caught:
        everything.check(ipaddress.ip_address(address), "h")
    assert caught.value.code == "address_denied"


def test_policy__site_local__counts_as_private() -> None:
    with pytest.raises(OutboundError) as caught:
        OutboundPolicy().check(ipaddress.ip_address("fec0::1"), "h")
    assert caught.value.code == "address_private"
