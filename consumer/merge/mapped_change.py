"""Row changes on their way to the target, and which of them are of the same row. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cdcbus.consumer.merge.whole_row import columns_missing
from cdcbus.plugins.loaders.cells.canonical import holding
from cdcbus.plugins.rowchange import Cell, Op, Row, RowChange, TableId
from cdcbus.plugins.transform.plan import Plan

Key = tuple[Cell, ...]


class MappedChange(NamedTuple):
    """A mapped row change, the plan that mapped it, and the offset of its record. `held`:
    earlier changes of the same row, which another row has blocked so far. `came_ms`: when the
    record came into Kafka, 0 where nobody asks. `stands_for_row`: an update brings the row where
    it is not there, as the insert is older, and will be left out when it comes."""

    offset: int
    plan: Plan
    change: RowChange
    held: tuple[MappedChange, ...] = ()
    came_ms: int = 0
    stands_for_row: bool = False

    @property
    def changes(self) -> tuple[RowChange, ...]:
        """All that is applied at once, in order."""
        return (*(step.change for step in self.held), self.change)

    @property
    def offsets(self) -> set[int]:
        """Of all these."""
        return {self.offset, *(step.offset for step in self.held)}

    @property
    def keys(self) -> tuple[Key, ...]:
        """Of the rows that it is about, as the target holds them, the old key before the new
        one; none for a truncate, for a table without a key, and where the change lacks a key
        column."""
        names, change = self.plan.target.key, self.change
        if not names or change.op is Op.TRUNCATE:
            return ()
        before, after = change.before or {}, change.after or {}
        try:
            hold = holding(self.plan.target, names)
            # What an image lacks has not changed.
            old = hold(_key({**after, **before}, names))
            new = hold(_key({**before, **after}, names))
        except KeyError:
            return ()
        return (old,) if old == new else (old, new)

    @property
    def has_insert(self) -> bool:
        """Whether it may bring a row where updates may not."""
        return any(change.op is Op.INSERT for change in self.changes)

    @property
    def is_full(self) -> bool:
        """Whether what it leaves of its row does not depend on what was there before."""
        return self.change.after is None or not columns_missing(
            self.change, self.plan.target, self.change.after
        )

    def holding(self, step: MappedChange) -> MappedChange:
        """The same once an earlier one of the row, and all that it holds, is applied."""
        return self._replace(held=(*step.held, step._replace(held=()), *self.held))

    def parts(self) -> Iterator[MappedChange]:
        """A change of the key as the delete and the insert that it comes to; any other as it is,
        and one that lacks a column."""
        change = self.change
        before = change.before or {}
        after = change.after or {}
        new = {**before, **after}
        if len(self.keys) < 2 or columns_missing(change, self.plan.target, new):
            yield self
            return
        old = {**after, **before}
        delete = RowChange(change.table, Op.DELETE, old, None, change.origin, change.row)
        insert = RowChange(change.table, Op.INSERT, None, new, change.origin, change.row)
        # What is held is of the old row, and goes with its delete.
        yield self._replace(change=delete)
        yield self._replace(change=insert, held=())


def makes_void(later: MappedChange, step: MappedChange, *, may_insert: bool) -> bool:
    """Whether a row is as it should be after its later change, whatever was there before.
    `may_insert`: an update brings a row that the target lacks."""
    if later.change.after is None:
        return True
    brought: set[str] = set()
    for change in step.changes:
        brought.update(change.after or ())
    # An update alone would not bring the row that the insert left out here should have brought.
    brings_row = (
        may_insert
        or later.stands_for_row
        or later.change.op is not Op.UPDATE
        or not step.has_insert
    )
    return later.is_full and brought <= later.change.after.keys() and brings_row


def _key(row: Row, names: Sequence[str]) -> Key:
    return tuple(row[name] for name in names)


class SameRow:
    """Finds, in some steps, the next one of the same row."""

    def __init__(self, steps: Sequence[MappedChange]) -> None:
        self._places: dict[tuple[TableId, Key | None], list[int]] = {}
        for place, step in enumerate(steps):
            keys: tuple[Key | None, ...] = (None,) if step.change.op is Op.TRUNCATE else step.keys
            for key in keys:
                self._places.setdefault((step.plan.target.id, key), []).append(place)

    def after(self, place: int, step: MappedChange) -> int | None:
        """The place of the next one that is about the step's only row, a truncate of its table
        included."""
        if len(step.keys) != 1:
            return None
        following: list[int] = []
        for key in (*step.keys, None):
            places = self._places.get((step.plan.target.id, key), [])
            at = bisect_right(places, place)
            if at < len(places):
                following.append(places[at])
        return min(following, default=None)
