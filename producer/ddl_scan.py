"""The DDL between two places of the binlog, by a look ahead in a stream of its own: whether a table was altered, and is still to be met."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from pymysqlreplication.constants import BINLOG

from cdcbus.plugins.errors import PositionLost
from cdcbus.producer.compressed import QUERY_COMPRESSED, plain_query
from cdcbus.producer.events import BEGIN, HEADER, ROW_STATEMENT
from cdcbus.producer.place import Place, carried

LOG = logging.getLogger(__name__)
_SAID_BYTES = 1 << 26  # a look ahead of so much takes seconds: the log says so


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement as the binlog has it. `end` is the place behind it; `thread` the session's number, `schema` its schema."""

    end: Place
    thread: int
    schema: str
    sql: bytes


def statement(body: bytes, end: Place) -> Statement:
    """From a Query event's body. Layout: "Query_log_event": thread, time, length of the schema's name, error, length of the variables,
    variables, schema, 0, text."""
    start = 13 + int.from_bytes(body[11:13], "little")
    schema = body[start : start + body[8]]
    return Statement(end, int.from_bytes(body[:4], "little"), schema.decode("utf-8", "replace"), body[start + body[8] + 1 :])


def is_ddl(sql: bytes) -> bool:
    """Whether it may be: it neither begins a transaction nor ends one, nor changes rows."""
    return not BEGIN.fullmatch(sql) and sql.upper() not in (b"COMMIT", b"ROLLBACK") and not ROW_STATEMENT.match(sql)


class DdlScan:
    """`events` opens the binlog at a place and gives its events, with `checksum_bytes` at the end of each, until the binlog's end.

    What was found is kept, so that each byte is read about once.
    """

    def __init__(self, events: Callable[[Place], Iterator[list[bytes]]], checksum_bytes: int) -> None:
        self._events, self._checksum_bytes = events, checksum_bytes
        self._from: Place | None = None
        self._to: Place | None = None
        self._found: list[Statement] = []

    def between(self, after: Place, until: Place) -> list[Statement]:
        """The statements that end behind `after` and not behind `until`, which the server must have written already.
        Raises PositionLost when it does not hold all between the two, and what `events` raises."""
        if not after < until:
            return []
        if self._from is None or self._to is None or not self._from <= after <= self._to:
            self._from = self._to = after
            self._found = []
        if self._to < until:
            self._read(self._to, until)
        return [one for one in self._found if after < one.end <= until]

    def _read(self, start: Place, until: Place) -> None:
        if start.file != until.file or until.pos - start.pos > _SAID_BYTES:
            LOG.info("looking for DDL in the binlog from %s to %s", start, until)
        file, end, checksum_bytes = start.file, start, self._checksum_bytes
        for events in self._events(start):
            for event in events:
                _, kind, _, _, end_pos, _ = HEADER.unpack_from(event)
                body = event[19 : len(event) - checksum_bytes]
                if kind == BINLOG.ROTATE_EVENT:
                    file = body[8:].decode()
                    end = max(end, Place(file, int.from_bytes(body[:8], "little")))
                    continue
                if kind == BINLOG.FORMAT_DESCRIPTION_EVENT:
                    checksum_bytes = 4 if event[-5] == 1 else 0
                end = max(end, Place(file, carried(end.pos if end.file == file else 0, end_pos)))
                if kind in (BINLOG.QUERY_EVENT, QUERY_COMPRESSED):
                    found = statement(body if kind == BINLOG.QUERY_EVENT else plain_query(body), end)
                    if is_ddl(found.sql):
                        self._found.append(found)
            if until <= end:
                break
        if end < until:
            raise PositionLost(f"the binlog ends at {end} where it was to be read from {start} to {until}")
        self._to = end
