"""A target in memory that keeps the contract of loaders, with unique keys and foreign keys: for
properties over many histories."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field, replace

from cdcbus.plugins.contracts import (
    AppliedOffset,
    Counts,
    KnownRow,
    Moves,
    OffsetTable,
    TableBatch,
    TargetColumn,
    TargetTable,
)
from cdcbus.plugins.errors import OffsetConflict, RowConflict, TargetRejected
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Cell, Column, TableId

Key = tuple[Cell, ...]
Rows = dict[Key, dict[str, Cell]]


@dataclass(frozen=True)
class ForeignKey:
    """`child.column` references a row of `parent`, by its one key column."""

    child: TableId
    column: str
    parent: TableId


@dataclass
class MemoryTarget:
    """A Loader. `is_deferred`: foreign keys are checked at the commit. `refused`: cells that no
    column takes. `statements`: the tables written to, in order, with `-` before deletes."""

    tables: dict[TableId, TargetTable]
    foreign_keys: Sequence[ForeignKey] = ()
    is_deferred: bool = False
    refused: frozenset[str] = frozenset()
    is_merging: bool = True
    is_dry_run: bool = False
    rows: dict[TableId, Rows] = field(default_factory=dict)
    offsets: dict[TopicPartition, AppliedOffset] = field(default_factory=dict)
    statements: list[str] = field(default_factory=list)
    refreshed: list[TableId] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rows = {name: self.rows.get(name, {}) for name in self.tables}

    def table(self, name: TableId) -> TargetTable | None:
        """Like loaders, in any case where the name is not there as it is written."""
        in_any_case = {str(known).lower(): table for known, table in self.tables.items()}
        return self.tables.get(name) or in_any_case.get(str(name).lower())

    def refresh(self, name: TableId) -> None:
        self.refreshed.append(name)

    def is_altered(self, table: TargetTable) -> bool:
        return self.tables.get(table.id) != table

    def is_coarse(self, table: TargetTable) -> bool:
        return False

    def version_table(self, table: TargetTable, *, make: bool) -> TargetTable | None:
        return None

    def scatter(self) -> bool:
        return False

    def is_scattered(self) -> bool:
        return False

    def lost_tables(self) -> list[str]:
        return []

    def accept_tables(self) -> None:
        pass

    def forget_rows(self) -> None:
        pass

    def forget_versions(self, before_ms: Callable[[], int]) -> None:
        pass

    def evolve(self, table: TargetTable, columns: Sequence[Column]) -> TargetTable:
        """Adds columns; like loaders, returns another object."""
        known = self.tables[table.id]
        new = {column.name: TargetColumn(column.name, "text") for column in columns}
        self.tables[table.id] = replace(known, columns={**new, **known.columns})
        return self.tables[table.id]

    @contextmanager
    def transaction(self) -> Iterator[MemoryTransaction]:
        transaction = MemoryTransaction(self, self.is_deferred)
        with transaction.savepoint():
            yield transaction
            transaction.check_at_once()

    def end_other_sessions(self) -> None:
        """Does nothing: there are none."""

    def applied_offsets(self, partition: tuple[str, int] | None = None) -> list[AppliedOffset]:
        return [each for key, each in self.offsets.items() if partition in (None, key)]

    def fence(self) -> list[AppliedOffset] | None:
        offsets = {}
        for partition, offset in self.offsets.items():
            offsets[partition] = replace(offset, epoch=offset.epoch + 1)
        self.offsets = offsets
        return self.applied_offsets()

    def offset_table(self) -> OffsetTable:
        return OffsetTable(True, True, self.applied_offsets())

    def close(self) -> None:
        pass


@dataclass
class MemoryTransaction:
    """A LoadTransaction; statements are checked row by row, as MySQL does, foreign keys later
    where that `is_deferred`."""

    target: MemoryTarget
    is_deferred: bool

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        kept = deepcopy(self.target.rows), dict(self.target.offsets)
        try:
            yield
        except BaseException:
            self.target.rows, self.target.offsets = kept
            raise

    def check_at_once(self) -> None:
        self.is_deferred = False
        for each in self.target.foreign_keys:
            for row in self.target.rows[each.child].values():
                self._check_parent(each, row)

    def may_be_freed(self, tables: Collection[TableId]) -> None:
        pass

    def row_versions(self, versions: TargetTable, keys: Sequence[Key]) -> list[KnownRow]:
        return [KnownRow(repr(key)) for key in keys]

    def has_version_table(self, tables: Sequence[TargetTable]) -> bool:
        return False

    def store_offset(self, offset: AppliedOffset, seen: AppliedOffset | None) -> None:
        if self.target.offsets.get(offset.topic_partition) != seen:
            raise OffsetConflict("somebody else")
        self.target.offsets[offset.topic_partition] = offset

    def write(self, batch: TableBatch) -> Counts:
        table = batch.table
        rows = self.target.rows[table.id]
        counts = Counts()
        if batch.truncate:
            for key in list(rows):
                self._delete(table, key)
        for key in batch.deletes:
            counts.deleted += self._delete(table, key)
        counts.missed = batch.missed(counts.deleted)
        if batch.truncate or batch.deletes:
            self.target.statements.append(f"-{table.id.table}")
        if batch.moves:
            self._move(table, batch.moves)
        for writes in batch.writes:
            self.target.statements.append(table.id.table)
            inserted = 0
            for cells in writes.rows:
                image = dict(zip(writes.columns, cells, strict=True))
                key = _key(table, image)
                if key in rows or writes.may_insert:
                    inserted += key not in rows
                    self._put(table, key, {**rows.get(key, dict.fromkeys(table.columns)), **image})
                    counts.written += 1
                else:
                    counts.missed += 1
            if writes.may_insert:
                counts.missed += writes.missed(inserted)
        return counts

    def _move(self, table: TargetTable, moves: Moves) -> None:
        rows = self.target.rows[table.id]
        for old, new in moves.rows:
            if old not in rows:
                continue
            row = rows[old]
            if new not in rows:
                self._delete(table, old)
                self._put(table, new, {**row, **dict(zip(table.key, new, strict=True))})
            elif moves.may_repeat:
                self._delete(table, old)
            else:
                raise RowConflict(f"table {table.id}: a key that must be unique is there")

    def _delete(self, table: TargetTable, key: Key) -> int:
        rows = self.target.rows[table.id]
        for each in self._checked_keys():
            if each.parent != table.id or key not in rows:
                continue
            children = self.target.rows[each.child].values()
            if key in [(row[each.column],) for row in children]:
                raise RowConflict(f"{each.child} still names a row of {table.id}")
        return rows.pop(key, None) is not None

    def _checked_keys(self) -> Sequence[ForeignKey]:
        return () if self.is_deferred else self.target.foreign_keys

    def _put(self, table: TargetTable, key: Key, row: dict[str, Cell]) -> None:
        rows = self.target.rows[table.id]
        if not self.target.refused.isdisjoint(row.values()):
            raise TargetRejected(f"table {table.id}: a cell does not fit")
        for name, column in table.columns.items():
            if column.is_required and row[name] is None:
                raise TargetRejected(f"table {table.id}: column {name} has no default")
        if any(self._clash(table, other, held, row) for other, held in rows.items()):
            raise RowConflict(f"table {table.id}: a value that must be unique is there already")
        for each in self._checked_keys():
            if each.child == table.id:
                self._check_parent(each, row)
        rows[key] = row

    def _check_parent(self, key: ForeignKey, row: dict[str, Cell]) -> None:
        if row[key.column] is not None and (row[key.column],) not in self.target.rows[key.parent]:
            raise RowConflict(f"{key.child} names a row that {key.parent} does not have")

    @staticmethod
    def _clash(table: TargetTable, key: Key, held: dict[str, Cell], image: dict[str, Cell]) -> bool:
        """Whether another row holds a unique value of this one."""
        if key == _key(table, image):
            return False
        for unique in table.unique_keys:
            if not image.keys() >= set(unique):
                continue
            values = [held[name] for name in unique]
            # NULL equals nothing, not even NULL.
            if None not in values and values == [image[name] for name in unique]:
                return True
        return False


def _key(table: TargetTable, image: dict[str, Cell]) -> Key:
    return tuple(image[name] for name in table.key)
