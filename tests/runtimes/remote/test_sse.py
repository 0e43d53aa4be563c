"""Event streams, cut anywhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.runtimes.remote.sse import Frame, SseParser

PIECES = [b"data: a\n", b"data:b\r\n", b"data\r", b"\n", b"\r\n", b"\r", b": ping\n", b"event: x\n", b"id: 1\n",
          b"\xef\xbb\xbf", b"data: " + b"y" * 40 + b"\n", "data: ä€\n".encode(), b"\xff\n", b"junk"]  # fmt: skip


def parsed(chunks: list[bytes], max_bytes: int = 30) -> tuple[list[Frame], int]:
    parser = SseParser(max_bytes=max_bytes)
    frames = [frame for chunk in chunks for frame in parser.feed(chunk)]
    return frames + parser.end(), parser.oversized


@given(st.lists(st.sampled_from(PIECES), max_size=30).map(b"".join), st.data())
def test_parser__any_split__gives_the_same_frames(raw: bytes, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)), max_size=10)))
    chunks = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    whole = parsed([raw])
    assert parsed(chunks) == whole
    assert parsed([raw[place : place + 1] for place in range(len(raw))]) == whole


@pytest.mark.parametrize(
    ("raw", "frames"),
    [
        (b"data: a\n\n", [Frame("", "a")]),
        (b"\xef\xbb\xbfdata: a\r\n\r\n", [Frame("", "a")]),
        (b"data: a\rdata: b\r\r", [Frame("", "a\nb")]),
        (b": c\n\nevent: e\ndata:x\n\n", [Frame("e", "x")]),
        (b"data: a\n", [Frame("", "a")]),
        (b"data: a", []),
    ],
)
def test_parser__form_of_a_stream__is_read(raw: bytes, frames: list[Frame]) -> None:
    assert parsed([raw])[0] == frames


def test_parser__frame_above_the_limit__is_dropped_and_the_next_one_read() -> None:
    parser = SseParser(max_bytes=100)
    for _ in range(50):
        assert parser.feed(b"data: " + b"x" * 50 + b"\n") == []
    assert parser.feed(b"\ndata: y\n\n") == [Frame("", "y")]
    assert parser.oversized == 1


def test_parser__comments_for_hours__are_no_frame() -> None:
    parser = SseParser(max_bytes=100)
    for _ in range(1000):
        assert parser.feed(b": keepalive\n") == []
    assert parser.feed(b"data: y\n\n") == [Frame("", "y")]
