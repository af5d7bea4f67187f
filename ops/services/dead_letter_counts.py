"""How many dead letters of each task are open. The first of the running nodes of its environment
counts them, and writes the counts to ZooKeeper for lists and pages."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

from kazoo.client import KazooClient

from cdcbus.consumer.config import LoadTask, OnError
from cdcbus.ops.services.periodic import repeating
from cdcbus.ops.services.topics import access_of
from cdcbus.plugins.errors import CdcError, ConfigError
from cdcbus.plugins.kafka.topic_log import Access, TopicLog, end_offsets
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.config.read_task import inspect_dist
from cdcbus.tasks.control.bus_settings import BusSettings
from cdcbus.tasks.control.uses import kafka_of, task_of
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes
from cdcbus.tasks.zookeeper.node_registry import ENVIRONMENT, BusNodes, first_for
from cdcbus.tasks.zookeeper.tasks import TaskNodes

LOG = logging.getLogger(__name__)
COUNT_SECONDS = 15.0


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


class LetterCounts:
    """Reads each dead-letter topic once, then only its new records. Used on one thread."""

    def __init__(self, client: KazooClient, bus: BusSettings) -> None:
        self._client, self._bus = client, bus
        # By servers and topic: end offsets, keys of open dead letters.
        self._known: dict[tuple[str, str], tuple[dict[int, int], set[bytes]]] = {}

    def look(self, node_id: str) -> None:
        """Counts those of the tasks for which this node is the first. Never raises a CdcError."""
        try:
            running = BusNodes(self._client).running()
            self.report(lambda environment: first_for(running, environment) == node_id)
        except CdcError as error:
            LOG.debug("dead letters are not counted: %s", error)

    def report(self, is_own: Callable[[str], bool] = lambda _: True) -> None:
        """Writes the count of each task for which ZooKeeper has another one. `is_own`: whether
        this node counts for tasks of an environment. Where Kafka does not answer, the count stays.
        Raises what calls to ZooKeeper raise."""
        nodes = TaskNodes(self._client)
        counted: dict[tuple[str, str], Counter[str] | None] = {}
        for task_id in nodes.ids():
            task = self._task(task_id, is_own)
            if task is None:
                continue
            topic = dead_letter_topic_of(task)
            if not topic:
                continue
            access = access_of(task)
            key = access.servers, topic
            # Tasks share a topic, which is read once for all.
            if key not in counted:
                counted[key] = self._count(access, topic)
            counts = counted[key]
            if counts is None or nodes.open_dead_letters(task_id) == counts[task_id]:
                continue
            if nodes.swimlanes(task_id):  # else it was removed meanwhile
                nodes.put_open_dead_letters(task_id, counts[task_id])
        # Others are forgotten: a tombstone may be compacted away before this node counts there
        # again, and its dead letter would stay counted forever.
        self._known = {key: each for key, each in self._known.items() if key in counted}

    def _task(self, task_id: str, is_own: Callable[[str], bool]) -> FetchTask | LoadTask | None:
        """The task; None where another node counts for it, it makes no dead letters, its text has
        errors, or a secret of its Kafka is not available here."""
        try:
            dist = DistNodes(self._client).get(task_id)
            # A quick check: most tasks make none, and reading their texts takes long.
            if dist is None or "onError" not in str(dist):
                return None
            if not is_own(str(dist.get(ENVIRONMENT) or "")):
                return None
            inspection = inspect_dist(
                dist, self._bus.filling, Severity.NOTE, self._bus.source_lookup()
            )
            return task_of(inspection, f"task {task_id}", kafka_of)
        except ConfigError:
            return None

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
