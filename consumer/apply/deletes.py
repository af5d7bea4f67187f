"""Finds rows that partitions will delete, beyond the records applied so far."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic

from cdcbus.consumer.apply.lookahead import TRUNCATED, NotYet, ReadOn, StepsTo
from cdcbus.consumer.apply.row_order import source_place
from cdcbus.consumer.merge.mapped_change import MappedChange
from cdcbus.consumer.merge.whole_row import Key
from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Op, TableId

# A reading that began earlier continues across this many records that have been applied meanwhile.
MOST_SKIPPED = 20_000
# The number of deletes kept per partition and table.
MOST_DELETES = 20_000
# The least number of records read at a time, as a reader takes a while to begin.
READ_AT_ONCE = 1_000
LOOK_SECONDS = 2.0
# A partition that was read to its end is read again after this time.
AGAIN_SECONDS = 1.0


@dataclass(slots=True)
class _Read:
    """The deletes found in a partition for the table `target`, from `begin` to before
    `next_offset`."""

    target: TargetTable
    begin: int
    next_offset: int
    # A row's key -> the offsets of its deletes.
    offsets: dict[tuple[Key, ...], list[int]] = field(default_factory=dict)
    # The offset of a delete -> its place in the source, as text that sorts.
    places: dict[int, str] = field(default_factory=dict)
    # The last place of all records read.
    beyond: str = ""
    # When the partition's end was reached; None: it was not.
    ended: float | None = None
    # Why the last reading could not begin; empty: it could.
    unshown: str = ""
    # The keys of rows whose deletes are always kept -> the offset from which on they are complete.
    asked: dict[tuple[Key, ...], int] = field(default_factory=dict)

    def has_all(self, step: MappedChange, offset: int) -> bool:
        """Whether it holds all deletes of the step's row from an offset on, as far as it has
        read."""
        is_there = self.begin <= offset or self.asked.get(step.keys, offset + 1) <= offset
        is_near = offset <= self.next_offset + MOST_SKIPPED
        return self.target is step.plan.target and is_there and is_near

    def make_room(self) -> None:
        """Drops the deletes of all rows that were not asked for, except truncates."""
        self.begin = self.next_offset
        kept: dict[tuple[Key, ...], list[int]] = {}
        places: dict[int, str] = {}
        for keys in self.offsets.keys() & {*self.asked, TRUNCATED}:
            kept[keys] = self.offsets[keys]
            for offset in kept[keys]:
                places[offset] = self.places[offset]
        self.offsets = kept
        self.places = places

    def add(self, step: MappedChange) -> None:
        """Adds a delete of one row, or a truncate."""
        found = self.offsets.setdefault(step.keys, [])
        if step.offset not in found[-1:]:
            found.append(step.offset)
        self.places[step.offset] = source_place(step.change)

    def has(self, keys: tuple[Key, ...], offset: int, after: str, before: str) -> bool:
        """Whether the row with these keys is deleted at or after an offset, from the place `after`
        to before `before`. A truncate deletes all rows."""
        for deleted in (keys, TRUNCATED):
            found = self.offsets.get(deleted, [])
            for each in found[bisect_left(found, offset) :]:
                if after <= self.places[each] < before:
                    return True
        return False


class Deletes:
    """Finds deletes of rows. Thread-safe."""

    def __init__(self, read_on: ReadOn, steps_to: StepsTo) -> None:
        self._read_on, self._steps_to = read_on, steps_to
        self._read: dict[tuple[TopicPartition, TableId], _Read] = {}
        self._reading = Lock()

    def knows(
        self,
        partition: TopicPartition,
        offset: int,
        step: MappedChange,
        after: str = "",
        before: str = "~",
    ) -> bool:
        """Whether `find` has already read a delete of the step's row, between two places in the
        source."""
        with self._reading:
            read = self._read.get((partition, step.plan.target.id))
            if read is None or not read.has_all(step, offset):
                return False
            return read.has(step.keys, offset, after, before)

    def find(
        self,
        partition: TopicPartition,
        offset: int,
        step: MappedChange,
        others: Sequence[MappedChange] = (),
        *,
        after: str = "",
        before: str = "~",
    ) -> bool | None:
        """Whether a partition has a delete of the step's row at or after an offset, at a
        place in the source from `after` to before `before`; None where that is not yet
        known, and the next call reads on. `others`: steps whose rows will be asked for as
        well. Raises TargetError, BusError."""
        where = partition, step.plan.target.id
        with self._reading:
            read = self._read.get(where)
            if read is None or not read.has_all(step, offset):
                read = self._read[where] = _Read(step.plan.target, offset, offset)
            # A caller repeats its question, and those about `others`, until the answer is known.
            asked: dict[tuple[Key, ...], int] = {}
            for each in (step, *others):
                is_of_table = each.plan.target.id == step.plan.target.id
                if is_of_table and read.has_all(each, offset):
                    asked[each.keys] = min(offset, read.asked.get(each.keys, offset))
            read.asked = asked

            def is_known() -> bool:
                return read.beyond >= before or read.has(step.keys, offset, after, before)

            is_due = read.ended is None or monotonic() - read.ended > AGAIN_SECONDS
            if is_due and not is_known():
                self._go_on(where, read, is_known)
            if read.has(step.keys, offset, after, before):
                return True
            return False if read.ended is not None or is_known() else None

    def unshown(self, partition: TopicPartition, step: MappedChange) -> str:
        """Why `find` could not read on for the step's table; empty where it could."""
        with self._reading:
            read = self._read.get((partition, step.plan.target.id))
            return read.unshown if read else ""

    def _go_on(
        self, where: tuple[TopicPartition, TableId], read: _Read, is_enough: Callable[[], bool]
    ) -> None:
        (partition, table), began = where, monotonic()
        read.ended, read.unshown, count = None, "", 0
        try:
            for number, (offset, value) in enumerate(self._read_on(partition, read.next_offset), 1):
                for step in self._steps_to(table, offset, value) if value else ():
                    read.beyond = max(read.beyond, source_place(step.change))
                    for part in step.parts():
                        if part.change.op in (Op.DELETE, Op.TRUNCATE):
                            read.add(part)
                            count += 1
                read.next_offset = offset + 1
                if count >= MOST_DELETES:
                    read.make_room()
                    count = 0
                is_late = monotonic() - began > LOOK_SECONDS
                if is_late or (number % READ_AT_ONCE == 0 and is_enough()):
                    return
        except NotYet as not_yet:
            # What follows is not known for now.
            read.unshown = str(not_yet)
        else:
            read.ended = monotonic()
