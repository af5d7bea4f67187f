"""A task's status, put together from its znodes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cdcbus.plugins.errors import ConfigError, PositionError
from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper.connection import is_silence
from cdcbus.tasks.zookeeper.lock import left_lock
from cdcbus.tasks.zookeeper.stat import Stat
from cdcbus.tasks.zookeeper.tasks import ENDED, Run, TaskNodes
from cdcbus.tasks.zookeeper.znode import JsonNode, age_seconds


@dataclass(frozen=True, slots=True)
class Status:
    """A task as operators see it. `is_wanted`: it was started, and not stopped since. `is_by_hand`:
    run by `task run`, not by a node, in `process`.
    `stat`: the current process's report, None where only an earlier one reported, or the process
    has lost its lock. `reported_at`: when any process of the task last reported.
    `open_dead_letters`: as a node last counted them. `is_locked`: it is NEW, STOPPED, or STARTING
    on a node, but a lock of no session, as porter's are, may be of a process that runs it; the
    reason names it."""

    task_id: str
    state: State
    reason: str = ""
    node_id: str = ""
    order: int = 0
    run: Run | None = None
    stat: Stat | None = None
    is_by_hand: bool = False
    process: str = ""
    open_dead_letters: int | None = None
    reported_at: str = ""
    is_wanted: bool = False
    is_locked: bool = False

    @property
    def is_running(self) -> bool:
        return self.state in (State.WORKING, State.RETRYING) and (
            self.is_by_hand or self.stat is not None
        )

    @property
    def waits(self) -> bool:
        """Whether it has ended by an error, and a position that is set starts it."""
        if not self.is_wanted or self.is_by_hand or self.is_running:
            return False
        return self.state in (State.ERROR, State.RETRYING)

    @property
    def silent_seconds(self) -> float | None:
        """How long its process has reported nothing; None where there may be no process."""
        # A process that stands still as a whole loses its lock, and its node does not see it.
        if self.stat is None and self.state is not State.WORKING:
            return None
        return age_seconds(self.reported_at)


def status_of(nodes: TaskNodes, task_id: str) -> Status:
    """The status of a task, from everything that ZooKeeper holds of it. A damaged znode is an ERROR
    with a sentence about it."""
    try:
        desired = nodes.wanted(task_id)
        claim = nodes.claimed_by(task_id)
        run = nodes.run(task_id)
        stat = nodes.stat(task_id)
    except ConfigError as error:
        return Status(task_id, State.ERROR, str(error))
    locks = nodes.locks(task_id)
    # One of no session can be of a former swimlane, which the process does without.
    holder = next(iter(sorted(locks.values(), key=lambda lock: not lock.owner)), None)
    # A report from a process that does not hold the lock is of an earlier run.
    current = None
    if stat is not None and holder is not None and _is_of(stat, holder):
        current = stat
    status = Status(
        task_id,
        State.NEW,
        node_id=claim or "",
        order=desired.order if desired else 0,
        run=run,
        stat=current,
        open_dead_letters=nodes.open_dead_letters(task_id),
        reported_at=stat.at if stat else "",
        is_wanted=desired is not None and desired.is_working,
    )
    # A node's process names its node in the lock; one started by hand does not.
    # Only a process that has all its locks reports.
    is_running = current is not None and holder is not None and bool(holder.owner)
    left = "" if is_running else left_lock(task_id, locks)
    if claim is None and holder is not None and not left and not holder.text("nodeId"):
        return _by_hand(status, holder)
    if desired is None and claim is None:
        return _locked(status, left)
    if desired is not None and desired.is_working:
        status = _started(status, claim)
        # Only the log of its process says that it waits for the lock.
        is_waiting = claim is not None and status.state is State.STARTING
        return _locked(status, left) if is_waiting else status
    if claim is None and left:
        return _locked(replace(status, state=State.STOPPED), left)
    return _stopped(status, claim, holder)


def seen_status(nodes: TaskNodes, task_id: str) -> Status:
    """Like `status_of`, but a refused znode is an ERROR as well, so that other tasks can be shown.
    Raises PositionUnavailable."""
    try:
        return status_of(nodes, task_id)
    except PositionError as error:
        if is_silence(error):
            raise
        return Status(task_id, State.ERROR, str(error))


def _locked(status: Status, left: str) -> Status:
    return replace(status, reason=left, is_locked=True) if left else status


def _is_of(stat: Stat, holder: JsonNode) -> bool:
    """Whether the process that holds the lock has reported this."""
    # Its id alone can be that of an earlier process. A former version reports no more.
    is_same = not stat.process or holder.text("process") in ("", stat.process)
    return is_same and stat.process_id == holder.number("processId")


def _by_hand(status: Status, holder: JsonNode) -> Status:
    """The status of a task that no node has claimed, but whose lock a process holds."""
    process = f"process {holder.number('processId')} on {holder.text('hostName') or '?'}"
    status = replace(status, is_by_hand=True, process=process)
    place = f"{process} runs it by hand"
    if status.stat is None:
        return replace(status, state=State.STARTING, reason=place)
    return replace(status, state=status.stat.state, reason=status.stat.reason or place)


def _started(status: Status, claim: str | None) -> Status:
    run = status.run
    # A state from before the last command no longer counts.
    if run is not None and run.order == status.order and _is_current(run, claim):
        return replace(status, state=run.state, reason=run.reason, node_id=claim or run.node_id)
    reason = "" if claim else "no node has taken it"
    return replace(status, state=State.STARTING, reason=reason)


def _is_current(run: Run, claim: str | None) -> bool:
    # Without a claim only a final state holds: no node is left that could change another one.
    if claim is None:
        return run.state in ENDED
    # A node that has just taken the task has not written its own state yet.
    return run.node_id == claim


def _stopped(status: Status, claim: str | None, holder: JsonNode | None) -> Status:
    run = status.run
    if claim is None and holder is None:
        reason = ""
        if run is not None and run.order == status.order:
            reason = run.reason
        return replace(status, state=State.STOPPED, reason=reason)
    node_id = claim or (holder and holder.text("nodeId"))
    # Until the node lets go of the task, the state that it last wrote counts.
    state = run.state if run else State.STARTING
    return replace(status, state=state, reason=f"stopping on node {node_id}")
