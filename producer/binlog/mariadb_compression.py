"""Decompresses MariaDB's compressed events (`log_bin_compress`).

Layout: `query_event_uncompress` and `row_log_event_uncompress` of the MariaDB sources: everything
up to the statement, or up to the first row, is unchanged; then follow a byte 0x80 + n, n bytes with
the uncompressed length, big-endian, and zlib data.
"""

from __future__ import annotations

import zlib

from pymysqlreplication.constants import BINLOG

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.producer.binlog.event_types import packed_integer

QUERY_COMPRESSED = 0xA5
PLAIN_ROWS = {
    0xA6: BINLOG.WRITE_ROWS_EVENT_V1,
    0xA7: BINLOG.UPDATE_ROWS_EVENT_V1,
    0xA8: BINLOG.DELETE_ROWS_EVENT_V1,
    0xA9: BINLOG.WRITE_ROWS_EVENT_V2,
    0xAA: BINLOG.UPDATE_ROWS_EVENT_V2,
    0xAB: BINLOG.DELETE_ROWS_EVENT_V2,
}
"""Type of compressed row event -> its uncompressed type."""
_UPDATES = {BINLOG.UPDATE_ROWS_EVENT_V1, BINLOG.UPDATE_ROWS_EVENT_V2}
_WITH_EXTRA_DATA = {
    BINLOG.WRITE_ROWS_EVENT_V2,
    BINLOG.UPDATE_ROWS_EVENT_V2,
    BINLOG.DELETE_ROWS_EVENT_V2,
}


def plain_query(body: bytes) -> bytes:
    """The decompressed body of a Query event. Raises UnreadableEvent."""
    return _plain(body, 13 + int.from_bytes(body[11:13], "little") + body[8] + 1)


def plain_rows(kind: int, body: bytes) -> bytes:
    """The decompressed body, of a row event of kind `PLAIN_ROWS[kind]`. Raises UnreadableEvent."""
    at = 8
    if PLAIN_ROWS[kind] in _WITH_EXTRA_DATA:
        at += int.from_bytes(body[8:10], "little")
    try:
        count, at = packed_integer(body, at)
    except (IndexError, KeyError) as error:
        raise UnreadableEvent("a compressed row event ends before its first row") from error
    bitmaps = 2 if PLAIN_ROWS[kind] in _UPDATES else 1
    return _plain(body, at + bitmaps * ((count + 7) // 8))


def _plain(body: bytes, at: int) -> bytes:
    method = body[at] if at < len(body) else 0
    if method & 0xF0 != 0x80:
        raise UnreadableEvent(
            f"an event is compressed by method {method >> 4 & 7}, unknown to this release"
        )
    start = at + 1 + (method & 7)
    try:
        rest = zlib.decompress(body[start:])
    except zlib.error as error:
        raise UnreadableEvent(f"a compressed event is damaged ({error})") from error
    if len(rest) != int.from_bytes(body[at + 1 : start], "big"):
        raise UnreadableEvent("a compressed event is not as long as it says")
    return body[:at] + rest
