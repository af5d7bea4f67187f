"""What a partition has in store for a row, beyond the batch at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from time import monotonic

from cdcbus.consumer.merge.mapped_change import Key, MappedChange
from cdcbus.consumer.records.records import Record
from cdcbus.plugins.contracts import TargetTable
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Op, TableId

MOST_BYTES = 4 << 20  # of records whose rows are kept
TRUNCATED: tuple[Key, ...] = ()  # the keys of a truncate
LOOK_SECONDS = 5.0

ReadOn = Callable[[TopicPartition, int], Iterator[Record]]
"""The records of a partition from an offset on, up to its present end."""


def no_future(_partition: TopicPartition, _offset: int) -> Iterator[Record]:
    """Of no partition anything is known."""
    return iter(())


class NotYet(Exception):
    """Whether a partition has a later change is not known yet."""


@dataclass(slots=True)
class _Seen:
    """The changes of each row of the table `target`, by its key, from the last full one on,
    among the records from `begin` to before `next_offset`, which have so many `value_bytes`.
    `asked`: the keys of rows that are kept whatever comes, and from which offset on."""

    target: TargetTable
    begin: int
    next_offset: int
    rows: dict[tuple[Key, ...], list[MappedChange]] = field(default_factory=dict)
    value_bytes: int = 0
    asked: dict[tuple[Key, ...], int] = field(default_factory=dict)

    def ask(self, steps: Iterable[MappedChange]) -> None:
        """For the rows of these, and of nobody who has asked before."""
        of_table = (step.keys for step in steps if step.plan.target.id == self.target.id)
        self.asked = {keys: self.asked.get(keys, self.begin) for keys in (TRUNCATED, *of_table)}

    def has_all(self, step: MappedChange, end_offset: int) -> bool:
        """Whether all is there that is known of its row from an offset on, for the target as it
        is."""
        is_there = (
            self.begin <= end_offset <= self.next_offset
            or self.asked.get(step.keys, end_offset + 1) <= end_offset
        )
        return is_there and self.target is step.plan.target

    def make_room(self) -> None:
        """Forgets the others."""
        self.rows = {keys: steps for keys, steps in self.rows.items() if keys in self.asked}
        self.begin, self.value_bytes = self.next_offset, 0

    def add(self, step: MappedChange) -> None:
        """As a change of one row, or of all."""
        if step.is_full:
            self.rows[step.keys] = [step]
        else:
            self.rows.setdefault(step.keys, []).append(step)

    def after(self, step: MappedChange, end_offset: int) -> list[MappedChange]:
        """What comes behind the batch of a step for its row; a truncate alone, where there is
        one."""
        found = (self.rows.get(keys, ()) for keys in (TRUNCATED, step.keys))
        return next(
            (
                later
                for steps in found
                if (later := [each for each in steps if each.offset >= end_offset])
            ),
            [],
        )


class LookAhead:
    """Looks for later changes of rows. Different partitions may be asked for side by side."""

    def __init__(
        self, read_on: ReadOn, steps_to: Callable[[TableId, int, bytes], list[MappedChange]]
    ) -> None:
        """`steps_to`: what a record brings to a target table."""
        self._read_on, self._steps_to = read_on, steps_to
        self._seen: dict[tuple[TopicPartition, TableId], _Seen] = {}

    def later(
        self,
        partition: TopicPartition,
        end_offset: int,
        step: MappedChange,
        others: Iterable[MappedChange] = (),
    ) -> Iterator[list[MappedChange]]:
        """What a partition has of the step's row at or behind `end_offset`, in order from its last
        full change on: as soon as there is something, and again with each change more; or a
        truncate. What was read is kept for the next one who asks, and of `others`, who will.
        Raises NotYet when LOOK_SECONDS were not enough: the next call goes on from there;
        TargetError, BusError."""
        if len(step.keys) != 1:
            return
        place = partition, step.plan.target.id
        seen = self._seen.get(place)
        if seen is None or not seen.has_all(step, end_offset):
            seen = self._seen[place] = _Seen(step.plan.target, end_offset, end_offset)
        seen.ask((step, *others))
        if found := seen.after(step, end_offset):
            yield found
        began = monotonic()
        for offset, value in self._read_on(partition, seen.next_offset):
            parts = (
                [
                    part
                    for each in self._steps_to(step.plan.target.id, offset, value or b"")
                    for part in each.parts()
                ]
                if value
                else []
            )
            for part in parts:
                if part.keys or part.change.op is Op.TRUNCATE:
                    seen.add(part)
                    seen.value_bytes += len(value or b"")
            seen.next_offset = offset + 1
            if any(part.keys in (step.keys, TRUNCATED) for part in parts) and (
                found := seen.after(step, end_offset)
            ):
                yield found
            if seen.value_bytes > MOST_BYTES:
                seen.make_room()
            if monotonic() - began > LOOK_SECONDS:
                raise NotYet
