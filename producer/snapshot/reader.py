"""Reads chunks of tables at the source: without locks or writes, one SELECT at a time."""

from __future__ import annotations

import logging
import struct
import tempfile
import time
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import IO, TYPE_CHECKING, Any

import pymysql
from pymysql.constants import COMMAND

from cdcbus.plugins.errors import SourceUnavailable
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.binlog.dump_stream import READ_BYTES, packets
from cdcbus.producer.binlog.gtid import MysqlGtids
from cdcbus.producer.config import SourceConfig
from cdcbus.producer.ddl.table_changes import lower_case
from cdcbus.producer.schema.schema_reader import SchemaReader
from cdcbus.producer.server import connection as servers
from cdcbus.producer.server.connection import Server
from cdcbus.producer.snapshot.chunks import (
    Bound,
    between,
    by_index,
    last_key,
    named,
    nth_key,
    page,
    whole,
)
from cdcbus.producer.snapshot.columns import SelectedTable, selected_table
from cdcbus.producer.snapshot.rows import compiled_cut, images
from cdcbus.producer.snapshot.window import View
from cdcbus.producer.source.position_resolver import Binlog

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection

LOG = logging.getLogger(__name__)
SETTLE_SECONDS, SAID_SECONDS = 0.005, 10.0
XA_SECONDS = 2.0
LISTED_SECONDS = 0.11  # the server refreshes its list of transactions after 0.1 s
_NO_PRIVILEGE = 1227
_NO_INDEX = 1176
MOST_BYTES = 32_000_000  # of a chunk; rows beyond are read again
READ_SECONDS = 3600.0  # an operator's condition may select few rows of many
_EOF, _ERROR, _EOF_BYTES = 0xFE, 0xFF, 9
_SESSION = (
    # cells come in their column's own character set
    "SET character_set_results = NULL",
    "SET SESSION sql_mode = ''",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    # rows may wait in the connection until a target has taken earlier ones
    "SET SESSION net_write_timeout = 3600",
)
_SIZE = struct.Struct("<I")
_BEGIN = "START TRANSACTION WITH CONSISTENT SNAPSHOT"


class VisibilityUnknown(Exception):
    """The server does not say something that a snapshot needs to know; a sentence."""


class SpoolError(Exception):
    """The temporary file of a table's rows cannot be written; a sentence."""


@dataclass(frozen=True, slots=True)
class Read:
    """Rows of a table, as row images; `high`: the end of the server's binlog afterwards, and
    `high_us`: the server's time then, in epoch microseconds. `last`: the key of the last row, None
    without rows. `is_cut`: there were more rows, too large to be kept together."""

    rows: Iterable[bytes]
    count: int
    bytes: int
    last: Bound | None
    high: BinlogCoordinates
    high_us: int
    is_cut: bool = False


class OtherServer(SourceUnavailable):
    """The address leads to another server than the one whose binlog is read."""


class ChunkReader:
    """Reads through a connection of its own to the server whose binlog is read. Raises pymysql
    errors, OSError, and CdcErrors; unusable after any of them. Not thread-safe."""

    def __init__(self, config: SourceConfig, server: Server) -> None:
        """Connects. Raises OtherServer if another server answers."""
        self._config, self._server = config, server
        self._describing: Connection | None = None
        # XA transactions that were listed for long: nobody commits them just now.
        self._only_prepared: set[tuple[object, ...]] = set()
        self._connection: Connection = servers.connect(config, READ_SECONDS)
        self._binlog = Binlog(self._connection, server, config)
        try:
            limit = "max_execution_time"
            if server.is_mariadb:
                limit = "max_statement_time"
            with suppress(pymysql.Error):  # an old server has no such variable
                servers.query(self._connection, f"SET SESSION {limit} = 0")
            for statement in _SESSION:
                servers.query(self._connection, statement)
            if (found := servers.identity(self._connection)) != server.identity:
                raise OtherServer(
                    f"a snapshot is read from server {found}, the binlog from {server.identity}: "
                    "their address must lead to one server"
                )
            variables = servers.global_variables(self._connection, ("binlog_row_metadata",))
        except BaseException:
            self.close()
            raise
        self._has_metadata = variables.get("binlog_row_metadata", "").upper() == "FULL"

    def close(self) -> None:
        self._connection.close()

    def interrupt(self) -> None:
        """Makes the query that another thread waits for fail."""
        for connection in (self._connection, self._describing):
            if connection is not None:
                servers.interrupt(connection)

    def tables(self) -> list[TableId]:
        """All tables that the user may see, by the names that their rows have in the binlog."""
        with closing(servers.connect(self._config)) as connection:
            found = SchemaReader(connection).tables()
        # With lower_case_table_names=2 the server lists them as typed.
        return list(map(lower_case, found)) if self._server.folds_names else found

    def describe(self, table: TableId) -> SelectedTable | None:
        """The current table; None if it does not exist, or may not be read. Raises HiddenColumns
        if that holds for some of its columns."""
        # Its own connection: SchemaReader sets another isolation level, and ends transactions.
        with closing(servers.connect(self._config, READ_SECONDS)) as connection:
            self._describing = connection
            schema = SchemaReader(connection).read_whole(table)
            if schema is None:
                return None
            return selected_table(
                table,
                schema,
                has_metadata=self._has_metadata,
                can_order=partial(_can_order, connection, table),
            )

    def look(self, table: TableId) -> None:
        """Raises the server's error if the table does not exist, or may not be read."""
        servers.query(self._connection, f"SELECT 1 FROM {named(table)} LIMIT 0")

    def estimate(self, table: TableId) -> tuple[int, int]:
        """The server's estimates of the table's number of rows, and of the bytes of each."""
        rows = servers.query(
            self._connection,
            "SELECT table_rows, avg_row_length FROM information_schema.tables WHERE table_schema "
            "= %s AND table_name = %s",
            table,
        )
        if not rows:
            return 0, 0
        return int(rows[0][0] or 0), int(rows[0][1] or 0)

    def settle(self, begun: BinlogPosition, is_over: Callable[[], bool]) -> None:
        """Begins a transaction that sees everything in the binlog before `begun`. Waits for that:
        a server sends a transaction to the stream before it makes it visible to other sessions.
        Returns early once `is_over`. Raises VisibilityUnknown."""
        is_over = _saying(begun, is_over)
        if self._server.is_mariadb:
            self._outlast_xa(is_over)
        while not is_over():
            if self._server.is_mariadb:
                if self._sees_on_mariadb(begun):
                    return
            elif self._has_executed(begun, is_over):
                self._begin()
                return
            time.sleep(SETTLE_SECONDS)

    def view(self, begun: BinlogPosition) -> View:
        """What the transaction sees, or, with GTIDs, another one that is begun for this. MariaDB
        knows the exact place; MySQL does not. Raises VisibilityUnknown."""
        low = BinlogCoordinates(begun.file, begun.pos)
        if self._server.is_mariadb:
            return View(low, self._place(), is_exact=True)
        executed = None
        if self._server.has_gtids:
            executed, end = self._begin_between()
        else:
            # After the transaction has begun, so that everything that it sees is before it.
            end = servers.latest_position(self._connection)
        return View(low, BinlogCoordinates(end.file, end.pos), executed)

    def _begin_between(self) -> tuple[MysqlGtids, BinlogPosition]:
        """Begins a transaction. Returns what others saw before, and the end of the binlog after
        it. All in one request, so that hardly anything is committed in between."""
        # Servers know one of two forms.
        status = servers.status_statement(self._connection)
        [[executed]], _, end = servers.in_one_request(
            self._connection, ["SELECT @@GLOBAL.gtid_executed", _BEGIN, status]
        )
        return MysqlGtids.parse(executed), servers.position_of(end)

    def has_views(self, table: TableId) -> bool:
        """Whether a transaction sees the table as it was when it began."""
        rows = servers.query(
            self._connection,
            "SELECT 1 FROM information_schema.tables WHERE table_schema = %s AND table_name = %s "
            "AND engine IN ('InnoDB', 'ROCKSDB')",
            table,
        )
        return bool(rows)

    def _begin(self) -> None:
        servers.query(self._connection, _BEGIN)

    def _outlast_xa(self, is_over: Callable[[], bool]) -> None:
        """Waits for the XA COMMITs that MariaDB has logged: others see such a transaction only
        after that, and it is listed as prepared until then. Those that stay are not committed."""
        waiting = self._prepared() - self._only_prepared
        until = time.monotonic() + XA_SECONDS
        while waiting and time.monotonic() < until and not is_over():
            time.sleep(SETTLE_SECONDS)
            waiting &= self._prepared()
        self._only_prepared |= waiting
        if self._only_prepared:
            self._only_prepared &= self._prepared()

    def _prepared(self) -> set[tuple[object, ...]]:
        return set(map(tuple, servers.query(self._connection, "XA RECOVER")))

    def _sees_on_mariadb(self, begun: BinlogPosition) -> bool:
        """Begins a transaction if it sees enough: MariaDB says which place of the binlog a
        consistent view belongs to."""
        self._begin()
        if self._place() >= BinlogCoordinates(begun.file, begun.pos):
            return True
        self.end()
        return False

    def _place(self) -> BinlogCoordinates:
        status = servers.query(self._connection, "SHOW STATUS LIKE 'binlog_snapshot_%'")
        found = {name.lower(): value for name, value in status}
        file = found.get("binlog_snapshot_file")
        if not file:
            raise VisibilityUnknown(
                "the server does not say to which place of its binlog a consistent read belongs "
                "(binlog_snapshot_file)"
            )
        return BinlogCoordinates(file, int(found["binlog_snapshot_position"]))

    def _has_executed(self, begun: BinlogPosition, is_over: Callable[[], bool]) -> bool:
        """Whether everything before `begun` is visible: MySQL counts a transaction as executed once
        other sessions see it."""
        is_known = begun.gtid or self._binlog.is_before_gtids(begun)
        if not self._server.has_gtids or not is_known:
            self._outlast_writers(is_over)
            return True
        return not servers.missing_gtids(self._connection, begun.gtid)

    def _outlast_writers(self, is_over: Callable[[], bool]) -> None:
        """Without GTIDs: waits for the end of all current transactions that have written something.
        InnoDB lists each until other sessions see its changes; the list can be outdated, but not if
        it has our own transaction."""
        own = str(servers.query(self._connection, "SELECT CONNECTION_ID()")[0][0])
        self._begin()
        listed: dict[str, str] = {}
        while own not in listed.values() and not is_over():
            listed = self._transactions()
        self.end()
        writers = {trx for trx, thread in listed.items() if thread != own}
        while writers and not is_over():
            writers &= self._transactions().keys()

    def _transactions(self) -> dict[str, str]:
        """InnoDB's transactions, id -> thread: our own, and those of others that have written."""
        time.sleep(LISTED_SECONDS)
        try:
            rows = servers.query(
                self._connection,
                "SELECT trx_id, trx_mysql_thread_id FROM information_schema.innodb_trx WHERE "
                "trx_rows_modified > 0 OR trx_mysql_thread_id = CONNECTION_ID()",
            )
        except pymysql.Error as error:
            if error.args[0] != _NO_PRIVILEGE:
                raise
            raise VisibilityUnknown(
                "MySQL without GTIDs shows only a user with the privilege PROCESS which "
                "transactions of its binlog others see already: grant it, or set gtid_mode=ON"
            ) from error
        return {str(trx): str(thread) for trx, thread in rows}

    def end(self) -> None:
        """Ends the transaction."""
        servers.query(self._connection, "ROLLBACK")

    def greatest(self, selected: SelectedTable, where: str) -> Bound | None:
        """The current greatest key; None if the table is empty."""
        assert selected.key is not None
        sql = last_key(selected.name, selected.expressions, selected.key, where)
        answer = list(self._rows(sql))
        if not answer:
            return None
        return selected.bound(answer[0])

    def chunk(
        self,
        selected: SelectedTable,
        after: Bound | None,
        until: Bound | None,
        most_rows: int,
        where: str,
    ) -> Read:
        """Reads the next rows after a key. Ends the transaction."""
        assert selected.key is not None
        table = selected.name
        sql = page(table, selected.expressions, selected.key, after, until, most_rows, where)
        rows: list[bytes] = []
        size, is_cut, last_row = 0, False, b""
        for batch in self._batches(sql):
            # The rest is received and dropped: before its end the connection takes no other query.
            is_cut |= size > MOST_BYTES and bool(batch)
            if batch and not is_cut:
                # Here, and not at the end: meanwhile the server reads the next rows.
                some = images(batch, selected)
                rows += some
                size += sum(map(len, some))
                last_row = batch[-1]
        high, high_us = self._high()
        last = selected.bound(last_row) if rows else None
        return Read(rows, len(rows), size, last, high, high_us, is_cut)

    def nth_key(
        self, selected: SelectedTable, after: Bound | None, until: Bound, rows: int
    ) -> Bound | None:
        """The key of the last of `rows` rows after `after`; None if there are fewer up to
        `until`."""
        assert selected.key is not None
        table = selected.name
        sql = nth_key(table, selected.key_expressions, selected.key, after, until, rows)
        answer = list(self._rows(sql))
        if not answer:
            return None
        return selected.bound_of_key(answer[0])

    def between(
        self, selected: SelectedTable, after: Bound | None, until: Bound
    ) -> Iterator[list[bytes]]:
        """Yields the rows after a key up to another one, as row images, as they arrive; must be
        read to the end before the next query."""
        assert selected.key is not None
        table = selected.name
        sql = between(table, selected.expressions, selected.key, after, until)
        for answer in self._batches(sql):
            yield images(answer, selected)

    def table(self, selected: SelectedTable, where: str) -> Read:
        """Reads all rows, in one consistent read, into a temporary file. Ends the transaction.
        Raises SpoolError."""
        spool = Spool()
        sql = whole(selected.name, selected.expressions, where)
        for answer in self._batches(sql):
            spool.add(images(answer, selected))
        high, high_us = self._high()
        return Read(spool, spool.count, spool.bytes, None, high, high_us)

    def _high(self) -> tuple[BinlogCoordinates, int]:
        self.end()
        # Asked for after the rows, so that everything they show is before it.
        end = servers.latest_position(self._connection)
        now = servers.query(self._connection, "SELECT UNIX_TIMESTAMP(NOW(6)) * 1000000")[0][0]
        return BinlogCoordinates(end.file, end.pos), int(now)

    def _rows(self, sql: str) -> Iterator[bytes]:
        for answer in self._batches(sql):
            yield from answer

    def _batches(self, sql: str) -> Iterator[list[bytes]]:
        """Yields the rows of a query as packets, in lists of those that have arrived."""
        raw: Any = self._connection  # the driver would make an object of each cell
        raw._execute_command(COMMAND.COM_QUERY, sql)
        columns = raw._read_packet().read_length_encoded_integer()
        for _ in range(columns + 1):  # their definitions, and an end
            raw._read_packet()
        for batch in packets(raw._rfile.read1, READ_BYTES, compiled_cut):
            end = batch[-1]
            # A row whose first cell is very large begins with the same byte, and is longer.
            if end[0] == _EOF and len(end) < _EOF_BYTES:
                yield batch[:-1]
                return
            if end[0] == _ERROR:
                pymysql.err.raise_mysql_exception(end)
            yield batch


def _can_order(connection: Connection, table: TableId, index: str) -> bool:
    """Whether the server reads rows by an index: not by one that is INVISIBLE (MySQL) or IGNORED
    (MariaDB)."""
    try:
        servers.query(connection, f"SELECT 1 FROM {by_index(named(table), index)} LIMIT 0")
    except pymysql.Error as error:
        if error.args[0] != _NO_INDEX:
            raise
        return False
    return True


def _saying(begun: BinlogPosition, is_over: Callable[[], bool]) -> Callable[[], bool]:
    """Wraps `is_over`; logs once if waiting takes long."""
    due = [time.monotonic() + SAID_SECONDS]

    def looked() -> bool:
        if due and time.monotonic() > due[0]:
            due.clear()
            LOG.warning(
                "what was committed before %s is not seen by all sessions of the source yet, for "
                "example as it waits for a replica, or, without GTIDs, as a transaction is open "
                "that has written something; the snapshot waits for that",
                begun,
            )
        return is_over()

    return looked


def _close(file: IO[bytes]) -> None:
    # What it could not write is tried once more, and is not needed.
    with suppress(OSError):
        file.close()


class Spool:
    """Row images in an unnamed temporary file, which is deleted with this object. Raises SpoolError
    where it cannot be made or written."""

    def __init__(self) -> None:
        self.count = self.bytes = 0
        with self._reported():
            self._file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        weakref.finalize(self, _close, self._file)

    def add(self, rows: Iterable[bytes]) -> None:
        with self._reported():
            for row in rows:
                self._file.write(_SIZE.pack(len(row)))
                self._file.write(row)
                self.count += 1
                self.bytes += len(row)
            # Otherwise whoever reads them finds that there is no room.
            self._file.flush()

    @contextmanager
    def _reported(self) -> Iterator[None]:
        # Not an OSError any more: that would be taken for one of the network.
        try:
            yield
        except OSError as error:
            # None has been found to be usable.
            folder = tempfile.tempdir or "the temporary folder"
            raise SpoolError(
                "the table has no key, so all of its rows go through a temporary file, and "
                f"{folder} has taken {self.bytes:,} bytes of them: {error.strerror}; make room for "
                "the whole table there, or set TMPDIR to another folder where the task runs, then "
                "start its snapshot again"
            ) from error

    def __iter__(self) -> Iterator[bytes]:
        self._file.seek(0)
        while head := self._file.read(_SIZE.size):
            yield self._file.read(_SIZE.unpack(head)[0])
