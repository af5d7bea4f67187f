"""A node: takes tasks that are wanted, runs each as a child process, and tells ZooKeeper how they
are.

Nothing is ordered by messages: a node compares again and again what operators want with what it
runs, and closes the gap. So it does not matter whether it was away when something was wanted. The
claim of a task only says which node runs it; that no two processes ever work for one swimlane is
the doing of the locks that the tasks themselves hold, also when a node was paused and has lost its
claims.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Event

from kazoo.client import KazooClient

from cdcbus.ops.node.spark_process import SparkProcess, SparkTask
from cdcbus.ops.node.task_process import RotatedLog, TaskProcess, start_task
from cdcbus.ops.services.offer import Offer, read_offer
from cdcbus.plugins.errors import CdcError, ConfigError, PositionUnavailable
from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes
from cdcbus.tasks.zookeeper.node_registry import BusNodes, NodeWish
from cdcbus.tasks.zookeeper.tasks import ENDED, DesiredState, Run, TaskNodes
from cdcbus.tasks.zookeeper.znode import Watch, now

LOG = logging.getLogger(__name__)
LOOK_SECONDS = 1.0
CARE_SECONDS = 5.0
STAT_SECONDS = 5.0
STOP_SECONDS = 30.0
FAULTLESS_PAUSE_SECONDS = 1.0
CROWD, CROWD_SECONDS = 4, 30.0
TAKE_PAUSE_SECONDS = 0.1  # for each task that it has: emptier nodes are faster


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """`environment`: of the child processes. `logs`: the folder of their logs."""

    node_id: str
    work_limit: int
    logs: Path
    environment: Mapping[str, str]


@dataclass(slots=True)
class _Taken:
    """A task of this node. `process` None: it waits until `start_at`. `stop_by`: it was asked to
    stop, and is killed then. `why`: as what it is given back. `is_touched`: ZooKeeper has told
    of a change."""

    offer: Offer
    run: Run
    start_at: float = 0.0
    started_at: float = 0.0
    process: TaskProcess | SparkTask | None = None
    worked_since: float = 0.0
    stop_by: float = 0.0
    why: Run | None = None
    is_touched: bool = True
    on_touch: Watch = lambda _: None

    @property
    def is_due(self) -> bool:
        return (
            self.is_touched
            or self.stop_by > 0
            or self.process is None
            or self.process.ended() is not None
        )


class Node:
    """Made and used on one thread, which must live as long as the node."""

    def __init__(self, settings: NodeSettings, client: KazooClient) -> None:
        self._settings, self._id = settings, settings.node_id
        self._tasks, self._nodes, self._dists = (
            TaskNodes(client),
            BusNodes(client),
            DistNodes(client),
        )
        self._taken: dict[str, _Taken] = {}
        self._wish = NodeWish()
        self._woken = Event()
        self._told_at = self._looked_at = self._cared_at = 0.0
        self._is_stirred = False
        self._complaints: dict[str, str] = {}
        self._spark: SparkProcess | None = None

    def run(self, stop: Event) -> None:
        """Until `stop` is set; then its tasks are stopped, with their positions stored, and
        given back. Raises ConfigError when another process is the node."""
        self._register(stop)
        LOG.info("node %s takes tasks, %d swimlanes at most", self._id, self._settings.work_limit)
        try:
            while not stop.is_set():
                self._woken.clear()
                try:
                    self._look()
                    self._complain("zookeeper", "")
                except CdcError as error:
                    self._complain("zookeeper", str(error))
                self._woken.wait(0 if stop.is_set() else LOOK_SECONDS)
        finally:
            self._end()

    def _register(self, stop: Event) -> None:
        deadline = time.monotonic() + 10
        while (other := self._nodes.register(self._id)) is not None and not stop.is_set():
            if time.monotonic() > deadline:
                who = f"process {other.text('processId') or '?'} on {other.text('hostName') or '?'}"
                raise ConfigError(
                    f"node {self._id} is {who} already; give this one another node.id, or stop "
                    "that one"
                )
            stop.wait(0.5)

    def _look(self) -> None:
        """At the tasks of which there is news, and now and then at all else. With many tasks
        there is news all the time."""
        if time.monotonic() - self._cared_at > CARE_SECONDS:
            self._cared_at = time.monotonic()
            self._care_for(list(self._taken))
        else:
            self._care_for([task_id for task_id, taken in self._taken.items() if taken.is_due])
        if self._is_stirred or time.monotonic() - self._looked_at >= LOOK_SECONDS:
            self._looked_at, self._is_stirred = time.monotonic(), False
            self._look_around()
        if time.monotonic() - self._told_at > STAT_SECONDS:
            self._report()

    @property
    def _is_crowded(self) -> bool:
        """Whether many tasks are about to start in the process that they share, which must stay
        quick enough to prove its locks."""
        since = time.monotonic() - CROWD_SECONDS
        starting = [
            taken
            for taken in self._taken.values()
            if isinstance(taken.process, SparkTask) and taken.run.state is State.STARTING
        ]
        return sum(taken.started_at > since for taken in starting) >= CROWD

    def _care_for(self, task_ids: list[str]) -> None:
        for task_id in task_ids:
            try:
                self._taken[task_id].is_touched = False
                self._care(task_id, self._taken[task_id])
            except PositionUnavailable:
                self._cared_at = 0.0
                raise
            except CdcError as error:  # of this task's nodes only
                self._complain(task_id, str(error))

    def _look_around(self) -> None:
        if (other := self._nodes.register(self._id)) is not None:  # its session may have been lost
            self._complain(
                "lock",
                f"node {self._id} is process {other.text('processId') or '?'} on "
                f"{other.text('hostName') or '?'} by now",
            )
        wish = self._wish
        try:
            self._wish = self._nodes.wish(self._id, self._wake)
        except ConfigError as error:
            self._complain("wish", str(error))
        if self._wish != wish:
            self._cared_at = 0.0
        if other is None and self._wish.is_taking:
            self._keep_limit()
            self._take_one()

    # ---- tasks that it has

    def _care(self, task_id: str, taken: _Taken) -> None:
        if taken.process is not None and (code := taken.process.ended()) is not None:
            self._ended(task_id, taken, taken.process, code)
            return
        if not taken.stop_by:
            self._see_what_is_wanted(task_id, taken)
        if taken.stop_by and taken.process is None:
            self._give_back(task_id, taken)
        elif taken.stop_by and taken.process is not None:
            if time.monotonic() > taken.stop_by:
                with_it = (
                    ", and the Spark application with it; the other tasks there are started again"
                )
                shared = with_it if isinstance(taken.process, SparkTask) else ""
                LOG.warning(
                    "task %s has not stopped within %g s; it is killed%s",
                    task_id,
                    STOP_SECONDS,
                    shared,
                )
                taken.process.kill()
        elif taken.process is not None:
            self._follow(task_id, taken, taken.process)
        elif time.monotonic() >= taken.start_at and not (
            taken.offer.is_shared and self._is_crowded
        ):
            self._start(task_id, taken)

    def _see_what_is_wanted(self, task_id: str, taken: _Taken) -> None:
        if not self._tasks.claim(task_id, self._id):
            self._stop(taken, None)
            LOG.warning(
                "task %s was taken by another node while this one was not heard of; it is stopped "
                "here",
                task_id,
            )
            return
        try:
            wanted = self._tasks.wanted(task_id, taken.on_touch)
        except ConfigError as error:
            self._complain(task_id, str(error))
            return
        if wanted is None or not wanted.is_working:
            self._stop(taken, self._run(State.STOPPED, wanted.order if wanted else 0, taken))
        elif wanted.order != taken.run.order:
            self._stop(taken, self._run(State.STARTING, wanted.order, taken))
        elif not self._wish.is_taking:
            self._stop(
                taken,
                self._run(State.STARTING, wanted.order, taken, f"node {self._id} was drained"),
            )

    def _stop(self, taken: _Taken, why: Run | None) -> None:
        taken.why, taken.stop_by = why, time.monotonic() + STOP_SECONDS
        if taken.process is not None:
            taken.process.ask_to_stop()

    def _ended(
        self, task_id: str, taken: _Taken, process: TaskProcess | SparkTask, code: int
    ) -> None:
        # asked while it is still known here
        is_done = code == 0 and self._is_done(task_id, process)
        taken.process = None
        process.kill()  # what it left behind
        if taken.stop_by:
            self._give_back(task_id, taken)
        elif is_done:
            taken.why = replace(taken.run, state=State.DONE, reason="", since=now())
            self._give_back(task_id, taken)
        elif process.is_faultless:
            taken.start_at, taken.worked_since = time.monotonic() + FAULTLESS_PAUSE_SECONDS, 0.0
            reason = (
                process.last_words() or "its Spark application was killed because of another task"
            )
            LOG.warning("task %s: %s; it is started again", task_id, reason)
            self._put(
                task_id, taken, replace(taken.run, state=State.RETRYING, reason=reason, since=now())
            )
        elif code > 0:
            self._failed(task_id, taken, process.last_words() or f"ended with code {code}", code)
        else:
            self._failed(
                task_id,
                taken,
                f"ended by signal {-code or signal.SIGTERM} of somebody else",
                code or -signal.SIGTERM,
            )

    def _is_done(self, task_id: str, process: TaskProcess | SparkTask) -> bool:
        """Whether it has ended by itself, not by a signal of somebody."""
        stat = self._tasks.stat(task_id)
        return stat is not None and stat.process_id == process.pid and stat.state is State.DONE

    def _failed(self, task_id: str, taken: _Taken, reason: str, code: int) -> None:
        offer, restarts = taken.offer, taken.run.restarts
        if taken.worked_since and time.monotonic() - taken.worked_since > max(
            60.0, offer.pause_seconds(restarts, code)
        ):
            restarts = 0  # it had recovered
        taken.worked_since = 0.0
        restarts += 1
        if restarts > offer.restart_retries:
            LOG.error("task %s: %s", task_id, reason)
            taken.why = replace(taken.run, state=State.ERROR, reason=reason, since=now())
            self._give_back(task_id, taken)
            return
        pause = offer.pause_seconds(restarts, code)
        taken.start_at = time.monotonic() + pause
        LOG.warning(
            "task %s: %s; start %d of %d in %g s",
            task_id,
            reason,
            restarts,
            offer.restart_retries,
            pause,
        )
        self._put(
            task_id,
            taken,
            replace(taken.run, state=State.RETRYING, reason=reason, restarts=restarts, since=now()),
        )

    def _give_back(self, task_id: str, taken: _Taken) -> None:
        # it is not started again if ZooKeeper cannot be told now
        taken.stop_by = taken.stop_by or time.monotonic()
        if self._tasks.is_mine(task_id):
            if taken.why is not None:
                self._tasks.put_run(task_id, taken.why)
            self._tasks.release(task_id)
        del self._taken[task_id]
        self._told_at = 0.0
        LOG.info("task %s: %s", task_id, taken.why.state if taken.why else "left to another node")

    def _start(self, task_id: str, taken: _Taken) -> None:
        log = self._log(task_id)
        self._put(task_id, taken, replace(taken.run, state=State.STARTING, since=now()))
        taken.started_at = time.monotonic()
        try:
            taken.process = self._started(task_id, taken.offer, log)
        except OSError as error:
            self._failed(
                task_id,
                taken,
                f"cannot be started on node {self._id}: {error.strerror}; check its limits of "
                "processes and memory",
                1,
            )
            return
        LOG.info("task %s is started as process %d, log %s", task_id, taken.process.pid, log)

    def _started(self, task_id: str, offer: Offer, log: Path) -> TaskProcess | SparkTask:
        """Raises OSError."""
        environment = self._settings.environment
        if offer.is_shared:
            if self._spark is None or not self._spark.is_there:
                self._spark = SparkProcess(
                    self._id, environment, self._log(f"{self._id}-spark"), self._woken.set
                )
            return self._spark.start(task_id, log)
        if offer.spark_keys:
            with RotatedLog(log) as file:
                file.write(
                    "Spark application of its own, because of "
                    f"{', '.join(offer.spark_keys)}\n".encode()
                )
        return start_task(task_id, self._id, environment, log, self._woken.set)

    def _follow(self, task_id: str, taken: _Taken, process: TaskProcess | SparkTask) -> None:
        """What the task tells of itself."""
        try:
            stat = self._tasks.stat(task_id, taken.on_touch)
        except ConfigError as error:
            self._complain(task_id, str(error))
            return
        if (
            stat is None
            or stat.process_id != process.pid
            or stat.node_id != self._id
            or stat.state not in (State.WORKING, State.RETRYING)
        ):
            return
        if stat.state is State.WORKING and not taken.worked_since:
            taken.worked_since = time.monotonic()
        if (stat.state, stat.reason) != (taken.run.state, taken.run.reason):
            self._put(
                task_id,
                taken,
                replace(taken.run, state=stat.state, reason=stat.reason, since=now()),
            )

    def _put(self, task_id: str, taken: _Taken, run: Run) -> None:
        self._tasks.put_run(task_id, run)
        taken.run = run

    def _run(self, state: State, order: int, taken: _Taken, reason: str = "") -> Run:
        return replace(taken.run, state=state, order=order, reason=reason, restarts=0, since=now())

    # ---- tasks that it could have

    def _take_one(self) -> None:
        """One at a time, so that a task goes to the node that has least."""
        limit = self._limit()
        used = sum(len(taken.offer.swimlanes) for taken in self._taken.values())
        for task_id in self._tasks.ids(self._wake):
            if task_id in self._taken:
                continue
            try:
                wanted = self._tasks.wanted(task_id, self._wake)
                if wanted is None or not wanted.is_working or self._is_elsewhere(task_id):
                    continue
                if self._consider(task_id, wanted, limit - used):
                    time.sleep(min(1.0, TAKE_PAUSE_SECONDS * used))
                    self._wake(None)
                    return
            except PositionUnavailable:
                raise
            except CdcError as error:
                self._complain(task_id, str(error))

    def _is_elsewhere(self, task_id: str) -> bool:
        """Whether another node has it; one that is this node's by a claim whose answer was lost
        is not."""
        claimed_by = self._tasks.claimed_by(task_id, self._wake)
        return claimed_by is not None and not (
            claimed_by == self._id and self._tasks.is_mine(task_id)
        )

    def _consider(self, task_id: str, wanted: DesiredState, free: int) -> bool:
        before = self._tasks.run(task_id)
        is_of_order = before is not None and before.order == wanted.order
        if before is not None and is_of_order and before.state in ENDED:
            return False
        fresh = Run(
            State.STARTING,
            "",
            wanted.order,
            self._id,
            socket.gethostname(),
            str(self._log(task_id)),
            since=now(),
        )
        try:
            dist = self._dists.get(task_id)
            offer = read_offer(dist or {}, self._tasks.swimlanes(task_id))
            if dist is None:
                raise ConfigError(
                    f"task {task_id} has no text in ZooKeeper; import it: cdcbus task import FILE"
                )
        except ConfigError as error:
            if self._tasks.claim(task_id, self._id):
                self._tasks.put_run(task_id, replace(fresh, state=State.ERROR, reason=str(error)))
                self._tasks.release(task_id)
            return True
        if offer.is_shared and self._is_crowded:
            return False
        if (
            not offer.is_for(self._id)
            or len(offer.swimlanes) > free
            or not self._tasks.claim(task_id, self._id)
        ):
            return False
        self._complain(task_id, "")
        restarts = before.restarts if before is not None and is_of_order else 0
        taken = self._taken[task_id] = _Taken(offer, replace(fresh, restarts=restarts))
        taken.on_touch = partial(self._touch, taken)
        self._told_at = 0.0
        self._start(task_id, taken)
        return True

    def _keep_limit(self) -> None:
        """Gives back what it took last when the limit was lowered."""
        staying = [taken for taken in self._taken.values() if not taken.stop_by]
        used = sum(len(taken.offer.swimlanes) for taken in staying)
        while staying and used > self._limit():
            taken = staying.pop()
            used -= len(taken.offer.swimlanes)
            self._stop(
                taken,
                self._run(
                    State.STARTING,
                    taken.run.order,
                    taken,
                    f"the work limit of node {self._id} was lowered",
                ),
            )

    def _limit(self) -> int:
        return self._settings.work_limit if self._wish.work_limit is None else self._wish.work_limit

    def _log(self, task_id: str) -> Path:
        return self._settings.logs / f"{task_id.replace(os.sep, '_')}.log"

    # ---- the node itself

    def _wake(self, _event: object) -> None:
        self._is_stirred = True
        self._woken.set()

    def _touch(self, taken: _Taken, _event: object) -> None:
        taken.is_touched = True
        self._woken.set()

    def _complain(self, about: str, sentence: str) -> None:
        """Once, until it is another sentence, or none."""
        if sentence and self._complaints.get(about, "") != sentence:
            LOG.warning("%s", sentence)
        self._complaints[about] = sentence

    def _report(self) -> None:
        """porter's object of a node, with its work limit."""
        troubled = sorted(
            task_id for task_id, taken in self._taken.items() if taken.run.state is State.RETRYING
        )
        self._nodes.put_stat(
            self._id,
            {
                "status": "WORKING" if self._wish.is_taking else "SUSPEND",
                "workLimit": self._limit(),
                "tasks": {
                    task_id: list(taken.offer.swimlanes) for task_id, taken in self._taken.items()
                },
                "healthLevel": "YELLOW" if troubled else "GREEN",
                "healthLevelDesc": f"tried again: {', '.join(troubled)}" if troubled else "",
            },
        )
        self._told_at = time.monotonic()

    def _end(self) -> None:
        """Stops all tasks at once; returns when they have ended, at the latest after
        STOP_SECONDS, by force."""
        for taken in self._taken.values():
            self._stop(
                taken,
                replace(
                    taken.run,
                    state=State.STARTING,
                    reason=f"node {self._id} has ended",
                    since=now(),
                ),
            )
        while self._taken:
            for task_id, taken in list(self._taken.items()):
                if (
                    taken.process is not None
                    and taken.process.ended() is None
                    and time.monotonic() > taken.stop_by
                ):
                    taken.process.kill()
                if taken.process is None or taken.process.ended() is not None:
                    try:
                        self._give_back(task_id, taken)
                    except CdcError as error:
                        LOG.warning("task %s: %s", task_id, error)
                        self._taken.pop(task_id, None)
            time.sleep(0.05)
        if self._spark is not None:
            self._spark.close()
        try:
            self._report()
            self._nodes.unregister(self._id)
        except CdcError as error:
            LOG.warning("%s", error)
        LOG.info("node %s has ended", self._id)
