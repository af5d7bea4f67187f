"""Row changes on their way to the target, and which of them are of the same row. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from cdcbus.consumer.merge.whole_row import Key, cells_of, columns_missing
from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.loaders.cells.canonical import holding
from cdcbus.plugins.rowchange import Op, RowChange, TableId
from cdcbus.plugins.transform.plan import Plan


class MappedChange(NamedTuple):
    """A mapped row change, the plan that mapped it, and the offset of its record. `held`: earlier
    changes of the same row that another row has blocked so far. `came_ms`: when the record arrived
    in Kafka, 0 where that is not needed. `stands_for_row`: an update inserts its row where it is
    missing, as the older insert will be left out when it comes."""

    offset: int
    plan: Plan
    change: RowChange
    held: tuple[MappedChange, ...] = ()
    came_ms: int = 0
    stands_for_row: bool = False

    @property
    def changes(self) -> tuple[RowChange, ...]:
        """All changes that are applied together, in order."""
        return (*(step.change for step in self.held), self.change)

    @property
    def offsets(self) -> set[int]:
        """The offsets of all these changes."""
        return {self.offset, *(step.offset for step in self.held)}

    @property
    def keys(self) -> tuple[Key, ...]:
        """The keys of the rows that it changes, as the target holds them, the old key before the
        new one; none for a truncate, for a table without a key, and where the change lacks a key
        column."""
        names, change = self.plan.target.key, self.change
        if not names or change.op is Op.TRUNCATE:
            return ()
        before, after = change.before or {}, change.after or {}
        try:
            hold = holding(self.plan.target, names)
            key_of = cells_of(names)
            # A column that an image lacks has not changed.
            old = hold(key_of({**after, **before}))
            new = hold(key_of({**before, **after}))
        except KeyError:
            return ()
        return (old,) if old == new else (old, new)

    @property
    def has_insert(self) -> bool:
        """Whether it can insert a row where updates must not."""
        return Op.INSERT in map(attrgetter("op"), self.changes)

    @property
    def is_full(self) -> bool:
        """Whether the row that it leaves does not depend on the row before."""
        return self.change.after is None or not columns_missing(
            self.change, self.plan.target, self.change.after
        )

    def holding(self, step: MappedChange) -> MappedChange:
        """This step with an earlier one of the same row, and all that it holds, applied first."""
        return self._replace(held=(*step.held, step._replace(held=()), *self.held))

    def parts(self) -> Iterator[MappedChange]:
        """Yields a change of the key as a delete and an insert; any other change as it is, also one
        that lacks a column."""
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
        # Held changes are of the old row, so they belong to its delete.
        yield self._replace(change=delete)
        yield self._replace(change=insert, held=())


def makes_void(later: MappedChange, step: MappedChange, *, may_insert: bool) -> bool:
    """Whether a later change leaves the row as it should be, whether or not `step` is applied.
    `may_insert`: an update inserts a row that the target lacks."""
    if later.change.after is None:
        return True
    brought: set[str] = set()
    for change in step.changes:
        brought.update(change.after or ())
    # Without `may_insert` an update would not bring the row whose insert is left out here.
    brings_row = (
        may_insert
        or later.stands_for_row
        or later.change.op is not Op.UPDATE
        or not step.has_insert
    )
    return later.is_full and brought <= later.change.after.keys() and brings_row


def target_tables(steps: Iterable[MappedChange]) -> dict[TableId, TargetTable]:
    """The target tables as the steps were mapped for them."""
    return {step.plan.target.id: step.plan.target for step in steps}


def are_of_one_definition(steps: Iterable[MappedChange]) -> bool:
    """Whether the steps to each target table were mapped for the same definition of it. Not so
    where the task has altered a table for some of them."""
    targets: dict[TableId, TargetTable] = {}
    plans = {id(step.plan): step.plan for step in steps}
    for plan in plans.values():
        known = targets.setdefault(plan.target.id, plan.target)
        # One table that was asked for by two names can be two objects.
        if known is not plan.target and known != plan.target:
            return False
    return True


class SameRow:
    """Finds the next step of the same row among some steps."""

    def __init__(self, steps: Sequence[MappedChange]) -> None:
        self._places: dict[tuple[TableId, Key | None], list[int]] = {}
        for place, step in enumerate(steps):
            keys: tuple[Key | None, ...] = (None,) if step.change.op is Op.TRUNCATE else step.keys
            for key in keys:
                self._places.setdefault((step.plan.target.id, key), []).append(place)

    def after(self, place: int, step: MappedChange) -> int | None:
        """The index of the next step after `place` that changes the step's row, including a
        truncate of its table; None without one, or if the step is not of exactly one row."""
        if len(step.keys) != 1:
            return None
        following: list[int] = []
        for key in (*step.keys, None):
            places = self._places.get((step.plan.target.id, key), [])
            at = bisect_right(places, place)
            if at < len(places):
                following.append(places[at])
        return min(following, default=None)
