"""Loaders: batches of row changes into one target, in its transactions."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from cdcbus.plugins.contracts.applied_offset import AppliedOffset, OffsetTable
from cdcbus.plugins.contracts.table_batch import Counts, TableBatch
from cdcbus.plugins.contracts.target_table import TargetTable
from cdcbus.plugins.rowchange import Cell, Column, TableId

VERSION = ("cdcbus_ms", "cdcbus_place")
"""The columns of a version table beside those of the key."""


class RowVersion(NamedTuple):
    """When the source made a change of a row."""

    # When the change's record came into Kafka.
    came_ms: int = 0
    # The change's place in the binlog, as text that sorts; empty where that is unknown.
    place: str = ""


class KnownRow(NamedTuple):
    """What a version table holds of a key."""

    # Identifies the target's row: the same for keys that the target takes for one.
    row: str
    # Of the last change that was stored; the lowest where there is none.
    version: RowVersion = RowVersion()
    # The key's texts as that change spelled them, of the columns where the target may take
    # different texts for one.
    texts: tuple[Cell, ...] = ()


class LoadTransaction(Protocol):
    """One open transaction of a target. Durable when its context ends without an error, undone
    otherwise."""

    def write(self, batch: TableBatch) -> Counts:
        """Applies a table's batch. Raises RowConflict, TargetRejected, TargetUnavailable;
        TargetMisconfigured for a table without a key in a target without an offset table, where
        a batch that comes twice would repeat rows."""
        ...

    def savepoint(self) -> AbstractContextManager[None]:
        """Undoes what the block has written when the block raises; the transaction stays
        usable."""
        ...

    def check_at_once(self) -> None:
        """From here on the target checks its constraints with each statement, those too that it
        would check at the commit."""
        ...

    def may_be_freed(self, tables: Collection[TableId]) -> None:
        """Rows of these tables may have changes in other partitions. Such a change may free a key
        that a row holds which only the source can distinguish from a new one, so from here on a
        taken key raises RowConflict."""
        ...

    def row_versions(
        self, versions: TargetTable, keys: Sequence[tuple[Cell, ...]]
    ) -> list[KnownRow]:
        """What a version table holds of these keys, in their order, as `write` has stored it.
        Locks them: another transaction that reads them waits for the end of this one. Raises what
        `write` raises."""
        ...

    def has_version_table(self, tables: Sequence[TargetTable]) -> bool:
        """Whether one of these tables has a version table by now, or every table gets one: see
        `Loader.scatter`."""
        ...

    def store_offset(self, offset: AppliedOffset, seen: AppliedOffset | None) -> None:
        """Stores the applied offset with the rows, in place of the one that was `seen` (None where
        there was none). Does nothing where the target has no offset table. Raises OffsetConflict
        where the target holds another one: somebody else has applied records since. Of two
        transactions that have seen the same offset at most one commits."""
        ...


class Loader(Protocol):
    """Writes to one target. Thread-safe: each partition uses a transaction, and so a connection, of
    its own."""

    @property
    def is_merging(self) -> bool:
        """Whether it takes the net effect of many changes. Otherwise each change comes as a batch
        of its own, in source order."""
        ...

    @property
    def is_dry_run(self) -> bool:
        """Whether it changes nothing: then no stored position may move."""
        ...

    def table(self, name: TableId) -> TargetTable | None:
        """The target table, matched without regard to case when the exact spelling does not
        exist; None if missing. Cached."""
        ...

    def refresh(self, name: TableId) -> None:
        """Forgets the table that `table` has cached."""
        ...

    def is_altered(self, table: TargetTable) -> bool:
        """Whether the target's table differs from this one, which `table` has given; if it does,
        the cached one is forgotten."""
        ...

    def evolve(self, table: TargetTable, columns: Sequence[Column]) -> TargetTable:
        """Adds those of the source's `columns` (under the target's names) that the table lacks, and
        widens types that are too narrow for them; never drops or narrows anything. Durable
        immediately. Returns the table as it is afterwards: what somebody else has altered meanwhile
        is no error. Raises TargetRejected, TargetMisconfigured (missing rights),
        TargetUnavailable."""
        ...

    def is_coarse(self, table: TargetTable) -> bool:
        """Whether the table's key takes different texts for one, as its collation says: texts that
        differ in case, or in blanks at the end. Cached."""
        ...

    def version_table(self, table: TargetTable, *, make: bool) -> TargetTable | None:
        """The table that holds the versions of a target table's rows for this task: its columns
        are the key's, as the target compares it, and those of `VERSION`. Where it does not exist,
        `make` creates it; otherwise None. Raises TargetError."""
        ...

    def scatter(self) -> bool:
        """Decides that every table of the task gets a version table from now on, in each of its
        processes and after each start. Returns whether that is new. Raises TargetError."""
        ...

    def is_scattered(self) -> bool:
        """Whether `scatter` was called."""
        ...

    def forget_versions(self, before_ms: int) -> None:
        """Deletes, from all version tables of the task, the versions of rows whose last change came
        into Kafka before that time. Raises TargetError."""
        ...

    def transaction(self) -> AbstractContextManager[LoadTransaction]:
        """A new transaction; commits at the end of the block. Raises TargetUnavailable,
        TargetMisconfigured; RowConflict where the target checks a constraint at the commit."""
        ...

    def applied_offsets(self) -> list[AppliedOffset]:
        """The offsets stored by this task; empty where the target has no offset table."""
        ...

    def fence(self) -> list[AppliedOffset] | None:
        """The same offsets, each moved to a new epoch. Waits for open transactions; afterwards a
        process that has seen an earlier epoch commits nothing, however often it tries. None where
        the target keeps no offsets. A dry run fences nobody. Raises TargetMisconfigured where the
        table is of an earlier version and must not be altered."""
        ...

    def offset_table(self) -> OffsetTable:
        """Only looks: creates no table. Raises TargetUnavailable, TargetMisconfigured."""
        ...

    def end_other_sessions(self) -> None:
        """Ends the sessions that an earlier process of the task has open in the target: one that
        hangs may hold locks on rows. Only for the holder of the task's locks, while none of its
        own transactions are open. Raises TargetUnavailable."""
        ...

    def close(self) -> None:
        """Closes all connections. A second call does nothing."""
        ...


class ZeroDate(StrEnum):
    """What a zero or partly zero date (`0000-00-00`, `2024-02-00`) becomes in a target that has
    none."""

    REJECT = "reject"
    NULL = "null"
    EPOCH = "epoch"


@dataclass(frozen=True, slots=True)
class JdbcTarget:
    """What a JDBC loader connects to."""

    # The task file's JDBC address.
    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    task_id: str = ""
    # The most connections that are open at a time.
    pool_size: int = 5
    # How many of them are opened together with the first.
    min_connections: int = 0
    # How long to wait for a free connection, and for a new one.
    max_wait_seconds: float = 10.0
    # How often a failed connect is tried again before it counts.
    connect_retries: int = 1
    # Each connection is tested before it is used.
    is_tested: bool = True
    zero_date: ZeroDate = ZeroDate.REJECT
    # Identifies each transaction in the target's binlog; empty: transactions carry no mark.
    mark: str = ""
