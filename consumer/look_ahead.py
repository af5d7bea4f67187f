"""What a lane has in store for a row, beyond the batch at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic

from cdcbus.consumer.offsets import Lane
from cdcbus.consumer.records import Record
from cdcbus.consumer.steps import Key, Step
from cdcbus.plugins.errors import TargetUnavailable
from cdcbus.plugins.rowchange import Op, TableId

MOST_BYTES = 32 << 20  # of records whose rows are kept
TRUNCATED: tuple[Key, ...] = ()  # the keys of a truncate
LOOK_SECONDS = 5.0

ReadOn = Callable[[Lane, int], Iterator[Record]]
"""The records of a lane from an offset on, up to its present end."""


def nothing(_lane: Lane, _offset: int) -> Iterator[Record]:
    """For a lane without a future."""
    return iter(())


@dataclass(slots=True)
class _Seen:
    """The last full change of each row of a table, by its key, among the records from `begin` to before `next_offset`, which have so many
    `value_bytes`. `asked`: keys and offset of whom it was for last."""

    begin: int
    next_offset: int
    last: dict[tuple[Key, ...], Step] = field(default_factory=dict)
    value_bytes: int = 0
    asked: tuple[tuple[Key, ...], int] = TRUNCATED, -1


class LookAhead:
    """Looks for later changes of rows. Different lanes may be asked for side by side."""

    def __init__(self, read_on: ReadOn, steps_to: Callable[[TableId, int, bytes], list[Step]], *, may_insert: bool) -> None:
        """`steps_to`: what a record brings to a target table. `may_insert`: whether an update brings back a row that is not there."""
        self._read_on, self._steps_to, self._may_insert = read_on, steps_to, may_insert
        self._seen: dict[tuple[Lane, TableId], _Seen] = {}

    def later(self, lane: Lane, end_offset: int, step: Step) -> Step | None:
        """A change at or behind `end_offset` that leaves the step's row as it should be, whatever was there before; None when the lane has
        none yet. What was read is kept for the next one who asks. Raises TargetUnavailable when LOOK_SECONDS were not enough: the next
        call goes on from there; DataError, BusError."""
        if len(step.keys) != 1:
            return None
        place, asked = (lane, step.plan.target.id), (step.keys, step.offset)
        seen = self._seen.get(place)
        if seen is None or (seen.asked != asked and not seen.begin <= end_offset <= seen.next_offset):
            seen = self._seen[place] = _Seen(end_offset, end_offset)
        seen.asked = asked
        if found := self._cure(seen, step):
            return found
        began = monotonic()
        for offset, value in self._read_on(lane, seen.next_offset):
            if value and (steps := self._steps_to(step.plan.target.id, offset, value)):
                parts = [part for later in steps for part in later.parts()]
                seen.last |= {part.keys: part for part in parts if part.is_full and (part.keys or part.change.op is Op.TRUNCATE)}
                seen.value_bytes += len(value)
            seen.next_offset = offset + 1
            if found := self._cure(seen, step):
                return found
            if seen.value_bytes > MOST_BYTES:
                seen.last, seen.begin, seen.value_bytes = {}, seen.next_offset, 0
            if monotonic() - began > LOOK_SECONDS:
                text = f"record {lane[0]}[{lane[1]}]@{step.offset} changes a row of table {step.plan.target.id} that another one forbids"
                raise TargetUnavailable(f"{text}; whether a later record cures that is looked for, up to {offset} so far")
        return None

    def _cure(self, seen: _Seen, step: Step) -> Step | None:
        found = seen.last.get(step.keys) or seen.last.get(TRUNCATED)
        if found is None or found.offset <= step.offset:
            return None
        may_insert = self._may_insert or step.change.op is not Op.INSERT or found.change.op is not Op.UPDATE
        return found if may_insert else None
