"""Merges many changes of a table to their net effect: at most one delete and one write per key.
Pure.

Code that runs once per row or key uses comprehensions, as loops would be slower.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from cdcbus.consumer.merge.key_move import moved
from cdcbus.consumer.merge.keyless_fold import merge_keyless
from cdcbus.consumer.merge.whole_row import (
    Key,
    cells_of,
    columns_missing,
    holds_less_of_key,
    in_order,
    keeps_key,
    looked_at,
    width_of,
)
from cdcbus.plugins.contracts import TableBatch, TargetTable, Writes
from cdcbus.plugins.errors import DataError
from cdcbus.plugins.loaders.cells.canonical import SPELLINGS, exactly, holding
from cdcbus.plugins.loaders.cells.equal_keys import folded_key, folds
from cdcbus.plugins.rowchange import Op, Row, RowChange, Table


class AlikeKeys(DataError):
    """Rows that cannot be written together, as their keys may be equal at the target."""


# Whether its rows may be inserted, and their columns.
_Group = tuple[bool, tuple[str, ...]]


def merge(
    changes: Sequence[RowChange],
    table: TargetTable,
    *,
    insert_on_update: bool,
    may_move: bool = True,
) -> TableBatch:
    """The net effect of `changes` on `table`: applied to any state of it, the batch leaves the same
    rows as the changes one by one.

    Keys are compared and returned as the target's columns hold them: see
    `plugins.loaders.cells.canonical`.

    `changes` are mapped (target names), of this table only, in source order. An update's row is
    inserted where the target lacks it if `insert_on_update`, if its insert is in `changes` too, or
    if its key changed. A deleted key is deleted even if its insert was seen: after a replay the
    target can hold the row. Raises AlikeKeys where the target may take keys of different rows for
    equal, and DataError for a row that cannot be placed without guessing; also
    for a change of the key that lacks columns, unless it is the row's only change and `may_move`:
    no other partition has changes of these rows.
    """
    if not table.key:
        return merge_keyless(changes, table, insert_on_update=insert_on_update)
    if (
        may_move
        and len(changes) == 1
        and (batch := moved(changes[0], table, insert_on_update=insert_on_update))
    ):
        return batch
    fold = _Fold(table, insert_on_update)
    for change in changes:
        fold.add(change)
    return fold.batch()


@dataclass(slots=True)
class _Net:
    """The net effect on one key. `row` None: the row is deleted. `is_cleared`: the row was deleted
    at some time, so the target's row does not count. `has_moved_in`: the row came from another key.
    `is_born`: the first change of the key was its insert."""

    row: Row | None
    may_insert: bool = True
    is_cleared: bool = False
    has_moved_in: bool = False
    is_born: bool = False


class _Held(NamedTuple):
    """What the target holds of keys of a source table, which stays referenced so that no other one
    gets its identity. `is_kept`: all keys as they are; `is_less`: less than the types of the table
    say; `looked`: the columns whose cells tell otherwise."""

    source: Table
    is_kept: bool
    is_less: bool
    looked: frozenset[str]


@dataclass(slots=True)
class _Fold:
    table: TargetTable
    insert_on_update: bool
    truncate: bool = False
    left_out: int = 0
    nets: dict[Key, _Net] = field(default_factory=dict)
    cells: Callable[[Row], Key] = field(init=False)
    key_of: Callable[[Row], Key] = field(init=False)
    is_folding: bool = field(init=False)
    in_full: dict[Key, Key] = field(default_factory=dict)
    rounded: set[Key] = field(default_factory=set)
    say: Callable[[Key], Key] = field(init=False)
    known: dict[int, _Held] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """`cells`: those of a row's key; `key_of`: the key as the target holds it; `say`: with all
        its digits. `in_full`: each key as the source has it, where the target may round it;
        `rounded`: the keys of which the target holds less. `known`: what it holds of the source
        tables' keys, by the identity of each table, as that is asked for each row."""
        cells = self.cells = cells_of(self.table.key)
        hold = holding(self.table, self.table.key)
        self.is_folding = folds(self.table)
        self.key_of = lambda row: hold(cells(row))
        self.say = exactly(self.table, self.table.key)

    def add(self, change: RowChange) -> None:
        match change.op:
            case Op.INSERT:
                self.insert(change, change.after or {})
            case Op.UPDATE:
                self.update(change, change.before or {}, change.after or {})
            case Op.DELETE:
                self.clear(self.key(change, change.before or {}))
            case Op.TRUNCATE:
                self.truncate = True
                self.nets.clear()

    def held_of(self, source: Table) -> _Held:
        try:
            return self.known[id(source)]
        except KeyError:
            held = self.known[id(source)] = _Held(
                source,
                keeps_key(self.table, source),
                holds_less_of_key(self.table, source),
                looked_at(self.table, source),
            )
            return held

    def come(self, change: RowChange, key: Key, row: Row) -> None:
        """Notes that a row gets this key. Raises DataError where another row exists whose key
        differs only at the source."""
        held = self.held_of(change.table)
        if held.is_kept:
            return
        own = self.cells(row)
        full = self.say(own)
        known = self.nets.get(key)
        is_taken = known is not None and known.row is not None
        if is_taken and self.in_full.get(key, full) != full:
            raise DataError(
                f"table {self.table.id}: two rows have keys that are equal once the target's "
                "columns round them"
            )
        self.in_full[key] = full
        if held.is_less or (own != key and self._has_lost(key, full, held.looked)):
            self.rounded.add(key)

    def _has_lost(self, key: Key, full: Key, looked: frozenset[str]) -> bool:
        """Whether the target holds less of a key than the source, beyond its spelling."""
        for held, own, column in zip(self.say(key), full, self.table.key_columns, strict=True):
            is_looked_at = column.name in looked and column.type not in SPELLINGS
            if held != own and is_looked_at:
                return True
        return False

    def clear(self, key: Key) -> None:
        known = self.nets.get(key)
        self.in_full.pop(key, None)
        self.nets[key] = _Net(None, is_cleared=True, is_born=known is not None and known.is_born)

    def insert(self, change: RowChange, after: Row) -> None:
        key = self.key(change, after)
        self.come(change, key, after)
        known = self.nets.get(key)
        if known is None:
            self.nets[key] = _Net(after, is_born=True)
        elif known.row is None:
            self.nets[key] = _Net(after, is_cleared=True, is_born=known.is_born)
        else:
            self.nets[key] = _Net(
                {**known.row, **after}, is_cleared=known.is_cleared, is_born=known.is_born
            )

    def update(self, change: RowChange, before: Row, after: Row) -> None:
        try:
            old_key, key = self.key_of(before), self.key_of(after)
        except KeyError:
            # A partial image: a key column that it lacks has not changed.
            old_key = self.key(change, {**after, **before})
            key = self.key(change, {**before, **after})
            own = self.cells({**before, **after})
            after = {**dict(zip(self.table.key, own, strict=True)), **after}
        if key != old_key:
            self.move(change, old_key, key, {**before, **after})
            return
        known = self.nets.get(key)
        if known is not None and known.row is None and not self.insert_on_update:
            self.left_out += 1
            return
        if not self.held_of(change.table).is_kept:
            self.in_full[key] = self.say(self.cells(after))
        if known is None:
            self.nets[key] = _Net(after, may_insert=self.insert_on_update)
        elif known.row is not None:
            known.row = {**known.row, **after}
        else:
            self.nets[key] = _Net(after, is_cleared=True, is_born=known.is_born)

    def move(self, change: RowChange, old_key: Key, key: Key, row: Row) -> None:
        """Applies a key change: the old key is deleted, the row written whole under the new one."""
        left = self.nets.get(old_key)
        known = left.row if left else None
        # When one statement swaps keys, the row that leaves this key is not the one that has moved
        # in before, which stays.
        has_swapped = (
            known is not None
            and left is not None
            and left.has_moved_in
            and _differ(known, change.before or {})
        )
        if not has_swapped:
            row = {**(known or {}), **row}
            self.clear(old_key)
        missing = columns_missing(change, self.table, row)
        if missing:
            # Of those an operator knows whether the source has them.
            own = "" if change.table.is_described else ", and the target have no columns of its own"
            raise DataError(
                f"table {self.table.id}: a row's primary key changes, but the change lacks column "
                f"{', '.join(missing)}: "
                "it cannot be written whole under its new key; the source must log full row "
                f"images{own}"
            )
        self.come(change, key, row)
        replaced = self.nets.get(key)
        self.nets[key] = _Net(
            row,
            is_cleared=replaced is not None and replaced.is_cleared,
            has_moved_in=True,
            is_born=replaced is None or replaced.is_born,
        )

    def key(self, change: RowChange, row: Row) -> Key:
        try:
            return self.key_of(row)
        except KeyError as error:
            raise DataError(
                f"table {self.table.id}: {change.op} without its primary key column {error.args[0]}"
            ) from None

    def refuse_alike(self) -> None:
        """Raises AlikeKeys where keys may be equal at the target: one after the other, the target
        decides whether they are."""
        written: set[Key] = set()
        for key, net in self.nets.items():
            if net.row is None:
                continue
            as_equal = folded_key(key)
            if as_equal in written:
                raise AlikeKeys(
                    f"table {self.table.id}: keys that differ in the source may be equal at the "
                    "target, so they are applied one after the other"
                )
            written.add(as_equal)

    def batch(self) -> TableBatch:
        """The net effect as a batch. It deletes the deleted keys, and also those deleted in between
        whose new row leaves columns open, as the old row may have filled them."""
        if self.is_folding:
            self.refuse_alike()
        width = width_of(self.table)
        deletes: list[Key] = []
        passing = 0
        groups: dict[_Group, list[Row]] = {}
        expected = Counter[_Group]()
        for key, net in self.nets.items():
            is_deleted = net.is_cleared and (net.row is None or len(net.row) < width)
            if is_deleted:
                deletes.append(key)
                passing += net.is_born
            if net.row is None:
                continue
            # The key as the target holds it, so that its row is found.
            row = {**net.row, **dict(zip(self.table.key, key, strict=True))}
            group = net.may_insert, tuple(row)
            groups.setdefault(group, []).append(row)
            # A row that stays, and whose insert is not among the changes, exists at the target.
            expected[group] += not (net.is_born or self.truncate or is_deleted)
        writes = self.writes(groups, expected)
        fresh = [] if self.truncate else [key for key in self.rounded if self.nets[key].is_born]
        return TableBatch(
            self.table,
            self.truncate,
            deletes,
            writes,
            passing=passing,
            left_out=self.left_out,
            fresh=fresh,
        )

    def writes(self, groups: dict[_Group, list[Row]], expected: Counter[_Group]) -> list[Writes]:
        """The writes of all groups. Groups that differ only in the order of their columns become
        one, in the table's order."""
        rows: dict[_Group, list[Key]] = {}
        should_be_there = Counter[_Group]()
        for (may_insert, names), members in groups.items():
            columns = in_order(self.table, names)
            rows.setdefault((may_insert, columns), []).extend(map(cells_of(columns), members))
            should_be_there[may_insert, columns] += expected[may_insert, names]
        writes: list[Writes] = []
        for group, cells in rows.items():
            may_insert, columns = group
            writes.append(Writes(columns, cells, may_insert, should_be_there[group]))
        return writes


def _differ(row: Row, image: Row) -> bool:
    return any(name in row and row[name] != cell for name, cell in image.items())
