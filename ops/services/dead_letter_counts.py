"""How many dead letters of each task are open: counted by the first of the nodes that are there,
told in ZooKeeper for lists and pages."""

from __future__ import annotations

import logging
from collections import Counter
from contextlib import AbstractContextManager
from functools import partial

from kazoo.client import KazooClient

from cdcbus.consumer.config import LoadTask, OnError
from cdcbus.ops.services.periodic import repeating
from cdcbus.ops.services.topics import Access, TopicLog, access_of
from cdcbus.plugins.errors import CdcError, ConfigError
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.config.read_task import inspect_dist
from cdcbus.tasks.control.bus_settings import BusSettings
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes
from cdcbus.tasks.zookeeper.node_registry import BusNodes
from cdcbus.tasks.zookeeper.tasks import TaskNodes

LOG = logging.getLogger(__name__)
COUNT_SECONDS = 15.0


def dead_letter_topic_of(task: FetchTask | LoadTask) -> str:
    """Empty where it leaves no dead letters."""
    if isinstance(task, FetchTask):
        return task.publish.dead_letter_topic
    return "" if task.on_error is OnError.STOP else task.dead_letters.topic


def counting_letters(
    client: KazooClient, bus: BusSettings, node_id: str
) -> AbstractContextManager[None]:
    """As long as the block lasts."""
    return repeating("letters", COUNT_SECONDS, partial(LetterCounts(client, bus).look, node_id))


class LetterCounts:
    """Reads each dead-letter topic once, then what has come since. Used on one thread."""

    def __init__(self, client: KazooClient, bus: BusSettings) -> None:
        self._client, self._bus = client, bus
        # by servers and topic: end offsets, keys of open letters
        self._seen: dict[tuple[str, str], tuple[dict[int, int], set[bytes]]] = {}

    def look(self, node_id: str) -> None:
        """Tells, if this node is to. Never raises a CdcError."""
        try:
            if BusNodes(self._client).is_first(node_id):
                self.tell()
            else:  # what is settled meanwhile may be compacted away before it is read
                self._seen.clear()
        except CdcError as error:
            LOG.debug("dead letters are not counted: %s", error)

    def tell(self) -> None:
        """Of each task whose count is another than ZooKeeper has. Where Kafka does not answer it
        stays. Raises what ZooKeeper does."""
        nodes, counted = TaskNodes(self._client), dict[tuple[str, str], Counter[str] | None]()
        for task_id in nodes.ids():
            task = self._task(task_id)
            topic = dead_letter_topic_of(task) if task else ""
            if not task or not topic:
                continue
            key = access_of(task).servers, topic
            if key not in counted:
                counted[key] = self._count(access_of(task), topic)
            counts = counted[key]
            if (
                counts is not None
                and nodes.open_dead_letters(task_id) != counts[task_id]
                and nodes.swimlanes(task_id)
            ):
                nodes.put_open_dead_letters(task_id, counts[task_id])

    def _task(self, task_id: str) -> FetchTask | LoadTask | None:
        """None where it keeps no letters, or its text makes no task."""
        try:
            dist = DistNodes(self._client).get(task_id)
            # most tasks: they need not be read each time
            if dist is None or "onError" not in str(dist):
                return None
            return inspect_dist(
                dist, self._bus.filling, Severity.NOTE, self._bus.source_lookup()
            ).task
        except ConfigError:
            return None

    def _count(self, access: Access, topic: str) -> Counter[str] | None:
        """By task; None where Kafka does not tell."""
        known, keys = self._seen.get((access.servers, topic), ({}, set()))
        try:
            with TopicLog(access) as log:
                bounds = log.bounds(topic)
                ends = {partition: end for partition, (_, end) in bounds.items()}
                # the topic was made anew
                if any(known.get(partition, 0) > end for partition, end in ends.items()):
                    known, keys = {}, set()
                starts = {
                    partition: max(low, known.get(partition, 0))
                    for partition, (low, _) in bounds.items()
                }
                for record in log.records(topic, starts, ends):
                    (keys.discard if record.value is None else keys.add)(record.key or b"")
        except CdcError as error:
            LOG.debug("dead letters are not counted: %s", error)
            return None
        self._seen[access.servers, topic] = ends, keys
        return Counter(key.partition(b"\n")[0].decode("utf-8", "replace") for key in keys)
