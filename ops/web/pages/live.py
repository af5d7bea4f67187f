"""The stream behind a page: its live parts, sent as server-sent events whenever they have changed.

event: parts   {"live_tasks": "<table>..."}: the parts that have changed
event: away    "ZooKeeper does not answer ...": a sentence; the page keeps showing the last state
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import orjson
from fastapi import Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from cdcbus.ops.web.answers import Refused
from cdcbus.ops.web.bus import bus_of
from cdcbus.plugins.errors import CdcError

EVERY_SECONDS = 2.0
LOOK_SECONDS = 0.25
# Then the browser connects again, and is authorized again.
STREAM_SECONDS = 15 * 60.0
STREAMS = 64

# Changed on the event loop only, so without a lock.
_open: set[int] = set()


def stream(
    request: Request, parts: Callable[[], dict[str, str]], every_seconds: float = EVERY_SECONDS
) -> StreamingResponse:
    """Sends what `parts` returns, which is called on a thread. Raises Refused (503) when too many
    streams are open."""
    if len(_open) >= STREAMS:
        raise Refused(
            503,
            f"{STREAMS} pages are being kept up to date already; close some, or load this one "
            "again by hand",
        )
    return StreamingResponse(
        _events(request, parts, every_seconds),
        media_type="text/event-stream",
        # nginx would hold events back until its buffer is full.
        headers={"x-accel-buffering": "no"},
    )


async def _events(
    request: Request, parts: Callable[[], dict[str, str]], every_seconds: float
) -> AsyncIterator[bytes]:
    mine, end = id(request), time.monotonic() + STREAM_SECONDS
    sent: dict[str, str] = {}
    is_ending = bus_of(request).ending.is_set
    _open.add(mine)
    try:
        while time.monotonic() < end and not is_ending() and not await request.is_disconnected():
            try:
                found = await run_in_threadpool(parts)
            except CdcError as error:
                # The stream continues: the page keeps its last state, and says why.
                yield event("away", str(error))
            else:
                changed = {}
                for name, html in found.items():
                    if sent.get(name) != html:
                        changed[name] = html
                yield event("parts", changed)
                sent = found
            # In short steps, so that a node that ends does not wait for its streams.
            again = time.monotonic() + every_seconds
            while time.monotonic() < again and not is_ending():
                await asyncio.sleep(LOOK_SECONDS)
    finally:
        _open.discard(mine)


def event(name: str, data: object) -> bytes:
    """One event; JSON has no line breaks, so its data is one line."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), orjson.dumps(data))
