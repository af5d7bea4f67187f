"""Applies batches to the target, one after the other: each partition's part in its own transaction,
then the task's progress, and after that the stored positions."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from functools import partial

from pyarrow import Int64Array

from cdcbus.consumer.apply.watermark import low_watermarks_of, read_before_ms
from cdcbus.consumer.batch.outcome import Outcome
from cdcbus.consumer.batch.progress import Progress
from cdcbus.consumer.batch.sink import Applier
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.checkpoint import StoredPositions
from cdcbus.consumer.records.arrival_clock import ArrivalClock
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.consumer.records.late import without_late
from cdcbus.consumer.records.records import NO_RECORDS, PartitionPart, Records, count_before
from cdcbus.plugins.contracts import AppliedOffset
from cdcbus.plugins.errors import BusUnavailable, PositionError, TargetUnavailable
from cdcbus.plugins.log_context import TASK_AT_WORK
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.start import Replay

LOG = logging.getLogger(__name__)
FORGET_SECONDS = 60.0
COMPARE_SECONDS = 30.0
LOOK_SECONDS = 30.0
LOG_SECONDS = 1.0
# During a batch nothing is received. In a shorter one that makes no difference.
LONG_SECONDS = 5.0

# The offset up to which each partition is applied, exclusive.
Goals = dict[TopicPartition, int]


class BatchApplier:
    """Applies the batches of one task. Only one thread at a time may use it."""

    def __init__(
        self,
        task: LoadTask,
        applier: Applier,
        positions: StoredPositions,
        progress: Progress,
        report: Callable[[Progress], None],
    ) -> None:
        self.progress = progress
        self._task = task
        self._applier = applier
        self.epochs = applier.epochs
        self._positions = positions
        self._report = report
        # Each thread needs a connection.
        self._partitions = ThreadPoolExecutor(
            applier.partitions_at_once, "partition", TASK_AT_WORK.set, (task.task_id,)
        )
        # A batch has failed: only the target knows how much of it has been applied.
        self._is_torn = False
        self._forgot = time.monotonic()
        self._compared = time.monotonic()
        # The first look is due before the first batch.
        self._looked = -LOOK_SECONDS
        self._unlogged = BatchReport()
        self._logged_at = 0.0
        # A bounded replay applies nothing from this offset on.
        self._limit = sys.maxsize
        if isinstance(task.start, Replay):
            self._limit = task.start.last + 1

    def apply_records(
        self,
        partitions: Mapping[TopicPartition, Records],
        ends: Mapping[TopicPartition, int],
        *,
        is_held: bool = False,
    ) -> bool:
        """Applies the records read from partitions, up to the offsets where reading ended.

        Returns whether all of them were applied; otherwise partitions wait for each other, and
        resume at the offsets in `progress`. Raises what `Applier.apply` raises, and
        TargetUnavailable where no partition made progress, unless it `is_held`."""
        is_hasty = is_held or len(ends) > 1
        apply = partial(self._apply_partitions, partitions, is_hasty)
        return self.apply(apply, ends, is_held=is_held)

    def apply(
        self,
        apply: Callable[[Goals], list[Outcome]],
        ends: Mapping[TopicPartition, int],
        *,
        is_held: bool,
    ) -> bool:
        """Does the same by calling `apply` with the goal of each partition. `is_held`: partitions
        that wait for each other are not an error, as they are applied in another way next."""
        # Executors have no partition yet. While they do, nobody looks around.
        self._compare_offsets()
        self._look_at_tables()
        self.progress.batch_since = time.monotonic()
        self.progress.received.update(ends)
        self._is_torn = True
        try:
            waiting = self._apply(apply, ends, is_held=is_held)
            self._is_torn = False
        finally:
            if time.monotonic() - self.progress.batch_since > LONG_SECONDS:
                self.progress.received.update(self.progress.next_offsets)
            self.progress.batch_since = 0.0
        self._positions.save_if_due(self.progress.next_offsets, self.progress.last)
        return not waiting

    def look_around(self) -> None:
        """Stores positions that are due, logs what was applied, and compares the target's offsets.
        Must be called regularly between batches. Raises PositionError, PositionConflict where an
        operator has set a position, OffsetConflict where the target has lost commits, TargetError.
        """
        self._log()
        self._positions.save_if_due(self.progress.next_offsets, self.progress.last)
        self._compare_offsets()
        self._look_at_tables()

    @contextmanager
    def saved_in_the_end(self) -> Iterator[None]:
        """Stores positions after a block, however it ends. Raises PositionError where nothing else
        has failed."""
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
            # Notes the tables of a short run, too.
            self._looked -= LOOK_SECONDS
            self._look_at_tables()
        finally:
            # Nothing may be written any more once the next attempt reads them.
            self._positions.rest()

    def close(self) -> None:
        """Returns once no partition is being applied."""
        self._partitions.shutdown()

    def scatter(self, new: Mapping[TopicPartition, int]) -> None:
        """Adds partitions that were found while reading, with their first offsets. Their records
        can be newer than those that the others still hold."""
        topic, number = min(new)
        offsets: list[AppliedOffset] = []
        for partition, offset in new.items():
            version = self._positions.position_version(partition)
            offsets.append(AppliedOffset(*partition, offset, version))
        # Stored before any position names them: a partition that the target has lost would look the
        # same as one without records.
        reason = f"partition {number} was added to topic {topic}"
        self._applier.add_partitions(offsets, reason)
        self.progress.next_offsets = {**new, **self.progress.next_offsets}

    def position_version(self, partition: TopicPartition) -> int:
        """The version of the stored position that holds the partition."""
        return self._positions.position_version(partition)

    def arrivals(self) -> ArrivalClock:
        """The clock by which records arrive, which has seen what was applied so far."""
        for last in self.progress.last.values():
            self._applier.arrivals.saw(last.came_ms)
        return self._applier.arrivals

    def scattered_tables(self) -> frozenset[TableId | None]:
        """See `Applier.scattered`."""
        return self._applier.scattered

    def _save(self) -> None:
        self._log(is_due=True)
        if not self._is_torn:
            self._positions.save(self.progress.next_offsets, self.progress.last)

    def _log(self, *, is_due: bool = False) -> None:
        now = time.monotonic()
        if self._unlogged.records and (is_due or now - self._logged_at >= LOG_SECONDS):
            LOG.info("task %s: %s", self._task.task_id, self._unlogged)
            self._unlogged = BatchReport()
            self._logged_at = now

    def _apply(
        self,
        apply: Callable[[Goals], list[Outcome]],
        ends: Mapping[TopicPartition, int],
        *,
        is_held: bool,
    ) -> list[Outcome]:
        """Applies a batch, and returns the outcomes of partitions that wait."""
        known = self.progress.next_offsets
        goals = {}
        for partition, last in ends.items():
            end = min(last, self._limit)
            if end > known.get(partition, -1):
                goals[partition] = end
        self.progress.goals = goals
        # No goals where the rest of a bounded replay is in partitions without new records.
        outcomes = apply(goals) if goals else []
        batch = BatchReport()
        by_swimlane: list[tuple[str, BatchReport]] = []
        for outcome in outcomes:
            batch.add(outcome.report)
            by_swimlane.append((outcome.partition.topic, outcome.report))
        self._unlogged.add(batch)
        self._log()
        self.progress.add(batch, by_swimlane)
        has_moved = False
        waiting: list[Outcome] = []
        self.progress.move((each.partition, each.end, each.last) for each in outcomes)
        for outcome in outcomes:
            has_moved |= outcome.end > known.get(outcome.partition, 0)
            if outcome.waits:
                waiting.append(outcome)
        self._report(self.progress)
        self._forget_versions()
        if waiting:
            self._wait_for_others(waiting, is_held=has_moved or is_held)
        return waiting

    def _compare_offsets(self) -> None:
        """Compares the target's offsets, at most once in COMPARE_SECONDS."""
        if time.monotonic() - self._compared < COMPARE_SECONDS:
            return
        self._compared = time.monotonic()
        self._applier.compare_offsets()

    def _look_at_tables(self) -> None:
        """Looks whether target tables are still the same, at most once in LOOK_SECONDS."""
        if time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._looked = time.monotonic()
        for sentence in self._applier.lost_tables():
            self.progress.lose_table(self._task.task_id, sentence)

    def _forget_versions(self) -> None:
        """Forgets the versions of rows whose changes all partitions have passed; at most once in
        FORGET_SECONDS. Where Kafka or the target does not answer now, it is tried again then."""
        # A single partition keeps no versions.
        if len(self.progress.next_offsets) <= 1:
            return
        if time.monotonic() - self._forgot <= FORGET_SECONDS:
            return
        self._forgot = time.monotonic()
        # Read only where there are versions: nothing is applied meanwhile.
        before_ms = partial(read_before_ms, self._task, self.progress.next_offsets, self.arrivals())
        try:
            self._applier.forget_versions(before_ms)
        except (BusUnavailable, TargetUnavailable) as error:
            LOG.warning(
                "task %s keeps versions of rows that are no longer needed: %s",
                self._task.task_id,
                error,
            )

    def _wait_for_others(self, waiting: Sequence[Outcome], *, is_held: bool) -> None:
        """Raises the low watermarks of waiting partitions; the rest of the batch is read again.
        Raises TargetUnavailable when that does not help immediately: no partition made progress,
        and the records that they wait for can still come."""
        progress = self.progress
        arrivals = self.arrivals()
        has_risen = False
        partitions = [outcome.partition for outcome in waiting]
        found = low_watermarks_of(self._task, partitions, progress.next_offsets, arrivals)
        for outcome in waiting:
            LOG.info("task %s: %s", self._task.task_id, outcome.waits)
            before = progress.low_watermarks.get(outcome.partition, 0)
            now = max(before, found[outcome.partition])
            progress.low_watermarks[outcome.partition] = now
            # The watermark is now beyond the record that waits: read again, it waits no longer.
            has_risen |= before <= outcome.end < now
        if not (is_held or has_risen):
            raise TargetUnavailable(waiting[0].waits)

    # Partitions whose records the driver holds

    def _apply_partitions(
        self, partitions: Mapping[TopicPartition, Records], is_hasty: bool, goals: Goals
    ) -> list[Outcome]:
        """Applies the partitions side by side, and repeats those that wait for others or that the
        target refused because of others, as long as one of them makes progress. `is_hasty`: a
        partition that waits is not tried any further on its own, as it may be applied with
        others."""
        outcomes: dict[TopicPartition, Outcome] = {}
        for partition in goals:
            begin = self.progress.next_offsets.get(partition, 0)
            outcomes[partition] = Outcome(partition, begin)
        is_alone = len(goals) == 1
        before: list[int] | None = None
        while goals:
            now = [outcomes[partition].end for partition in goals]
            # The last round has moved none of them.
            if now == before:
                break
            before = now
            self._apply_each(outcomes, partitions, goals, is_hasty)
            goals = _unfinished(goals, outcomes)
            if is_hasty and any(outcomes[partition].waits for partition in goals):
                if is_alone:
                    break
                # Together first; failing that, once more each on its own, now with patience.
                if self._apply_together(outcomes, partitions, goals):
                    break
                is_hasty = False
                before = None
        for outcome in outcomes.values():
            if outcome.error:
                raise outcome.error
            records = partitions.get(outcome.partition, NO_RECORDS)
            outcome.report.came(*records.kafka_times())
        return [*outcomes.values()]

    def _apply_each(
        self,
        outcomes: Mapping[TopicPartition, Outcome],
        partitions: Mapping[TopicPartition, Records],
        goals: Goals,
        is_hasty: bool,
    ) -> None:
        """Applies the partitions side by side; a single one on this thread."""
        calls = []
        for partition, end in goals.items():
            records = partitions.get(partition, NO_RECORDS)
            outcome = outcomes[partition]
            calls.append(partial(self._apply_partition, outcome, records, end, is_hasty))
        if len(calls) == 1:
            calls[0]()
            return
        futures = list(map(self._partitions.submit, calls))
        # For all of them, even if one has failed: none may continue once its batch is abandoned.
        wait(futures)
        for future in futures:
            future.result()

    def _apply_together(
        self,
        outcomes: Mapping[TopicPartition, Outcome],
        partitions: Mapping[TopicPartition, Records],
        goals: Mapping[TopicPartition, int],
    ) -> bool:
        """Applies partitions that wait for each other in one transaction, together with those that
        were refused for another reason. Returns whether they made progress: then the rest is better
        read again, together with the records that it lacks."""
        parts: list[PartitionPart] = []
        late: dict[TopicPartition, Int64Array] = {}
        for partition, end in goals.items():
            records = partitions.get(partition, NO_RECORDS)
            left, late[partition] = self._left(outcomes[partition], records, end)
            version = self._positions.position_version(partition)
            parts.append((partition, left, end, version))
        try:
            done = self._applier.apply_together(parts)
        except TargetUnavailable as error:
            LOG.info("task %s: partitions are not applied together: %s", self._task.task_id, error)
            return False
        for partition, (end, report) in done.items():
            outcome = outcomes[partition]
            outcome.report.add(report)
            outcome.report.late += count_before(late[partition], end)
            outcome.end = end
            outcome.error = None
            outcome.last = partitions.get(partition, NO_RECORDS).last_before(end) or outcome.last
            if end >= goals[partition]:
                outcome.waits = ""
            elif not outcome.waits:
                outcome.waits = "it waits for records of other partitions"
        return bool(done)

    def _apply_partition(
        self, outcome: Outcome, records: Records, end: int, is_hasty: bool
    ) -> None:
        """Applies the partition's remaining records. `end` lies inside the batch where a bounded
        replay ends."""
        outcome.error = None
        left, late = self._left(outcome, records, end)
        apply = partial(
            self._applier.apply,
            outcome.partition,
            left,
            end,
            self._positions.position_version(outcome.partition),
            self.progress.low_watermarks.get(outcome.partition, 0),
            is_hasty,
        )
        try:
            outcome.take(apply, end, left)
            outcome.report.late += count_before(late, outcome.end)
        except TargetUnavailable as error:
            outcome.error = error

    def _left(self, outcome: Outcome, records: Records, end: int) -> tuple[Records, Int64Array]:
        """The partition's records that remain to be applied, and the offsets of those that were
        sent too late."""
        left = records.before(end)[len(records.before(outcome.end)) :]
        begun = self.epochs.of(outcome.partition)
        found = without_late(outcome.partition, left, self._task.converter, begun)
        self.epochs.follow(outcome.partition, begun, outcome.end)
        return found


def _unfinished(goals: Goals, outcomes: Mapping[TopicPartition, Outcome]) -> Goals:
    """The goals of partitions that wait, or that the target has refused."""
    left: Goals = {}
    for partition, end in goals.items():
        if outcomes[partition].waits or outcomes[partition].error:
            left[partition] = end
    return left
