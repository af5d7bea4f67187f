"""The tasks that a node has claimed: it starts each, follows it, stops it, and gives it back."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event

from cdcbus.ops.alarms.cached_reads import CachedReads
from cdcbus.ops.alarms.complaints import Complaints
from cdcbus.ops.node.given import given, is_anew
from cdcbus.ops.node.held_task import HeldTask, NodeSettings
from cdcbus.ops.node.spark_process import SparkProcess, SparkTask
from cdcbus.ops.node.task_end import CRASHED, NEEDS_PERSON
from cdcbus.ops.node.task_process import RotatedLog, TaskProcess, start_task
from cdcbus.ops.services.offer import Offer
from cdcbus.plugins.errors import CdcError, ConfigError, PositionError
from cdcbus.plugins.task_status import State
from cdcbus.tasks.runtime.occurrences import Occurrences, failure
from cdcbus.tasks.zookeeper.audit import actions, removed_tasks
from cdcbus.tasks.zookeeper.connection import is_silence
from cdcbus.tasks.zookeeper.tasks import TASKS, DesiredState, Run, TaskNodes
from cdcbus.tasks.zookeeper.znode import now

LOG = logging.getLogger(__name__)
# Then a task that has not stored its position and ended is killed.
STOP_SECONDS = 30.0
FAULTLESS_PAUSE_SECONDS = 1.0
# A task that has worked for longer than this, or than its last pause, counts its failures again.
RECOVERED_SECONDS = 60.0
# By then, a task of which only the command is gone is not one that is being deleted as a whole.
LOST_SECONDS = 5.0
# At most this many shared tasks start together; after CROWD_SECONDS one that has not reported no
# longer counts.
CROWD = 4
CROWD_SECONDS = 30.0


class HeldTasks:
    """All tasks of a node. Used on the node's thread.

    `is_taking`: whether the node keeps its tasks; otherwise each is stopped and given back.
    `has_changed`: whether tasks were taken or given back since the owner last set it to False.
    """

    def __init__(
        self, settings: NodeSettings, nodes: TaskNodes, complaints: Complaints, woken: Event
    ) -> None:
        self.tasks: dict[str, HeldTask] = {}
        self.is_taking = True
        self.has_changed = False
        self._settings = settings
        self._id = settings.node_id
        self._nodes = nodes
        # For tasks that wait: what was given to them is compared at every look, and rarely changes.
        self._cached = CachedReads(nodes.client)
        self._complaints = complaints
        self._woken = woken
        self._spark: SparkProcess | None = None
        # ZooKeeper has not answered while the node ends.
        self._is_silent = False

    @property
    def used(self) -> int:
        """How many swimlanes count against the node's work limit."""
        return _swimlanes_of(self.tasks.values())

    @property
    def is_crowded(self) -> bool:
        """Whether many tasks are about to start in the process that they share, which must stay
        quick enough to prove its locks."""
        since = time.monotonic() - CROWD_SECONDS
        starting = 0
        for held in self.tasks.values():
            is_shared = isinstance(held.process, SparkTask)
            if is_shared and held.run.state is State.STARTING and held.started_at > since:
                starting += 1
        return starting >= CROWD

    def take(self, task_id: str, offer: Offer, run: Run) -> None:
        """Starts a task that the node has claimed."""
        held = HeldTask(offer, run)
        held.on_command = partial(self._commanded, held)
        held.on_report = partial(self._reported, held)
        self.tasks[task_id] = held
        self.has_changed = True
        self._start(task_id, held)

    def look_at_all(self) -> None:
        """Makes the next `care` read everything that ZooKeeper holds about the tasks."""
        for held in self.tasks.values():
            held.is_commanded = held.is_reported = True

    def care(self) -> None:
        """Does what is due. Raises PositionUnavailable; a fault of one task, or in its znodes,
        holds up no other task."""
        # A copy, as giving a task back removes it.
        for task_id, held in list(self.tasks.items()):
            try:
                if held.is_due:
                    self._care(task_id, held)
            except CdcError as error:
                # ZooKeeper itself is unreachable: every other task would wait for it, too.
                if is_silence(error):
                    raise
                self._complaints.complain(task_id, str(error))
            except Exception as error:  # a bug must not end the node's other tasks
                self._complaints.complain(task_id, unexpected(task_id, error))

    def keep_limit(self, limit: int) -> None:
        """Gives back the tasks that were taken last, until the others are within the limit."""
        # Those that are being stopped free their places anyway.
        staying = [held for held in self.tasks.values() if not held.stop_by]
        used = _swimlanes_of(staying)
        reason = f"the work limit of node {self._id} was lowered"
        while staying and used > limit:
            held = staying.pop()
            used -= len(held.offer.swimlanes)
            self._stop(held, _run(held, State.STARTING, held.run.order, reason))

    def end(self) -> None:
        """Stops all tasks together. Returns when they have ended, by force after STOP_SECONDS.
        Where ZooKeeper is silent, no task is given back: the claims end with the session."""
        reason = f"node {self._id} has ended"
        # All are asked before one is waited for, so that the node ends within STOP_SECONDS.
        for held in self.tasks.values():
            # `replace`, not `_run`: the next node keeps the count of restarts of a task that keeps
            # failing.
            self._stop(held, replace(held.run, state=State.STARTING, reason=reason, since=now()))
        while self.tasks:
            for task_id, held in list(self.tasks.items()):
                self._end_one(task_id, held)
            time.sleep(0.05)
        # Only now, as closing it ends whatever still runs in it.
        if self._spark is not None:
            self._spark.close()

    def _end_one(self, task_id: str, held: HeldTask) -> None:
        process = held.process
        if process is not None and process.ended() is None:
            if time.monotonic() > held.stop_by:
                process.kill()
            # A task of the shared process has ended only once its listener, another thread, says
            # so.
            if process.ended() is None:
                return
        try:
            # Waited for once, not for each of hundreds of tasks.
            if not self._is_silent:
                self._give_back(task_id, held)
        except CdcError as error:
            self._is_silent = is_silence(error)
            # The node ends anyway: its claims end with its session.
            LOG.warning("task %s: %s", task_id, error)
        self.tasks.pop(task_id, None)

    def _care(self, task_id: str, held: HeldTask) -> None:
        # An ended process comes first: its exit code decides, whatever was ordered meanwhile.
        process = held.process
        if process is not None and (code := process.ended()) is not None:
            self._ended(task_id, held, process, code)
            return
        # A task that is being stopped is given back first; then a newer command counts.
        if held.is_commanded and not held.stop_by:
            # Cleared before the read: a change during it sets the flag again.
            held.is_commanded = False
            self._compare_with_commands(task_id, held)
        if held.stop_by:
            if process is None:
                self._give_back(task_id, held)
            elif time.monotonic() > held.stop_by:
                self._kill(task_id, process)
        elif process is not None:
            if held.is_reported:
                held.is_reported = False
                self._follow(task_id, held, process)
        # Nothing starts without a command; and a start would write the state of a task that may be
        # half deleted.
        elif held.lost_at:
            return
        elif time.monotonic() >= held.start_at or self._is_given_anew(task_id, held):
            # It stays due, and starts at one of the next looks.
            if held.offer.is_shared and self.is_crowded:
                return
            self._start(task_id, held)

    def _is_given_anew(self, task_id: str, held: HeldTask) -> bool:
        """Whether operators have given it another text or position, which may be the remedy."""
        if not is_anew(given(self._cached, task_id), held.run.given):
            return False
        LOG.info("task %s was given another text or position: it is started now", task_id)
        # Due from now on: if others must start first, nothing is compared and logged again.
        held.start_at = 0.0
        held.run = replace(held.run, restarts=0)
        return True

    def _compare_with_commands(self, task_id: str, held: HeldTask) -> None:
        """Stops a task that should no longer run here, or not as it was started."""
        # Before the command: a task that has the command by which it runs then is the same task.
        made = held.made or self._nodes.made(task_id)
        try:
            desired = self._nodes.wanted(task_id, held.on_command)
        except (ConfigError, PositionError) as error:
            if is_silence(error):
                raise
            # A damaged or refused command is none: the task continues as it was started.
            self._complaints.complain(task_id, str(error))
            self._keeps_claim(task_id, held)
            return
        if desired is None:
            self._without_command(task_id, held)
            return
        held.lost_at = 0.0
        if not self._keeps_claim(task_id, held):
            return
        held.made = made
        if not desired.is_working:
            reason = _why_stopped(task_id, held, desired)
            if reason:
                LOG.warning("task %s is stopped: %s", task_id, reason)
            self._stop(held, _run(held, State.STOPPED, desired.order, reason))
        elif desired.order != held.run.order:  # a restart: it is taken again, with its new text
            self._stop(held, _run(held, State.STARTING, desired.order))
        elif not self.is_taking:
            reason = f"node {self._id} was drained"
            self._stop(held, _run(held, State.STARTING, desired.order, reason))
        elif held.is_unwritten:
            self._put(task_id, held, held.run, held.listed_since)

    def _keeps_claim(self, task_id: str, held: HeldTask) -> bool:
        """Whether the claim is this node's. Where the session was lost, the claim went with it, and
        is taken again if it is free; otherwise the task is stopped here."""
        if self._nodes.claim(task_id, self._id):
            return True
        # No last state: the state is the other node's to write by now.
        self._stop(held, None)
        LOG.warning(
            "task %s was taken by another node while this one had no connection; it is stopped "
            "here",
            task_id,
        )
        return False

    def _without_command(self, task_id: str, held: HeldTask) -> None:
        """Stops a task that is deleted, also if one is imported in place of a removed one. The same
        task without its command goes on, by a new one: `task rm` deletes both, but a restore of
        ZooKeeper can lack the command alone; without it, no other node would take the task, and no
        alarm would come."""
        # No claim and no last state, which would make the folder of a deleted task anew.
        if not self._nodes.swimlanes(task_id):
            LOG.warning("task %s is not in ZooKeeper any more; it is stopped", task_id)
            self._stop(held, None)
            return
        made = self._nodes.made(task_id)
        held.lost_at = held.lost_at or time.monotonic()
        if time.monotonic() - held.lost_at < LOST_SECONDS:
            held.is_commanded = True
            return
        # By both: a tree that is copied back is made anew as well, with new numbers.
        if made != held.made and task_id in removed_tasks(actions(self._cached)):
            LOG.warning(
                "task %s was removed, and another one imported in its place, which nobody has "
                "started; the former is stopped. To start the other: cdcbus task start %s",
                task_id,
                task_id,
            )
            self._stop(held, None)
            return
        held.lost_at = 0.0
        if not self._keeps_claim(task_id, held):
            return
        what = "task start, as its command was gone while it ran"
        desired = self._nodes.want_again(task_id, f"node {self._id}", what)
        if desired is None:
            held.is_commanded = True
            return
        held.made = made
        LOG.warning(
            "task %s: %s/%s/wanted was deleted, or ZooKeeper restored from a backup, while the "
            "task ran; it goes on, and the command is given again. To stop it: cdcbus task stop %s",
            task_id,
            TASKS,
            task_id,
            task_id,
        )
        self._put(task_id, held, replace(held.run, order=desired.order))

    def _stop(self, held: HeldTask, last_run: Run | None) -> None:
        held.last_run = last_run
        held.stop_by = time.monotonic() + STOP_SECONDS
        if held.process is not None:
            held.process.ask_to_stop()

    def _kill(self, task_id: str, process: TaskProcess | SparkTask) -> None:
        with_it = ""
        if isinstance(process, SparkTask):
            with_it = ", and the Spark application with it; its other tasks are started again"
        # Again and again, until it has ended, but told of once.
        self._complaints.complain(
            f"kill {task_id} {process.token}",
            f"task {task_id} has not stopped within {STOP_SECONDS:g} s; it is killed{with_it}",
        )
        process.kill()

    def _ended(
        self, task_id: str, held: HeldTask, process: TaskProcess | SparkTask, code: int
    ) -> None:
        # Looked up before the kill, which forgets a task of the shared application.
        is_done = code == 0 and self._is_done(task_id, process)
        held.process = None
        process.kill()  # what it left running
        if held.stop_by:
            # It was asked to stop, so it does not matter how it ended.
            self._give_back(task_id, held)
        elif is_done:
            held.last_run = replace(held.run, state=State.DONE, reason="", since=now())
            self._give_back(task_id, held)
        elif process.is_faultless:
            self._retry(task_id, held, process)
        elif code > 0:
            self._failed(task_id, held, process.last_words() or f"ended with code {code}", code)
        else:
            # Code 0 without DONE: a SIGTERM that this node has not sent.
            number = -code or signal.SIGTERM
            # Unlike an error, which the process may have listed itself.
            held.listed_since = now()
            reason = f"ended by signal {number} from outside"
            # The last lines of a process of its own that was killed are not about its end.
            if isinstance(process, SparkTask):
                reason = process.last_words() or reason
            self._failed(task_id, held, reason, -number)

    def _is_done(self, task_id: str, process: TaskProcess | SparkTask) -> bool:
        """Whether it has reached its end, not been ended by a signal."""
        try:
            stat = self._nodes.stat(task_id)
        except (ConfigError, PositionError) as error:
            if is_silence(error):
                raise
            # Damaged or refused: it shows no end, so the task is started again, or stopped as
            # ordered.
            self._complaints.complain(task_id, str(error))
            return False
        # An earlier process may have reported DONE; only a report of this one counts.
        return stat is not None and stat.process == process.token and stat.state is State.DONE

    def _retry(self, task_id: str, held: HeldTask, process: TaskProcess | SparkTask) -> None:
        """Starts a task again that ended through no fault of its own; `restartRetries` does not
        limit that."""
        held.start_at = time.monotonic() + FAULTLESS_PAUSE_SECONDS
        held.worked_since = 0.0
        held.listed_since = now()
        reason = process.last_words() or "its Spark application was killed because of another task"
        LOG.warning("task %s: %s; it is started again", task_id, reason)
        run = replace(held.run, state=State.RETRYING, reason=reason, since=now())
        self._put(task_id, held, run.restarted(time.time()), held.listed_since)

    def _failed(self, task_id: str, held: HeldTask, reason: str, code: int) -> None:
        offer = held.offer
        is_crash = code < 0 or code == CRASHED
        restarts = held.run.restarts
        # A task that fails soon after each of its growing pauses must reach its limit in the end.
        last_pause = offer.pause_seconds(restarts, is_crash=is_crash)
        recovered_seconds = max(RECOVERED_SECONDS, last_pause)
        if held.worked_since and time.monotonic() - held.worked_since > recovered_seconds:
            restarts = 0  # what failed before is over
        held.worked_since = 0.0
        restarts += 1
        # No further start helps: only a person can, or too many were tried.
        if code == NEEDS_PERSON or restarts > offer.restart_retries:
            LOG.error("task %s: %s", task_id, reason)
            held.last_run = replace(held.run, state=State.ERROR, reason=reason, since=now())
            self._give_back(task_id, held)
            return
        pause = offer.pause_seconds(restarts, is_crash=is_crash)
        held.start_at = time.monotonic() + pause
        LOG.warning(
            "task %s: %s; start %d of %d in %g s",
            task_id,
            reason,
            restarts,
            offer.restart_retries,
            pause,
        )
        run = replace(held.run, state=State.RETRYING, reason=reason, restarts=restarts, since=now())
        self._put(task_id, held, run.restarted(time.time()), held.listed_since)

    def _give_back(self, task_id: str, held: HeldTask) -> None:
        # First of all: if ZooKeeper is unreachable now, the task must not be restarted here.
        held.stop_by = held.stop_by or time.monotonic()
        # Otherwise the claim was lost, and the state is for the node that has the task now.
        if self._nodes.is_mine(task_id):
            # The state before the claim: a node that finds the task free must see that it has
            # ended.
            if held.last_run is not None:
                self._nodes.put_run(task_id, held.last_run, held.listed_since)
            self._nodes.release(task_id)
            # Last, as it is only for charts, and must not keep the task from other nodes.
            if held.last_run is not None:
                self._note(task_id, held.last_run)
        del self.tasks[task_id]
        self.has_changed = True
        state = "is no longer this node's"
        if held.last_run is not None:
            state = f"is {held.last_run.state}"
        LOG.info("task %s %s", task_id, state)

    def _start(self, task_id: str, held: HeldTask) -> None:
        log = self._settings.log_of(task_id)
        # Read before the task reads them itself: a change in between then looks new, and is not
        # missed.
        was_given = given(self._nodes.client, task_id)
        run = replace(held.run, state=State.STARTING, since=now(), given=was_given)
        # Otherwise it starts once the claim is this node's again.
        if not self._put(task_id, held, run):
            return
        held.started_at = time.monotonic()
        held.listed_since = now()
        try:
            held.process = self._started(task_id, held.offer, log)
        except OSError as error:
            reason = (
                f"cannot be started on node {self._id}: {error.strerror}; check its limits of "
                "processes and memory"
            )
            self._failed(task_id, held, reason, 1)
            return
        LOG.info("task %s is started as process %d, log %s", task_id, held.process.pid, log)

    def _started(self, task_id: str, offer: Offer, log: Path) -> TaskProcess | SparkTask:
        """Raises OSError."""
        environment = self._settings.environment
        if offer.is_shared:
            return self._shared_process().start(task_id, log)
        if offer.spark_keys:
            keys = ", ".join(offer.spark_keys)
            with RotatedLog(log) as file:
                file.write(f"Spark application of its own, because of {keys}\n".encode())
        return start_task(task_id, self._id, environment, log, self._woken.set)

    def _shared_process(self) -> SparkProcess:
        """The process of the tasks that share a Spark application; a new one where it has ended."""
        if self._spark is None or not self._spark.is_there:
            log = self._settings.log_of(f"{self._id}-spark")
            self._spark = SparkProcess(self._id, self._settings.environment, log, self._woken.set)
        return self._spark

    def _follow(self, task_id: str, held: HeldTask, process: TaskProcess | SparkTask) -> None:
        """Takes over the state that the task itself reports."""
        try:
            stat = self._nodes.stat(task_id, held.on_report)
        except ConfigError as error:
            self._complaints.complain(task_id, str(error))
            return
        # A report of an earlier process says nothing about this one.
        if stat is None or (stat.process, stat.node_id) != (process.token, self._id):
            return
        # Other states are the node's to set: the process's end shows how the task has ended.
        if stat.state not in (State.WORKING, State.RETRYING):
            return
        if stat.state is State.WORKING and not held.worked_since:
            held.worked_since = time.monotonic()
        if (stat.state, stat.reason) != (held.run.state, held.run.reason):
            run = replace(held.run, state=stat.state, reason=stat.reason, since=now())
            self._put(task_id, held, run)

    def _put(self, task_id: str, held: HeldTask, run: Run, listed_since: str = "") -> bool:
        """Writes the state. Where the claim was lost with the session, the state may be another
        node's to write by now: returns False, and it is written once the claim is this node's
        again."""
        is_mine = self._nodes.is_mine(task_id)
        if is_mine:
            self._nodes.put_run(task_id, run, listed_since)
        held.run = run
        held.is_unwritten = not is_mine
        if is_mine:
            self._note(task_id, run)
        else:
            held.is_commanded = True
        return is_mine

    def _note(self, task_id: str, run: Run) -> None:
        """Records a failure for the task's charts; no task waits for these, so errors are
        ignored."""
        if occurred := failure(run.state, run.reason):
            with suppress(CdcError):
                Occurrences(self._nodes.client).add(task_id, occurred)

    # Both are called on the ZooKeeper client's thread.

    def _commanded(self, held: HeldTask, _event: object) -> None:
        held.is_commanded = True
        self._woken.set()

    def _reported(self, held: HeldTask, _event: object) -> None:
        held.is_reported = True
        self._woken.set()


def unexpected(task_id: str, error: Exception) -> str:
    """The sentence about a bug at a task."""
    return f"task {task_id}: unexpected {type(error).__name__}; please report it"


def _swimlanes_of(tasks: Iterable[HeldTask]) -> int:
    return sum(len(held.offer.swimlanes) for held in tasks)


def _why_stopped(task_id: str, held: HeldTask, desired: DesiredState) -> str:
    """Why a task is stopped by a command that is older than its process; empty for a newer one."""
    # By both: ZooKeeper's numbers begin again with a restore, and clocks of operators can differ.
    if desired.order > held.run.order or desired.at >= held.listed_since:
        return ""
    return (
        f"the command in ZooKeeper, of {desired.by or 'somebody'} at {desired.at} UTC, is older "
        "than the one by which it ran, as after a restore from a backup; to go on: cdcbus task "
        f"start {task_id}"
    )


def _run(held: HeldTask, state: State, order: int, reason: str = "") -> Run:
    run = replace(held.run, state=state, order=order, reason=reason, restarts=0, since=now())
    if order != held.run.order:
        run = replace(run, all_restarts=0, restarted_at=())
    return run
