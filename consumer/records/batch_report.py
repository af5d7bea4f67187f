"""Counters of loaded records and rows, per target table: for a batch, or for a task since its
start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from cdcbus.plugins.contracts import Counts
from cdcbus.plugins.rowchange import Op, RowChange, TableId


@dataclass(slots=True)
class TableReport:
    """Counts of the row changes for one table."""

    # All changes, applied or failed.
    rows: int = 0
    # Applied changes, by their operation at the source.
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    truncated: int = 0
    # Changes that became dead letters.
    failed: int = 0
    # Updates and deletes that matched no row.
    missed: int = 0
    # Rows with a column that the target lacks, which was left out.
    dropped: int = 0
    # Changes that another row blocked and that a later change of the same row made obsolete.
    superseded: int = 0
    # Milliseconds for merging to the net effect, and for the statements.
    merge_ms: float = 0.0
    write_ms: float = 0.0

    def add(self, other: TableReport) -> None:
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def add_applied(self, changes: Iterable[RowChange], counts: Counts) -> None:
        """Adds changes that were written, and the target's counts of them."""
        self.add_ops(Counter([change.op for change in changes]), counts)

    def add_ops(self, ops: Counter[Op], counts: Counts) -> None:
        """Adds the changes that were written, by operation, and the target's counts of them."""
        self.rows += ops.total()
        self.inserted += ops[Op.INSERT]
        self.updated += ops[Op.UPDATE]
        self.deleted += ops[Op.DELETE]
        self.truncated += ops[Op.TRUNCATE]
        self.missed += counts.missed

    def __str__(self) -> str:
        parts: list[str] = []
        for name in COUNTERS:
            count = getattr(self, name)
            if count:
                parts.append(f"{count} {name}")
        parts += [f"merge {self.merge_ms:.0f} ms", f"write {self.write_ms:.0f} ms"]
        return f"{self.rows} rows ({', '.join(parts)})"


COUNTERS = (
    "inserted",
    "updated",
    "deleted",
    "truncated",
    "failed",
    "missed",
    "dropped",
    "superseded",
)

# A report keeps this many sentences on altered tables, the newest ones.
ALTERED_KEPT = 50


def earliest(one_ms: int, other_ms: int) -> int:
    """The earlier of two times; 0 stands for no time."""
    if one_ms and other_ms:
        return min(one_ms, other_ms)
    return one_ms or other_ms


class Beat(NamedTuple):
    """A heartbeat; times in epoch seconds."""

    # When its record arrived in Kafka; 0 where that is unknown.
    came: float
    # When the source wrote the row, by its own clock, which can be wrong.
    written: float


@dataclass(slots=True)
class BatchReport:
    """Counts and times of a batch, or of one partition's part of it."""

    records: int = 0
    tables: dict[TableId, TableReport] = field(default_factory=dict)
    # Records that became dead letters because they could not be read.
    unread: int = 0
    # Records that were left out because their sender had lost its lock.
    late: int = 0
    # The time of each stage, summed over partitions, which run side by side: reading and mapping
    # records, all work inside the target's transaction, ending the transaction.
    decode_ms: float = 0.0
    apply_ms: float = 0.0
    commit_ms: float = 0.0
    # The earliest and the latest commit of the row changes at the source; 0 without one.
    first_commit_ms: int = 0
    last_commit_ms: int = 0
    # The earliest and the latest arrival of the records in Kafka; 0 without one.
    first_kafka_ms: int = 0
    last_kafka_ms: int = 0
    # The last heartbeat of each source, by server id.
    beats: dict[str, Beat] = field(default_factory=dict)
    # How target tables were altered, as sentences.
    altered: list[str] = field(default_factory=list)

    def table(self, table: TableId) -> TableReport:
        return self.tables.setdefault(table, TableReport())

    def add(self, other: BatchReport) -> None:
        self.records += other.records
        self.unread += other.unread
        self.late += other.late
        self.decode_ms += other.decode_ms
        self.apply_ms += other.apply_ms
        self.commit_ms += other.commit_ms
        self.committed(other.first_commit_ms, other.last_commit_ms)
        self.came(other.first_kafka_ms, other.last_kafka_ms)
        for source, beat in other.beats.items():
            self.beat(source, beat)
        self.altered = [*self.altered, *other.altered][-ALTERED_KEPT:]
        for table, report in other.tables.items():
            self.table(table).add(report)

    def committed(self, first_ms: int, last_ms: int) -> None:
        """Notes row changes committed between two times; 0: unknown."""
        self.first_commit_ms = earliest(self.first_commit_ms, first_ms)
        self.last_commit_ms = max(self.last_commit_ms, last_ms)

    def came(self, first_ms: int, last_ms: int) -> None:
        """Notes records that arrived in Kafka between two times; 0: unknown."""
        self.first_kafka_ms = earliest(self.first_kafka_ms, first_ms)
        self.last_kafka_ms = max(self.last_kafka_ms, last_ms)

    def beat(self, source: str, beat: Beat) -> None:
        """Notes a heartbeat of a source."""
        self.beats[source] = max(self.beats.get(source, beat), beat)

    def __str__(self) -> str:
        stages = (
            f"decode {self.decode_ms:.0f}, apply {self.apply_ms:.0f}, "
            f"commit {self.commit_ms:.0f} ms"
        )
        parts = [f"{self.records} records ({stages})"]
        if self.unread:
            parts.append(f"{self.unread} unread")
        if self.late:
            parts.append(f"{self.late} late")
        parts += [f"{table} {report}" for table, report in self.tables.items()]
        return "; ".join(parts)


WritePrepared = Callable[[int, int, int, bool], BatchReport]
"""Applies what was prepared, given the last four parameters of `Applier.apply`."""
