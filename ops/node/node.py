"""A node: takes tasks that should run, runs each as a child process or a query of its Spark
application, and reports their states to ZooKeeper.

Commands are not messages: a node compares again and again what operators want with what it runs,
and closes the gap. So it does not matter whether it ran when a command was given. A claim only
says which node runs a task; the locks held by the tasks themselves guarantee that no two processes
ever work on one swimlane, even when a node was paused and has lost its claims.
"""

from __future__ import annotations

import logging
import socket
import time
from dataclasses import replace
from threading import Event

from kazoo.client import KazooClient

from cdcbus.ops.alarms.cached_reads import CachedReads
from cdcbus.ops.alarms.complaints import Complaints
from cdcbus.ops.node.given import given, is_anew
from cdcbus.ops.node.held_task import NodeSettings
from cdcbus.ops.node.held_tasks import HeldTasks, unexpected
from cdcbus.ops.node.writable_folder import why_unwritable
from cdcbus.ops.services.offer import Offer, read_offer
from cdcbus.plugins.errors import CdcError, ConfigError, PositionError, PositionUnavailable
from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper.connection import is_silence, session_seconds
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes
from cdcbus.tasks.zookeeper.node_registry import (
    ONE_VERSION,
    BusNodes,
    NodeWish,
    left_node_lock,
    mixed_versions,
)
from cdcbus.tasks.zookeeper.tasks import ENDED, DesiredState, Run, TaskNodes
from cdcbus.tasks.zookeeper.znode import JsonNode, now

LOG = logging.getLogger(__name__)
LOOK_SECONDS = 1.0
# Held tasks are read when a watch fires, and this often without one, should it have been lost.
CARE_SECONDS = 15.0
STAT_SECONDS = 5.0
# For each swimlane that it has: emptier nodes take tasks faster.
TAKE_PAUSE_SECONDS = 0.1
# How much longer than a session a predecessor's lock is waited for.
REGISTER_SECONDS = 4.0


class Node:
    """Made and used on one thread, which must live as long as the node."""

    def __init__(self, settings: NodeSettings, client: KazooClient) -> None:
        self._settings, self._id = settings, settings.node_id
        self._tasks = TaskNodes(client)
        self._nodes = BusNodes(client)
        self._dists = DistNodes(client)
        # For tasks that wait for an operator: they are looked at every second, and rarely change.
        self._cached = CachedReads(client)
        self._wish = NodeWish()
        self._woken = Event()
        self._complaints = Complaints()
        self._complain = self._complaints.complain
        self._held = HeldTasks(settings, self._tasks, self._complaints, self._woken)
        self._reported_at = self._looked_at = self._cared_at = 0.0
        self._is_stirred = False

    def run(self, stop: Event) -> None:
        """Runs until `stop` is set; then its tasks are stopped, with their positions stored, and
        given back. Raises ConfigError when another process is the node."""
        self._register(stop)
        LOG.info("node %s takes tasks, %d swimlanes at most", self._id, self._settings.work_limit)
        try:
            while not stop.is_set():
                # Before the look, so that a change during it makes the next look follow
                # immediately.
                self._woken.clear()
                try:
                    self._look()
                    self._complain("zookeeper", "")
                except CdcError as error:
                    # The node waits for ZooKeeper: its tasks continue, and guard their locks
                    # themselves.
                    self._complain("zookeeper", str(error))
                self._woken.wait(0 if stop.is_set() else LOOK_SECONDS)
        finally:
            self._end()

    def _register_once(self) -> JsonNode | None:
        return self._nodes.register(self._id, self._settings.bus_environment)

    def _register(self, stop: Event) -> None:
        # A predecessor on another machine, which may have failed, holds the lock until its session
        # ends.
        deadline = time.monotonic() + session_seconds(self._nodes.client) + REGISTER_SECONDS
        while (other := self._register_once()) is not None and not stop.is_set():
            if not other.owner:
                raise ConfigError(f"{left_node_lock(self._id)}, or give this one another node.id")
            if time.monotonic() > deadline:
                who = f"process {other.text('processId') or '?'} on {other.text('hostName') or '?'}"
                raise ConfigError(
                    f"node {self._id} is {who} already; give this one another node.id, or stop "
                    "that one"
                )
            stop.wait(0.5)

    def _look(self) -> None:
        """Handles the tasks that ZooKeeper reports a change of, and all tasks now and then."""
        try:
            if time.monotonic() - self._cared_at > CARE_SECONDS:
                self._cared_at = time.monotonic()
                self._held.look_at_all()
            self._held.care()
        except PositionUnavailable:
            # All tasks are read again as soon as ZooKeeper answers.
            self._cared_at = 0.0
            raise
        if self._is_stirred or time.monotonic() - self._looked_at >= LOOK_SECONDS:
            self._looked_at = time.monotonic()
            self._is_stirred = False
            self._look_around()
        if self._held.has_changed or time.monotonic() - self._reported_at > STAT_SECONDS:
            self._report()
            mixed = mixed_versions(BusNodes(self._cached).versions())
            self._complain("versions", f"{mixed}: {ONE_VERSION}" if mixed else "")

    def _look_around(self) -> None:
        # Again at each look: the session may have been lost, and the lock with it.
        if (other := self._register_once()) is not None:
            who = f"process {other.text('processId') or '?'} on {other.text('hostName') or '?'}"
            sentence = f"node {self._id} is {who} by now"
            self._complain("lock", sentence if other.owner else left_node_lock(self._id))
        wish = self._wish
        try:
            self._wish = self._nodes.wish(self._id, self._wake)
        except (ConfigError, PositionError) as error:
            if is_silence(error):
                raise
            # The last valid wish stays.
            self._complain("wish", str(error))
        if self._wish != wish:
            # A drained node stops its tasks when they are compared with their commands, so compare
            # all now.
            self._cared_at = 0.0
        self._held.is_taking = self._wish.is_taking
        # While another process is this node, that one keeps the limit and takes tasks.
        if other is None and self._wish.is_taking:
            self._held.keep_limit(self._limit())
            self._take_one()

    def _take_one(self) -> None:
        """Takes one task at a time, so that a task goes to the node with the fewest."""
        used = self._held.used
        free = self._limit() - used
        for task_id in self._tasks.ids(self._wake):
            if task_id in self._held.tasks:
                continue
            try:
                desired = self._tasks.wanted(task_id, self._wake)
                if desired is None or not desired.is_working or self._is_elsewhere(task_id):
                    continue
                if self._consider(task_id, desired, free):
                    # Gives nodes with fewer swimlanes the time to claim the next task.
                    time.sleep(min(1.0, TAKE_PAUSE_SECONDS * used))
                    # There may be more to take: the next look follows without a pause.
                    self._wake(None)
                    return
            except CdcError as error:
                if is_silence(error):
                    raise
                self._complain(task_id, str(error))
            except Exception as error:  # a bug at one task must not end the others
                self._complain(task_id, unexpected(task_id, error))

    def _is_elsewhere(self, task_id: str) -> bool:
        """Whether another node has the task. It may be this node's already, by a claim whose
        answer was lost."""
        claimed_by = self._tasks.claimed_by(task_id, self._wake)
        if claimed_by is None:
            return False
        return claimed_by != self._id or not self._tasks.is_mine(task_id)

    def _consider(self, task_id: str, desired: DesiredState, free: int) -> bool:
        """Takes a task, if this node may and can run it. Returns whether it had the task, if only
        to report an error."""
        has_ended = False
        before = self._tasks.run(task_id)
        if before is not None and before.order != desired.order:
            before = None  # of an earlier command
        if before is not None and before.state in ENDED:
            # A task that is done starts again only by a command.
            if before.state is State.DONE or not self._is_given_anew(task_id, before):
                return False
            has_ended = True
            before = replace(before, restarts=0)
        fresh = self._fresh_run(task_id, desired)
        # A task that moves to another node while it keeps failing keeps its counts.
        if before is not None:
            fresh = replace(
                fresh,
                restarts=before.restarts,
                all_restarts=before.all_restarts,
                restarted_at=before.restarted_at,
            )
        try:
            offer = self._read_offer(task_id)
        except ConfigError as error:
            # Only the node that gets the claim writes the error, so that nodes do not overwrite
            # each other.
            if self._tasks.claim(task_id, self._id):
                failed = replace(fresh, state=State.ERROR, reason=str(error))
                self._tasks.put_run(task_id, failed, listed_since=fresh.since)
                self._tasks.release(task_id)
            return True
        # Asked before the claim, as other nodes leave a claimed task alone.
        if not self._can_run(offer, free) or not self._tasks.claim(task_id, self._id):
            return False
        self._complain(task_id, "")
        # Said only now, as nodes that may not run it look at it each second.
        if has_ended:
            LOG.info(
                "task %s was given another text or position, or a newer cdcbus, since it ended: it "
                "is started again",
                task_id,
            )
        self._held.take(task_id, offer, fresh)
        return True

    def _fresh_run(self, task_id: str, desired: DesiredState) -> Run:
        """What goes with an error that is found before the start; `HeldTasks` reads `given` again
        when it starts."""
        return Run(
            State.STARTING,
            order=desired.order,
            node_id=self._id,
            host=socket.gethostname(),
            log=str(self._settings.log_of(task_id)),
            since=now(),
            given=given(self._cached, task_id),
        )

    def _read_offer(self, task_id: str) -> Offer:
        dist = self._dists.get(task_id)
        offer = read_offer(dist or {}, self._tasks.swimlanes(task_id))
        if dist is None:
            raise ConfigError(
                f"task {task_id} has no text in ZooKeeper; import it: cdcbus task import FILE"
            )
        return offer

    def _can_run(self, offer: Offer, free: int) -> bool:
        if offer.is_shared and self._held.is_crowded:
            return False
        if not offer.is_for(self._id, self._settings.bus_environment):
            return False
        return len(offer.swimlanes) <= free

    def _is_given_anew(self, task_id: str, before: Run) -> bool:
        """Whether operators have given it another text or position since it was started, or a newer
        cdcbus, which may be the remedy for its error."""
        # A state that an earlier version wrote names nothing, so only a command starts the task.
        return bool(before.given) and is_anew(given(self._cached, task_id), before.given)

    def _limit(self) -> int:
        """The work limit: what operators have set by command wins over the node's settings."""
        if self._wish.work_limit is None:
            return self._settings.work_limit
        return self._wish.work_limit

    def _wake(self, _event: object) -> None:
        self._is_stirred = True
        self._woken.set()

    def _report(self) -> None:
        """Writes porter's object of a node, with its work limit."""
        # A task runs without its log, so nothing else tells of it.
        why = why_unwritable(self._settings.logs)
        if why:
            why = f"{why}: the logs of tasks are lost until it can; or set node.logDirectory"
        self._complain("logs", why)
        tasks = {}
        troubled = []
        for task_id, held in self._held.tasks.items():
            tasks[task_id] = list(held.offer.swimlanes)
            if held.run.state is State.RETRYING:
                troubled.append(task_id)
        health, reason = "GREEN", ""
        if troubled:
            health, reason = "YELLOW", f"tried again: {', '.join(sorted(troubled))}"
        status = "SUSPEND"
        if self._wish.is_taking:
            status = "WORKING"
        stat = {
            "status": status,
            "workLimit": self._limit(),
            "environment": self._settings.bus_environment,
            "tasks": tasks,
            "healthLevel": health,
            "healthLevelDesc": reason,
        }
        self._nodes.put_stat(self._id, stat)
        self._held.has_changed = False
        self._reported_at = time.monotonic()

    def _end(self) -> None:
        self._held.end()
        try:
            # Report before the lock goes, as the next process with this id writes its own.
            self._report()
            self._nodes.unregister(self._id)
        except CdcError as error:
            # Without ZooKeeper the lock ends with the session.
            LOG.warning("%s", error)
        LOG.info("node %s has ended", self._id)
