"""Telling how far the search for affected nodes is, as lines of JSON, while the dry run of a large tree goes on."""

import time
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

import orjson
from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse

from controlplane.configs.impact import ImpactSearch

NDJSON: Final = "application/x-ndjson"
#: A line of progress at least this often; each is one step of the search late at most.
INTERVAL_S: Final = 0.5


def progress_response(search: ImpactSearch, answer: Callable[[], Any]) -> StreamingHttpResponse:
    """Return an answer whose lines say how far ``search`` is, and whose last line is what ``answer`` returns then.

    An answer that breaks off without that line failed on its way. Served without a thread of its own.
    """
    return StreamingHttpResponse(_lines(search, answer), content_type=NDJSON, headers={"Cache-Control": "no-store"})


async def _lines(search: ImpactSearch, answer: Callable[[], Any]) -> AsyncIterator[bytes]:
    told = time.monotonic()
    while await sync_to_async(search.step)():
        if time.monotonic() - told >= INTERVAL_S:
            told = time.monotonic()
            yield _line({"progress": {"done": search.done, "total": search.total, "affected": search.found.count}})
    yield _line(answer())


def _line(value: Any) -> bytes:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS | orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE)
