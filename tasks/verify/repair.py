"""Repairs differing rows: publishes them again from the source through their topic.

The order with live changes holds, because the rows cannot change meanwhile. The rows, or the gaps
where they are missing, are locked for reading at the source. Once the fetch task has published
everything that was committed before, all earlier changes of these rows are in the topic. Then the
rows are sent, and once Kafka has acknowledged them the lock is released. Later changes come after
them. A kill at any moment does no harm: a record is in the topic at its place, or it is not.

A session that is ended meanwhile has lost its locks, so it is asked once more before rows are sent.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from threading import Event
from typing import TYPE_CHECKING, Final

import pymysql

from cdcbus.plugins.errors import BusRejected, ConfigError, SourceRefused, UnreadableEvent
from cdcbus.plugins.kafka.client.errors import drop_unsent
from cdcbus.plugins.kafka.producer import KafkaWriter
from cdcbus.plugins.kafka.record_key import Record, key_columns, key_text
from cdcbus.plugins.mysql.sql_types import sql_type_number
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Cell, Op, Origin, RowChange, Table
from cdcbus.producer.schema.schema_reader import SchemaReader
from cdcbus.producer.server import connection as servers
from cdcbus.tasks.control.source_of import source_connection
from cdcbus.tasks.verify.compare import Comparison
from cdcbus.tasks.verify.lag import Lag, Moment
from cdcbus.tasks.verify.report import Kind
from cdcbus.tasks.verify.row_numbers import Key, key_groups
from cdcbus.tasks.verify.sendable import REPAIRED, repairable, source_key
from cdcbus.tasks.verify.sides import ANSWER_SECONDS, SourceSide, open_source
from cdcbus.tasks.verify.subject import Cells, Subject

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection

# Rows that are locked at a time: others wait for them until they are sent.
ROWS_AT_ONCE: Final = 100
# Instead of the server's 50: a busy row is an error soon, and the rows locked so far are free.
LOCK_WAIT_SECONDS: Final = 5
HOLD_SECONDS: Final = 10.0
"""How long locked rows wait for the fetch task, which stores its position once a second."""
LOOK_SECONDS: Final = 0.05
# Errors of MySQL: access denied to a database, table, column, or without a privilege.
NO_RIGHT: Final = (1044, 1142, 1143, 1227)


@dataclass(frozen=True, slots=True)
class Planned:
    """What is sent for a row: INSERT with all its cells, which overwrites, or DELETE."""

    op: Op
    table: str
    topic: str
    key: dict[str, Cell]

    def to_fields(self) -> dict[str, object]:
        return {"op": self.op, "table": self.table, "topic": self.topic, "key": self.key}


def planned(comparison: Comparison, kinds: Collection[Kind] = REPAIRED) -> list[Planned]:
    """What a repair would send now."""
    [side] = comparison.sources
    keys = repairable(comparison, kinds)
    found = _rows(comparison, side, keys)
    changes = _changes(comparison.subject, side, keys, found, Origin())
    return [_planned(side, change) for change in changes]


def _planned(side: SourceSide, change: RowChange) -> Planned:
    row = change.after or change.before or {}
    key = {column.name: row[column.name] for column in side.table.key_columns}
    return Planned(change.op, str(change.table.id), side.table.mapped.topic, key)


def _rows(
    comparison: Comparison, side: SourceSide, keys: Sequence[Key], lock: str = ""
) -> dict[Key, Cells]:
    """The source's rows by their keys at the target. `lock`: SQL that locks them."""
    found: dict[Key, Cells] = {}
    wanted = set(keys)
    places = comparison.subject.key
    for part in key_groups(keys, ROWS_AT_ONCE):
        for row in side.rows(side.among(part) + lock, is_narrowed=False):
            for cells in side.table.expect(row):
                key = tuple(cells[place] for place in places)
                if key in wanted:
                    found[key] = row
    return found


class NotRepaired(ConfigError):
    """The rows of this table cannot be sent, or not now; those of other tables can."""


def repair(comparison: Comparison, lag: Lag, keys: Sequence[Cells]) -> Iterator[list[Planned]]:
    """Publishes the rows as the source has them, and yields each group once Kafka has acknowledged
    it. Raises NotRepaired, SourceRefused, ConfigError and BusError; groups sent before that stay
    sent."""
    [side] = comparison.sources
    fetch = side.table.feed.fetch
    rest = iter(keys)
    # A transaction under the fetch task's name would abort the fetch task's own.
    config = replace(fetch.publish, transactional_id="")
    stop = Event()
    # So that Kafka is not waited for beyond its timeout.
    stop.set()
    with (
        # Locks at another server would stop no writer.
        open_source(fetch.source, lag.server(side.table.feed)) as connection,
        source_connection(fetch.source, ANSWER_SECONDS, lag.server(side.table.feed)) as looking,
        _Sender(config, stop) as sender,
    ):
        schemas = SchemaReader(looking)
        _refuse_engine(schemas, looking, side)
        # On the connection that locks; --where does not matter, as rows are looked up by key.
        locking = SourceSide(side.table, connection, "1 = 1")
        # READ COMMITTED locks no gaps, so a missing row could be inserted meanwhile.
        servers.query(connection, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        servers.query(connection, f"SET SESSION innodb_lock_wait_timeout = {LOCK_WAIT_SECONDS}")
        while part := list(islice(rest, ROWS_AT_ONCE)):
            _refuse_altered(schemas, side)
            with _locked(connection, side):
                rows = _rows(comparison, locking, part, " LOCK IN SHARE MODE")
                # After the locks: all earlier changes of these rows are committed, and in this
                # moment.
                moment = lag.now()
                _wait(lag, moment, side)
                origin = _origin(lag, moment, side)
                changes = _changes(comparison.subject, side, part, rows, origin)
                records = [_record(side, change) for change in changes]
                _check_locks(connection, side, "nothing was sent")
                sender.send(side.table.mapped.topic, records)
                _check_locks(connection, side, "rows that were sent may be as of before")
            # Without locks, for which DDL would wait, and this for DDL.
            _refuse_altered(schemas, side)
            yield [_planned(side, change) for change in changes]


def _refuse_altered(schemas: SchemaReader, side: SourceSide) -> None:
    """Raises ConfigError where the table is not as it was when the comparison began."""
    table = side.table.mapped.source.id
    if schemas.read(table)[0] != side.table.mapped.schema:
        raise ConfigError(
            f"source table {table} has been altered since it was compared, and rows that were sent "
            "meanwhile may be as of before: run the repair again"
        )


def _refuse_engine(schemas: SchemaReader, connection: Connection, side: SourceSide) -> None:
    """Refuses other engines than InnoDB, as only InnoDB locks the gap where a row is missing."""
    table = side.table.mapped.source.id
    sql = "SELECT engine FROM information_schema.tables WHERE table_schema = %s AND table_name = %s"
    with schemas.held([table]):
        engine = servers.query(connection, sql, table)
    if not engine or str(engine[0][0]).lower() != "innodb":
        raise NotRepaired(
            f"source table {table} is not in InnoDB, so its rows cannot be locked while they are "
            "sent: repair it by hand, or give it ENGINE=InnoDB"
        )


@contextmanager
def _locked(connection: Connection, side: SourceSide) -> Iterator[None]:
    table = side.table.mapped.source.id
    servers.query(connection, "START TRANSACTION")
    try:
        yield
    except pymysql.Error as error:
        [code, *_] = error.args or [0]
        if code in NO_RIGHT:
            raise SourceRefused(
                f"source table {table}: the fetch task's user may not lock rows for reading "
                f"({code}): GRANT LOCK TABLES ON {table.schema}.* to it for the repair"
            ) from error
        # Lock wait timeout and deadlock.
        if isinstance(error, pymysql.err.OperationalError) and code in (1205, 1213):
            raise NotRepaired(
                f"rows of source table {table} are locked by others for longer than "
                f"{LOCK_WAIT_SECONDS} s ({code}): run the repair again"
            ) from error
        raise
    finally:
        # A lost connection has lost its locks, too; there is nothing to roll back.
        if connection.open:
            connection.rollback()


def _check_locks(connection: Connection, side: SourceSide, effect: str) -> None:
    """Raises ConfigError where the connection was lost, and its locks with it: the rows may have
    changed since. `effect`: what that means."""
    try:
        servers.query(connection, "SELECT 1")
    except (pymysql.Error, OSError, EOFError) as error:
        raise ConfigError(
            f"the locks of rows of source table {side.table.mapped.source.id} were lost while they "
            f"were needed, as when the session is ended there, and {effect}: run the repair again"
        ) from error


def _wait(lag: Lag, moment: Moment, side: SourceSide) -> None:
    deadline = time.monotonic() + HOLD_SECONDS
    while not lag.is_published(moment):
        if time.monotonic() > deadline:
            raise ConfigError(
                f"fetch task {side.table.feed.fetch.task_id} has not published what the source "
                f"committed {HOLD_SECONDS:g} s ago, and rows must not stay locked for longer: "
                "start it, or wait until it has caught up, and run the repair again"
            )
        time.sleep(LOOK_SECONDS)


def _origin(lag: Lag, moment: Moment, side: SourceSide) -> Origin:
    """An origin after everything committed before, and before everything to come: the next
    transaction begins at its position. Whole seconds, as MariaDB's commits have no fractions."""
    end = moment.source_ends[side.table.feed.place]
    seconds = lag.source_ms(side.table.feed) // 1000
    return Origin(end.file, end.pos, commit_us=seconds * 1_000_000)


def _changes(
    subject: Subject,
    side: SourceSide,
    keys: Sequence[Cells],
    rows: Mapping[Key, Cells],
    origin: Origin,
) -> list[RowChange]:
    """What is sent for these keys, in their order. `rows`: those that the source has."""
    table = _described(side)
    changes = []
    for key in keys:
        if row := rows.get(key):
            after = dict(zip(table.names, row, strict=True))
            changes.append(RowChange(table, Op.INSERT, None, after, origin, is_last=True))
        elif before := source_key(subject, side.table, key):
            changes.append(RowChange(table, Op.DELETE, before, None, origin, is_last=True))
        # Otherwise the source had the row before, and the fetch task has sent its delete.
    return changes


def _record(side: SourceSide, change: RowChange) -> Record:
    config = side.table.feed.fetch.publish
    try:
        key = key_text(change, key_columns(change.table, config))
    except UnreadableEvent as error:
        raise NotRepaired(
            f"a row of {change.table.id} that only the target has cannot be deleted through the "
            f"topic, as the partition key (partitionKey.{change.table.id}) has columns outside "
            "the key: delete it at the target by hand"
        ) from error
    return {"key": key, "value": make_converter(config.converter).to_bytes(change)}


class _Sender(KafkaWriter[str]):
    def send(self, topic: str, records: Iterable[Record]) -> None:
        """Returns when all records are acknowledged. Raises BusError; some may be acknowledged
        then, and the others are dropped."""
        self.start()
        try:
            self._produce(topic, list(records))
            self.flush()
        except BaseException:
            # Now, before the caller unlocks the rows: later their newer changes may be in Kafka.
            drop_unsent(self.client)
            raise

    def _on_too_large(self, refused: str) -> None:
        # A repair leaves no dead letters: the operator at the command learns of it instead.
        self._failure = BusRejected(refused)


def _described(side: SourceSide) -> Table:
    """The source table as the fetch task's records describe it."""
    mapped = side.table.mapped
    columns = []
    for column, known in zip(mapped.source.columns, mapped.schema.columns, strict=True):
        number = sql_type_number(known.data_type, is_unsigned="unsigned" in known.type)
        columns.append(replace(column, sql_type=number))
    return replace(mapped.source, columns=tuple(columns))
