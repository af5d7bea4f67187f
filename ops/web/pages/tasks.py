"""What the pages show of tasks: read from ZooKeeper, made ready for templates."""

from __future__ import annotations

import socket
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import orjson

from cdcbus.consumer.config import LoadTask
from cdcbus.ops.alarms.rules import OF_STATE
from cdcbus.ops.alarms.store import AlarmNodes
from cdcbus.ops.services.dead_letter_counts import dead_letter_topic_of
from cdcbus.ops.services.scheduling import explained
from cdcbus.ops.web.bus import WebBus
from cdcbus.ops.web.pages.charts import Series
from cdcbus.plugins.errors import CdcError, ConfigError, PositionError
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.loaders.jdbc_url import read_url
from cdcbus.plugins.positions import BinlogPosition, kafka_positions_from_json
from cdcbus.plugins.task_status import State
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.diagnostics import Diagnostic, Severity
from cdcbus.tasks.config.keys.task import find_key
from cdcbus.tasks.config.parser import Entry, is_inline_secret
from cdcbus.tasks.config.read_task import Inspection, inspect_dist
from cdcbus.tasks.runtime.throughput_history import (
    MINUTE_SECONDS,
    Minute,
    ThroughputHistory,
    last_hour,
    minute_of,
)
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes
from cdcbus.tasks.zookeeper.position_history import Change, histories, positions_of
from cdcbus.tasks.zookeeper.status import Status, status_of
from cdcbus.tasks.zookeeper.tasks import TaskNodes

# how long a text is not read again, as the sources that it names may have changed
KNOWN_SECONDS = 30.0
OVERVIEW_SECONDS = 1.0  # how long all who look share one answer
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
LOG_LINES = 100
LOG_BYTES = 64 << 10
MASK = "(secret, not shown)"


@dataclass(frozen=True, slots=True)
class Route:
    """Where a task's rows come from and go to, in few words. `topics`: those it writes or reads."""

    kind: str
    source: str
    target: str
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TaskRow:
    """A task on the overview. `hour`: rows in each of its last 60 minutes; empty where nothing
    was told in the last hours. `alarms`: those that are raised, rule and sentence."""

    status: Status
    route: Route | None
    hour: Sequence[int]
    alarms: Sequence[tuple[str, str]] = ()
    is_silent: bool = False

    @property
    def wrong(self) -> list[tuple[str, str]]:
        """The reason of its state and its alarms, each once: the alarm's rule, empty where it is
        none, and a sentence."""
        of_state = next((rule for rule, _ in self.alarms if rule in OF_STATE), "")
        reason = self.status.reason.splitlines()[:1]
        others = [
            (rule, sentence) for rule, sentence in self.alarms if not reason or rule != of_state
        ]
        return [*((of_state, sentence) for sentence in reason), *others]


@dataclass(frozen=True, slots=True)
class Overview:
    """`rows`: the most urgent first. `states`: how many tasks there are of each."""

    rows: Sequence[TaskRow]
    states: Counter[State]
    rows_per_second: float
    most_behind_seconds: float | None
    alarms: int
    dead_letters: int


@dataclass(frozen=True, slots=True)
class StoredPosition:
    """A stored position in words: by partition, or whole."""

    swimlane: str
    words: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Setting:
    """A line of a task's text; `shown` holds no secret."""

    key: str
    shown: str
    is_secret: bool


class StoredTasks:
    """The tasks of ZooKeeper as their texts say. Reads a text again when it has changed, and
    every KNOWN_SECONDS. Thread-safe."""

    def __init__(self, bus: WebBus) -> None:
        self._bus = bus
        self._known: dict[str, tuple[bytes, float, Inspection]] = {}
        self._lock = Lock()

    def inspection(self, task_id: str) -> Inspection:
        """Raises ConfigError where ZooKeeper holds no task, or one that cannot be read, and what
        asking for its sources raises."""
        dist = DistNodes(self._bus.client).get(task_id)
        if dist is None:
            raise ConfigError(
                f"there is no text of task {task_id}; put one there: cdcbus task import FILE"
            )
        text, now = orjson.dumps(dist), time.monotonic()
        with self._lock:
            known = self._known.get(task_id)
        if known is not None and known[0] == text and now - known[1] < KNOWN_SECONDS:
            return known[2]
        found = inspect_dist(
            dist, self._bus.settings.filling, Severity.NOTE, self._bus.settings.source_lookup()
        )
        with self._lock:
            self._known[task_id] = (text, now, found)
        return found

    def task(self, task_id: str) -> FetchTask | LoadTask | None:
        """The task; None where its text makes none, for whatever reason."""
        try:
            return self.inspection(task_id).task
        except CdcError:
            return None

    def all(self) -> list[FetchTask | LoadTask]:
        """Those that can be read, by id."""
        return [
            task
            for task_id in TaskNodes(self._bus.client).ids()
            if (task := self.task(task_id)) is not None
        ]


class Overviews:
    """All tasks, asked for at most once in OVERVIEW_SECONDS, however many look. Thread-safe."""

    def __init__(self, bus: WebBus, tasks: StoredTasks) -> None:
        self._bus, self._tasks = bus, tasks
        self._last: tuple[float, list[TaskRow]] | None = None
        self._lock = Lock()

    def rows(self) -> list[TaskRow]:
        """The most urgent first."""
        with self._lock:
            if self._last is None or time.monotonic() - self._last[0] > OVERVIEW_SECONDS:
                self._last = time.monotonic(), self._read()
            return self._last[1]

    def _read(self) -> list[TaskRow]:
        nodes, minutes, now = (
            TaskNodes(self._bus.client),
            ThroughputHistory(self._bus.client),
            time.time(),
        )
        alarms = AlarmNodes(self._bus.client)
        found = []
        for task_id in nodes.ids():
            task = self._tasks.task(task_id)
            route = None if task is None else route_of(task)
            told = minutes.read(task_id)
            raised = [
                (rule, alarm.sentence) for rule, alarm in alarms.get(task_id)[0].raised.items()
            ]
            hour = last_hour(told, now) if told else ()
            status = explained(self._bus.client, status_of(nodes, task_id))
            found.append(TaskRow(status, route, hour, raised, alarms.silence(task_id).is_on(now)))
        return sorted(found, key=lambda row: (URGENT.index(row.status.state), row.status.task_id))


def overview(rows: Sequence[TaskRow], word: str, state: str) -> Overview:
    """The rows that hold a word in id, route or node, and are in a state; the figures are of
    all."""
    stats = [
        row.status.stat for row in rows if row.status.stat is not None and row.status.is_running
    ]
    lags = [stat.lag_seconds for stat in stats if stat.lag_seconds is not None]
    return Overview(
        [row for row in rows if _holds(row, word.casefold()) and state in ("", row.status.state)],
        Counter(row.status.state for row in rows),
        sum(stat.rows_per_second for stat in stats),
        max(lags, default=None),
        sum(len(row.alarms) for row in rows),
        sum(row.status.open_dead_letters or 0 for row in rows),
    )


def _holds(row: TaskRow, word: str) -> bool:
    texts = [
        row.status.task_id,
        row.status.node_id,
        *((row.route.source, row.route.target, *row.route.topics) if row.route else ()),
    ]
    return any(word in text.casefold() for text in texts)


def route_of(task: FetchTask | LoadTask) -> Route:
    """Without a secret."""
    if isinstance(task, FetchTask):
        server = ", ".join(f"{host}:{port}" for host, port in task.source.addresses)
        return Route(
            "fetch",
            f"{task.swimlane} at {server}",
            f"topic {task.publish.topic}",
            (task.publish.topic,),
        )
    topics = task.source.topics
    try:
        target = (
            f"topic {task.target.topic}"
            if isinstance(task.target, PublishConfig)
            else read_url(task.target).shown
        )
    except ConfigError:
        target = "target not known here"
    return Route(
        "consumer",
        f"topic {topics[0]}" + (f" and {len(topics) - 1} more" if len(topics) > 1 else ""),
        target,
        topics,
    )


def keeps_letters(task: FetchTask | LoadTask) -> bool:
    """Whether what it cannot apply, or what is too large for Kafka, becomes dead letters."""
    return bool(dead_letter_topic_of(task))


def charts_of(minutes: Sequence[Minute], now: float) -> list[Series]:
    """Rows and lag, over the smallest window that holds what is known."""
    if not minutes:
        return []
    oldest = (minute_of(now) - minutes[0].at) // MINUTE_SECONDS
    length = next((window for window in WINDOWS_MINUTES if window >= oldest), WINDOWS_MINUTES[-1])
    start = minute_of(now) - length * MINUTE_SECONDS
    known = {minute.at: minute for minute in minutes}
    slots = [known.get(start + number * MINUTE_SECONDS) for number in range(length)]
    series = [
        Series(
            "Rows",
            "a minute",
            start,
            MINUTE_SECONDS,
            [None if slot is None else slot.rows for slot in slots],
        ),
        Series(
            "Lag",
            "seconds",
            start,
            MINUTE_SECONDS,
            [None if slot is None else slot.lag_seconds for slot in slots],
        ),
        Series(
            "Lag",
            "records",
            start,
            MINUTE_SECONDS,
            [None if slot is None else slot.lag_records for slot in slots],
        ),
    ]
    return [each for each in series if any(value is not None for value in each.values)] or series[
        :1
    ]


def places(bus: WebBus, task_id: str) -> list[StoredPosition]:
    """The stored positions. What cannot be read is shown as it is."""
    return [
        StoredPosition(lane, _in_words(text))
        for lane, text in positions_of(bus.client, task_id).items()
    ]


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
    """What was set by hand, newest first, with its swimlane."""
    found = [
        (lane, change)
        for lane, changes in histories(bus.client, task_id).items()
        for change in changes
    ]
    return sorted(found, key=lambda each: each[1].at, reverse=True)


def settings(entries: Iterable[Entry]) -> list[Setting]:
    """A task's lines. A secret that is written out is not shown, nor is a value with one inside;
    placeholders are."""
    return [
        Setting(entry.key, MASK if is_hidden else entry.written, is_hidden)
        for entry in entries
        for is_hidden in [is_inline_secret(entry.key, find_key(entry.key), entry.written)]
    ]


def findings_of(inspection: Inspection) -> list[Diagnostic]:
    """Errors and warnings, errors first."""
    return [
        *inspection.diagnostics.of(Severity.ERROR),
        *inspection.diagnostics.of(Severity.WARNING),
    ]


def log_tail(status: Status) -> tuple[list[str], str]:
    """The last lines of its log, if it lies on this machine; else why it cannot be shown."""
    run = status.run
    if run is None or not run.log:
        return [], "No node has run it yet."
    if run.host != socket.gethostname():
        return [], f"It lies on {run.host}, {run.log}: look at the pages of the node there."
    try:
        with Path(run.log).open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - LOG_BYTES))
            text = file.read().decode("utf-8", "replace")
    except OSError as error:
        return [], f"{run.log} cannot be read: {error.strerror}."
    lines = text.splitlines()
    return list(deque(lines[1:] if size > LOG_BYTES else lines, LOG_LINES)), ""
