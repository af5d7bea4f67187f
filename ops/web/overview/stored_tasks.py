"""The tasks that ZooKeeper holds, read from their texts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

import orjson

from cdcbus.consumer.config import LoadTask
from cdcbus.ops.services.dead_letter_counts import dead_letter_topic_of
from cdcbus.ops.web.bus import WebBus
from cdcbus.ops.web.overview.read_ahead import ReadAhead, texts_ahead
from cdcbus.plugins.errors import CdcError, ConfigError
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.loaders.jdbc_url import read_url
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.config.keys.task import TAGS
from cdcbus.tasks.config.keys.types import split_list
from cdcbus.tasks.config.read_task import Inspection, inspect_dist
from cdcbus.tasks.control.uses import Uses, lacking
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes
from cdcbus.tasks.zookeeper.tasks import TaskNodes

# A text that names a source or a file is read again after this time, as these can change.
KNOWN_SECONDS = 30.0
ELSEWHERE = (b"sourceName", b"${file:")


@dataclass(frozen=True, slots=True)
class Route:
    """A task's source and target in a few words. `topics`: those it writes or reads."""

    kind: str
    source: str
    target: str
    topics: tuple[str, ...]


class StoredTasks:
    """The tasks that ZooKeeper holds, read from their texts. A text is read again when it has
    changed, and every KNOWN_SECONDS where it names a source or a file. Thread-safe."""

    def __init__(self, bus: WebBus) -> None:
        self._bus = bus
        self._known: dict[str, tuple[bytes, float, Inspection]] = {}
        self._lock = Lock()

    def inspection(self, task_id: str, ahead: ReadAhead | None = None) -> Inspection:
        """What a task's text says. Raises ConfigError where ZooKeeper holds no such task, or one
        that cannot be read, and what reading its sources raises. `ahead`: where it was read."""
        dist = DistNodes(ahead or self._bus.client).get(task_id)
        if dist is None:
            raise ConfigError(f"task {task_id} has no text; import it: cdcbus task import FILE")
        text = orjson.dumps(dist)
        now = time.monotonic()
        with self._lock:
            known = self._known.get(task_id)
        if known is not None and known[0] == text:
            # A source or a file that the text names can change while the text stays the same.
            needs_others = any(word in text for word in ELSEWHERE)
            if not needs_others or now - known[1] < KNOWN_SECONDS:
                return known[2]
        # Not locked, as sources and files are read; two requests may do the same work.
        found = inspect_dist(
            dist, self._bus.settings.filling, Severity.NOTE, self._bus.settings.source_lookup()
        )
        with self._lock:
            self._known[task_id] = (text, now, found)
        return found

    def task(self, task_id: str) -> FetchTask | LoadTask | None:
        """The task; None where its text is not a valid task, for whatever reason."""
        return self.task_and_tags(task_id)[0]

    def task_and_tags(
        self, task_id: str, ahead: ReadAhead | None = None
    ) -> tuple[FetchTask | LoadTask | None, tuple[str, ...]]:
        """The task as `task` returns it, and its tags."""
        try:
            inspection = self.inspection(task_id, ahead)
        except CdcError:
            return None, ()
        entry = inspection.entries.get(TAGS)
        if entry is None:
            return inspection.task, ()
        return inspection.task, split_list(entry.written)

    def lacking(
        self, task: FetchTask | LoadTask, uses: Callable[[FetchTask | LoadTask], Uses]
    ) -> str:
        """What a task from `all` uses and is not available here, such as a secret, in words; else
        empty."""
        try:
            return lacking(self.inspection(task.task_id), f"task {task.task_id}", uses)
        except CdcError as error:  # its text was changed meanwhile
            return str(error)

    def all(self) -> list[FetchTask | LoadTask]:
        """The tasks that can be read, by id."""
        task_ids = TaskNodes(self._bus.client).ids()
        ahead = texts_ahead(self._bus.client, task_ids)
        tasks = []
        for task_id in task_ids:
            task, _ = self.task_and_tags(task_id, ahead)
            if task is not None:
                tasks.append(task)
        return tasks


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
        return "target unknown here"


def keeps_letters(task: FetchTask | LoadTask) -> bool:
    """Whether a task turns changes that it cannot apply, or rows too large for Kafka, into dead
    letters."""
    return bool(dead_letter_topic_of(task))
