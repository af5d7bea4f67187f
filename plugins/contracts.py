"""What each exchangeable part promises. Implementations: `converters/`, `loaders/`,
`cdcbus.tasks.zookeeper.positions`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

import orjson

from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Cell, Column, RowChange, TableDdl, TableId

if TYPE_CHECKING:
    import pyarrow as pa

    from cdcbus.plugins.converters.columnar import Columns


class Converter(Protocol):
    """Row changes to a Kafka record's value and back. Pure; one instance serves many threads."""

    def to_bytes(self, change: RowChange) -> bytes:
        """The record value of one row change."""
        ...

    def from_bytes(self, value: bytes) -> list[RowChange]:
        """The row changes of one record, in order; empty for records that hold none by design
        (heartbeats, transaction marks). Raises ConversionError for anything it cannot read:
        never skips."""
        ...


@runtime_checkable
class ColumnarConverter(Converter, Protocol):
    """A converter that also reads many records at once, which is several times as fast."""

    def read_columns(self, records: pa.BinaryArray) -> Columns:
        """The row changes of record values as columns, equal to what `from_bytes` reads; what is
        not read so is in the rest."""
        ...


@runtime_checkable
class DdlConverter(Converter, Protocol):
    """A converter that has a form for DDL, too: a record that `from_bytes` passes over."""

    def ddl_to_bytes(self, ddl: TableDdl) -> bytes:
        """The record value of one statement. Not for a TRUNCATE, which is a row change."""
        ...


@runtime_checkable
class JoiningConverter(Converter, Protocol):
    """A converter whose records may hold many rows."""

    def joined(self, values: Sequence[bytes]) -> bytes:
        """One record value with the rows of many, in order: each as `to_bytes` gives it, of the
        same table, operation and origin."""
        ...


@runtime_checkable
class MarkingConverter(Converter, Protocol):
    """A converter whose records may say themselves that a snapshot has sent them; of any other's a
    Kafka header does, which costs more. `marks_snapshots`: whether they do."""

    @property
    def marks_snapshots(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Landmark:
    """A record by which a log is known again: its offset, and when it came into Kafka, in epoch
    milliseconds."""

    offset: int
    came_ms: int

    @classmethod
    def of(cls, found: object) -> Landmark | None:
        """Of `[offset, ms]`, as it is kept; of anything else nothing."""
        if (
            isinstance(found, list)
            and len(found) == 2
            and all(type(number) is int for number in found)
        ):
            return cls(*found)
        return None

    @property
    def kept(self) -> list[int]:
        return [self.offset, self.came_ms]


@dataclass(frozen=True, slots=True)
class Mark:
    """What a task notes beside a position that it writes. `is_kept`: the target keeps offsets of
    its own, so it knows all that is stored here. `topic_id`: which topic of this name was read,
    as one that is deleted and made anew has another id; empty: not known. `last`: the last
    record that was read of each partition, unless the target knows it."""

    is_kept: bool = False
    topic_id: str = ""
    last: Mapping[int, Landmark] = field(default_factory=dict)


NO_MARK = Mark()


@dataclass(frozen=True, slots=True)
class Written:
    """The position that a task itself has written last, less the partitions that a command has
    set since."""

    position: str
    mark: Mark = NO_MARK


class PositionStore(Protocol):
    """The stored position of one swimlane of one task: one ZooKeeper node, and beside it what the
    task itself has written last.

    The store remembers the version it last loaded or saved, so that `save` never overwrites
    somebody else's edit. A save may be under way on another thread while the rest is asked, but
    `load`.
    """

    @property
    def path(self) -> str:
        """Where it is stored, for messages."""
        ...

    @property
    def position_version(self) -> int:
        """A fencing token: the version of the position as last loaded or saved, another one after
        each write by anybody; 0 when there is none."""
        ...

    @property
    def written(self) -> Written | None:
        """What the task had written when the node was last loaded; None where that is not known,
        as before its first start."""
        ...

    @property
    def is_own(self) -> bool:
        """Whether nobody has set the node, as last loaded, since the task, or a command that has
        told so, wrote it; also in a copy of the tree. To set the same text again is to set it."""
        ...

    @property
    def trace(self) -> str:
        """Where it is to be seen, as last loaded, that the task has run before though it has no
        position; empty where nothing says so."""
        ...

    def load(self) -> str | None:
        """The stored JSON, or None when there is no node or it is blank."""
        ...

    def save(self, text: str, mark: Mark = ...) -> None:
        """Stores it durably, as written by the task. Raises PositionConflict when the node is
        not as last loaded or saved."""
        ...

    def is_edited(self) -> bool:
        """Whether somebody else has set or deleted the node since the last load or save. Cheap:
        told by a watch, asks nothing."""
        ...


class SchemaStore(Protocol):
    """The schema history of one swimlane of one task: text entries by name, one ZooKeeper node
    each. Only the task itself writes them."""

    @property
    def path(self) -> str:
        """Where the entries are stored, for messages."""
        ...

    def load(self) -> dict[str, str]:
        """All entries."""
        ...

    def save(self, entries: Mapping[str, str | None]) -> None:
        """Stores each entry durably in place of the one of its name; None deletes it. Not all at
        once: a crash may leave some undone."""
        ...


@dataclass(frozen=True, slots=True)
class TargetColumn:
    """A target column. `type` is the target's own type name as a cast spells it, without length
    (`varchar`, `bytea`, `"bit"`); `length` is its declared length, a decimal's digits, a time's
    behind the point, where it has one; `scale` a decimal's digits behind the point.
    `is_generated`: the target computes it, so it is never written. `is_fixed`: an insert gives
    it its value, and nothing else may (GENERATED ALWAYS AS IDENTITY). `is_required`: an insert
    must name it, as it is neither nullable nor has a default. `is_folding`: texts that differ,
    as `a` and `A`, may be equal there. `declared`: the type as MySQL spells it whole (`int(10)
    unsigned auto_increment`), or as it would an enum type of PostgreSQL (`enum('a','b')`)."""

    name: str
    type: str
    length: int | None = None
    is_nullable: bool = True
    is_generated: bool = False
    is_required: bool = False
    scale: int | None = None
    declared: str = ""
    is_fixed: bool = False
    is_folding: bool = False


@dataclass(frozen=True, slots=True)
class TargetTable:
    """A target table as reflected: columns by name in order, key, other unique keys. The key is
    the primary key, or where there is none a unique key without nullable columns; empty where
    there is neither. A unique key that is more than its columns (an expression, a prefix, a
    condition) is an empty tuple. `dialect` is SQLAlchemy's name of the target's kind
    (`postgresql`, `mysql`, `oracle`). `unsafe`: why nothing may be written to it, as a sentence
    with the remedy; else empty. `is_key_deferrable`: the key is checked at the commit, or may be,
    so that no upsert can go by it. `remarks`: sentences for `task check` on what else of the
    table touches rows."""

    id: TableId
    columns: Mapping[str, TargetColumn]
    key: tuple[str, ...]
    unique_keys: tuple[tuple[str, ...], ...] = ()
    dialect: str = ""
    unsafe: str = ""
    is_key_deferrable: bool = False
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Writes:
    """Rows of one table with the same columns. `may_insert`: a row that the target lacks is
    inserted, else left out. `expected`: how many of the rows the target should have, as the
    first change that the batch has of them is no insert. `are_new`: the source has inserted each
    of them and done no more with it, so the target hardly has them; it may, after a replay."""

    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    may_insert: bool = True
    expected: int = 0
    are_new: bool = field(default=False, compare=False)

    def missed(self, inserted: int) -> int:
        """How many rows should have been there and were not, when so many were inserted."""
        return max(0, inserted + self.expected - len(self.rows))


@dataclass(frozen=True, slots=True)
class Swaps:
    """Rows of a table without a key, with the same columns: pairs of the row that goes and the row
    that comes.

    No row that goes: an insert; none that comes: a delete. What goes is ONE row that is equal in
    all `columns`, whichever it is. `may_insert`: where no such row is there, which is counted
    missed, the one that comes is inserted, else left out.
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[tuple[Cell, ...] | None, tuple[Cell, ...] | None]]
    may_insert: bool = True


@dataclass(frozen=True, slots=True)
class TableBatch:
    """The net effect on one target table: empty it if `truncate`, then `deletes` (key cells, in
    `table.key` order), then `writes`; for a table without a key `swaps` instead of these two.

    Merged: a key stands at most once in `deletes` and once in `writes`, so the order inside each
    part is free. A key in both is a row that comes back with columns left open: they get the
    target's defaults. Column names are the target's; every `columns` holds the key columns.
    `passing`: of the keys in `deletes`, how many the batch has inserted first, so that the target
    hardly has them; it may, after a replay. `left_out`: updates of rows that the batch itself has
    deleted, where an update may not insert. `fresh`: keys of rows that come into being and of which
    the target's columns hold less than the source says: a row that is there already is another one,
    or the record came twice. `respells`: the writes give rows that are there the spelling of their
    keys.
    """

    table: TargetTable
    truncate: bool = False
    deletes: Sequence[tuple[Cell, ...]] = ()
    writes: Sequence[Writes] = ()
    swaps: Sequence[Swaps] = ()
    passing: int = 0
    left_out: int = 0
    fresh: Sequence[tuple[Cell, ...]] = ()
    respells: bool = False

    def missed(self, deleted: int) -> int:
        """How many deletes should have hit a row and have not, when so many rows were deleted."""
        return max(0, len(self.deletes) - deleted - self.passing)


@dataclass(slots=True)
class Counts:
    """What a batch did to one table, in rows. `missed`: deletes and updates that hit no row,
    though there should have been one."""

    written: int = 0
    deleted: int = 0
    missed: int = 0

    def add(self, other: Counts) -> None:
        self.written += other.written
        self.deleted += other.deleted
        self.missed += other.missed


@dataclass(frozen=True, slots=True)
class Details:
    """What is kept with an applied offset besides its numbers. `topic_id`: see Mark. `last`: the
    last record before it, where that is known. `others`: members of another version, as JSON."""

    topic_id: str = ""
    others: str = ""
    last: Landmark | None = None

    def to_json(self) -> str:
        known: dict[str, object] = {"topicId": self.topic_id} if self.topic_id else {}
        if self.last:
            known["last"] = self.last.kept
        return orjson.dumps(
            {**(orjson.loads(self.others) if self.others else {}), **known}
        ).decode()

    @classmethod
    def from_json(cls, text: str | None) -> Details:
        """Of nothing, and of what is no JSON object: nothing."""
        try:
            fields = orjson.loads(text or "{}")
        except orjson.JSONDecodeError:
            return cls()
        if not isinstance(fields, dict):
            return cls()
        topic_id, last = fields.pop("topicId", None), Landmark.of(fields.pop("last", None))
        others = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS).decode() if fields else ""
        return cls(topic_id if isinstance(topic_id, str) else "", others, last)


@dataclass(frozen=True, slots=True)
class AppliedOffset:
    """How far a Kafka partition has been applied to a target: kept in the target, in the same
    transaction as the rows.

    `next_offset` is the first one not applied; `position_version` names the stored position that
    the batch started from; `epoch` is of whoever has taken the partition over last.
    """

    topic: str
    partition: int
    next_offset: int
    position_version: int
    epoch: int = 0
    details: Details = Details()

    @property
    def topic_partition(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class OffsetTable:
    """A target's table of applied offsets as it is found. `may_create`: whether it could be
    made, None where that cannot be told. `applied`: the task's."""

    is_there: bool
    may_create: bool | None
    applied: Sequence[AppliedOffset] = ()


VERSION = ("cdcbus_ms", "cdcbus_place")
"""The columns of a version table that are not the key's."""


class RowVersion(NamedTuple):
    """When the source made a change of a row: `came_ms`, when its record came into Kafka, and
    `place`, its place in the binlog as text that sorts; empty where that is not known."""

    came_ms: int = 0
    place: str = ""


class KnownRow(NamedTuple):
    """What a version table holds of a key. `row`: which row it is to the target, the same for keys
    that it takes for one; `version`: of the last change that was stored, the lowest where there is
    none; `texts`: those columns of the key, as that change spelled them, of which different texts
    may be one to the target."""

    row: str
    version: RowVersion = RowVersion()
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
        """What is written inside is undone when the block raises; the transaction itself stays
        usable."""
        ...

    def check_at_once(self) -> None:
        """Constraints that the target would check at the commit are checked with each statement
        from here on."""
        ...

    def may_be_freed(self, tables: Collection[TableId]) -> None:
        """Rows of these tables may have changes in other partitions: a key that is taken by a row
        that only the source tells from a new one may be free once these are applied, so that is
        RowConflict from here on."""
        ...

    def row_versions(
        self, versions: TargetTable, keys: Sequence[tuple[Cell, ...]]
    ) -> list[KnownRow]:
        """What a version table holds of these keys, in their order, as it was stored with
        `write`. Nobody else reads them so before the transaction has ended. Raises as `write`
        does."""
        ...

    def has_version_table(self, tables: Sequence[TargetTable]) -> bool:
        """Whether one of these has a version table by now, or each table is to have one: see
        `Loader.scatter`."""
        ...

    def store_offset(self, offset: AppliedOffset, seen: AppliedOffset | None) -> None:
        """Keeps the applied offset beside the rows, in place of the one that was `seen`, None
        where there was none; does nothing where the target has no offset table. Raises
        OffsetConflict where another one stands there: somebody else has applied records since.
        Two transactions that have seen the same never both commit."""
        ...


class Loader(Protocol):
    """Writes to one target. Thread-safe: each partition uses a transaction, and so a connection, of
    its own."""

    @property
    def is_merging(self) -> bool:
        """Whether it takes the net effect of many changes; else each change comes as a batch of
        its own, in source order."""
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
        """Forgets what `table` has cached of it."""
        ...

    def is_altered(self, table: TargetTable) -> bool:
        """Whether a table is not what `table` has given any more; then that is forgotten."""
        ...

    def evolve(self, table: TargetTable, columns: Sequence[Column]) -> TargetTable:
        """Gives the table those of the source's `columns` (under the target's names) that it
        lacks, and widens types that are too narrow for them; never drops or narrows anything.
        Durable at once. The table as it is then: what somebody else has done meanwhile is no
        error. Raises TargetRejected, TargetMisconfigured (no right to), TargetUnavailable."""
        ...

    def is_coarse(self, table: TargetTable) -> bool:
        """Whether the table's key takes texts for one that differ: in case, in blanks at the
        end, as its collation has it. Cached."""
        ...

    def version_table(self, table: TargetTable, *, make: bool) -> TargetTable | None:
        """The table beside a target table, for this task, that tells the version of its rows:
        its columns are the key's, as the target compares it, and those of `VERSION`. None where
        there is none yet, unless it is to be made. Raises TargetError."""
        ...

    def scatter(self) -> bool:
        """From now on each table of the task is to have a version table, in each process of it
        and after each start. Whether that is new. Raises TargetError."""
        ...

    def is_scattered(self) -> bool:
        """Whether `scatter` was called."""
        ...

    def forget_versions(self, before_ms: int) -> None:
        """In all version tables of the task, those of rows whose last change came into Kafka
        before that time. Raises TargetError."""
        ...

    def transaction(self) -> AbstractContextManager[LoadTransaction]:
        """A new transaction; commits at the end of the block. Raises TargetUnavailable,
        TargetMisconfigured; RowConflict where the target checks a constraint at the commit."""
        ...

    def applied_offsets(self) -> list[AppliedOffset]:
        """The offsets stored by this task; empty where the target has no offset table."""
        ...

    def fence(self) -> list[AppliedOffset] | None:
        """The same, each in a new epoch: a transaction under way is waited for, and whoever has
        seen an earlier epoch commits nothing any more, however often it tries. None where the
        target keeps no offsets. A dry run fences nobody. Raises TargetMisconfigured where the
        table is of an earlier version and must not be altered."""
        ...

    def offset_table(self) -> OffsetTable:
        """Looks only: makes no table. Raises TargetUnavailable, TargetMisconfigured."""
        ...

    def end_other_sessions(self) -> None:
        """Ends what an earlier process of the task has open in the target, as it may stand still
        and hold rows. For the one who has the task's locks, while nothing of it is at work.
        Raises TargetUnavailable."""
        ...

    def close(self) -> None:
        """Gives back all connections. May be called twice."""
        ...


class ZeroDate(StrEnum):
    """What a zero or partly zero date (`0000-00-00`, `2024-02-00`) becomes in a target that has
    none."""

    REJECT = "reject"
    NULL = "null"
    EPOCH = "epoch"


@dataclass(frozen=True, slots=True)
class JdbcTarget:
    """What a JDBC loader connects to. `url` is the task file's JDBC address; the password is not
    shown by repr.

    `pool_size`: connections at most; `min_connections` of them are opened with the first.
    `max_wait_seconds`: how long to wait for a free connection, and for a new one.
    `connect_retries`: how often a failed connect is tried again before it counts. `is_tested`: each
    connection is tested before it is used. `zero_date`: see there. `mark`: how each transaction
    is to be known again in the target's binlog; empty: not.
    """

    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    task_id: str = ""
    pool_size: int = 5
    min_connections: int = 0
    max_wait_seconds: float = 10.0
    connect_retries: int = 1
    is_tested: bool = True
    zero_date: ZeroDate = ZeroDate.REJECT
    mark: str = ""
