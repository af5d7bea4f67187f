"""Loads a chunk of a table into the target, in a Spark worker. The chunk is read as a snapshot
reads it, turned into what the consumer task would read from the fetch task's records, and applied
as the consumer task applies it. Cells, filters, processors and mappers therefore share one code
path; only Kafka is left out, and, where the formats allow it, the records (`row_columns.py`).

After a kill a chunk may be loaded again: its rows exist then, and are written once more.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from traceback import walk_tb
from typing import Any, cast

import pyarrow as pa
import pymysql

from cdcbus.consumer.apply.applier import PartitionApplier, PartitionWaits
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.records.records import Records
from cdcbus.plugins.contracts import AppliedOffset, Converter, JdbcTarget, Loader, LoadTransaction
from cdcbus.plugins.errors import (
    CdcError,
    DataError,
    OffsetConflict,
    RowConflict,
    SourceMisconfigured,
    TargetRejected,
    TargetUnavailable,
    UnmappedColumn,
    UnreadableEvent,
)
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.loaders.offset_table import COUNTS
from cdcbus.plugins.loaders.sqlalchemy_loader import JdbcBatch
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Origin, TableId
from cdcbus.plugins.transform.processor import make_processor
from cdcbus.producer.config import FetchTask, SourceConfig
from cdcbus.producer.publish.codegen import TableWriter
from cdcbus.producer.server import connection as servers
from cdcbus.producer.server.connection import Server
from cdcbus.producer.snapshot.columns import SelectedTable
from cdcbus.producer.snapshot.reader import ChunkReader, OtherServer
from cdcbus.producer.snapshot.refusals import NO_COLUMN, NOT_THERE
from cdcbus.producer.snapshot.rows import row_events
from cdcbus.tasks.direct.chunks.course import Chunk, Loaded, Reader, now_ms
from cdcbus.tasks.direct.chunks.row_columns import AS_THEY_ARE, ReadRows, RowsOrRecords, read_rows
from cdcbus.tasks.direct.given import ANEW, lost

SLICE_BYTES = 16_000_000
"""The size of a transaction, for a chunk whose rows are larger than those before it."""
TASKS = 2


@dataclass(frozen=True, slots=True)
class Work:
    """What all chunks of a source share. `guard`: an offset that the target must hold unchanged
    when a chunk is committed, which fails once another process has taken the task over; None where
    the target keeps no offsets."""

    load: LoadTask
    fetch: FetchTask
    server: Server
    guard: AppliedOffset | None


def load_chunk(pickled: bytes, given: tuple[Chunk, Reader]) -> Loaded | CdcError:
    """Reads and applies a chunk for a reader. `pickled`: the Work. Returns errors instead of
    raising them, as Spark would replace an exception's sentence with its class and a stack
    trace."""
    chunk, by = given
    try:
        return _worker(pickled).load(chunk, by)
    except CdcError as error:
        # Its connections may be broken; the next chunk opens new ones.
        _worker.cache_clear()
        return error
    # Its text may hold cell values, so only its class and place are shown.
    except Exception as error:
        _worker.cache_clear()
        *_, (frame, line) = walk_tb(error.__traceback__)
        where = f"{frame.f_code.co_filename}:{line}"
        return CdcError(
            f"chunk {chunk.number} of {chunk.table} failed: {type(error).__name__} at {where}"
        )


@lru_cache(TASKS)
def _worker(pickled: bytes) -> _Worker:
    return _Worker(pickle.loads(pickled))


class _Worker:
    """Loads chunks, keeping its connections from one chunk to the next."""

    def __init__(self, work: Work) -> None:
        assert isinstance(work.load.target, JdbcTarget)
        self._work = work
        self._converter = make_converter(work.fetch.publish.converter)
        # Those of other packages are refused.
        target = replace(work.load.target, needs_offsets=work.guard is not None)
        loader = cast(JdbcBatch, make_loader(work.load.loader, target))
        self._loader = _GuardedLoader(loader, work.guard)
        self._read = RowsOrRecords(work.load.reader)
        self._applier = PartitionApplier(
            work.load,
            self._read,
            cast(Loader, self._loader),
            make_processor(work.load.processor),
        )
        self._reader: ChunkReader | None = None
        self._tables: dict[TableId, tuple[SelectedTable, TableWriter]] = {}

    def load(self, chunk: Chunk, by: Reader) -> Loaded:
        """Raises CdcError."""
        try:
            with reading(chunk.table, self._work.fetch.source):
                if not self._loader.begin(by):
                    raise lost(self._work.load.task_id)
                rows, size = self._load(chunk)
                return Loaded(rows, size, self._loader.committed)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._applier.close()

    def _load(self, chunk: Chunk) -> tuple[int, int]:
        """Returns the rows and bytes."""
        if self._reader is None:
            self._reader = ChunkReader(self._work.fetch.source, self._work.server)
        selected, writer = self._table(self._reader, chunk)
        rows = size = waiting = 0
        some: list[bytes] = []
        for images in self._reader.between(selected, chunk.after, chunk.until):
            some += images
            waiting += sum(map(len, images))
            rows += len(images)
            if waiting >= SLICE_BYTES:
                self._apply(chunk, selected, writer, some)
                size, waiting, some = size + waiting, 0, []
        if some:
            self._apply(chunk, selected, writer, some)
        return rows, size + waiting

    def _table(self, reader: ChunkReader, chunk: Chunk) -> tuple[SelectedTable, TableWriter]:
        known = self._tables.get(chunk.table)
        # The table may have been altered since the chunk was cut, or since the last one here.
        if known is None or known[0].shape != chunk.shape:
            selected = reader.describe(chunk.table)
            if selected is None or selected.shape != chunk.shape:
                raise altered(chunk.table)
            known = selected, record_writer(selected, self._converter)
            self._tables[chunk.table] = known
        return known

    def _apply(
        self, chunk: Chunk, selected: SelectedTable, writer: TableWriter, images: list[bytes]
    ) -> None:
        # Without a place in the binlog: the rows are read from the table, not from the log.
        origin = Origin(server_id=self._work.server.server_id, commit_us=now_ms() * 1000)
        self._read.rows = self._rows(selected, writer, images, origin)
        if self._read.rows is None:
            values = pa.array(_record_values(selected, writer, images, origin), pa.binary())
        else:
            # Places of rows stand in for records, so that the applier cuts and counts as usual.
            values = self._read.rows.values()
        records = Records(
            pa.array(range(len(values)), pa.int64()),
            values,
            times=pa.nulls(len(values), pa.int64()),
        )
        # There is no partition; the name appears in errors.
        place = TopicPartition(str(chunk.table), chunk.number)
        try:
            self._applier.apply(place, records, len(values), 0, len(values))
        except RowConflict as error:
            raise RowConflict(f"{_named(chunk, selected)}: {error}; {OTHER_ROW}") from error
        # It names the table itself, and the statement or the line that is missing.
        except UnmappedColumn:
            raise
        except (DataError, TargetRejected) as error:
            raise type(error)(f"{_named(chunk, selected)}: {error}") from error
        except PartitionWaits as error:
            raise RowConflict(f"{_named(chunk, selected)}: {error}; {OTHER_ROW}") from error

    def _rows(
        self, selected: SelectedTable, writer: TableWriter, images: list[bytes], origin: Origin
    ) -> ReadRows | None:
        """The rows read without records; None where they need records."""
        if self._work.fetch.publish.converter not in AS_THEY_ARE:
            return None
        self._read.rows = None
        try:
            [value] = _record_values(selected, writer, images[:1], origin)
            return read_rows(images, selected, self._read.from_bytes(value))
        # The path by records reports it.
        except (DataError, UnreadableEvent):
            return None


def _record_values(
    selected: SelectedTable, writer: TableWriter, images: list[bytes], origin: Origin
) -> list[bytes]:
    values: list[bytes] = []
    for event in row_events(selected.table, images, origin):
        made, _ = writer.records(event, len(values))
        values += [record["value"] for record in made]
    return values


OTHER_ROW = (
    "a unique or foreign key binds it to a row that was read at another moment: drop that key at "
    "the target until the load is done, or take the snapshot through Kafka (docs/snapshot.md)"
)


def altered(table: TableId) -> CdcError:
    """The error for a table whose columns or paging key have changed."""
    return CdcError(
        f"table {table} was altered while it was loaded: empty its target table, and start the "
        "load again with --anew"
    )


@contextmanager
def reading(table: TableId, config: SourceConfig) -> Iterator[None]:
    """Raises errors of the source in the block as `source_error` words them, but says of another
    server, or a table that is not there any more, or not with its columns, what to do."""
    try:
        with servers.reported(config):
            yield
    # It does not pass by itself, as an outage does.
    except OtherServer as error:
        raise CdcError(f"{error}; the same command goes on once it does, or {ANEW}") from error
    except SourceMisconfigured as error:
        code = error.__cause__.args[0] if isinstance(error.__cause__, pymysql.Error) else 0
        if code in NOT_THERE:
            raise CdcError(
                f"table {table} has other rows or none: it was dropped or renamed while it was "
                f"loaded ({code}): {ANEW}"
            ) from error
        if code == NO_COLUMN:
            raise altered(table) from error
        raise


def record_writer(selected: SelectedTable, converter: Converter) -> TableWriter:
    """A writer that makes record values, without keys, from the table's rows."""
    return TableWriter(
        selected.table,
        converter,
        selected.table.table.key,
        lambda change: [{"key": b"", "value": converter.to_bytes(change)}],
    )


def _named(chunk: Chunk, selected: SelectedTable) -> str:
    return f"table {chunk.table} (key {', '.join(selected.key_names)}), chunk {chunk.number}"


class _GuardedLoader:
    """A loader whose transactions store no offset of their own, and commit only while the target
    holds the guard unchanged. They are counted for the reader that has begun."""

    def __init__(self, loader: JdbcBatch, guard: AppliedOffset | None) -> None:
        self._loader, self._guard = loader, guard
        # As the target has it; None: no transaction yet.
        self._count: AppliedOffset | None = None
        self._number = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def begin(self, by: Reader) -> bool:
        """Counts for a reader from now on. Returns False if the target lacks commits of it. More
        than are known there can be: those whose answer was lost."""
        self._number, self._count = by.number, None
        if self._guard is not None:
            self._count = self._loader.counts().get(by.number)
        return self._guard is None or self.committed >= by.committed

    @property
    def committed(self) -> int:
        return 0 if self._count is None else self._count.next_offset

    @contextmanager
    def transaction(self) -> Iterator[LoadTransaction]:
        next_count = self._next_count()
        with self._loader.transaction() as transaction:
            guarded = _GuardedTransaction(transaction, self._guard, self._count, next_count)
            yield cast(LoadTransaction, guarded)
        if guarded.is_counted:
            self._count = next_count

    def _next_count(self) -> AppliedOffset:
        if self._count is not None:
            return replace(self._count, next_offset=self._count.next_offset + 1)
        epoch = 0 if self._guard is None else self._guard.epoch
        return AppliedOffset(COUNTS, self._number, 1, 0, epoch)


class _GuardedTransaction:
    def __init__(
        self,
        transaction: LoadTransaction,
        guard: AppliedOffset | None,
        count: AppliedOffset | None,
        next_count: AppliedOffset,
    ) -> None:
        self._transaction, self._guard = transaction, guard
        self._count, self._next_count = count, next_count
        self.is_counted = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)

    def store_offset(self, _offset: AppliedOffset, _seen: AppliedOffset | None) -> None:
        if self._guard is None:
            return
        # The same offset for old and new: fails if it changed, changes nothing otherwise.
        self._transaction.store_offset(self._guard, self._guard)
        try:
            self._transaction.store_offset(self._next_count, self._count)
        except OffsetConflict as error:
            # No other process's, as the guard is there: of an earlier attempt at this chunk.
            raise TargetUnavailable(
                "the target has committed an earlier attempt at this chunk meanwhile"
            ) from error
        self.is_counted = True
