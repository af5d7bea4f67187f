"""Loaders: they write batches of row changes to one target, in its transactions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple, Protocol

from cdcbus.plugins.contracts.applied_offset import AppliedOffset, OffsetTable
from cdcbus.plugins.contracts.table_batch import Counts, TableBatch
from cdcbus.plugins.contracts.target_table import TargetTable
from cdcbus.plugins.rowchange import Cell, Column, TableId

VERSION = ("cdcbus_ms", "cdcbus_place")
"""The columns of a version table in addition to those of the key."""


class RowVersion(NamedTuple):
    """When the source made a change of a row."""

    # When the change's record arrived in Kafka, in epoch milliseconds.
    came_ms: int = 0
    # The change's place in the binlog, as text that sorts; empty where that is unknown.
    place: str = ""


class KnownRow(NamedTuple):
    """What a version table holds for a key."""

    # Identifies the target's row: the same for keys that are equal at the target.
    row: str
    # The version of the last change stored; the lowest where there is none.
    version: RowVersion = RowVersion()
    # The key's texts as that change spelled them, for the columns where different texts can be
    # equal at the target.
    texts: tuple[Cell, ...] = ()


class LoadTransaction(Protocol):
    """An open transaction of a target. It is durable when its context ends without an error, and
    undone otherwise."""

    def write(self, batch: TableBatch) -> Counts:
        """Applies a table's batch. Raises RowConflict, TargetRejected, TargetUnavailable;
        TargetMisconfigured for a table without a key in a target without an offset table, where
        a batch that comes twice would repeat rows."""
        ...

    def savepoint(self) -> AbstractContextManager[None]:
        """Undoes the block's writes when the block raises; the transaction stays usable."""
        ...

    def check_at_once(self) -> None:
        """Makes the target check its constraints with each statement from here on, including those
        that it would check at the commit."""
        ...

    def may_be_freed(self, tables: Collection[TableId]) -> None:
        """Declares that rows of these tables can have changes in other partitions. Such a change
        can free a key that is held by a row which only the source distinguishes from a new one, so
        from here on a taken key raises RowConflict."""
        ...

    def row_versions(
        self, versions: TargetTable, keys: Sequence[tuple[Cell, ...]]
    ) -> list[KnownRow]:
        """What a version table holds for these keys, in their order, as `write` has stored it.
        Locks them: another transaction that reads them waits for the end of this one. Raises what
        `write` raises."""
        ...

    def has_version_table(self, tables: Sequence[TargetTable]) -> bool:
        """Whether one of these tables has a version table by now, or every table gets one: see
        `Loader.scatter`."""
        ...

    def store_offset(self, offset: AppliedOffset, seen: AppliedOffset | None) -> None:
        """Stores the applied offset with the rows, in place of the one `seen` (None where there was
        none). Does nothing where the target has no offset table. Raises OffsetConflict where the
        target holds another one: another process has applied records since. At most one of two
        transactions that have seen the same offset commits."""
        ...


class Loader(Protocol):
    """Writes to one target. Thread-safe: each partition uses a transaction, and so a connection, of
    its own."""

    @property
    def is_merging(self) -> bool:
        """Whether it takes the net effect of many changes. Otherwise it gets each change as a batch
        of its own, in source order."""
        ...

    @property
    def is_dry_run(self) -> bool:
        """Whether it changes nothing; then no stored position may move."""
        ...

    def table(self, name: TableId) -> TargetTable | None:
        """The target table, matched regardless of case when the exact spelling does not exist; None
        if missing. Cached."""
        ...

    def refresh(self, name: TableId) -> None:
        """Drops the table that `table` has cached."""
        ...

    def is_altered(self, table: TargetTable) -> bool:
        """Whether the target's table differs from this one, which `table` has returned; if it does,
        drops the cached one."""
        ...

    def evolve(self, table: TargetTable, columns: Sequence[Column]) -> TargetTable:
        """Adds those of the source's `columns` (under the target's names) that the table lacks, and
        widens types that are too narrow for them; never drops or narrows anything. Durable
        immediately. Returns the table as it is afterwards, which others may have altered meanwhile.
        Raises TargetRejected, TargetMisconfigured (missing rights), TargetUnavailable."""
        ...

    def is_coarse(self, table: TargetTable) -> bool:
        """Whether the collation of the table's key treats different texts as equal: texts that
        differ in case, or in trailing blanks. Cached."""
        ...

    def version_table(self, table: TargetTable, *, make: bool) -> TargetTable | None:
        """The table that holds the versions of a target table's rows for this task: its columns
        are the key's, as the target compares it, and those of `VERSION`. Where it does not exist,
        `make` creates it; otherwise None. Raises TargetError."""
        ...

    def scatter(self) -> bool:
        """Makes every table of the task get a version table from now on, in each of its processes
        and after each start. Returns whether that is new. Raises TargetError."""
        ...

    def is_scattered(self) -> bool:
        """Whether `scatter` was called."""
        ...

    def forget_versions(self, before_ms: Callable[[], int]) -> None:
        """Deletes, from all version tables of the task, versions of rows whose last change arrived
        in Kafka before the time that `before_ms` returns, which is asked only if there are such
        tables; none for 0 or less. The next call goes on with what it leaves. Raises TargetError,
        and what `before_ms` raises."""
        ...

    def transaction(self) -> AbstractContextManager[LoadTransaction]:
        """A new transaction; commits at the end of the block. Raises TargetUnavailable,
        TargetMisconfigured; RowConflict where the target checks a constraint at the commit."""
        ...

    def lost_tables(self) -> list[str]:
        """Looks, for a fraction of a second, whether tables that rows of the task were written to
        are still the same; returns a sentence about each that was dropped and made anew, or
        emptied, by somebody else, once. Always called while no transaction is open. Raises nothing
        where the target does not answer; empty where it cannot be known."""
        ...

    def accept_tables(self) -> None:
        """Takes the tables as they are from now on, as an operator has said where to begin. Raises
        TargetUnavailable."""
        ...

    def forget_rows(self) -> None:
        """Declares that other processes write and delete rows from now on."""
        ...

    def applied_offsets(self, partition: tuple[str, int] | None = None) -> list[AppliedOffset]:
        """The offsets stored by this task, or only the one of this topic and number; empty where
        the target has no offset table."""
        ...

    def fence(self) -> list[AppliedOffset] | None:
        """Moves each of the task's offsets to a new epoch, and returns them. Waits for open
        transactions; afterwards a process that has seen an earlier epoch commits nothing, however
        often it tries. None where the target keeps no offsets. A dry run fences nobody. Raises
        TargetMisconfigured where the table is of an earlier version and must not be altered."""
        ...

    def offset_table(self) -> OffsetTable:
        """The target's table of offsets, as it is: creates none. Raises TargetUnavailable,
        TargetMisconfigured."""
        ...

    def end_other_sessions(self) -> None:
        """Ends the sessions that an earlier process of the task has open in the target, as a
        process that hangs can hold row locks. Only for the holder of the task's locks, while none
        of its own transactions are open. Raises TargetUnavailable."""
        ...

    def close(self) -> None:
        """Closes all connections. A second call does nothing."""
        ...


class ZeroDate(StrEnum):
    """What a zero or partly zero date (`0000-00-00`, `2024-02-00`) becomes in a target without such
    dates."""

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
    # The largest number of open connections.
    pool_size: int = 5
    # The number of connections that are opened together with the first.
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
    # The task's driver keeps offsets there: an executor that cannot do so writes nothing.
    needs_offsets: bool = False
