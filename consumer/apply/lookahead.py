"""Finds a partition's later changes of a row, beyond the batch in progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from time import monotonic

from cdcbus.consumer.merge.mapped_change import MappedChange
from cdcbus.consumer.merge.whole_row import Key
from cdcbus.consumer.records.records import Record
from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Op, TableId

# The size of the records whose rows are kept.
MOST_BYTES = 4 << 20
# The keys under which a truncate is kept.
TRUNCATED: tuple[Key, ...] = ()
LOOK_SECONDS = 5.0

ReadOn = Callable[[TopicPartition, int], Iterator[Record]]
"""The records of a partition from an offset on, up to its present end. Raises NotYet."""
StepsTo = Callable[[TableId, int, bytes], list[MappedChange]]
"""The steps to a target table of a record, given its offset and value."""


def no_future(_partition: TopicPartition, _offset: int) -> Iterator[Record]:
    """A ReadOn that returns no records."""
    return iter(())


class NotYet(Exception):
    """It is not yet known whether a partition has a later change; with the reason, unless a further
    look finds out."""


@dataclass(slots=True)
class _Seen:
    """The records of a partition that were read ahead, as changes of a target table."""

    target: TargetTable
    # The records from `begin` to before `next_offset` were read.
    begin: int
    next_offset: int
    # A row's key -> its changes from the last full one on.
    rows: dict[tuple[Key, ...], list[MappedChange]] = field(default_factory=dict)
    # The size of the records since `begin`.
    value_bytes: int = 0
    # The keys of rows that are always kept -> the offset from which on their changes are complete.
    asked: dict[tuple[Key, ...], int] = field(default_factory=dict)

    def ask(self, steps: Iterable[MappedChange]) -> None:
        """Marks the rows of these steps as always kept, and no longer those of earlier calls."""
        asked = {TRUNCATED: self.asked.get(TRUNCATED, self.begin)}
        for step in steps:
            if step.plan.target.id == self.target.id:
                asked[step.keys] = self.asked.get(step.keys, self.begin)
        self.asked = asked

    def has_all(self, step: MappedChange, end_offset: int) -> bool:
        """Whether it holds all known changes of the step's row from an offset on, for the target as
        it is now."""
        if self.target is not step.plan.target:
            return False
        if self.begin <= end_offset <= self.next_offset:
            return True
        return step.keys in self.asked and self.asked[step.keys] <= end_offset

    def make_room(self) -> None:
        """Drops all rows that were not asked for."""
        self.rows = {keys: steps for keys, steps in self.rows.items() if keys in self.asked}
        self.begin = self.next_offset
        self.value_bytes = 0

    def add(self, step: MappedChange) -> None:
        """Adds a change of one row, or a truncate."""
        if step.is_full:
            self.rows[step.keys] = [step]
        else:
            self.rows.setdefault(step.keys, []).append(step)

    def after(self, step: MappedChange, end_offset: int) -> list[MappedChange]:
        """The changes of the step's row at or after `end_offset`; only the truncate, where there is
        one."""
        for keys in (TRUNCATED, step.keys):
            later = [each for each in self.rows.get(keys, ()) if each.offset >= end_offset]
            if later:
                return later
        return []


class LookAhead:
    """Looks for later changes of rows. Threads can query different partitions side by side."""

    def __init__(self, read_on: ReadOn, steps_to: StepsTo) -> None:
        self._read_on = read_on
        self._steps_to = steps_to
        self._seen: dict[tuple[TopicPartition, TableId], _Seen] = {}

    def later(
        self,
        partition: TopicPartition,
        end_offset: int,
        step: MappedChange,
        others: Iterable[MappedChange] = (),
    ) -> Iterator[list[MappedChange]]:
        """Yields the partition's changes of the step's row at or after `end_offset`, in
        order from the last full change on: as soon as there is one, and again with each
        further one; or a truncate. Records read are kept for the next call, and for
        `others`, steps whose rows will be asked for. Raises NotYet when LOOK_SECONDS were
        not enough, and the next call continues there; TargetError, BusError."""
        if len(step.keys) != 1:
            return
        place = partition, step.plan.target.id
        seen = self._seen.get(place)
        if seen is None or not seen.has_all(step, end_offset):
            seen = self._seen[place] = _Seen(step.plan.target, end_offset, end_offset)
        seen.ask((step, *others))
        found = seen.after(step, end_offset)
        if found:
            yield found
        began = monotonic()
        for offset, value in self._read_on(partition, seen.next_offset):
            parts = self._parts(step.plan.target.id, offset, value)
            for part in parts:
                if part.keys or part.change.op is Op.TRUNCATE:
                    seen.add(part)
                    seen.value_bytes += len(value or b"")
            seen.next_offset = offset + 1
            if any(part.keys in (step.keys, TRUNCATED) for part in parts):
                found = seen.after(step, end_offset)
                if found:
                    yield found
            if seen.value_bytes > MOST_BYTES:
                seen.make_room()
            if monotonic() - began > LOOK_SECONDS:
                raise NotYet

    def _parts(self, target: TableId, offset: int, value: bytes | None) -> list[MappedChange]:
        """The changes in a record, each of one row."""
        parts: list[MappedChange] = []
        if value:
            for step in self._steps_to(target, offset, value):
                parts += step.parts()
        return parts
