"""Watches tasks: finds what is wrong with them, and sends notices of it.

Each task is watched by the node that has it; a task that no node has, by the first of the running
nodes of its environment, else of all. A notice is written to ZooKeeper before it is sent, and
marked as accepted after: a node that takes over sends nothing twice, except a notice that was on
its way when the node before it died. Notices of one cause go together (`grouping`), those of all
tasks of a node in one message.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from kazoo.client import KazooClient

from cdcbus.ops.alarms.added_channels import all_channels
from cdcbus.ops.alarms.cached_reads import CachedReads
from cdcbus.ops.alarms.channels import Channel, Message, NotAccepted, Receiver
from cdcbus.ops.alarms.complaints import Complaints
from cdcbus.ops.alarms.grouping import (
    Entry,
    groups,
    is_due,
    message_of,
    severity_of,
    subject_of,
)
from cdcbus.ops.alarms.limits import SCHEDULE, Limits, limits_of
from cdcbus.ops.alarms.lost_tasks import LostTasks, named
from cdcbus.ops.alarms.outage import Outage
from cdcbus.ops.alarms.rules import AT_REST, RECOVERED_BY_RESTART, Condition, Seen, conditions
from cdcbus.ops.alarms.state import Kind, Notice, step
from cdcbus.ops.alarms.store import SENT_KEPT, WAITING_KEPT, AlarmNodes, Sent, TaskAlarms
from cdcbus.ops.services.periodic import repeating
from cdcbus.ops.services.scheduling import explained
from cdcbus.plugins.errors import CdcError, ConfigError, PositionConflict, PositionError
from cdcbus.plugins.task_status import State
from cdcbus.tasks.control.bus_settings import BusSettings
from cdcbus.tasks.verify.last import VerifyNodes
from cdcbus.tasks.zookeeper.connection import is_silence
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes
from cdcbus.tasks.zookeeper.node_registry import ENVIRONMENT, BusNodes, first_for
from cdcbus.tasks.zookeeper.status import Status, status_of
from cdcbus.tasks.zookeeper.task_configs import Dist
from cdcbus.tasks.zookeeper.tasks import TaskNodes

LOG = logging.getLogger(__name__)
_AcceptedBy = dict[tuple[str, Notice], tuple[str, ...]]
"""The channels that have accepted a notice, by its task."""
LOOK_SECONDS = 10.0
# Between attempts to send a notice that nobody accepts.
AGAIN_SECONDS = 60.0
# Once a channel has taken this long, its next refusal ends its turn.
REFUSED_SECONDS = 5.0
HOUR_SECONDS = 3600.0


def watching(client: KazooClient, bus: BusSettings, node_id: str) -> AbstractContextManager[None]:
    """Watches while the block runs. Raises ConfigError for settings that cannot be used."""
    # Most of what it reads stays the same from one look to the next.
    watch = Watch(CachedReads(client), bus, node_id)
    return repeating("alarms", LOOK_SECONDS, watch.look)


@dataclass(frozen=True, slots=True)
class _Open:
    """A task with notices to send, as stored in this version."""

    task_id: str
    alarms: TaskAlarms
    version: int
    state: State
    receivers: tuple[Receiver, ...]


@dataclass(slots=True)
class Watch:
    """Watches the tasks of a node. Used on one thread."""

    client: KazooClient
    bus: BusSettings
    node_id: str
    settings: Mapping[str, Any] = field(init=False)
    channels: Sequence[Channel] = field(init=False)
    # By channel and task; of a channel that takes long to refuse, all tasks: None.
    _again_at: dict[tuple[str, str | None], float] = field(default_factory=dict)
    _open: list[_Open] = field(default_factory=list)
    _outage: Outage = field(init=False)
    _lost: LostTasks = field(init=False)
    _complaints: Complaints = field(default_factory=Complaints)
    # By task: the time in its last report, and when that was first seen. By time.monotonic, as the
    # report's clock can be of another machine, and each can be put forward or back. Forgotten when
    # ZooKeeper does not answer, as no task can report then.
    _reports: dict[str, tuple[str, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.settings = self.bus.alarm
        self.channels = all_channels(self.settings)
        self._outage = Outage(self.node_id, self.channels)
        self._lost = LostTasks()

    def look(self) -> None:
        """Looks at all tasks of this node, and sends what is due. Never raises a CdcError."""
        try:
            tasks = TaskNodes(self.client)
            ids = tasks.ids()
            running, refused = self._running()
            limits = limits_of({}, self.settings, self.bus.filling)
            lost, lost_at = self._lost.look(self.client, limits.repeat_seconds)
            self._complaints.complain("zookeeper", "")
        except CdcError as error:
            # No alarm of a task is sent that cannot be stored: another node would send it again.
            self._complaints.complain("zookeeper", str(error))
            self._reports.clear()
            self._report_outage(f"{error}; tasks stand still without it")
            return
        unserved: dict[str, CdcError] = {}
        self._open.clear()
        self._reports = {task: each for task, each in self._reports.items() if task in ids}
        for task_id in ids:
            try:
                holder = tasks.claimed_by(task_id)
                if holder == self.node_id:
                    self._lost.note(task_id)
                elif holder is not None:
                    self._lost.forget(task_id)
                if holder == self.node_id or (holder is None and self._is_first(task_id, running)):
                    self._look_at(tasks, task_id)
                self._complaints.complain(task_id, "")
            except CdcError as error:
                self._complaints.complain(task_id, str(error))
                self._reports.pop(task_id, None)
                # As where a quota is used up, or a right was taken away.
                if isinstance(error, PositionError) and not isinstance(error, PositionConflict):
                    unserved[task_id] = error
            except Exception as error:  # a bug must not stop the watch over other tasks
                self._complaints.complain(
                    task_id,
                    f"task {task_id} is not watched: unexpected {type(error).__name__}; please "
                    "report it",
                )
        try:
            self._send()
            self._complaints.complain("sending", "")
        except CdcError as error:
            self._complaints.complain("sending", str(error))
        self._report_outage(lost or _not_stored(unserved) or refused, lost_at)

    def _report_outage(self, sentence: str, event_at: float = 0.0) -> None:
        """Tells where ZooKeeper has not served this node for long, or without its tasks;
        `sentence`: why, else empty."""
        limits = limits_of({}, self.settings, self.bus.filling)
        for message in self._outage.look(sentence, limits, event_at):
            if self.settings["alarm.log"]:
                LOG.warning("alarm: %s", message.subject)
        self._outage.send(self._is_accepted, limits)

    def _running(self) -> tuple[Mapping[str, str | None], str]:
        """The running nodes with their environments, and an empty text; none, and what that means,
        where ZooKeeper refuses a node's znode. Raises PositionUnavailable."""
        try:
            return BusNodes(self.client).running(), ""
        except PositionError as error:
            if is_silence(error):
                raise
            return {}, f"{error}; alarms of tasks that no node has are not stored, nor sent"

    def _is_first(self, task_id: str, running: Mapping[str, str | None]) -> bool:
        """Whether this node watches a task that no node has."""
        environment = ""
        # Where all nodes are of one environment, the text need not be read.
        if len({*running.values()}) > 1:
            with suppress(ConfigError):
                dist = DistNodes(self.client).get(task_id) or {}
                environment = str(dist.get(ENVIRONMENT) or "")
        return first_for(running, environment) == self.node_id

    def _look_at(self, tasks: TaskNodes, task_id: str) -> None:
        status = explained(self.client, status_of(tasks, task_id))
        nodes = AlarmNodes(self.client)
        now = time.time()
        before, version = nodes.get(task_id)
        is_at_rest = status.state in AT_REST
        # A task at rest is left alone only once its alarms are cleared and its notices are sent.
        if is_at_rest and not before.alarms and not before.waiting:
            return
        limits = self._limits(task_id)
        seen = self._seen(tasks, status, limits, now)
        is_quiet = nodes.silence(task_id).is_on(now) or not limits.is_in_window(now)
        found = conditions(seen, limits)
        alarms, notices = step(before.alarms, found, now, limits.hold_seconds, is_quiet)
        # One in the future is of a clock that was ahead.
        restarts = tuple(at for at in before.restarts if 0 <= now - at < HOUR_SECONDS)
        # No node can restart a task that was started by hand, and a task that is being stopped must
        # not be started again: one that is stuck takes long to stop.
        may_restart = len(restarts) < limits.recoveries and seen.is_wanted
        may_restart &= not status.is_by_hand
        is_stuck = any(map(_is_cured_by_restart, notices))
        # A silence is for people: a stuck task is restarted in it, too. In it, no alarm `retrying`
        # holds back those that follow from it.
        if is_quiet and status.state is not State.RETRYING:
            is_stuck = _would_be_reported(before, found, now, limits)
        is_restarted = may_restart and is_stuck
        # Written before it is done: a node that dies in between must not let the next one restart
        # the task more often than it may.
        if is_restarted:
            restarts = (*restarts, now)
        # Where nobody accepts them, the oldest are dropped: the znode must not grow.
        waiting = (*before.waiting, *notices)[-WAITING_KEPT:]
        after = replace(before, alarms=alarms, waiting=waiting, restarts=restarts)
        if after != before:
            written = nodes.put(task_id, after, version)
            if written is None:  # another node watches it by now
                return
            version = written
        # Only what was stored is logged: otherwise the node that stored it logs it, too.
        for notice in notices:
            self._log(task_id, notice, status.state)
        if is_restarted:
            self._restart(tasks, status, f"{len(restarts)} of {limits.recoveries}")
        # What earlier looks have left, such as notices of a digest, waits as well.
        if after.waiting and not is_quiet:
            self._open.append(_Open(task_id, after, version, status.state, limits.receivers))

    def _seen(self, tasks: TaskNodes, status: Status, limits: Limits, now: float) -> Seen:
        verified = begun = None
        if limits.is_verified:
            nodes = VerifyNodes(self.client)
            verified, begun = nodes.last(status.task_id), nodes.begun(status.task_id)
        run, failure = status.run, ""
        # One from before the last command tells nothing of this start.
        if run is not None and (status.is_by_hand or run.order != status.order):
            run = None
        if run is not None and run.restarted_at and (failures := tasks.errors(status.task_id)):
            failure = failures[-1].sentence
        return Seen(
            now=now,
            state=status.state,
            reason=status.reason,
            is_wanted=_is_wanted(tasks, status.task_id),
            stat=status.stat,
            silent_seconds=self._silent_seconds(status),
            task_id=status.task_id,
            verified=verified,
            begun=begun,
            run=run,
            failure=failure,
        )

    def _silent_seconds(self, status: Status) -> float:
        """How long the task has reported nothing, as far as this watch has seen."""
        now = time.monotonic()
        known = self._reports.get(status.task_id)
        if known is None or known[0] != status.reported_at:
            self._reports[status.task_id] = status.reported_at, now
            return 0.0
        return now - known[1]

    def _restart(self, tasks: TaskNodes, status: Status, count: str) -> None:
        """Raises PositionConflict where an operator has given another command meanwhile, such as to
        stop it."""
        LOG.warning("task %s is stuck and is restarted (%s an hour)", status.task_id, count)
        tasks.want(
            status.task_id,
            is_working=True,
            by=f"node {self.node_id}, as the task is stuck",
            what="task restart",
            order=status.order,
        )

    def _send(self) -> None:
        """Sends each channel what it has not accepted yet, of all tasks."""
        entries = []
        accepted_by: _AcceptedBy = {}
        for each in self._open:
            for notice in each.alarms.waiting:
                entries.append(Entry(each.task_id, notice, each.state, each.receivers))
                accepted_by[each.task_id, notice] = notice.told
        now = time.monotonic()
        self._again_at = {which: at for which, at in self._again_at.items() if now < at}
        for channel in self.channels:
            if (channel.name, None) not in self._again_at:
                self._send_by(channel, entries, accepted_by)
        # Stored after sending: if the node dies in between, a notice comes twice rather than never.
        for each in self._open:
            by_notice = {}
            for notice in each.alarms.waiting:
                by_notice[notice] = accepted_by[each.task_id, notice]
            self._note(each, by_notice)

    def _send_by(
        self, channel: Channel, entries: Sequence[Entry], accepted_by: _AcceptedBy
    ) -> None:
        """Sends through one channel, group by group, and adds it to the channels that have accepted
        a notice. After a group that it does not accept, other notices of the same tasks wait, so
        that none overtakes another, also those of later looks; other tasks do not."""
        wanted = []
        for entry in entries:
            is_new = channel.name not in accepted_by[entry.task_id, entry.notice]
            is_waiting = (channel.name, entry.task_id) in self._again_at
            if is_new and not is_waiting and entry.severity.is_for(channel.least):
                wanted.append(entry)
        held = set[str]()
        refused_by = time.monotonic() + REFUSED_SECONDS
        for group in groups(wanted):
            task_ids = {entry.task_id for entry in group}
            if held & task_ids:
                continue
            if not is_due(group, time.time(), self.settings["alarm.digestSeconds"]):
                continue
            if self._is_accepted(channel, message_of(group, self.node_id)):
                for entry in group:
                    accepted_by[entry.task_id, entry.notice] += (channel.name,)
                continue
            again_at = time.monotonic() + AGAIN_SECONDS
            for task_id in task_ids:
                self._again_at[channel.name, task_id] = again_at
            held |= task_ids
            # An unreachable channel takes long to fail: the other groups wait as well.
            if time.monotonic() > refused_by:
                self._again_at[channel.name, None] = again_at
                return

    def _is_accepted(self, channel: Channel, message: Message) -> bool:
        about = f"alarm {channel.name}"
        try:
            refused = channel.send(message)
        except NotAccepted as error:
            self._complaints.complain(
                about,
                f"alarm: {channel.name}: {error}; {message.subject!r} was not accepted; it is "
                "sent again",
            )
            return False
        except Exception as error:  # a bug must not end the alarms of all tasks
            self._complaints.complain(
                about,
                f"alarm: {channel.name}: unexpected {type(error).__name__}; please report it; "
                f"{message.subject!r} is sent again",
            )
            return False
        complaint = ""
        if refused:  # by some of the receivers
            complaint = f"alarm: {channel.name}: {refused}"
        self._complaints.complain(about, complaint)
        return True

    def _note(self, known: _Open, accepted_by: Mapping[Notice, tuple[str, ...]]) -> None:
        """Stores which notices were accepted, and by which channels."""
        left: list[Notice] = []
        sent = list(known.alarms.sent)
        for notice, by in accepted_by.items():
            # All channels that want it have accepted it, or none wants it.
            if self._wanting(notice) <= {*by}:
                sent.append(Sent(notice, ", ".join(by) or self._nobody()))
            else:
                left.append(replace(notice, told=by))
        if tuple(left) != known.alarms.waiting:
            after = replace(known.alarms, waiting=tuple(left), sent=tuple(sent[-SENT_KEPT:]))
            # If another node has written meanwhile, nothing is stored, and that node sends the
            # rest.
            AlarmNodes(self.client).put(known.task_id, after, known.version)

    def _wanting(self, notice: Notice) -> set[str]:
        severity = severity_of(notice.rule)
        return {each.name for each in self.channels if severity.is_for(each.least)}

    def _nobody(self) -> str:
        """Who has accepted a notice that no channel wants: the log is enough."""
        if self.settings["alarm.log"]:
            return "log"
        return "nobody"

    def _log(self, task_id: str, notice: Notice, state: State) -> None:
        if not self.settings["alarm.log"]:
            return
        level = logging.WARNING
        if notice.kind is Kind.CLEARED:
            level = logging.INFO
        LOG.log(level, "alarm: %s", subject_of([Entry(task_id, notice, state)]))

    def _limits(self, task_id: str) -> Limits:
        """The task's own limits; where these cannot be read, those of the settings."""
        dist: Dist = {}
        try:
            # a damaged text gives the limits of the settings: such a task needs its alarms most
            dist = DistNodes(self.client).get(task_id) or {}
            return limits_of(dist, self.settings, self.bus.filling)
        except ConfigError as error:
            self._complaints.complain(
                f"limits {task_id}",
                f"task {task_id}: {error}; until then the alarm limits of the settings apply",
            )
            # It is still verified, and what that has found is still an alarm.
            kept = {SCHEDULE: dist[SCHEDULE]} if SCHEDULE in dist else {}
            return limits_of(kept, self.settings, self.bus.filling)


def _not_stored(unserved: Mapping[str, CdcError]) -> str:
    """What is told of the tasks whose znodes ZooKeeper does not serve; empty where there are
    none."""
    if not unserved:
        return ""
    return f"{next(iter(unserved.values()))}; alarms of {named(unserved)} are not stored, nor sent"


def _is_cured_by_restart(notice: Notice) -> bool:
    return notice.rule in RECOVERED_BY_RESTART and notice.kind is not Kind.CLEARED


def _would_be_reported(
    before: TaskAlarms, found: Sequence[Condition], now: float, limits: Limits
) -> bool:
    """Whether people would be told of a stuck task now, if they were not to be left alone."""
    _, notices = step(before.alarms, found, now, limits.hold_seconds, is_quiet=False)
    # Seen at the last look, it would have been told of then, and not again before the interval.
    last = max(before.restarts, default=0.0)
    is_new = last + limits.repeat_seconds <= now
    return any(
        _is_cured_by_restart(each) and (is_new or each.rule not in before.alarms)
        for each in notices
    )


def _is_wanted(tasks: TaskNodes, task_id: str) -> bool:
    try:
        desired = tasks.wanted(task_id)
    except ConfigError:
        return False
    return desired is not None and desired.is_working
