"""Events in, batches of rows and transaction edges out: where in the binlog we are, in which transaction, which tables its numbers mean."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from pymysqlreplication.constants import BINLOG

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.position import BinlogPosition
from cdcbus.plugins.rowchange import Origin
from cdcbus.producer.decode import OPS
from cdcbus.producer.events import BEGIN, END, HEADER, HEARTBEATS, IGNORABLE_FLAG, ROW_STATEMENT, UNREADABLE, WITHOUT_EFFECT
from cdcbus.producer.filter import TableFilter
from cdcbus.producer.rows import Batch, Rows
from cdcbus.producer.schema import DecodableTable, SchemaReader, decodable
from cdcbus.producer.server import Server
from cdcbus.producer.table_map import parse, table_id, table_name


class Reading:
    """The state of reading one stream from `position`, which is a transaction edge."""

    def __init__(self, position: BinlogPosition, server: Server, tables: TableFilter, schema: SchemaReader) -> None:
        self._file, self._pos = position.file, position.pos
        self._server = server
        self._filter = tables
        self._schema = schema
        self._checksum_bytes = 4 if server.has_checksum else 0
        self._tables: dict[int, DecodableTable | None] = {}
        self._by_definition: dict[bytes, DecodableTable] = {}
        # Of the transaction that is being read:
        self._gtid = ""
        self._commit_ms = 0
        self._in_transaction = False
        self._is_first = True
        self._held: Rows | None = None  # its last row event: only what follows tells whether it ends the transaction
        # Of the batch that is being filled:
        self._rows: list[Rows] = []
        self._closed = 0  # how many of these belong to transactions that have ended
        self._edge: tuple[str, int, int] | None = None  # file, place, commit time
        self._handlers: dict[int, Callable[[bytes, bytes, int], None]] = {
            **dict.fromkeys(OPS, self._row_event),
            **dict.fromkeys(HEARTBEATS | WITHOUT_EFFECT, self._nothing),
            BINLOG.TABLE_MAP_EVENT: self._table_map,
            BINLOG.XID_EVENT: self._xid,
            BINLOG.QUERY_EVENT: self._query,
            BINLOG.GTID_LOG_EVENT: self._mysql_gtid,
            BINLOG.ANONYMOUS_GTID_LOG_EVENT: self._anonymous_gtid,
            BINLOG.MARIADB_GTID_EVENT: self._mariadb_gtid,
            BINLOG.ROTATE_EVENT: self._rotate,
            BINLOG.FORMAT_DESCRIPTION_EVENT: self._format_description,
        }

    def batches(self, stream: Iterator[list[bytes]]) -> Iterator[Batch]:
        """A batch for each list of events. Raises UnreadableEvent naming the place, after what comes before it was given out."""
        for events in stream:
            for event in events:
                start = self._pos
                try:
                    self._event(event)
                except UnreadableEvent as error:
                    yield self._batch()
                    raise UnreadableEvent(f"{self._file}:{start}: {error}") from error
            yield self._batch()

    def _batch(self) -> Batch:
        edge = self._edge
        position = BinlogPosition(edge[0], edge[1], timestamp_ms=edge[2], server_uuid=self._server.server_uuid) if edge else None
        batch = Batch(self._rows[: self._closed], position, self._rows[self._closed :])
        self._rows, self._closed, self._edge = [], 0, None
        return batch

    def _event(self, event: bytes) -> None:
        timestamp, kind, _, _, end_pos, flags = HEADER.unpack_from(event)
        handle = self._handlers.get(kind)
        if handle is None:
            if not flags & IGNORABLE_FLAG:
                name = UNREADABLE.get(kind, f"number {kind}, unknown to this release")
                raise UnreadableEvent(f"cannot read binlog event {name}; the task stops rather than skip it")
            handle = self._nothing
        self._start = self._pos
        if end_pos and kind not in HEARTBEATS:
            self._pos = end_pos
        elif self._in_transaction:  # where MariaDB leaves the place of events open
            self._pos += len(event)
        handle(event, event[19 : len(event) - self._checksum_bytes], timestamp)

    def _nothing(self, event: bytes, body: bytes, timestamp: int) -> None:
        """For events that change no row and end no transaction."""

    def _row_event(self, event: bytes, body: bytes, timestamp: int) -> None:
        try:
            table = self._tables[table_id(body)]
        except KeyError:
            raise UnreadableEvent("rows of a table that no table map names; the position is not a transaction edge") from None
        if table is None:
            return
        if self._held is not None:
            self._rows.append(self._held)
        server_id = int.from_bytes(event[5:9], "little")
        origin = Origin(self._file, self._start, self._gtid, server_id, self._commit_ms or timestamp * 1000)
        self._held = Rows(table, event[4], body, origin, self._is_first)
        self._is_first = False

    def _table_map(self, event: bytes, body: bytes, timestamp: int) -> None:
        number, name = table_id(body), table_name(body)
        if not self._filter.accepts(name):
            self._tables[number] = None
            return
        definition = body[8:]
        table = self._by_definition.get(definition)
        if table is None:
            table_map = parse(body, self._server.charsets, is_mariadb=self._server.is_mariadb)
            table = decodable(table_map if table_map.is_complete else self._schema.complete(table_map))
            self._by_definition[definition] = table
        self._tables[number] = table

    def _query(self, event: bytes, body: bytes, timestamp: int) -> None:
        schema_bytes, status_bytes = body[8], int.from_bytes(body[11:13], "little")
        sql = body[13 + status_bytes + schema_bytes + 1 :]
        if BEGIN.fullmatch(sql) or sql.endswith(b"START TRANSACTION"):
            self._in_transaction = True
        elif END.fullmatch(sql):
            self._end(timestamp)
        elif ROW_STATEMENT.match(sql):
            raise UnreadableEvent(
                "a statement that changes rows was logged as text (binlog_format STATEMENT or MIXED); "
                "rows cannot be taken from it. Set binlog_format=ROW for every session"
            )
        else:
            self._by_definition.clear()  # a DDL: tables may look different from here on
            if not self._in_transaction:
                self._end(timestamp)

    def _xid(self, event: bytes, body: bytes, timestamp: int) -> None:
        self._end(timestamp)

    def _end(self, timestamp: int) -> None:
        held = self._held
        if held is not None:
            held.is_last = True
            self._rows.append(held)
            self._held = None
        self._closed = len(self._rows)
        self._edge = (self._file, self._pos, self._commit_ms or timestamp * 1000)
        self._gtid, self._commit_ms, self._in_transaction, self._is_first = "", 0, False, True

    def _mysql_gtid(self, event: bytes, body: bytes, timestamp: int) -> None:
        uuid = body[1:17].hex()
        number = int.from_bytes(body[17:25], "little")
        self._gtid = f"{uuid[:8]}-{uuid[8:12]}-{uuid[12:16]}-{uuid[16:20]}-{uuid[20:]}:{number}"
        self._anonymous_gtid(event, body, timestamp)

    def _anonymous_gtid(self, event: bytes, body: bytes, timestamp: int) -> None:
        if len(body) >= 49:  # MySQL 8: commit time in microseconds; the highest bit says that another time follows
            self._commit_ms = (int.from_bytes(body[42:49], "little") & ~(1 << 55)) // 1000

    def _mariadb_gtid(self, event: bytes, body: bytes, timestamp: int) -> None:
        sequence, domain, flags = struct.unpack_from("<QIB", body)
        self._gtid = f"{domain}-{int.from_bytes(event[5:9], 'little')}-{sequence}"
        self._in_transaction = not flags & 1

    def _rotate(self, event: bytes, body: bytes, timestamp: int) -> None:
        self._file, self._pos = body[8:].decode(), int.from_bytes(body[:8], "little")
        self._tables.clear()  # numbers start anew when the server does

    def _format_description(self, event: bytes, body: bytes, timestamp: int) -> None:
        self._checksum_bytes = 4 if event[-5] == 1 else 0
