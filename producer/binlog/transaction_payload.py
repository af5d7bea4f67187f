"""TRANSACTION_PAYLOAD events: all events of a transaction compressed into one (MySQL 8.0.20,
`binlog_transaction_compression`).

Layout: "Transaction_payload_event" of the MySQL sources: fields of number, size and value, a
terminating 0, then the payload: events one after the other, without checksums.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

from zstandard import ZstdDecompressor, ZstdError

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.producer.binlog.event_types import HEADER, packed_integer

PIECE_BYTES = 1 << 18
_END, _PAYLOAD_SIZE, _COMPRESSION, _UNCOMPRESSED_SIZE = range(4)
_ZSTD, _NONE = 0, 255


def inner_events(body: bytes) -> Iterator[list[bytes]]:
    """Yields the events inside, in order, about PIECE_BYTES at a time, so that the uncompressed
    transaction is never in memory as a whole. Raises UnreadableEvent for a damaged event, or a
    compression that this release does not know."""
    try:
        fields, start = _fields(body)
    except (IndexError, KeyError) as error:
        raise UnreadableEvent(
            "a compressed transaction (TRANSACTION_PAYLOAD) ends within its header"
        ) from error
    size = len(body) - start
    if fields.get(_PAYLOAD_SIZE, size) != size:
        raise UnreadableEvent(
            f"a compressed transaction (TRANSACTION_PAYLOAD) says {fields[_PAYLOAD_SIZE]} bytes, "
            f"but has {size}"
        )
    compression = fields.get(_COMPRESSION, _NONE)
    payload = memoryview(body)[start:]
    if compression == _ZSTD:
        yield from _events(_reading(payload), fields.get(_UNCOMPRESSED_SIZE, 0))
    elif compression == _NONE:
        yield from _events(io.BytesIO(payload).read, size)
    else:
        raise UnreadableEvent(
            f"a compressed transaction (TRANSACTION_PAYLOAD) of compression type {compression}, "
            "unknown to this release"
        )


def _fields(body: bytes) -> tuple[dict[int, int], int]:
    """Returns field number -> value, and where the payload starts."""
    fields: dict[int, int] = {}
    at = 0
    while True:
        kind, at = packed_integer(body, at)
        if kind == _END:
            return fields, at
        if kind > _UNCOMPRESSED_SIZE:
            raise UnreadableEvent(
                f"a compressed transaction (TRANSACTION_PAYLOAD) has field number {kind}, unknown "
                "to this release"
            )
        size, at = packed_integer(body, at)
        fields[kind], _ = packed_integer(body, at)
        at += size


def _reading(payload: memoryview) -> Callable[[int], bytes]:
    reader = ZstdDecompressor().stream_reader(payload, read_across_frames=True)

    def read(size: int) -> bytes:
        try:
            return reader.read(size)
        except ZstdError as error:
            raise UnreadableEvent(
                f"a compressed transaction (TRANSACTION_PAYLOAD) is damaged ({error})"
            ) from error

    return read


def _events(read: Callable[[int], bytes], left: int) -> Iterator[list[bytes]]:
    """Yields the events in what `read(n)` returns, `left` bytes in total."""
    data, lacking = b"", 0
    while chunk := read(max(PIECE_BYTES, lacking)):
        left -= len(chunk)
        data += chunk
        events, at, lacking = [], 0, 0
        while at + HEADER.size <= len(data):
            # The event's own size, from its header: an event cannot be larger than what is left.
            size = int.from_bytes(data[at + 9 : at + 13], "little")
            if size < HEADER.size or size > len(data) - at + left:
                raise UnreadableEvent(
                    "a compressed transaction (TRANSACTION_PAYLOAD) holds an event that does not "
                    "fit into it"
                )
            lacking = at + size - len(data)
            # The event continues in the next piece, which must then be at least as large.
            if lacking > 0:
                break
            events.append(data[at : at + size])
            at += size
        data = data[at:]
        yield events
    if data or left:
        raise UnreadableEvent(
            "a compressed transaction (TRANSACTION_PAYLOAD) is not as long as it says"
        )
