"""Counters of what was loaded, per target table: of a batch, or of a task since its start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import NamedTuple

from cdcbus.plugins.contracts import Counts
from cdcbus.plugins.rowchange import Op, RowChange, TableId


@dataclass(slots=True)
class TableReport:
    """Row changes that came for one table: `rows` is the sum of those that were applied, by what
    happened at the source (`inserted`, `updated`, `deleted`, `truncated`), and of those that went
    to dead letters (`failed`).

    `missed`: updates and deletes that hit no row; `dropped`: rows of which the target lacks a
    column, which was left out; `superseded`: changes that another row forbade and a later change of
    the same row has made void. `merge_ms` and `write_ms`: milliseconds for the net effect, and for
    the statements.
    """

    rows: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    truncated: int = 0
    failed: int = 0
    missed: int = 0
    dropped: int = 0
    superseded: int = 0
    merge_ms: float = 0.0
    write_ms: float = 0.0

    def add(self, other: TableReport) -> None:
        for each in fields(self):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def add_applied(self, changes: Iterable[RowChange], counts: Counts) -> None:
        """Changes that were written, and what the target said of them."""
        self.add_ops(Counter([change.op for change in changes]), counts)

    def add_ops(self, ops: Counter[Op], counts: Counts) -> None:
        """So many changes of each operation that were written."""
        self.rows += ops.total()
        self.inserted += ops[Op.INSERT]
        self.updated += ops[Op.UPDATE]
        self.deleted += ops[Op.DELETE]
        self.truncated += ops[Op.TRUNCATE]
        self.missed += counts.missed

    def __str__(self) -> str:
        shown = (f"{getattr(self, name)} {name}" for name in COUNTERS if getattr(self, name))
        times = f"merge {self.merge_ms:.0f} ms", f"write {self.write_ms:.0f} ms"
        return f"{self.rows} rows ({', '.join((*shown, *times))})"


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

ALTERED_KEPT = 50


def earliest(one_ms: int, other_ms: int) -> int:
    """The earlier of two times; 0 is none."""
    return min(one_ms, other_ms) if one_ms and other_ms else one_ms or other_ms


class Beat(NamedTuple):
    """A heartbeat: when its record came into Kafka, 0 where that is not known, and when the row was
    written, by the source's clock, which may be wrong. In epoch seconds."""

    came: float
    written: float


@dataclass(slots=True)
class BatchReport:
    """What was done with a batch, or with a partition's part of it. Stages in milliseconds, added
    up over partitions, which run side by side: `decode_ms` reading and mapping records, `apply_ms`
    everything inside the target's transaction, `commit_ms` ending it.

    `unread`: records that went to dead letters as nothing could be read from them; `late`: those
    left out as their sender had lost its lock. `first_commit_ms`, `last_commit_ms`: the earliest
    and latest commit time of the row changes at the source; `first_kafka_ms`, `last_kafka_ms`: of
    the records in Kafka; 0 without one. `beats`: the last heartbeat of each source, by server id.
    `altered`: how target tables were, as sentences.
    """

    records: int = 0
    tables: dict[TableId, TableReport] = field(default_factory=dict)
    unread: int = 0
    late: int = 0
    decode_ms: float = 0.0
    apply_ms: float = 0.0
    commit_ms: float = 0.0
    first_commit_ms: int = 0
    last_commit_ms: int = 0
    first_kafka_ms: int = 0
    last_kafka_ms: int = 0
    beats: dict[str, Beat] = field(default_factory=dict)
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
        """Row changes that were committed between two times; 0: not known."""
        self.first_commit_ms = earliest(self.first_commit_ms, first_ms)
        self.last_commit_ms = max(self.last_commit_ms, last_ms)

    def came(self, first_ms: int, last_ms: int) -> None:
        """Records that came into Kafka between two times; 0: not known."""
        self.first_kafka_ms = earliest(self.first_kafka_ms, first_ms)
        self.last_kafka_ms = max(self.last_kafka_ms, last_ms)

    def beat(self, source: str, beat: Beat) -> None:
        """A heartbeat of a source."""
        self.beats[source] = max(self.beats.get(source, beat), beat)

    def __str__(self) -> str:
        stages = (
            f"decode {self.decode_ms:.0f}, apply {self.apply_ms:.0f}, commit "
            f"{self.commit_ms:.0f} ms"
        )
        unread = (f"; {self.unread} unread" if self.unread else "") + (
            f"; {self.late} late" if self.late else ""
        )
        return "; ".join(
            (
                f"{self.records} records ({stages}){unread}",
                *(f"{table} {report}" for table, report in self.tables.items()),
            )
        )
