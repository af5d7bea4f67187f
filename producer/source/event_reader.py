"""Turns events into batches of rows and transaction edges: tracks the place in the binlog, the
transaction, and the tables that table numbers refer to."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

from pymysqlreplication.constants import BINLOG

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.positions import BinlogPosition, Published
from cdcbus.plugins.rowchange import Origin
from cdcbus.producer.binlog import event_types as kinds
from cdcbus.producer.binlog.checksums import Checksums
from cdcbus.producer.binlog.coordinates import BinlogCoordinates, carried
from cdcbus.producer.binlog.event_types import HEADER, HEARTBEATS
from cdcbus.producer.binlog.mariadb_compression import (
    PLAIN_ROWS,
    QUERY_COMPRESSED,
    plain_query,
    plain_rows,
)
from cdcbus.producer.binlog.resume_points import Edge, ResumePoints
from cdcbus.producer.binlog.transaction import Transaction
from cdcbus.producer.binlog.transaction_payload import inner_events
from cdcbus.producer.config import Elsewhere
from cdcbus.producer.ddl.named_tables import fills_table
from cdcbus.producer.ddl.statement_targets import session
from cdcbus.producer.decoding.partial_json import PARTIAL_UPDATE_ROWS, whole_updates
from cdcbus.producer.decoding.row_image import OPS
from cdcbus.producer.decoding.table_map import table_id
from cdcbus.producer.schema.ddl_scanner import (
    Statement,
    is_server_start,
    statement,
    version_of,
)
from cdcbus.producer.schema.history import SchemaHistory
from cdcbus.producer.schema.schema_reader import UnopenedTable
from cdcbus.producer.server.connection import Server
from cdcbus.producer.source import xa
from cdcbus.producer.source.ddl_events import DdlReader
from cdcbus.producer.source.end_watch import Sent
from cdcbus.producer.source.event_tables import EventTables
from cdcbus.producer.source.row_events import Batch, Filling, Part, Rows
from cdcbus.producer.source.row_statements import RowStatements
from cdcbus.producer.table_filter import TableFilter

LOG = logging.getLogger(__name__)
NOTHING_ELSEWHERE = Elsewhere()


class Reading:
    """The state of reading one stream from `position`, which is a transaction edge.
    `is_before_gtids`: as in ResumePoints. `after`: that of the stream which this one continues
    behind a file that breaks off."""

    def __init__(
        self,
        position: BinlogPosition,
        server: Server,
        tables: TableFilter,
        schema: SchemaHistory,
        ddl: DdlReader,
        epoch: str = "",
        *,
        skips_statements: bool = False,
        elsewhere: Elsewhere = NOTHING_ELSEWHERE,
        is_before_gtids: bool = False,
        after: Reading | None = None,
    ) -> None:
        self.file, self._pos, self._created_ms = position.file, position.pos, 0
        self._resume = ResumePoints(position, server, is_before_gtids=is_before_gtids)
        self._server, self._schema, self._ddl = server, schema, ddl
        self._epoch = epoch
        self._tables = EventTables(server, tables, schema, elsewhere.marks)
        self._row_statements = RowStatements(server, tables, skips=skips_statements)
        self._elsewhere = elsewhere
        self._reported_elsewhere = False
        self._checksums = Checksums(server.checksum_bytes)
        self._version = server.version
        self.sent: Sent | None = None
        self._transaction = Transaction(server.server_uuid)
        # The events of the transaction being read, if they are compressed into one.
        self._payload: Iterator[list[bytes]] | None = None
        self._prepared = xa.Prepared()
        if after is not None:
            self._prepared = after._prepared
            self._resume.published = after._resume.published
        self._ended_at = Edge(
            position.file, position.pos, position.timestamp_ms, position.file_created_ms
        )
        self._filling = Filling()
        self._edge: Edge | None = None  # of the batch being filled
        self._handlers = self._all_handlers()

    def _all_handlers(self) -> dict[int, Callable[[bytes, bytes, int], None]]:
        """What to do with an event, by its type."""
        return {
            **dict.fromkeys(OPS, self._row_event),
            **dict.fromkeys(PLAIN_ROWS, self._compressed_rows),
            **dict.fromkeys(kinds.WITHOUT_EFFECT, self._nothing),
            BINLOG.HEARTBEAT_LOG_EVENT: self._heartbeat,
            kinds.HEARTBEAT_V2: self._nothing,
            PARTIAL_UPDATE_ROWS: self._partial_updates,
            BINLOG.TABLE_MAP_EVENT: self._table_map,
            BINLOG.XID_EVENT: self._xid,
            BINLOG.QUERY_EVENT: self._query,
            QUERY_COMPRESSED: self._compressed_query,
            kinds.EXECUTE_LOAD_QUERY: self._load_query,
            kinds.XA_PREPARE: self._xa_prepare,
            kinds.TRANSACTION_PAYLOAD: self._transaction_payload,
            BINLOG.GTID_LOG_EVENT: self._mysql_gtid,
            BINLOG.ANONYMOUS_GTID_LOG_EVENT: self._anonymous_gtid,
            kinds.GTID_TAGGED: self._tagged_gtid,
            BINLOG.MARIADB_GTID_EVENT: self._mariadb_gtid,
            BINLOG.ROTATE_EVENT: self._rotate,
            BINLOG.FORMAT_DESCRIPTION_EVENT: self._format_description,
            **dict.fromkeys(kinds.GTIDS_BEFORE_FILE, self._gtids_before_file),
        }

    def batches(self, stream: Iterator[list[bytes]]) -> Iterator[Batch]:
        """Yields a batch for each list of events, several for compressed transactions. Raises
        UnreadableEvent naming the place, and UnopenedTable, each after yielding the transactions
        that end before it."""
        for events in stream:
            start = self._pos
            try:
                for event in events:
                    start = self._pos
                    self._event(event)
                    if self._payload is not None:
                        yield from self._inner_batches(self._payload)
                if self._transaction.is_xa:
                    self._prepared.check(self._filling.open_rows())
            except (UnreadableEvent, UnopenedTable) as error:
                self._filling.take_open()
                yield self._batch()
                if isinstance(error, UnopenedTable):
                    raise
                raise UnreadableEvent(f"{self.file}:{start}: {error}") from error
            event = b""
            events.clear()  # frees memory, which decoding a large row needs
            yield self._batch()

    def _inner_batches(self, pieces: Iterator[list[bytes]]) -> Iterator[Batch]:
        """Yields a batch for each piece of a compressed transaction. The place of all its events is
        that of the event that holds them."""
        for events in pieces:
            for event in events:
                handle = self._handlers.get(event[4]) or self._unknown(event)
                handle(event, event[19:], int.from_bytes(event[:4], "little"))
            if self._transaction.is_xa:
                self._prepared.check(self._filling.open_rows())
            yield self._batch()
        self._payload = None

    def _place(self) -> BinlogCoordinates:
        """Where the event starts."""
        return BinlogCoordinates(self.file, self._start)

    def reached(self) -> BinlogCoordinates:
        """Where the last event ends."""
        return BinlogCoordinates(self.file, self._pos)

    def _batch(self) -> Batch:
        position = None
        if edge := self._edge:
            position = self._position(edge)
            self._schema.passed(BinlogCoordinates(position.file, position.pos))
        filling, transaction = self._filling, self._transaction
        closed = filling.parts[: filling.closed]
        opened = filling.parts[filling.closed :]
        kept: list[Part] = []
        if transaction.is_xa:
            # The rows of an XA transaction count from XA COMMIT on, so they stay here.
            opened, kept = kept, opened
        transaction.is_given_out |= bool(opened)
        open_xa = None
        if oldest := self._prepared.oldest:
            open_xa = oldest.xid.decode(), oldest.prepared_s
        between = None
        if not transaction.is_open and filling.held is None:
            between = self.reached()
        statements = tuple(filling.statements)
        batch = Batch(closed, position, opened, open_xa, filling.skipped, statements, between)
        filling.restart(kept)
        self._edge = None
        return batch

    def _position(self, edge: Edge) -> BinlogPosition:
        """Where reading can resume once everything before the edge is published: at the edge, or
        before the oldest transaction that is still prepared."""
        here = self._resume.at(edge)
        oldest = self._prepared.oldest
        if oldest is None:
            return here
        published = here.published or Published(
            here.file, here.pos, here.gtid, here.file_created_ms
        )
        return replace(oldest.before, published=published)

    def _event(self, event: bytes) -> None:
        body = self._checksums.body(event)
        timestamp, kind, _, _, end_pos, _ = HEADER.unpack_from(event)
        self.sent = None  # a heartbeat sets it again
        start = self._start = self._pos
        handle = self._handlers.get(kind) or self._unknown(event)
        if end_pos and kind not in HEARTBEATS:
            # A file's head, with its own offset, can be repeated before a later event.
            is_head = kind == BINLOG.FORMAT_DESCRIPTION_EVENT
            # An offset has 32 bits: it wraps around after 4 GB.
            if start > end_pos and not is_head:
                end_pos = carried(start, end_pos)
            self._pos = end_pos
        elif self._transaction.has_begun:  # MariaDB omits the offsets of these events
            self._pos += len(event)
        handle(event, body, timestamp)

    def _unknown(self, event: bytes) -> Callable[[bytes, bytes, int], None]:
        kind, flags = event[4], event[17]
        if flags & kinds.IGNORABLE_FLAG or self._is_behind():
            return self._nothing
        name = kinds.UNREADABLE.get(kind, f"number {kind}, unknown to this release")
        raise UnreadableEvent(
            f"cannot read binlog event {name}; the task stops rather than skip it"
        )

    def _nothing(self, event: bytes, body: bytes, timestamp: int) -> None:
        """Ignores an event that changes no row and ends no transaction."""

    def _heartbeat(self, event: bytes, body: bytes, timestamp: int) -> None:
        self.sent = Sent(body.decode(), HEADER.unpack_from(event)[4], self._created_ms)
        self._come_to_end(self.sent)

    def _come_to_end(self, sent: Sent) -> None:
        """Moves the edge to where the server has nothing to send. No transaction ends there, as at
        the head of a new file; but the file of the last one may be purged before the next one
        comes."""
        if self._transaction.is_open or self._filling.held is not None or sent.file != self.file:
            return
        pos, last = carried(self._pos, sent.pos), self._ended_at
        if pos >= self._pos and (sent.file, pos) != (last.file, last.pos):
            self._edge = self._ended_at = last._replace(
                file=sent.file, pos=pos, created_ms=self._created_ms
            )

    def _row_event(self, event: bytes, body: bytes, timestamp: int) -> None:
        if self._is_behind():
            return
        try:
            table = self._tables.by_number[table_id(body)]
        except KeyError:
            raise UnreadableEvent(
                "rows of a table that no table map names; the position is not a transaction edge"
            ) from None
        if table is None:
            return
        transaction = self._transaction
        if self._is_from_elsewhere(event):
            self._report_elsewhere()
            return
        origin = self._origin(event, timestamp)
        self._filling.hold(Rows(table, event[4], body, origin, transaction.is_first))
        transaction.is_first = False

    def _is_from_elsewhere(self, event: bytes) -> bool:
        """Whether the event is left out, by its transaction or by the server that first wrote
        it."""
        if self._transaction.is_elsewhere:
            return True
        ids = self._elsewhere.server_ids
        return bool(ids) and _server_id(event) in ids

    def _report_elsewhere(self) -> None:
        if not self._reported_elsewhere:
            self._reported_elsewhere = True
            LOG.info(
                "%s: rows that came from the other side are left out, here and from now on",
                self._place(),
            )

    def _origin(self, event: bytes, timestamp: int) -> Origin:
        transaction = self._transaction
        return Origin(
            self.file,
            self._start,
            transaction.gtid,
            _server_id(event),
            transaction.commit_us or timestamp * 1_000_000,
            transaction.server_uuid,
            self._epoch,
        )

    def _compressed_rows(self, event: bytes, body: bytes, timestamp: int) -> None:
        kind = event[4]
        self._row_event(_as_kind(event, PLAIN_ROWS[kind]), plain_rows(kind, body), timestamp)

    def _partial_updates(self, event: bytes, body: bytes, timestamp: int) -> None:
        table = self._tables.by_number.get(table_id(body))
        if table is not None:
            body = whole_updates(body, table)
        self._row_event(_as_kind(event, BINLOG.UPDATE_ROWS_EVENT_V2), body, timestamp)

    def _transaction_payload(self, event: bytes, body: bytes, timestamp: int) -> None:
        self._payload = inner_events(body)

    def _table_map(self, event: bytes, body: bytes, timestamp: int) -> None:
        if self._is_behind():
            return
        if self._tables.take(body, self._place):
            self._transaction.is_elsewhere = True

    def _query(self, event: bytes, body: bytes, timestamp: int) -> None:
        schema_bytes, status_bytes = body[8], int.from_bytes(body[11:13], "little")
        sql = body[13 + status_bytes + schema_bytes + 1 :]
        if kinds.BEGIN.fullmatch(sql):
            self._transaction.has_begun = True
            self._transaction.is_xa = sql.startswith(b"XA")
        elif kinds.COMMIT.fullmatch(sql):
            self._end(timestamp)
        elif kinds.ROLLBACK.fullmatch(sql):
            self._rolled_back()
            self._end(timestamp)
        elif kinds.ROLLBACK_TO.fullmatch(sql):
            self._rolled_back_to_savepoint()
        elif found := xa.FINISH.fullmatch(sql):
            self._xa_finish(found[1] == b"COMMIT", found[2], event, timestamp)
        elif kinds.ROW_STATEMENT.match(sql):
            if not self._is_from_elsewhere(event):
                self._row_statement(sql, body)
            if not self._transaction.has_begun:
                self._end(timestamp)
        elif not kinds.INSIDE.fullmatch(sql):
            is_table = bool(kinds.CREATE_TABLE.match(sql))
            is_filled = is_table and self._fills_table(event, body)
            if is_filled and not self._is_from_elsewhere(event):
                self._row_statement(sql, body)
            self._definition(event, body, timestamp)
            # CREATE TABLE ... SELECT, whose rows follow; a procedure may end in these words, too
            if is_table and sql.endswith(b"START TRANSACTION"):
                self._transaction.has_begun = True
            elif not self._transaction.has_begun:
                self._end(timestamp)

    def _definition(self, event: bytes, body: bytes, timestamp: int) -> None:
        """Takes a DDL statement: into the schema history, and into the batch if published."""
        # Before the statement is looked at: whatever it is, tables may be different behind it.
        self._tables.forget_definitions()
        ddl = self._statement(event, body)
        if not ddl.has_happened:
            return
        is_left_out = self._is_from_elsewhere(event) or self._is_out()
        self._filling.statements.append(replace(ddl, is_left_out=is_left_out))
        self._schema.follow(ddl, self._place())
        # Read in any case: the reader must also follow statements that are published already.
        origin = self._origin(event, timestamp)
        self._filling.parts += self._ddl.read(ddl, origin, is_left_out=is_left_out)

    def _row_statement(self, sql: bytes, body: bytes) -> None:
        """Takes a statement that changes rows: counts it as skipped, or raises UnreadableEvent."""
        if self._is_behind():
            return
        is_skipped = self._row_statements.is_skipped(sql, session(body), self._place())
        if is_skipped and not self._is_out():
            self._filling.skipped += 1

    def _load_query(self, event: bytes, body: bytes, timestamp: int) -> None:
        """LOAD DATA in statement format: a Query event with the file's numbers after its fixed
        part."""
        self._query(event, body[:13] + body[26:], timestamp)

    def _statement(self, event: bytes, body: bytes) -> Statement:
        flags = HEADER.unpack_from(event)[5]
        return statement(body, self.reached(), self._server.charsets, self._version, flags)

    def _fills_table(self, event: bytes, body: bytes) -> bool:
        created = self._statement(event, body)
        return fills_table(created.sql, created.session)

    def _compressed_query(self, event: bytes, body: bytes, timestamp: int) -> None:
        self._query(event, plain_query(body), timestamp)

    def _xid(self, event: bytes, body: bytes, timestamp: int) -> None:
        self._end(timestamp)

    def _xa_prepare(self, event: bytes, body: bytes, timestamp: int) -> None:
        xid = xa.prepared_xid(body)
        if xid is not None:
            rows = self._filling.take_open()
            self._prepared.hold(xa.Open(xid, rows, self._resume.at(self._ended_at), timestamp))
        elif self._is_out():  # committed in one phase
            self._filling.take_open()
        self._end(timestamp)

    def _xa_finish(self, is_commit: bool, xid: bytes, event: bytes, timestamp: int) -> None:
        """Ends a prepared transaction: on COMMIT its rows count from here on, with this origin."""
        if is_commit and not self._is_out():
            origin = self._origin(event, timestamp)
            rows = self._prepared.take(xid)
            for part in rows:
                part.origin, part.is_xa = origin, True
            self._filling.parts += rows
        else:
            self._prepared.drop(xid)
        self._end(timestamp)

    def _is_out(self) -> bool:
        """Whether the transaction being read is published already."""
        published = self._resume.published
        return published is not None and published.has(self._transaction.gtid, self._place())

    def _is_behind(self) -> bool:
        """Whether the event is before what is published, or before a position that was set, and has
        no effect any more. Rows of an XA transaction count from its XA COMMIT on, which may not be
        published yet."""
        return self._is_out() and not self._transaction.is_xa

    def _rolled_back(self) -> None:
        """Drops the transaction's rows: one that made or dropped temporary tables is in the binlog
        even when it was rolled back. Raises UnreadableEvent if some were sent already."""
        if self._transaction.is_given_out:
            raise UnreadableEvent(
                "ROLLBACK of a transaction whose row changes have been sent in part, as it was too "
                "large to be kept until its end; "
                "check the rows that it changed, then set the position past it"
            )
        self._filling.take_open()

    def _rolled_back_to_savepoint(self) -> None:
        if not self._transaction.is_first:
            raise UnreadableEvent(
                "ROLLBACK TO SAVEPOINT in a transaction that also made or dropped temporary "
                "tables: which of its row changes hold is not "
                "known to this release; check the rows that it changed, then set the position "
                "past it"
            )

    def _end(self, timestamp: int) -> None:
        transaction = self._transaction
        self._filling.end_transaction()
        self._tables.transaction_ended()
        self._resume.end(transaction.gtid, self.reached)
        commit_us = transaction.commit_us or timestamp * 1_000_000
        self._edge = self._ended_at = Edge(
            self.file, self._pos, commit_us // 1000, self._created_ms
        )
        self._forget_transaction()

    def _forget_transaction(self) -> None:
        """None is open any more."""
        self._transaction = Transaction(self._server.server_uuid)

    def _mysql_gtid(self, event: bytes, body: bytes, timestamp: int) -> None:
        self._transaction.take_mysql_gtid(body)
        self._leave_out_by_gtid()

    def _anonymous_gtid(self, event: bytes, body: bytes, timestamp: int) -> None:
        self._transaction.take_anonymous_gtid(body)

    def _tagged_gtid(self, event: bytes, body: bytes, timestamp: int) -> None:
        self._transaction.take_tagged_gtid(body)
        self._leave_out_by_gtid()

    def _mariadb_gtid(self, event: bytes, body: bytes, timestamp: int) -> None:
        self._transaction.take_mariadb_gtid(_server_id(event), body)
        self._leave_out_by_gtid()

    def _leave_out_by_gtid(self) -> None:
        transaction = self._transaction
        transaction.is_elsewhere = transaction.gtid_source in self._elsewhere.gtid_sources

    def _gtids_before_file(self, event: bytes, body: bytes, timestamp: int) -> None:
        self._resume.take_file_head(body)

    def _rotate(self, event: bytes, body: bytes, timestamp: int) -> None:
        if self._transaction.has_begun or self._transaction.gtid:
            # A Rotate event with a timestamp was written at the end of the file; without one, the
            # dump thread made it up at the start of the next file.
            if timestamp:
                raise UnreadableEvent(
                    "the binlog file ends within a transaction whose end this release does not see"
                )
            self._drop_transaction()
        self.file, self._pos = body[8:].decode(), int.from_bytes(body[:8], "little")
        self._tables.forget_numbers()  # they start again when the server does

    def _format_description(self, event: bytes, body: bytes, timestamp: int) -> None:
        self._version = version_of(body)
        if is_server_start(body):
            self._schema.server_started()
            self._ddl.server_started()
        self._created_ms = timestamp * 1000

    @property
    def gtids(self) -> str | None:
        """The GTIDs of all transactions that have ended; None if they are not known."""
        return self._resume.gtids

    @property
    def left_over(self) -> str:
        """A sentence about the rows of the transaction being read, for when its end never
        arrives."""
        transaction = self._transaction
        if transaction.is_given_out:
            return (
                f"Rows of transaction {transaction.gtid}, which is not at the source, are in "
                "Kafka: compare its tables"
            )
        return "No row of a transaction that is not at the source was sent"

    def _drop_transaction(self) -> None:
        sentence = (
            "%s ends at %d within a transaction, as after a power loss; continuing with the "
            "next file. %s"
        )
        LOG.warning(sentence, self.file, self._pos, self.left_over)
        self._filling.take_open()
        self._forget_transaction()


def _server_id(event: bytes) -> int:
    """The server that first wrote the event."""
    return int.from_bytes(event[5:9], "little")


def _as_kind(event: bytes, kind: int) -> bytes:
    """The event's header with another event type."""
    return event[:4] + bytes((kind,)) + event[5:19]
