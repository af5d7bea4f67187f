"""Reports a running task to ZooKeeper: its `stat` znode every few seconds and at each change of
state; its history and porter's znodes of its tables once a minute."""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Thread
from typing import Any

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.dates import utc_text
from cdcbus.plugins.errors import CdcError
from cdcbus.plugins.log_context import TASK_AT_WORK
from cdcbus.plugins.task_status import State, TaskStatus
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.process_identity import process_token
from cdcbus.tasks.runtime.delay_history import DelayHistory, DelayWriter
from cdcbus.tasks.runtime.lag import Lag, lag_meter
from cdcbus.tasks.runtime.metrics import REPORTED_SECONDS, metrics_of
from cdcbus.tasks.runtime.occurrences import Occurrence, Occurrences, failure
from cdcbus.tasks.runtime.table_counts import add_to_porters_nodes
from cdcbus.tasks.runtime.table_rates import TableRates
from cdcbus.tasks.runtime.throughput_history import ThroughputHistory, ThroughputWriter
from cdcbus.tasks.zookeeper.stat import Stat, TableCounts
from cdcbus.tasks.zookeeper.tasks import TaskNodes
from cdcbus.tasks.zookeeper.znode import age_seconds, groups, now

REPORT_SECONDS = 5.0
# Of a task that has nothing to do: each report costs every ZooKeeper server a write.
IDLE_SECONDS = 15.0
LOOK_SECONDS = 0.5
# While ZooKeeper is unavailable.
OCCURRED_KEPT = 200
LOG = logging.getLogger(__name__)


class _Moves:
    """When something last happened, in seconds of the monotonic clock, as alarms compare the time
    since. `rows_at`: rows arrived. `moved_at`: the position moved, or nothing was left to read."""

    def __init__(self) -> None:
        self.rows_at = self.moved_at = time.monotonic()
        self._rows = 0
        self._place: Hashable = None

    def see(self, rows: int, place: Hashable, is_behind: bool) -> None:
        if rows != self._rows:
            self.rows_at, self._rows = time.monotonic(), rows
        # Without anything left to read the position cannot move, which is no standstill.
        if place != self._place or not is_behind:
            self.moved_at, self._place = time.monotonic(), place


class StatusReporter:
    """Takes a task's progress, and writes it to ZooKeeper together with the task's `status`, on a
    thread of its own, so that a slow ZooKeeper never delays the task."""

    def __init__(self, task: FetchTask | LoadTask, nodes: TaskNodes, node_id: str) -> None:
        self._task, self._nodes, self._node_id = task, nodes, node_id
        self._progress: Any = None
        self._is_idle = False
        self._reported_rows = 0
        self._over = Event()
        self._metrics = metrics_of(task)
        self.status = TaskStatus(task.task_id, lambda: self._metrics.place)
        self._moves = _Moves()
        self._minutes = ThroughputWriter(task.task_id, ThroughputHistory(nodes.client))
        self._delays = DelayWriter(task.task_id, DelayHistory(nodes.client))
        self._rates = TableRates()
        self._occurrences = Occurrences(nodes.client)
        # Not written yet.
        self._occurred: list[Occurrence] = []
        # As last written to porter's znodes.
        self._tables: dict[tuple[str, str], TableCounts] = {}
        self._failed: tuple[State, str] | None = None
        # What an earlier process found lost in the target, and when.
        self._lost_before = ("", 0.0)

    def __call__(self, progress: Any) -> None:
        self._metrics.see(progress)
        self._progress = progress
        # A fetch task at a quiet source reports, too, each time it stores its position.
        if self._is_idle and int(progress.done) != self._reported_rows:
            self._is_idle = False
            # Wakes the thread, which reports rarely while the task is idle.
            self.status.changed.set()

    @contextmanager
    def reporting(self, stop: Event, is_lost: Callable[[], bool] = lambda: False) -> Iterator[None]:
        """Reports while the block runs. At its end the task is STOPPED if `stop` is set, else DONE,
        or ERROR if the block raises. If another process may run the task by then (`is_lost`),
        nothing more is reported or waited for."""
        thread = Thread(target=self._report_until_over, name="status", daemon=True)
        thread.start()
        last, reason = State.STOPPED, ""
        try:
            yield
            last = State.STOPPED if stop.is_set() else State.DONE
        except CdcError as error:
            last, reason = State.ERROR, str(error)
            raise
        finally:
            self._over.set()
            self.status.changed.set()
            # Another process may report by now, and its stat must not be overwritten.
            if not is_lost():
                thread.join()
                self.status.ended(last, reason)
                # A silent ZooKeeper is waited for once, not for each of these.
                if self._report(0.0, Lag()):
                    self._report_failure()
                    self._report_occurrences()
                    self._report_minute(Lag())

    def _report_until_over(self) -> None:
        # The thread's log lines go to this task's log, as one process can run many tasks.
        TASK_AT_WORK.set(self._task.task_id)
        self._continue_former_report()
        measure = lag_meter(self._task)
        logged = ""
        while not self._over.is_set():
            try:
                self._report_in_turns(measure)
            except Exception as error:
                reason = type(error).__name__
                # A task that is not heard of any more would still count as WORKING.
                if reason != logged:
                    LOG.error(
                        "task %s: its state is not reported: unexpected %s, please report it; "
                        "tried again every %g s",
                        self._task.task_id,
                        reason,
                        REPORT_SECONDS,
                    )
                logged = reason
                self._over.wait(REPORT_SECONDS)

    def _report_in_turns(self, measure: Callable[[Any], Lag]) -> None:
        """Returns when the task is over."""
        reported = State.NEW
        reported_at = 0.0
        rows = 0
        while not self._over.wait(LOOK_SECONDS):
            # Cleared before the look, so that a change during it is noticed by the next wait.
            self.status.changed.clear()
            self.status.observe(is_behind=True)
            seconds = time.monotonic() - reported_at
            if self.status.now[0] is not reported or seconds >= REPORT_SECONDS:
                done = self._done()
                rate = (done - rows) / seconds if reported_at else 0.0
                lag = Lag()
                # Asks servers, and may take seconds: only when a report is due.
                if self._progress is not None:
                    lag = measure(self._progress)
                self.status.observe(is_behind=lag.is_behind)
                is_same = self.status.now[0] is reported and done == rows
                reported = self.status.now[0]
                reported_at = time.monotonic()
                rows = done
                # A task that is behind or failing is never idle, however quiet it is.
                self._is_idle = is_same and reported is State.WORKING and not lag.is_behind
                self._moves.see(done, self._metrics.place, lag.is_behind)
                self._report(rate, lag)
                self._report_failure()
                self._report_occurrences()
                if self._minutes.is_due():
                    self._report_minute(lag)
                if self._delays.is_due():
                    self._report_delays(lag)
            # The end of RETRYING must be noticed quickly.
            if reported is not State.RETRYING:
                self._reported_rows = rows
                # Rows may have arrived while the task still counted as busy.
                self._is_idle = self._is_idle and self._done() == rows
                pause = IDLE_SECONDS if self._is_idle else REPORT_SECONDS
                self.status.changed.wait(reported_at + pause - time.monotonic())

    def _continue_former_report(self) -> None:
        """Continues the idle time of an earlier process, as a restart is not a row; and what it
        found lost, which is reported for an hour."""
        with suppress(CdcError):
            before = self._nodes.stat(self._task.task_id)
            if before is None:
                return
            self._lost_before = before.target_lost, before.target_lost_at
            if before.idle_seconds is not None:
                self._moves.rows_at -= before.idle_seconds + (age_seconds(before.at) or 0.0)

    def _lost(self) -> tuple[str, float]:
        """What is lost in the target, by this process and by an earlier one, and when the last of
        it was noticed."""
        found = self._metrics.target_lost
        before, before_at = self._lost_before
        is_recent = time.time() - before_at < REPORTED_SECONDS
        if before and is_recent:
            new = "" if found in before else found
            found = "; ".join(filter(None, (before, new)))
        return found, max(self._metrics.target_lost_at, before_at)

    def _report_failure(self) -> None:
        state, reason = self.status.now
        # Once for each failure, not once for each report.
        if (state, reason) != self._failed and state in (State.RETRYING, State.ERROR):
            place = f"node {self._node_id}"
            if not self._node_id:
                place = f"process {os.getpid()} on {socket.gethostname()}"
            self._try(lambda: self._nodes.add_failure(self._task.task_id, place, reason))
            self._occurred += failure(state, reason)
        self._failed = state, reason

    def _report_occurrences(self) -> None:
        # Taken even if they cannot be written: they are kept here until ZooKeeper answers.
        self._occurred = [*self._occurred, *self._metrics.take_ddl()][-OCCURRED_KEPT:]
        if self._occurred:
            self._try(self._write_occurrences)

    def _write_occurrences(self) -> None:
        self._occurrences.add(self._task.task_id, self._occurred)
        self._occurred = []

    def _report_minute(self, lag: Lag) -> None:
        self._try(
            lambda: self._minutes.write(
                self._done(), lag.records, _rounded(lag.seconds), self.status.now[0]
            )
        )
        self._try(self._report_tables)

    def _report_delays(self, lag: Lag) -> None:
        self._try(lambda: self._delays.write(self._metrics.latencies(lag.skew_seconds)))

    def _report_tables(self) -> None:
        changed: dict[TableCounts, TableCounts | None] = {}
        for counts in self._metrics.counts:
            before = self._tables.get((counts.swimlane, counts.table))
            if counts != before:
                changed[counts] = before
        for group in groups(changed):
            part = {counts: changed[counts] for counts in group}
            add_to_porters_nodes(self._nodes.client, self._task.task_id, self._node_id, part)
            # Only after the write: if it fails, the same difference is written a minute later.
            for counts in group:
                self._tables[counts.swimlane, counts.table] = counts

    def _try(self, write: Callable[[], None]) -> bool:
        """Drops a report that cannot be written; the next one covers it as well. Returns whether it
        was written."""
        try:
            write()
        except CdcError as error:
            LOG.debug("task %s: %s", self._task.task_id, error)
            return False
        return True

    def _done(self) -> int:
        if self._progress is None:
            return 0
        return int(self._progress.done)

    def _report(self, rows_per_second: float, lag: Lag) -> bool:
        """Writes the task's `stat`. Returns whether that was possible."""
        metrics = self._metrics
        counts = tuple(metrics.counts)
        # A measured skew is better than one that rows happen to show.
        skew_seconds = lag.skew_seconds
        if skew_seconds is None:
            skew_seconds = metrics.skew_seconds
        target_lost, target_lost_at = self._lost()
        still_seconds = 0.0
        if lag.is_behind:
            still_seconds = time.monotonic() - self._moves.moved_at
        stat = Stat(
            *self.status.now,
            at=now(),
            node_id=self._node_id,
            process_id=os.getpid(),
            process=process_token(os.getpid()),
            rows=self._done(),
            rows_per_second=round(rows_per_second, 1),
            lag_records=lag.records,
            lag_seconds=_rounded(lag.seconds),
            last_row=_utc(lag.last_row_ms),
            lag_bytes=lag.bytes,
            idle_seconds=_rounded(time.monotonic() - self._moves.rows_at),
            still_seconds=round(still_seconds, 1),
            batch_seconds=round(metrics.batch_seconds, 1),
            skew_seconds=_rounded(skew_seconds),
            retention_seconds=lag.retention_seconds,
            beats=metrics.beats,
            delays=metrics.latencies(lag.skew_seconds),
            stages_ms=metrics.stages_ms,
            tables=counts,
            queued_bytes=metrics.queued_bytes,
            kept_unread=_rounded(lag.kept_unread),
            kept_place=lag.kept_place,
            batches=metrics.batches,
            target_lost=target_lost,
            target_lost_at=target_lost_at,
            late_records=metrics.late_records,
            late_at=metrics.late_at,
            skipped=metrics.skipped,
            table_rates=self._rates.of(counts),
        )
        return self._try(lambda: self._nodes.put_stat(self._task.task_id, stat))


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 3)


def both(*reports: Callable[[Any], None]) -> Callable[[Any], None]:
    """Several reports as one."""

    def report(progress: Any) -> None:
        for each in reports:
            each(progress)

    return report


def _utc(epoch_ms: int) -> str:
    """A time to the second; empty for 0, which means none."""
    return utc_text(epoch_ms) if epoch_ms else ""
