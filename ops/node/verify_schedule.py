"""`verify.schedule`: a node verifies the tasks that it runs, one after the other, each in a process
of its own.

ZooKeeper keeps when the last one was begun, so the next node that has the task continues the
schedule. A verify whose node ended before it is begun again; one that was missed while no node had
the task is done once.
"""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final

from kazoo.client import KazooClient

from cdcbus.ops.alarms.cached_reads import CachedReads
from cdcbus.ops.alarms.complaints import Complaints
from cdcbus.ops.node.held_task import NodeSettings
from cdcbus.ops.node.task_process import TaskProcess, child_environment
from cdcbus.ops.services.offer import consumer_name
from cdcbus.ops.services.periodic import repeating
from cdcbus.plugins.errors import CdcError, ConfigError, PositionError
from cdcbus.plugins.own_program import own_program
from cdcbus.tasks.config.keys.schedule import Schedule
from cdcbus.tasks.config.keys.task import KEYS
from cdcbus.tasks.config.placeholders import interpolate
from cdcbus.tasks.verify.last import Begun, VerifyNodes, failed_verify
from cdcbus.tasks.zookeeper.connection import is_silence
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes
from cdcbus.tasks.zookeeper.tasks import TaskNodes
from cdcbus.tasks.zookeeper.znode import now

LOG = logging.getLogger(__name__)
LOOK_SECONDS: Final = 5.0
SCHEDULE, THROTTLE = "verify.schedule", "verify.throttle"


def verifying(client: KazooClient, settings: NodeSettings) -> AbstractContextManager[None]:
    """Verifies while the block runs; a verify in progress ends with it."""
    schedule = VerifySchedule(client, settings)
    return repeating("verify", LOOK_SECONDS, schedule.look)


@dataclass(frozen=True, slots=True)
class VerifyOrder:
    """What a task's text orders."""

    schedule: Schedule
    throttle: int


@dataclass(frozen=True, slots=True)
class Running:
    """A verify in progress."""

    task_id: str
    begun: Begun
    process: TaskProcess


class VerifySchedule:
    """Used on one thread; a verify in progress ends with it."""

    def __init__(
        self,
        client: KazooClient,
        settings: NodeSettings,
        start: Callable[[str, VerifyOrder, NodeSettings], TaskProcess] | None = None,
    ) -> None:
        # Most of what it reads stays as it is.
        cached = CachedReads(client)
        self._tasks, self._dists = TaskNodes(cached), DistNodes(cached)
        # Not cached, as what was just written counts.
        self._nodes = VerifyNodes(client)
        self._settings, self._complain = settings, Complaints().complain
        self._by = f"node {settings.node_id}"
        self._start_process = start or start_verify
        self._running: Running | None = None
        # When those were begun of which ZooKeeper does not take that they are over.
        self._over: dict[str, float] = {}

    def look(self) -> None:
        """Starts a verify that is due, handles one that has ended. Never raises a CdcError."""
        try:
            if self._running is not None:
                self._see(self._running)
            if self._running is None:
                self._begin()
            self._complain("zookeeper", "")
        except CdcError as error:
            self._complain("zookeeper", f"verify.schedule: {error}")

    def _see(self, running: Running) -> None:
        code = running.process.ended()
        if code is None:
            if not self._is_own(running.task_id):
                running.process.kill()
                self._running = None  # the next node begins it again
            return
        refused: PositionError | None = None
        try:
            # One that ends with 0 has stored its result, also if one by hand has replaced that
            # since.
            if code and not self._has_result(running):
                self._put_failed(running, code)
        except PositionError as error:
            if is_silence(error):
                raise
            refused = error
        try:
            # After the result: if the node ends between the two, the verify is begun again.
            self._nodes.put_begun(running.task_id, replace(running.begun, is_over=True))
        except PositionError as error:
            if is_silence(error):
                raise
            # Else it would be due at once, without end.
            self._over[running.task_id] = running.begun.at
            refused = error
        # Other tasks are verified all the same.
        self._running = None
        if refused is not None:
            raise refused

    def _has_result(self, running: Running) -> bool:
        last = self._nodes.last(running.task_id)
        return last is not None and last.begun == running.begun.stamp

    def _put_failed(self, running: Running, code: int) -> None:
        error = running.process.last_words() or f"its process has ended with {code}"
        if code < 0:
            error = f"its process was ended by signal {-code}"
        LOG.warning("verify of task %s could not be done: %s", running.task_id, error)
        last = self._nodes.last(running.task_id)
        failed = failed_verify(error, last, running.begun.stamp, now(), self._by)
        self._nodes.put_last(running.task_id, failed)

    def _put_failed_once(self, task_id: str, error: str) -> None:
        """Stores a verify that failed before it began, unless that is stored already."""
        last, stamp = self._nodes.last(task_id), now()
        failed = failed_verify(error, last, stamp, stamp, self._by)
        if last is None or last.error != failed.error:
            self._nodes.put_last(task_id, failed)

    def _begin(self) -> None:
        """Starts to verify the task that has waited longest."""
        due: list[tuple[float, str, VerifyOrder]] = []
        for task_id in self._tasks.ids():
            with self._alone(task_id):
                wanted = self._wanted(task_id)
                if wanted is not None and (at := self._due_at(task_id, wanted)) <= time.time():
                    due.append((at, task_id, wanted))
        # Without the order itself, as orders have no order among themselves.
        for _, task_id, wanted in sorted(due, key=lambda each: each[:2]):
            with self._alone(task_id, "start"):
                self._start(task_id, wanted)
                return

    @contextmanager
    def _alone(self, task_id: str, what: str = "look") -> Iterator[None]:
        """Complains of what ZooKeeper refuses of a task, which holds up no other task."""
        about, sentence = f"{what} {task_id}", ""
        try:
            yield
        except PositionError as error:
            if is_silence(error):
                raise
            sentence = f"task {task_id} is not verified: {error}"
        self._complain(about, sentence)

    def _wanted(self, task_id: str) -> VerifyOrder | None:
        """What the text of a task orders; None also where another node has the task."""
        if not self._is_own(task_id):
            return None
        try:
            wanted = wanted_of(self._dists.get(task_id) or {}, self._settings.environment)
        except ConfigError as error:
            self._complain(task_id, f"task {task_id} is not verified: {error}")
            # Otherwise the result before would stand for good, and no alarm would come.
            self._put_failed_once(task_id, str(error))
            return None
        self._complain(task_id, "")
        return wanted

    def _is_own(self, task_id: str) -> bool:
        return self._tasks.claimed_by(task_id) == self._settings.node_id

    def _due_at(self, task_id: str, wanted: VerifyOrder) -> float:
        begun = self._nodes.begun(task_id)
        seconds = time.time()
        if begun is None:
            # A new schedule counts from now on.
            begun = Begun(seconds)
            self._nodes.put_begun(task_id, begun)
        elif begun.at > seconds:
            # Of a clock that was ahead: no verify would be due until then.
            begun = replace(begun, at=seconds)
            self._nodes.put_begun(task_id, begun)
        # It was begun and has not finished: due since then.
        if not begun.is_over and self._over.get(task_id) != begun.at:
            return begun.at
        at = wanted.schedule.after(begun.at)
        if at is None:
            return float("inf")
        return at

    def _start(self, task_id: str, wanted: VerifyOrder) -> None:
        begun = Begun(time.time(), now(), self._settings.node_id, is_over=False)
        # Before the start: if the node ends during the verify, the next one sees it unfinished.
        self._nodes.put_begun(task_id, begun)
        try:
            process = self._start_process(task_id, wanted, self._settings)
        except OSError as error:
            raise CdcError(
                f"the verify of task {task_id} cannot be started on node "
                f"{self._settings.node_id}: {error.strerror}; check its limits of processes and "
                "memory"
            ) from error
        self._running = Running(task_id, begun, process)


def start_verify(task_id: str, wanted: VerifyOrder, settings: NodeSettings) -> TaskProcess:
    """Starts the process; it ends with the thread that starts it. Raises OSError."""
    words = own_program("cdcbus", "node", "verify", task_id)
    process = subprocess.Popen(
        [*words, "--throttle", str(wanted.throttle)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=child_environment(settings.environment, settings.node_id),
        start_new_session=True,
    )
    return TaskProcess(process, settings.log_of(f"{task_id}-verify"), lambda: None)


def wanted_of(dist: Mapping[str, Any], environ: Mapping[str, str]) -> VerifyOrder | None:
    """What a task's text orders; None where it orders no verify, or the task cannot be verified.
    Raises ConfigError for a value that cannot be used."""
    if consumer_name(dist) != "KafkaFetch" or not dist.get(SCHEDULE):
        return None
    return VerifyOrder(_value(dist, SCHEDULE, environ), _value(dist, THROTTLE, environ))


def _value(dist: Mapping[str, Any], name: str, environ: Mapping[str, str]) -> Any:
    key = KEYS[name]
    text = str(dist.get(name) or key.default)
    try:
        return key.value_type.read(interpolate(text, environ).strip())
    except ValueError as error:
        raise ConfigError(
            f"{name}: wrong value; expected {key.value_type.expected}; example: "
            f"{name}={key.value_type.example}"
        ) from error
