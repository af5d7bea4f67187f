"""A row for each task, as the overview shows them: read from ZooKeeper, filtered, sorted."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cdcbus.ops.alarms.rules import OF_STATE
from cdcbus.ops.alarms.store import AlarmNodes
from cdcbus.ops.services.scheduling import explained
from cdcbus.ops.web.bus import WebBus
from cdcbus.ops.web.overview.read_ahead import ReadAhead, tasks_ahead
from cdcbus.ops.web.overview.shared_look import SharedLook
from cdcbus.ops.web.overview.stored_tasks import Route, StoredTasks, route_of
from cdcbus.plugins.errors import PositionError
from cdcbus.plugins.task_status import State
from cdcbus.tasks.runtime.throughput_history import ThroughputHistory, last_hour, minutes_path
from cdcbus.tasks.zookeeper.connection import is_silence
from cdcbus.tasks.zookeeper.status import Status, seen_status
from cdcbus.tasks.zookeeper.tasks import TaskNodes

# The last hour of a task is read again after this time.
HOURS_KNOWN_SECONDS = 20.0
URGENT = (
    State.ERROR,
    State.RETRYING,
    State.STARTING,
    State.WORKING,
    State.DONE,
    State.STOPPED,
    State.NEW,
)


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task on the overview. `hour`: rows in each of its last 60 minutes; empty where nothing
    was reported in the last hours. `alarms`: those that are raised, as rule and sentence."""

    status: Status
    route: Route | None
    hour: Sequence[int]
    alarms: Sequence[tuple[str, str]] = ()
    is_silent: bool = False
    tags: Sequence[str] = ()

    @property
    def wrong(self) -> list[tuple[str, str]]:
        """The reason of its state and its alarms, each once, as the alarm's rule (else empty) and
        a sentence."""
        if not self.status.reason:
            return list(self.alarms)
        reason = self.status.reason.splitlines()[0]
        of_state = ""
        others = []
        for rule, sentence in self.alarms:
            if rule in OF_STATE and not of_state:
                of_state = rule  # its sentence would repeat the reason
            else:
                others.append((rule, sentence))
        return [(of_state, reason), *others]


@dataclass(frozen=True, slots=True)
class Overview:
    """`rows`: the most urgent first, unless sorted by a column. `states`, `tags`: how many tasks
    are in each."""

    rows: Sequence[TaskRow]
    states: Counter[State]
    tags: Counter[str]
    rows_per_second: float
    most_behind_seconds: float | None
    alarms: int
    dead_letters: int


class Overviews:
    """All tasks, for all readers. Thread-safe."""

    def __init__(self, bus: WebBus, tasks: StoredTasks) -> None:
        self._bus, self._tasks = bus, tasks
        self._hours: dict[str, tuple[float, Sequence[int]]] = {}
        self._look = SharedLook(self._read)

    def rows(self) -> list[TaskRow]:
        """The rows of all tasks, the most urgent first. Raises PositionUnavailable; a refused znode
        is a sentence in the row of its task."""
        return self._look.get()

    def changed(self) -> None:
        """Makes the next look read again, after a change."""
        self._look.changed()

    def _read(self) -> list[TaskRow]:
        task_ids = TaskNodes(self._bus.client).ids()
        client = tasks_ahead(self._bus.client, task_ids)
        nodes = TaskNodes(client)
        now = time.time()
        hours = self._read_hours(task_ids, now)
        rows = []
        for task_id in task_ids:
            task, tags = self._tasks.task_and_tags(task_id, client)
            route = None
            if task is not None:
                route = route_of(task)
            alarms, is_silent = _alarms(AlarmNodes(client), task_id, now)
            row = TaskRow(
                status=explained(client, seen_status(nodes, task_id)),
                route=route,
                hour=hours[task_id],
                alarms=alarms,
                is_silent=is_silent,
                tags=tags,
            )
            rows.append(row)
        return sorted(rows, key=lambda row: (URGENT.index(row.status.state), row.status.task_id))

    def _read_hours(self, task_ids: Sequence[str], now: float) -> Mapping[str, Sequence[int]]:
        """The rows of each task in its last hour. Tasks report them once a minute, so they are not
        read at each look."""
        old = []
        for task_id in task_ids:
            read_at, _ = self._hours.get(task_id, (0.0, ()))
            if now - read_at > HOURS_KNOWN_SECONDS:
                old.append(task_id)
        client = ReadAhead(self._bus.client)
        client.read(map(minutes_path, old))
        history = ThroughputHistory(client)
        for task_id in old:
            self._hours[task_id] = (now, _hour(history, task_id, now))
        # Deleted tasks are forgotten.
        self._hours = {task_id: self._hours[task_id] for task_id in task_ids}
        return {task_id: hour for task_id, (_, hour) in self._hours.items()}


def _alarms(nodes: AlarmNodes, task_id: str, now: float) -> tuple[list[tuple[str, str]], bool]:
    """The alarms that are raised, as rule and sentence, and whether the task is silent."""
    try:
        known, _ = nodes.get(task_id)
        raised = [(rule, alarm.sentence) for rule, alarm in known.raised.items()]
        return raised, nodes.silence(task_id).is_on(now)
    except PositionError as error:
        if is_silence(error):
            raise
        return [("zookeeper", str(error))], False


def _hour(history: ThroughputHistory, task_id: str, now: float) -> Sequence[int]:
    """The rows in each of the last minutes; empty where nothing was reported, or it is refused."""
    try:
        minutes = history.read(task_id)
    except PositionError as error:
        if is_silence(error):
            raise
        minutes = []
    return last_hour(minutes, now) if minutes else ()


def overview_of(
    rows: Sequence[TaskRow], word: str, state: str, tag: str = "", sort: str = ""
) -> Overview:
    """The rows that contain a word in id, route, node or tags, are in a state and have a tag;
    empty: any. `sort`: a column, after a `-` in reverse. The figures are those of all rows."""
    shown = []
    states: Counter[State] = Counter()
    tags: Counter[str] = Counter()
    lags = []
    rows_per_second = 0.0
    alarms = dead_letters = 0
    for row in rows:
        status = row.status
        states[status.state] += 1
        tags.update(row.tags)
        alarms += len(row.alarms)
        dead_letters += status.open_dead_letters or 0
        is_tagged = not tag or tag in row.tags
        is_in_state = not state or state == status.state
        if is_tagged and is_in_state and _contains(row, word.casefold()):
            shown.append(row)
        # What a stopped task reported last says nothing about now.
        if status.stat is not None and status.is_running:
            rows_per_second += status.stat.rows_per_second
            if status.stat.lag_seconds is not None:
                lags.append(status.stat.lag_seconds)
    return Overview(
        rows=sorted_rows(shown, sort),
        states=states,
        tags=tags,
        rows_per_second=rows_per_second,
        most_behind_seconds=max(lags, default=None),
        alarms=alarms,
        dead_letters=dead_letters,
    )


def sorted_rows(rows: Sequence[TaskRow], sort: str) -> Sequence[TaskRow]:
    """The rows by a column; unknown values come last in both directions. Equal rows keep their
    order, so the more urgent ones are first."""
    value = COLUMNS.get(sort.removeprefix("-"))
    if value is None:
        return rows
    known = []
    unknown = []
    for row in rows:
        if value(row) in (None, ""):
            unknown.append(row)
        else:
            known.append(row)
    # `reverse` keeps the order of equal rows; reversing the list would not.
    known.sort(key=value, reverse=sort.startswith("-"))
    return known + unknown


def _contains(row: TaskRow, word: str) -> bool:
    texts = [row.status.task_id, row.status.node_id, *row.tags]
    if row.route:
        texts += [row.route.source, row.route.target, *row.route.topics]
    return any(word in text.casefold() for text in texts)


def _stat(name: str) -> Callable[[TaskRow], Any]:
    """Reads a figure that a task reports; None where it has reported nothing."""

    def read(row: TaskRow) -> Any:
        if row.status.stat is None:
            return None
        return getattr(row.status.stat, name)

    return read


def _way(row: TaskRow) -> str:
    if row.route is None:
        return ""
    return f"{row.route.source} {row.route.target}".casefold()


def _rows_in_hour(row: TaskRow) -> int | None:
    if not row.hour:
        return None
    return sum(row.hour)


COLUMNS: Mapping[str, Callable[[TaskRow], Any]] = {
    "task": lambda row: row.status.task_id.casefold(),
    "state": lambda row: URGENT.index(row.status.state),
    "way": _way,
    "lag": _stat("lag_seconds"),
    "records": _stat("lag_records"),
    "rate": _stat("rows_per_second"),
    "hour": _rows_in_hour,
    "last": _stat("last_row"),
    "node": lambda row: row.status.node_id.casefold(),
}
