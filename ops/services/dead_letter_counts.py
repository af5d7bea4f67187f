"""How many dead letters of each task are open. The first of the running nodes of its environment
counts them, and writes the counts to ZooKeeper for lists and pages."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, partial

from kazoo.client import KazooClient

from cdcbus.consumer.config import LoadTask, OnError
from cdcbus.ops.services.periodic import repeating
from cdcbus.ops.services.topics import access_of
from cdcbus.plugins.errors import CdcError, ConfigError, PositionError
from cdcbus.plugins.kafka.topic_log import Access, TopicLog, end_offsets
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.config.named_sources import Lookup, NamedSource, first_of
from cdcbus.tasks.config.read_task import inspect_dist
from cdcbus.tasks.control.bus_settings import BusSettings
from cdcbus.tasks.control.uses import kafka_of, task_of
from cdcbus.tasks.zookeeper.connection import is_silence
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes
from cdcbus.tasks.zookeeper.node_registry import ENVIRONMENT, BusNodes, first_for
from cdcbus.tasks.zookeeper.source_registry import SourceNodes
from cdcbus.tasks.zookeeper.task_configs import Dist
from cdcbus.tasks.zookeeper.tasks import TaskNodes

LOG = logging.getLogger(__name__)
COUNT_SECONDS = 15.0
FILE_SECONDS = 300.0
"""A task with secrets in files is read again after this time, as these can change."""


def dead_letter_topic_of(task: FetchTask | LoadTask) -> str:
    """The topic of a task's dead letters; empty where it makes none."""
    if isinstance(task, FetchTask):
        return task.publish.dead_letter_topic
    if task.on_error is OnError.STOP:
        return ""
    return task.dead_letters.topic


def counting_letters(
    client: KazooClient, bus: BusSettings, node_id: str
) -> AbstractContextManager[None]:
    """Counts while the block runs."""
    return repeating("letters", COUNT_SECONDS, partial(LetterCounts(client, bus).look, node_id))


@dataclass(frozen=True, slots=True)
class _Known:
    """What was read of a task. `sources`: those that it names, by name; `files_until`: when files
    that it names are read again; None: it names none."""

    dist: Dist
    sources: dict[str, NamedSource | None]
    files_until: float | None
    task: FetchTask | LoadTask | None

    def is_current(self, dist: Dist, sources: Lookup) -> bool:
        """Whether neither the task's text nor a source has changed."""
        if dist != self.dist:
            return False
        if self.files_until is not None and time.monotonic() >= self.files_until:
            return False
        try:
            return all(sources(name) == source for name, source in self.sources.items())
        except ConfigError:
            return False


class LetterCounts:
    """Reads each dead-letter topic once, then only its new records, and a task's text again when it
    or a source that it names has changed. Used on one thread."""

    def __init__(self, client: KazooClient, bus: BusSettings) -> None:
        self._client, self._bus = client, bus
        # By servers and topic: end offsets, keys of open dead letters.
        self._known: dict[tuple[str, str], tuple[dict[int, int], set[bytes]]] = {}
        self._tasks: dict[str, _Known] = {}

    def look(self, node_id: str) -> None:
        """Counts those of the tasks for which this node is the first. Never raises a CdcError."""
        try:
            self.report(self._own(node_id))
        except CdcError as error:
            LOG.debug("dead letters are not counted: %s", error)

    def _own(self, node_id: str) -> Callable[[str], bool]:
        """Whether this node counts for tasks of an environment. Raises PositionUnavailable."""
        try:
            running = BusNodes(self._client).running()
        except PositionError as error:
            if is_silence(error):
                raise
            # Of another node, which may run or not: two that count write the same.
            return lambda environment: environment == self._bus.environment
        return lambda environment: first_for(running, environment) == node_id

    def report(self, is_own: Callable[[str], bool] = lambda _: True) -> None:
        """Writes the count of each task for which ZooKeeper has another one. `is_own`: whether
        this node counts for tasks of an environment. Where Kafka does not answer, or ZooKeeper
        refuses a znode, the count stays. Raises PositionUnavailable."""
        nodes = TaskNodes(self._client)
        counted: dict[tuple[str, str], Counter[str] | None] = {}
        # Each source once: there can be hundreds of tasks.
        sources = cache(first_of(self._bus.local_source_lookup(), SourceNodes(self._client).get))
        ids = nodes.ids()
        self._tasks = {task_id: self._tasks[task_id] for task_id in ids if task_id in self._tasks}
        for task_id in ids:
            try:
                task = self._task(task_id, is_own, sources)
                if task is not None:
                    self._report_task(nodes, task_id, task, counted)
            except PositionError as error:
                if is_silence(error):
                    raise
                LOG.debug("dead letters of task %s are not counted: %s", task_id, error)
        # Others are forgotten: a tombstone may be compacted away before this node counts there
        # again, and its dead letter would stay counted forever.
        self._known = {key: each for key, each in self._known.items() if key in counted}

    def _report_task(
        self,
        nodes: TaskNodes,
        task_id: str,
        task: FetchTask | LoadTask,
        counted: dict[tuple[str, str], Counter[str] | None],
    ) -> None:
        """Writes the count of a task. `counted`: the counts of topics, by servers and topic."""
        topic = dead_letter_topic_of(task)
        if not topic:
            return
        access = access_of(task)
        key = access.servers, topic
        # Tasks share a topic, which is read once for all.
        if key not in counted:
            counted[key] = self._count(access, topic)
        counts = counted[key]
        # The login may be another one now.
        if counts is None and self._tasks[task_id].files_until is not None:
            del self._tasks[task_id]
        if counts is None or nodes.open_dead_letters(task_id) == counts[task_id]:
            return
        if nodes.swimlanes(task_id):  # else it was removed meanwhile
            nodes.put_open_dead_letters(task_id, counts[task_id])

    def _task(
        self, task_id: str, is_own: Callable[[str], bool], sources: Lookup
    ) -> FetchTask | LoadTask | None:
        """The task; None where another node counts for it, it makes no dead letters, its text has
        errors, or a secret of its Kafka is not available here."""
        try:
            dist = DistNodes(self._client).get(task_id)
            # A quick check: most tasks make none, and reading their texts takes long.
            if dist is None or "onError" not in str(dist):
                return None
        except ConfigError:
            return None
        if not is_own(str(dist.get(ENVIRONMENT) or "")):
            return None
        known = self._tasks.get(task_id)
        if known is None or not known.is_current(dist, sources):
            known = self._tasks[task_id] = self._read(task_id, dist, sources)
        return known.task

    def _read(self, task_id: str, dist: Dist, sources: Lookup) -> _Known:
        named: dict[str, NamedSource | None] = {}

        def noted(name: str) -> NamedSource | None:
            # Stays None where it cannot be read.
            named[name] = None
            named[name] = sources(name)
            return named[name]

        task = None
        try:
            inspection = inspect_dist(dist, self._bus.filling, Severity.NOTE, noted)
            task = task_of(inspection, f"task {task_id}", kafka_of)
        except ConfigError as error:
            LOG.debug("dead letters of task %s are not counted: %s", task_id, error)
        has_files = "${file:" in f"{dist} {named}"
        return _Known(dist, named, time.monotonic() + FILE_SECONDS if has_files else None, task)

    def _count(self, access: Access, topic: str) -> Counter[str] | None:
        """The counts by task; None where Kafka does not answer."""
        known, keys = self._known.get((access.servers, topic), ({}, set()))
        try:
            with TopicLog(access) as log:
                bounds = log.bounds(topic)
                ends = end_offsets(bounds)
                if any(known.get(partition, 0) > end for partition, end in ends.items()):
                    # The topic was deleted and created again.
                    known, keys = {}, set()
                starts = {}
                for partition, (low, _) in bounds.items():
                    starts[partition] = max(low, known.get(partition, 0))
                for record in log.records(topic, starts, ends):
                    # A tombstone: the letter was replayed or dropped.
                    if record.value is None:
                        keys.discard(record.key or b"")
                    else:
                        keys.add(record.key or b"")
        except CdcError as error:
            LOG.debug("dead letters are not counted: %s", error)
            return None
        # Only after the last record: after an error the same ones are read again, which changes
        # nothing.
        self._known[access.servers, topic] = ends, keys
        return Counter(map(_task_id_in, keys))


def _task_id_in(key: bytes) -> str:
    """The task of a dead letter. A key is the task's id, a newline, and the record."""
    task_id, _, _ = key.partition(b"\n")
    return task_id.decode("utf-8", "replace")
