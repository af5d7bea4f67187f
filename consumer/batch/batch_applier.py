"""Batches into the target, one after the other: each partition's part in its own transaction, then
the task's progress, and the stored positions behind it."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial

from pyarrow import Int64Array

from cdcbus.consumer.apply.watermark import low_watermark_of, read_before_ms
from cdcbus.consumer.batch.outcome import Outcome
from cdcbus.consumer.batch.progress import Progress
from cdcbus.consumer.batch.sink import Applier
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.checkpoint import StoredPositions
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.consumer.records.late import without_late
from cdcbus.consumer.records.records import NO_RECORDS, Records, count_before
from cdcbus.plugins.errors import PositionError, TargetUnavailable
from cdcbus.plugins.log_context import TASK_AT_WORK
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.start import Replay

LOG = logging.getLogger(__name__)
FORGET_SECONDS = 60.0
LOG_SECONDS = 1.0

Goals = dict[TopicPartition, int]
"""Up to where each partition is to be applied."""


class BatchApplier:
    """Of one task. Only one thread at a time may use it."""

    def __init__(
        self,
        task: LoadTask,
        applier: Applier,
        positions: StoredPositions,
        progress: Progress,
        report: Callable[[Progress], None],
    ) -> None:
        self.progress = progress
        self._task, self._applier, self._positions, self._report = task, applier, positions, report
        # each needs a connection
        self._partitions = ThreadPoolExecutor(
            applier.partitions_at_once, "partition", TASK_AT_WORK.set, (task.task_id,)
        )
        # a batch has failed: how much of it is in the target only the target knows
        self._is_torn = False
        self._forgot = time.monotonic()
        self._unlogged, self._logged_at = BatchReport(), 0.0
        self._limit = task.start.last + 1 if isinstance(task.start, Replay) else sys.maxsize

    def apply_records(
        self,
        partitions: Mapping[TopicPartition, Records],
        ends: Mapping[TopicPartition, int],
        *,
        is_held: bool = False,
    ) -> bool:
        """Applies what was read of partitions, up to the offsets where reading ended. Whether all
        of it was applied; else partitions wait for each other, and go on from where `progress`
        says. Raises what `Applier.apply` does, and TargetUnavailable where none got on, unless it
        `is_held`."""
        is_hasty = is_held or len(ends) > 1
        return self.apply(
            partial(self._apply_partitions, partitions, is_hasty), ends, is_held=is_held
        )

    def apply(
        self,
        apply: Callable[[Goals], list[Outcome]],
        ends: Mapping[TopicPartition, int],
        *,
        is_held: bool,
    ) -> bool:
        """The same by `apply`, which is told where each partition is to get to. `is_held`:
        partitions that wait for each other are no error, as they are applied otherwise next."""
        self.progress.batch_since = time.time()
        self._is_torn = True
        try:
            waiting = self._apply(apply, ends, is_held=is_held)
            self._is_torn = False
        finally:
            self.progress.batch_since = 0.0
        self._positions.save_if_due(self.progress.next_offsets, self.progress.last)
        return not waiting

    def look_around(self) -> None:
        """To be called now and then between batches: stores positions that are due, and logs
        what was applied. Raises PositionError, and PositionConflict where an operator has set
        one."""
        self._log()
        self._positions.save_if_due(self.progress.next_offsets, self.progress.last)

    @contextmanager
    def saved_in_the_end(self) -> Iterator[None]:
        """Stores positions behind a block, whatever ends it. Raises PositionError where nothing
        else has gone wrong."""
        try:
            yield
        except PositionError:
            raise
        except BaseException:
            with suppress(PositionError):
                self._save()
            raise
        else:
            self._save()
        finally:
            self._positions.rest()  # before anybody reads them again

    def close(self) -> None:
        """Returns when no partition is at work."""
        self._partitions.shutdown()

    def scatter(self, new: Sequence[TopicPartition]) -> None:
        """Partitions have been found while reading: what is read from them may be newer than what
        is still to be read from the others."""
        topic, number = new[0]
        self._applier.scatter(f"partition {number} was added to topic {topic}")
        self.progress.next_offsets = {**dict.fromkeys(new, 0), **self.progress.next_offsets}

    def position_version(self, partition: TopicPartition) -> int:
        """The version of the stored position that has the partition."""
        return self._positions.position_version(partition)

    def _save(self) -> None:
        self._log(is_due=True)
        if not self._is_torn:
            self._positions.save(self.progress.next_offsets, self.progress.last)

    def _log(self, *, is_due: bool = False) -> None:
        now = time.monotonic()
        if self._unlogged.records and (is_due or now - self._logged_at >= LOG_SECONDS):
            LOG.info("task %s: %s", self._task.task_id, self._unlogged)
            self._unlogged, self._logged_at = BatchReport(), now

    def _apply(
        self,
        apply: Callable[[Goals], list[Outcome]],
        ends: Mapping[TopicPartition, int],
        *,
        is_held: bool,
    ) -> list[Outcome]:
        """Those that wait."""
        known = self.progress.next_offsets
        goals = {}
        for partition, last in ends.items():
            end = min(last, self._limit)
            if end > known.get(partition, -1):
                goals[partition] = end
        # there are none of a bounded replay whose other partitions wait for records
        outcomes = apply(goals) if goals else []
        batch = BatchReport()
        for outcome in outcomes:
            batch.add(outcome.report)
        self._unlogged.add(batch)
        self._log()
        self.progress.add(
            batch, [(outcome.partition.topic, outcome.report) for outcome in outcomes]
        )
        for outcome in outcomes:
            self.progress.move(outcome.partition, outcome.end, outcome.last)
        self._report(self.progress)
        self._forget_versions()
        waiting = [outcome for outcome in outcomes if outcome.waits]
        if waiting:
            has_moved = any(outcome.end > known.get(outcome.partition, 0) for outcome in outcomes)
            self._wait_for_others(waiting, is_held=has_moved or is_held)
        return waiting

    def _forget_versions(self) -> None:
        """Of rows, where partitions are beyond their changes; once in FORGET_SECONDS at most."""
        if len(self.progress.next_offsets) > 1 and time.monotonic() - self._forgot > FORGET_SECONDS:
            self._forgot = time.monotonic()
            if (before_ms := read_before_ms(self._task, self.progress.next_offsets)) > 0:
                self._applier.forget_versions(before_ms)

    def _wait_for_others(self, waiting: Sequence[Outcome], *, is_held: bool) -> None:
        """The rest of the batch is to be read again. Raises TargetUnavailable when that does not
        help at once: no partition got on, and what these wait for may still come."""
        progress, has_risen = self.progress, False
        for outcome in waiting:
            LOG.info("task %s: %s", self._task.task_id, outcome.waits)
            before = progress.low_watermarks.get(outcome.partition, 0)
            now = progress.low_watermarks[outcome.partition] = max(
                before, low_watermark_of(self._task, outcome.partition, progress.next_offsets)
            )
            has_risen |= before <= outcome.end < now
        if not (is_held or has_risen):
            raise TargetUnavailable(waiting[0].waits)

    # Partitions whose records are here

    def _apply_partitions(
        self, partitions: Mapping[TopicPartition, Records], is_hasty: bool, goals: Goals
    ) -> list[Outcome]:
        """Partitions that wait for others, or that the target has not taken as others were in the
        way, are applied again once the others are, as long as one of them gets on. `is_hasty`: a
        partition that waits is no further tried by itself, as it may be applied with others."""
        outcomes = {
            partition: Outcome(partition, self.progress.next_offsets.get(partition, 0))
            for partition in goals
        }
        before: list[int] | None = None
        is_alone = len(goals) == 1
        while goals and before != (now := [outcomes[partition].end for partition in goals]):
            self._apply_each(outcomes, partitions, goals, is_hasty)
            before = now
            goals = {
                partition: end
                for partition, end in goals.items()
                if outcomes[partition].waits or outcomes[partition].error
            }
            if is_hasty and any(outcomes[partition].waits for partition in goals):
                if is_alone:
                    break
                is_hasty, before = False, None
                if self._apply_together(outcomes, partitions, goals):
                    break
        for outcome in outcomes.values():
            if outcome.error:
                raise outcome.error
            outcome.report.came(*partitions.get(outcome.partition, NO_RECORDS).kafka_times())
        return [*outcomes.values()]

    def _apply_each(
        self,
        outcomes: Mapping[TopicPartition, Outcome],
        partitions: Mapping[TopicPartition, Records],
        goals: Goals,
        is_hasty: bool,
    ) -> None:
        """Side by side; a single one on this thread."""
        if len(goals) == 1:
            for partition, end in goals.items():
                self._apply_partition(
                    outcomes[partition], partitions.get(partition, NO_RECORDS), end, is_hasty
                )
            return
        futures = [
            self._partitions.submit(
                self._apply_partition,
                outcomes[partition],
                partitions.get(partition, NO_RECORDS),
                end,
                is_hasty,
            )
            for partition, end in goals.items()
        ]
        wait(futures)  # also where one has failed: none is at work when its batch is given up
        for future in futures:
            future.result()

    def _apply_together(
        self,
        outcomes: Mapping[TopicPartition, Outcome],
        partitions: Mapping[TopicPartition, Records],
        goals: Mapping[TopicPartition, int],
    ) -> bool:
        """Whether partitions that wait for each other got on in one transaction: what is left is
        better read with what it lacks. One that was refused otherwise goes with them."""
        left = {
            partition: self._left(outcomes[partition], partitions.get(partition, NO_RECORDS), end)
            for partition, end in goals.items()
        }
        parts = [
            (partition, records, goals[partition], self._positions.position_version(partition))
            for partition, (records, _) in left.items()
        ]
        try:
            done = self._applier.apply_together(parts)
        except TargetUnavailable as error:
            LOG.info("task %s: partitions are not applied together: %s", self._task.task_id, error)
            return False
        for partition, (end, report) in done.items():
            outcome = outcomes[partition]
            outcome.report.add(report)
            outcome.report.late += count_before(left[partition][1], end)
            outcome.end, outcome.error = end, None
            outcome.last = partitions.get(partition, NO_RECORDS).last_before(end) or outcome.last
            outcome.waits = (
                outcome.waits or "it waits for records of other partitions"
                if end < goals[partition]
                else ""
            )
        return bool(done)

    def _apply_partition(
        self, outcome: Outcome, records: Records, end: int, is_hasty: bool
    ) -> None:
        """`end` lies inside the batch where a bounded replay ends."""
        position_version, low_watermark = (
            self._positions.position_version(outcome.partition),
            self.progress.low_watermarks.get(outcome.partition, 0),
        )
        outcome.error = None
        left, late = self._left(outcome, records, end)
        try:
            outcome.take(
                partial(
                    self._applier.apply,
                    outcome.partition,
                    left,
                    end,
                    position_version,
                    low_watermark,
                    is_hasty,
                ),
                end,
                left,
            )
            outcome.report.late += count_before(late, outcome.end)
        except TargetUnavailable as error:
            outcome.error = error

    def _left(self, outcome: Outcome, records: Records, end: int) -> tuple[Records, Int64Array]:
        """What of a partition is still to be applied, and the offsets of what comes too late for
        that."""
        left = records.before(end)[len(records.before(outcome.end)) :]
        return without_late(
            outcome.partition,
            left,
            self._task.converter,
            self.progress.begun.setdefault(outcome.partition, {}),
        )
