"""Counters of what was loaded, per target table: of a batch, or of a task since its start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields

from cdcbus.plugins.contracts import Counts
from cdcbus.plugins.rowchange import Op, RowChange, TableId


@dataclass(slots=True)
class TableReport:
    """Row changes that came for one table: `rows` is the sum of those that were applied, by what happened at the source (`inserted`,
    `updated`, `deleted`, `truncated`), and of those that went to dead letters (`failed`).

    `missed`: updates and deletes that hit no row; `dropped`: rows of which the target lacks a column, which was left out. `merge_ms` and
    `write_ms`: milliseconds for the net effect, and for the statements.
    """

    rows: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    truncated: int = 0
    failed: int = 0
    missed: int = 0
    dropped: int = 0
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
        return f"{self.rows} rows ({', '.join((*shown, f'merge {self.merge_ms:.0f} ms', f'write {self.write_ms:.0f} ms'))})"


COUNTERS = ("inserted", "updated", "deleted", "truncated", "failed", "missed", "dropped")


@dataclass(slots=True)
class BatchReport:
    """What was done with a batch, or with a lane's part of it. Stages in milliseconds, added up over lanes, which run side by side:
    `decode_ms` reading and mapping records, `apply_ms` everything inside the target's transaction, `commit_ms` ending it.

    `unread`: records that went to dead letters as nothing could be read from them. `last_commit_ms`: the source's commit time of the last
    row change, 0 without one; `beat_seconds`: when the last heartbeat was written, 0 without one.
    """

    records: int = 0
    tables: dict[TableId, TableReport] = field(default_factory=dict)
    unread: int = 0
    decode_ms: float = 0.0
    apply_ms: float = 0.0
    commit_ms: float = 0.0
    last_commit_ms: int = 0
    beat_seconds: float = 0.0

    def table(self, table: TableId) -> TableReport:
        return self.tables.setdefault(table, TableReport())

    def add(self, other: BatchReport) -> None:
        self.records += other.records
        self.unread += other.unread
        self.decode_ms += other.decode_ms
        self.apply_ms += other.apply_ms
        self.commit_ms += other.commit_ms
        self.last_commit_ms = max(self.last_commit_ms, other.last_commit_ms)
        self.beat_seconds = max(self.beat_seconds, other.beat_seconds)
        for table, report in other.tables.items():
            self.table(table).add(report)

    def __str__(self) -> str:
        stages = f"decode {self.decode_ms:.0f}, apply {self.apply_ms:.0f}, commit {self.commit_ms:.0f} ms"
        unread = f"; {self.unread} unread" if self.unread else ""
        return "; ".join((f"{self.records} records ({stages}){unread}", *(f"{table} {report}" for table, report in self.tables.items())))
