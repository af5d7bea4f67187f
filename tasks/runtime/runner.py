"""Runs one task in this process until it is stopped, ends on its own, or meets an error that needs
a person.

The task runs only while this process holds the locks of its swimlanes; any other process that
starts it waits for them. When ZooKeeper is silent for so long that the locks may be lost, the work
ends, and begins again once this process has the locks back.
"""

from __future__ import annotations

import gc
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from functools import cache, partial
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol

from kazoo.client import KazooClient

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.epoch import epoch_text
from cdcbus.plugins.error_policy import Action, keep_trying, policy_of
from cdcbus.plugins.errors import CdcError, PositionUnavailable
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.task_status import State, TaskStatus
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.process_identity import NODE_VARIABLE, end_with_node
from cdcbus.tasks.process_restart import RESTARTED_VARIABLE, end_leftovers, restart_process
from cdcbus.tasks.runtime.loops import fetch_loop
from cdcbus.tasks.runtime.status_reporter import StatusReporter, both
from cdcbus.tasks.runtime.stop_signals import stop_signals
from cdcbus.tasks.snapshots.direct import refuse_unfinished
from cdcbus.tasks.snapshots.store import ZooKeeperSnapshots
from cdcbus.tasks.zookeeper.connection import connect
from cdcbus.tasks.zookeeper.epochs import bus_identity, next_epoch
from cdcbus.tasks.zookeeper.lock import (
    DEFAULT_TIMES,
    Guard,
    LockTimes,
    Stop,
    described,
    guarded,
    other_holders,
)
from cdcbus.tasks.zookeeper.position.store import ZooKeeperPositions
from cdcbus.tasks.zookeeper.schema_history import ZooKeeperSchemas
from cdcbus.tasks.zookeeper.tasks import TaskNodes
from cdcbus.tasks.zookeeper.znode import JsonNode

if TYPE_CHECKING:
    from cdcbus.consumer.spark.session import OpenSpark

LOG = logging.getLogger(__name__)
# Between two lines of progress in the log.
REPORT_SECONDS = 10.0
Report = Callable[[Any], None]


class _Progress(Protocol):
    @property
    def done(self) -> int: ...

    def __str__(self) -> str: ...


def run_task(
    task: FetchTask | LoadTask,
    zookeeper: str,
    auth: str | None = None,
    times: LockTimes = DEFAULT_TIMES,
) -> bool:
    """Runs the task. Returns False after SIGTERM or SIGINT, with the position stored, and True at
    the end of a bounded replay or run. Raises CdcError.

    `auth` is ZooKeeper's `user:password`. If the locks may be lost and work does not end in time,
    the process restarts its own command line, which waits for the locks.
    """
    # Before anything else: children of the old process may still write to the target.
    end_leftovers()
    end_with_node()
    with stop_signals() as stop:
        client = _connect(zookeeper, auth, times, stop)
        if client is None:
            return False
        node_id = os.environ.get(NODE_VARIABLE, "")
        try:
            with guarded(client, restart_process, times) as guard:
                run_guarded(task, client, guard, node_id, stop)
            return not stop.is_set()
        finally:
            client.stop()
            client.close()


def run_guarded(
    task: FetchTask | LoadTask,
    client: KazooClient,
    guard: Guard,
    node_id: str,
    stop: Stop,
    open_spark: OpenSpark | None = None,
) -> None:
    """Runs the task as one of several in a process, which share client, guard and Spark.
    `open_spark` None: the task has its own Spark application."""
    with guard.locks(task.task_id, _swimlanes(task), node_id) as locks:
        # Only the first attempt: once it has worked, a silent server is waited for.
        is_attended = not node_id
        while locks.take(stop, end := stop.part()):
            try:
                _run(
                    task,
                    client,
                    end,
                    StatusReporter(task, TaskNodes(client), node_id),
                    open_spark,
                    is_attended=is_attended,
                )
            except CdcError:
                # A lost lock may be the error's cause; an error of another cause recurs.
                if not end.is_lost:
                    raise
            finally:
                locks.rest()
            if not end.is_lost:
                break
            is_attended = False
            LOG.warning(
                "task %s stopped working, as another process may have its locks, and waits for "
                "them",
                task.task_id,
            )
    LOG.info("task %s has stopped", task.task_id)


def _connect(zookeeper: str, auth: str | None, times: LockTimes, stop: Event) -> KazooClient | None:
    """A client; None when `stop` was set meanwhile. A task of a node, or of a restarted process,
    waits for ZooKeeper; one that is started by hand fails if it is unavailable."""
    while not stop.is_set():
        try:
            return connect(zookeeper, auth=auth, session_seconds=times.session_seconds)
        except PositionUnavailable as error:
            if RESTARTED_VARIABLE in os.environ:
                LOG.warning(
                    "%s; the task has stopped, as another process may have its locks, and waits",
                    error,
                )
            elif NODE_VARIABLE in os.environ:
                LOG.warning("%s; the task waits for it", error)
            else:
                raise
            stop.wait(1)
    return None


def _swimlanes(task: FetchTask | LoadTask) -> tuple[str, ...]:
    if isinstance(task, FetchTask):
        return (task.swimlane,)
    return task.source.topics


def _run(
    task: FetchTask | LoadTask,
    client: KazooClient,
    stop: Stop,
    reporter: StatusReporter,
    open_spark: OpenSpark | None,
    *,
    is_attended: bool,
) -> None:
    """One run under the locks. A task that is started by hand (`is_attended`) fails if a server is
    unavailable at the start; a node's task waits for it then, as both do later."""
    # The first progress shows that everything is loaded.
    report = both(ProgressLog(task.task_id), reporter, lambda _: keep_what_is_loaded())

    def attempt() -> None:
        if isinstance(task, FetchTask):
            _fetch(task, client, stop, reporter.status, report)
        else:
            _load(task, client, stop, reporter.status, report, open_spark)

    with reporter.reporting(stop, lambda: stop.is_lost):
        if is_attended:
            with interruptible(stop, reporter.status):
                attempt()
        else:
            keep_trying(reporter.status, attempt, lambda: 0, stop)


def _fetch(
    task: FetchTask, client: KazooClient, stop: Stop, status: TaskStatus, report: Report
) -> None:
    run = fetch_loop(task)
    task_id, swimlane = task.task_id, task.swimlane
    # For each attempt, so that records of the last one that are under way count as older.
    number = next_epoch(client, task_id, swimlane)
    epoch = epoch_text(number, task_id, swimlane, bus_identity(client))

    def is_lost() -> bool:
        return stop.is_lost

    positions = ZooKeeperPositions(client, task_id, swimlane, is_lost=is_lost, is_only=True)
    with closing(positions):
        run(
            task,
            positions,
            ZooKeeperSchemas(client, task_id, swimlane),
            stop,
            status,
            report,
            epoch,
            ZooKeeperSnapshots(client, task_id, swimlane, is_lost),
        )


def _load(
    task: LoadTask,
    client: KazooClient,
    stop: Stop,
    status: TaskStatus,
    report: Report,
    open_spark: OpenSpark | None,
) -> None:
    # Imported on demand: fetch tasks need neither Spark nor its memory.
    from cdcbus.consumer import run as consumer

    _warn_of_others(task, client)
    # Under the locks, so that no direct load can begin meanwhile.
    refuse_unfinished(client, task.task_id, task.source.topics, partial(_read, task, stop))
    with ExitStack() as stack:
        stores = {}
        for topic in task.source.topics:
            store = ZooKeeperPositions(client, task.task_id, topic, is_lost=lambda: stop.is_lost)
            # Closed, as the client may stay in use for other tasks.
            stores[topic] = stack.enter_context(closing(store))
        consumer.run(task, stores, stop, status, report, open_spark)


def _warn_of_others(task: LoadTask, client: KazooClient) -> None:
    """Says which other process uses the task's id, with other topics, as in a copied file: the
    locks are of topics, and at the target both are one task. Only says it, as it may be the same
    task, which ends there after its topics were changed."""
    others: Mapping[str, JsonNode] = {}
    # Nothing depends on it, so it stops nothing.
    with suppress(CdcError):
        others = other_holders(client, task.task_id, task.source.topics)
    for swimlane, holder in others.items():
        LOG.warning(
            "task %s: %s runs a task with this id, too, which reads or writes %s: at one target "
            "they are one task, and each ends the other's work there, again and again. Unless that "
            "process is about to end, give one of the two another taskId",
            task.task_id,
            described(holder),
            swimlane,
        )


def _read(task: LoadTask, stop: Stop) -> list[TopicPartition]:
    """The partitions that the task reads. Raises as `partitions_read`."""
    from cdcbus.consumer.offsets.topic_logs import TopicLogs, partitions_read

    with TopicLogs(task, stop=stop) as logs:
        return partitions_read(task, logs)


@cache
def keep_what_is_loaded() -> None:
    """Exempts everything loaded so far from garbage collection, once per process, when its first
    task begins to read. A full collection would delay a row now and then by 50 ms of CPU time."""
    gc.freeze()


@contextmanager
def interruptible(stop: Stop, status: TaskStatus) -> Iterator[None]:
    """Raises KeyboardInterrupt in place of the error of an unavailable server if the task was
    stopped before it worked: that server is not why the start ends."""
    try:
        yield
    except CdcError as error:
        is_waiting = policy_of(error).action is Action.RETRY
        is_starting = status.now[0] is State.STARTING
        if is_waiting and is_starting and stop.is_set() and not stop.is_lost:
            raise KeyboardInterrupt from error
        raise


class ProgressLog:
    """Logs a task's progress every REPORT_SECONDS, if there was any."""

    def __init__(self, task_id: str) -> None:
        self._task_id = task_id
        self._at, self._done = time.monotonic(), 0

    def __call__(self, progress: _Progress) -> None:
        elapsed = time.monotonic() - self._at
        if elapsed >= REPORT_SECONDS and progress.done != self._done:
            rate = (progress.done - self._done) / elapsed
            LOG.info("task %s: %s, %.1f rows/s", self._task_id, progress, rate)
            self._at, self._done = time.monotonic(), progress.done
