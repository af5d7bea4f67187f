"""What the pages show of tasks: read from ZooKeeper, made ready for templates."""

from __future__ import annotations

import socket
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any

import orjson

from cdcbus.consumer.config import LoadTask
from cdcbus.ops.alarms.rules import OF_STATE
from cdcbus.ops.alarms.store import AlarmNodes
from cdcbus.ops.services.dead_letter_counts import dead_letter_topic_of
from cdcbus.ops.services.scheduling import explained
from cdcbus.ops.web.bus import WebBus
from cdcbus.ops.web.read_ahead import ReadAhead, tasks_ahead, texts_ahead
from cdcbus.ops.web.series.series import Mark, Series
from cdcbus.plugins.errors import CdcError, ConfigError, PositionError
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.loaders.jdbc_url import read_url
from cdcbus.plugins.positions import BinlogPosition, kafka_positions_from_json
from cdcbus.plugins.task_status import State
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.diagnostics import Diagnostic, Severity
from cdcbus.tasks.config.keys.task import TAGS, find_key
from cdcbus.tasks.config.keys.types import split_list
from cdcbus.tasks.config.parser import Entry, is_inline_secret
from cdcbus.tasks.config.read_task import Inspection, inspect_dist
from cdcbus.tasks.control.uses import Uses, lacking
from cdcbus.tasks.runtime.throughput_history import (
    HOUR_SECONDS,
    KEPT_SECONDS,
    MINUTE_SECONDS,
    Minute,
    ThroughputHistory,
    hour_of,
    last_hour,
    minute_of,
    minutes_path,
    whole_hour,
)
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes
from cdcbus.tasks.zookeeper.position_history import Change, histories, positions_of
from cdcbus.tasks.zookeeper.status import Status, status_of
from cdcbus.tasks.zookeeper.tasks import TaskNodes

# how long a text is not read again that names a source or a file, which may have changed
KNOWN_SECONDS = 30.0
ELSEWHERE = (b"sourceName", b"${file:")
OVERVIEW_SECONDS = 1.0  # how long all who look share one answer
REST = 4.0  # times as long as the look took, until the next one
HOURS_KNOWN_SECONDS = 20.0  # how long the last hour of a task is not read again
URGENT = (
    State.ERROR,
    State.RETRYING,
    State.STARTING,
    State.WORKING,
    State.DONE,
    State.STOPPED,
    State.NEW,
)
WINDOWS_MINUTES = (30, 60, 180, 360)
KEPT_MINUTES = WINDOWS_MINUTES[-1]
RANGES = {"1h": 3600, "6h": 6 * 3600, "1d": 86_400, "7d": 7 * 86_400, "30d": 30 * 86_400}
LOG_LINES = 100
LOG_BYTES = 64 << 10
MASK = "(secret, not shown)"


@dataclass(frozen=True, slots=True)
class Route:
    """A task's source and target in a few words. `topics`: those it writes or reads."""

    kind: str
    source: str
    target: str
    topics: tuple[str, ...]


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
        of_state = next((rule for rule, _ in self.alarms if rule in OF_STATE), "")
        reason = self.status.reason.splitlines()[0]
        # The alarm of the state would say the reason again.
        others = [each for each in self.alarms if each[0] != of_state]
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


@dataclass(frozen=True, slots=True)
class StoredPosition:
    """A stored position as pairs of words: one for each partition, or one for a binlog."""

    swimlane: str
    words: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Setting:
    """A line of a task's text; `shown` holds no secret."""

    key: str
    shown: str
    is_secret: bool


class StoredTasks:
    """The tasks that ZooKeeper holds, read from their texts. A text is read again when it has
    changed, and every KNOWN_SECONDS where it says that the rest is elsewhere. Thread-safe."""

    def __init__(self, bus: WebBus) -> None:
        self._bus = bus
        self._known: dict[str, tuple[bytes, float, Inspection]] = {}
        self._lock = Lock()

    def inspection(self, task_id: str, ahead: ReadAhead | None = None) -> Inspection:
        """What a task's text says. Raises ConfigError where ZooKeeper holds no such task, or one
        that cannot be read, and what asking for its sources raises. `ahead`: where it was read."""
        dist = DistNodes(ahead or self._bus.client).get(task_id)
        if dist is None:
            raise ConfigError(
                f"there is no text of task {task_id}; put one there: cdcbus task import FILE"
            )
        text = orjson.dumps(dist)
        now = time.monotonic()
        with self._lock:
            known = self._known.get(task_id)
        if known is not None and known[0] == text:
            is_alone = not any(word in text for word in ELSEWHERE)
            if is_alone or now - known[1] < KNOWN_SECONDS:
                return known[2]
        found = inspect_dist(
            dist, self._bus.settings.filling, Severity.NOTE, self._bus.settings.source_lookup()
        )
        with self._lock:
            self._known[task_id] = (text, now, found)
        return found

    def task(self, task_id: str) -> FetchTask | LoadTask | None:
        """The task; None where its text makes none, for whatever reason."""
        return self.task_and_tags(task_id)[0]

    def task_and_tags(
        self, task_id: str, ahead: ReadAhead | None = None
    ) -> tuple[FetchTask | LoadTask | None, tuple[str, ...]]:
        """The same, with the words that group it."""
        try:
            inspection = self.inspection(task_id, ahead)
        except CdcError:
            return None, ()
        entry = inspection.entries.get(TAGS)
        return inspection.task, split_list(entry.written) if entry else ()

    def lacking(
        self, task: FetchTask | LoadTask, uses: Callable[[FetchTask | LoadTask], Uses]
    ) -> str:
        """What of a task that `all` gave is used and not to be had here, such as a secret, in
        words; else empty."""
        try:
            return lacking(self.inspection(task.task_id), f"task {task.task_id}", uses)
        except CdcError as error:  # its text was changed meanwhile
            return str(error)

    def all(self) -> list[FetchTask | LoadTask]:
        """The tasks that can be read, by id."""
        task_ids = TaskNodes(self._bus.client).ids()
        ahead = texts_ahead(self._bus.client, task_ids)
        tasks = [self.task_and_tags(task_id, ahead)[0] for task_id in task_ids]
        return [task for task in tasks if task is not None]


class Overviews:
    """All tasks, read at most once in OVERVIEW_SECONDS for all who look, and with many tasks for
    no more than a part of the time. Thread-safe."""

    def __init__(self, bus: WebBus, tasks: StoredTasks) -> None:
        self._bus, self._tasks = bus, tasks
        self._rows: list[TaskRow] | None = None
        self._again = 0.0
        self._hours: dict[str, tuple[float, Sequence[int]]] = {}
        self._lock = Lock()

    def rows(self) -> list[TaskRow]:
        """The most urgent first."""
        with self._lock:
            if self._rows is None or time.monotonic() > self._again:
                began = time.monotonic()
                self._rows = self._read()
                took = time.monotonic() - began
                self._again = time.monotonic() + max(OVERVIEW_SECONDS, REST * took)
            return self._rows

    def changed(self) -> None:
        """Somebody has just changed something: the next look is a new one."""
        with self._lock:
            self._rows = None

    def _read(self) -> list[TaskRow]:
        task_ids = TaskNodes(self._bus.client).ids()
        client = tasks_ahead(self._bus.client, task_ids)
        nodes = TaskNodes(client)
        alarms = AlarmNodes(client)
        now = time.time()
        hours = self._read_hours(task_ids, now)
        rows = []
        for task_id in task_ids:
            task, tags = self._tasks.task_and_tags(task_id, client)
            known, _ = alarms.get(task_id)
            row = TaskRow(
                status=explained(client, status_of(nodes, task_id)),
                route=None if task is None else route_of(task),
                hour=hours[task_id],
                alarms=[(rule, alarm.sentence) for rule, alarm in known.raised.items()],
                is_silent=alarms.silence(task_id).is_on(now),
                tags=tags,
            )
            rows.append(row)
        return sorted(rows, key=lambda row: (URGENT.index(row.status.state), row.status.task_id))

    def _read_hours(self, task_ids: Sequence[str], now: float) -> Mapping[str, Sequence[int]]:
        """The last hour of each task. A minute is told once, so a task's is not read each time."""
        old = [
            task_id
            for task_id in task_ids
            if task_id not in self._hours or now - self._hours[task_id][0] > HOURS_KNOWN_SECONDS
        ]
        client = ReadAhead(self._bus.client)
        client.read(minutes_path(task_id) for task_id in old)
        history = ThroughputHistory(client)
        for task_id in old:
            minutes = history.read(task_id)
            self._hours[task_id] = now, last_hour(minutes, now) if minutes else ()
        self._hours = {task_id: self._hours[task_id] for task_id in task_ids}
        return {task_id: hour for task_id, (_, hour) in self._hours.items()}


def overview(
    rows: Sequence[TaskRow], word: str, state: str, tag: str = "", sort: str = ""
) -> Overview:
    """The rows that contain a word in id, route, node or tags, are in a state and have a tag;
    empty: any. `sort`: a column, behind a `-` from its end. The figures are of all rows."""
    shown = []
    states: Counter[State] = Counter()
    tags: Counter[str] = Counter()
    lags = []
    rows_per_second = 0.0
    for row in rows:
        status = row.status
        states[status.state] += 1
        tags.update(row.tags)
        is_tagged = not tag or tag in row.tags
        if is_tagged and _contains(row, word.casefold()) and state in ("", status.state):
            shown.append(row)
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
        alarms=sum(len(row.alarms) for row in rows),
        dead_letters=sum(row.status.open_dead_letters or 0 for row in rows),
    )


def sorted_rows(rows: Sequence[TaskRow], sort: str) -> Sequence[TaskRow]:
    """By a column; what is not known comes last in both directions. Rows that are equal keep
    their order, so the more urgent ones are first."""
    value = COLUMNS.get(sort.removeprefix("-"))
    if value is None:
        return rows
    known = [row for row in rows if value(row) not in (None, "")]
    rest = [row for row in rows if value(row) in (None, "")]
    return [*sorted(known, key=value, reverse=sort.startswith("-")), *rest]


def _contains(row: TaskRow, word: str) -> bool:
    texts = [row.status.task_id, row.status.node_id, *row.tags]
    if row.route:
        texts += [row.route.source, row.route.target, *row.route.topics]
    return any(word in text.casefold() for text in texts)


def _stat(name: str) -> Callable[[TaskRow], Any]:
    return lambda row: getattr(row.status.stat, name) if row.status.stat else None


COLUMNS: Mapping[str, Callable[[TaskRow], Any]] = {
    "task": lambda row: row.status.task_id.casefold(),
    "state": lambda row: URGENT.index(row.status.state),
    "way": lambda row: f"{row.route.source} {row.route.target}".casefold() if row.route else "",
    "lag": _stat("lag_seconds"),
    "records": _stat("lag_records"),
    "rate": _stat("rows_per_second"),
    "hour": lambda row: sum(row.hour) if row.hour else None,
    "last": _stat("last_row"),
    "node": lambda row: row.status.node_id.casefold(),
}


def route_of(task: FetchTask | LoadTask) -> Route:
    """A task's route. It holds no secret."""
    if isinstance(task, FetchTask):
        server = task.source.shown
        topic = task.publish.topic
        return Route("fetch", f"{task.swimlane} at {server}", f"topic {topic}", (topic,))
    topics = task.source.topics
    source = f"topic {topics[0]}"
    if len(topics) > 1:
        source += f" and {len(topics) - 1} more"
    return Route("consumer", source, _target_of(task), topics)


def _target_of(task: LoadTask) -> str:
    if isinstance(task.target, PublishConfig):
        return f"topic {task.target.topic}"
    try:
        return read_url(task.target).shown
    except ConfigError:
        return "target not known here"


def keeps_letters(task: FetchTask | LoadTask) -> bool:
    """Whether changes that it cannot apply, or rows too large for Kafka, become dead letters."""
    return bool(dead_letter_topic_of(task))


def charts_of(
    minutes: Sequence[Minute],
    now: float,
    hours: Sequence[Minute] = (),
    span: str = "",
    marks: Sequence[Mark] = (),
) -> list[Series]:
    """Rows and lag over one of RANGES, by minute, from a day on by hour; without one over the
    smallest window that holds all minutes. A chart without a value is left out, but for that of
    the rows. `marks`: what happened meanwhile."""
    step, known = MINUTE_SECONDS, {minute.at: minute for minute in minutes}
    if span in RANGES:
        length = RANGES[span] // MINUTE_SECONDS
        if RANGES[span] > KEPT_SECONDS:
            step, known = HOUR_SECONDS, {hour.at: hour for hour in hours}
            length = RANGES[span] // HOUR_SECONDS
            current = hour_of(int(now))  # is shown as far as it is
            now = current + HOUR_SECONDS
            if so_far := [minute for minute in minutes if minute.at >= current]:
                known[current] = whole_hour(current, so_far)
    elif minutes:
        oldest = (minute_of(now) - minutes[0].at) // MINUTE_SECONDS
        length = next((window for window in WINDOWS_MINUTES if window >= oldest), KEPT_MINUTES)
    else:
        return []
    start = int(now) // step * step - length * step
    rows: list[float | None] = []
    seconds: list[float | None] = []
    records: list[float | None] = []
    for number in range(length):
        minute = known.get(start + number * step)
        rows.append(minute.rows if minute else None)
        seconds.append(minute.lag_seconds if minute else None)
        records.append(minute.lag_records if minute else None)
    inside = [mark for mark in marks if start <= mark.at <= start + length * step]
    is_hours = step == HOUR_SECONDS
    charts = [Series("Rows", "an hour" if is_hours else "a minute", start, step, rows, inside)]
    for unit, values in (("seconds", seconds), ("records", records)):
        if any(value is not None for value in values):
            shown = f"{unit}, the most in each hour" if is_hours else unit
            charts.append(Series("Lag", shown, start, step, values, inside))
    return charts


def places(bus: WebBus, task_id: str) -> list[StoredPosition]:
    """The stored positions."""
    stored = positions_of(bus.client, task_id)
    return [StoredPosition(swimlane, _in_words(text)) for swimlane, text in stored.items()]


def _in_words(stored: str | None) -> list[tuple[str, str]]:
    try:
        if not stored or not stored.strip():
            return []
        if '"topic"' in stored:
            return [
                (f"partition {each.partition}", f"next offset {each.next_offset:,}")
                for each in kafka_positions_from_json(stored)
            ]
        return [("binlog", str(BinlogPosition.from_json(stored)))]
    except PositionError:
        return [("not readable", "set it again: cdcbus offset set")]


def position_changes(bus: WebBus, task_id: str) -> list[tuple[str, Change]]:
    """The positions that operators have set, newest first, with their swimlanes."""
    found: list[tuple[str, Change]] = []
    for swimlane, changes in histories(bus.client, task_id).items():
        found += [(swimlane, change) for change in changes]
    return sorted(found, key=lambda each: each[1].at, reverse=True)


def settings(entries: Iterable[Entry]) -> list[Setting]:
    """A task's lines. Values that are a secret, or contain one, are masked; placeholders are
    shown."""
    found = []
    for entry in entries:
        is_hidden = is_inline_secret(entry.key, find_key(entry.key), entry.written)
        found.append(Setting(entry.key, MASK if is_hidden else entry.written, is_hidden))
    return found


def diagnostics_of(inspection: Inspection) -> list[Diagnostic]:
    """Errors and warnings, errors first."""
    return [
        *inspection.diagnostics.of(Severity.ERROR),
        *inspection.diagnostics.of(Severity.WARNING),
    ]


def log_tail(status: Status) -> tuple[list[str], str]:
    """The last lines of a task's log where it is on this machine; else why it cannot be shown."""
    run = status.run
    if run is None or not run.log:
        return [], "No node has run it yet."
    if run.host != socket.gethostname():
        return [], f"It is on {run.host}, {run.log}: look at the pages of the node there."
    try:
        with Path(run.log).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LOG_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError as error:
        return [], f"{run.log} cannot be read: {error.strerror}."
    lines = text.splitlines()
    if size > LOG_BYTES:
        del lines[0]  # its beginning is cut off
    return lines[-LOG_LINES:], ""
