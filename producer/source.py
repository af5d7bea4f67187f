"""The binlog source: events in, row changes and transaction edges out."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

from pymysqlreplication.constants import BINLOG

from cdcbus.plugins.errors import PositionLost, SourceMisconfigured, UnreadableEvent
from cdcbus.plugins.position import BinlogPosition
from cdcbus.plugins.rowchange import Origin, RowChange
from cdcbus.plugins.start import BinlogStart, Edge
from cdcbus.producer import server as servers
from cdcbus.producer.decode import OPS, row_images
from cdcbus.producer.filter import TableFilter
from cdcbus.producer.schema import DecodableTable, SchemaReader, decodable
from cdcbus.producer.stream import open_stream
from cdcbus.producer.table_map import parse, table_id, table_name
from cdcbus.producer.task import FetchTask


@dataclass(frozen=True, slots=True)
class Rows:
    """Row changes of one binlog event, in order."""

    changes: list[RowChange]


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """Everything before `position` has been given out: reading may resume there."""

    position: BinlogPosition


@dataclass(frozen=True, slots=True)
class Idle:
    """The server is alive and has nothing new."""


Step = Rows | TransactionEnd | Idle

_HEADER = struct.Struct("<IBIIIH")
_IGNORABLE_FLAG = 0x80

HEARTBEAT_V2 = 0x29
_HEARTBEATS = {BINLOG.HEARTBEAT_LOG_EVENT, HEARTBEAT_V2}
# Events that change no row and end no transaction.
_WITHOUT_EFFECT = {
    BINLOG.STOP_EVENT,
    BINLOG.INTVAR_EVENT,
    BINLOG.RAND_EVENT,
    BINLOG.USER_VAR_EVENT,
    BINLOG.IGNORABLE_LOG_EVENT,
    BINLOG.ROWS_QUERY_LOG_EVENT,
    BINLOG.PREVIOUS_GTIDS_LOG_EVENT,
    0x24,  # TRANSACTION_CONTEXT, group replication
    0x25,  # VIEW_CHANGE, group replication
    BINLOG.MARIADB_ANNOTATE_ROWS_EVENT,
    BINLOG.MARIADB_BINLOG_CHECKPOINT_EVENT,
    BINLOG.MARIADB_GTID_GTID_LIST_EVENT,
    BINLOG.MARIADB_START_ENCRYPTION_EVENT,
}
# Events that do change rows, or may, in ways this release cannot decode: stop before them, by name.
_UNREADABLE = {
    0x11: "BEGIN_LOAD_QUERY (LOAD DATA in statement format)",
    0x12: "EXECUTE_LOAD_QUERY (LOAD DATA in statement format)",
    0x1A: "INCIDENT (the server itself says that its binlog may lack changes)",
    0x26: "XA_PREPARE (an XA transaction)",
    0x27: "PARTIAL_UPDATE_ROWS (binlog_row_value_options=PARTIAL_JSON)",
    0x28: "TRANSACTION_PAYLOAD (binlog_transaction_compression=ON)",
    0x2A: "GTID_TAGGED (a GTID with a tag)",
    0xA5: "QUERY_COMPRESSED (log_bin_compress=ON)",
    **dict.fromkeys(range(0xA6, 0xAC), "compressed rows (log_bin_compress=ON)"),
}
# What changes rows where it is logged as text; SELECT and DO by the functions that they call. Comments may stand in front, and
# `SET STATEMENT ... FOR`, MariaDB's prefix.
_ROW_STATEMENT = re.compile(
    rb"\s*(?:(?:/\*.*?\*/|(?:#|--\s)[^\n]*\n|SET\s+STATEMENT\s.*?\sFOR\s)\s*)*(?:INSERT|UPDATE|DELETE|REPLACE|LOAD|WITH|SELECT|DO)\b",
    re.IGNORECASE | re.DOTALL,
)
_BEGIN = re.compile(rb"BEGIN|START TRANSACTION|XA START .*", re.IGNORECASE | re.DOTALL)
_END = re.compile(rb"COMMIT|ROLLBACK", re.IGNORECASE)


class BinlogSource:
    """Reads one server's binlog from a position. A context manager: leaving it closes the connections."""

    def __init__(self, task: FetchTask) -> None:
        self._config = task.source
        self._filter = TableFilter(task.tables)
        self._server_id = server_id(task)
        self._open = ExitStack()

    def __enter__(self) -> BinlogSource:
        """Connects and checks the server. Raises SourceUnavailable, SourceMisconfigured."""
        connection = servers.connect(self._config)
        self._open.callback(connection.close)
        self._connection = connection
        with servers.reported(self._config):
            self._server = servers.inspect(connection, self._config)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def locate(self, start: BinlogStart) -> BinlogPosition:
        """The position that a start rule names. Raises SourceUnavailable, SourceMisconfigured."""
        with servers.reported(self._config):
            if start is Edge.LATEST:
                return servers.latest_position(self._connection)
            if start is Edge.EARLIEST:
                return BinlogPosition(servers.binlog_files(self._connection)[0][0], 4)
        if not isinstance(start, BinlogPosition):
            raise SourceMisconfigured(f"consumer.offset: a binlog task cannot start at {start} yet; give file:pos, earliest or latest")
        return start

    def check(self, position: BinlogPosition) -> None:
        """Raises PositionLost, naming what the server has, when the position's file is gone or shorter."""
        with servers.reported(self._config):
            files = dict(servers.binlog_files(self._connection))
        if position.file not in files or position.pos > files[position.file]:
            host, port = self._config.addresses[0]
            names = list(files)
            size = f"; {position.file} is {files[position.file]} bytes long" if position.file in files else ""
            raise PositionLost(f"source {host}:{port} does not hold {position}: it has {names[0]} to {names[-1]}{size}")

    def steps(self, position: BinlogPosition) -> Iterator[Step]:
        """Row changes and transaction edges from `position` on, for ever, in binlog order.

        Raises UnreadableEvent naming event and position, PositionLost, SourceUnavailable, SourceMisconfigured.
        """
        stream = servers.connect(self._config)
        self._open.callback(stream.close)
        with servers.reported(self._config):
            yield from _Reading(position, self._server, self._filter, SchemaReader(self._connection)).steps(
                open_stream(stream, self._server, position, self._server_id)
            )


def server_id(task: FetchTask) -> int:
    """The task's replica id: as configured, else one that is stable for the task and unlikely to meet another, above the range that people
    give by hand."""
    return task.source.server_id or 0x40000000 | zlib.crc32(task.task_id.encode()) & 0x3FFFFFFF


class _Reading:
    """The state of reading one stream: file, transaction, tables by number."""

    def __init__(self, position: BinlogPosition, server: servers.Server, tables: TableFilter, schema: SchemaReader) -> None:
        self._file, self._pos = position.file, position.pos
        self._server = server
        self._filter = tables
        self._schema = schema
        self._checksum_bytes = 4 if server.has_checksum else 0
        self._tables: dict[int, DecodableTable | None] = {}
        self._by_definition: dict[bytes, DecodableTable] = {}
        self._gtid = ""
        self._commit_ms = 0
        self._in_transaction = False
        self._row = 0
        self._held: list[RowChange] = []  # the last event's rows: only what follows tells whether they end the transaction

    def steps(self, events: Iterator[bytes]) -> Iterator[Step]:
        for event in events:
            start = self._pos
            try:
                yield from self._event(event)
            except UnreadableEvent as error:
                raise UnreadableEvent(f"{self._file}:{start}: {error}") from error

    def _event(self, event: bytes) -> Iterator[Step]:
        timestamp, kind, server_id, _, end_pos, flags = _HEADER.unpack_from(event)
        body = event[19 : len(event) - self._checksum_bytes]
        start = self._pos
        if end_pos and kind not in _HEARTBEATS:
            self._pos = end_pos
        elif self._in_transaction:  # where MariaDB leaves the place of events open
            self._pos += len(event)
        if kind in OPS:
            yield from self._rows(kind, body, Origin(self._file, start, self._gtid, server_id, self._commit_ms or timestamp * 1000))
        elif kind == BINLOG.TABLE_MAP_EVENT:
            self._table_map(body)
        elif kind == BINLOG.XID_EVENT:
            yield from self._end(timestamp)
        elif kind == BINLOG.QUERY_EVENT:
            yield from self._query(body, timestamp)
        elif kind in _HEARTBEATS:
            yield Idle()
        else:
            self._other(kind, body, event, flags)

    def _rows(self, kind: int, body: bytes, origin: Origin) -> Iterator[Step]:
        if table_id(body) not in self._tables:
            raise UnreadableEvent("rows of a table that no table map names; the position is not a transaction edge")
        table = self._tables[table_id(body)]
        if table is None:
            return
        changes = []
        for before, after in row_images(kind, body, table):
            changes.append(RowChange(table.table, OPS[kind], before, after, origin, self._row))
            self._row += 1
        if self._held:
            yield Rows(self._held)
        self._held = changes

    def _table_map(self, body: bytes) -> None:
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

    def _query(self, body: bytes, timestamp: int) -> Iterator[Step]:
        schema_bytes, status_bytes = body[8], int.from_bytes(body[11:13], "little")
        sql = body[13 + status_bytes + schema_bytes + 1 :]
        if _BEGIN.fullmatch(sql) or sql.endswith(b"START TRANSACTION"):
            self._in_transaction = True
        elif _END.fullmatch(sql):
            yield from self._end(timestamp)
        elif _ROW_STATEMENT.match(sql):
            raise UnreadableEvent(
                "a statement that changes rows was logged as text (binlog_format STATEMENT or MIXED); "
                "rows cannot be taken from it. Set binlog_format=ROW for every session"
            )
        else:
            self._by_definition.clear()  # a DDL: tables may look different from here on
            if not self._in_transaction:
                yield from self._end(timestamp)

    def _end(self, timestamp: int) -> Iterator[Step]:
        if self._held:
            self._held[-1].is_last = True
            yield Rows(self._held)
            self._held = []
        commit_ms = self._commit_ms or timestamp * 1000
        self._gtid, self._commit_ms, self._row, self._in_transaction = "", 0, 0, False
        yield TransactionEnd(BinlogPosition(self._file, self._pos, timestamp_ms=commit_ms, server_uuid=self._server.server_uuid))

    def _other(self, kind: int, body: bytes, event: bytes, flags: int) -> None:
        if kind == BINLOG.ROTATE_EVENT:
            self._file, self._pos = body[8:].decode(), int.from_bytes(body[:8], "little")
            self._tables.clear()  # numbers start anew when the server does
        elif kind == BINLOG.FORMAT_DESCRIPTION_EVENT:
            self._checksum_bytes = 4 if event[-5] == 1 else 0
        elif kind in (BINLOG.GTID_LOG_EVENT, BINLOG.ANONYMOUS_GTID_LOG_EVENT):
            self._mysql_gtid(kind, body)
        elif kind == BINLOG.MARIADB_GTID_EVENT:
            sequence, domain, gtid_flags = struct.unpack_from("<QIB", body)
            self._gtid = f"{domain}-{int.from_bytes(event[5:9], 'little')}-{sequence}"
            self._in_transaction = not gtid_flags & 1
        elif kind not in _WITHOUT_EFFECT and not flags & _IGNORABLE_FLAG:
            name = _UNREADABLE.get(kind, f"number {kind}, unknown to this release")
            raise UnreadableEvent(f"cannot read binlog event {name}; the task stops rather than skip it")

    def _mysql_gtid(self, kind: int, body: bytes) -> None:
        if kind == BINLOG.GTID_LOG_EVENT:
            uuid = body[1:17].hex()
            number = int.from_bytes(body[17:25], "little")
            self._gtid = f"{uuid[:8]}-{uuid[8:12]}-{uuid[12:16]}-{uuid[16:20]}-{uuid[20:]}:{number}"
        if len(body) >= 49:  # MySQL 8: commit time in microseconds; the highest bit says that another time follows
            self._commit_ms = (int.from_bytes(body[42:49], "little") & ~(1 << 55)) // 1000
