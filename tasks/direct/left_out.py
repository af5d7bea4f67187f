"""Tables of the task that a direct load leaves out (--table). The task follows from where the load
began, so what Kafka has of them from before that never reaches the target."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.topic_logs import TopicLogs, partitions_of
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import TableId
from cdcbus.tasks.direct.opened import Opened
from cdcbus.tasks.first_of import first_of

LOG = logging.getLogger(__name__)
MOST_NAMES = 5


@dataclass(frozen=True, slots=True)
class LeftOut:
    """`tables`: by the id of the fetch task that sends them; none where only the task is known.
    `topics`: where their rows are."""

    tables: Mapping[str, Sequence[TableId]]
    topics: frozenset[str]

    @property
    def names(self) -> str:
        """The tables, in words."""
        found = []
        for task_id, tables in self.tables.items():
            named = first_of(tables, MOST_NAMES)
            found.append(named or f"those of fetch task {task_id}")
        return ", ".join(found)

    @property
    def commands(self) -> str:
        """What takes the tables' snapshots."""
        found = []
        for task_id, tables in self.tables.items():
            words = "".join(f" --table {table}" for table in tables[:MOST_NAMES])
            more = " and so on" * (len(tables) > MOST_NAMES)
            found.append(f"cdcbus snapshot start {task_id}{words}{more}")
        return "; ".join(found)


def left_out(opened: Opened) -> LeftOut:
    """The tables that the load leaves out, once those to load are chosen."""
    tables: dict[str, Sequence[TableId]] = {}
    topics: set[str] = set()
    for source in opened.sources:
        if source.others:
            tables[source.feed.fetch.task_id] = sorted(source.others)
            topics.update(source.others.values())
    for fetch in opened.further:
        tables[fetch.task_id] = ()
        topics.update(opened.load.source.topics)
    return LeftOut(tables, frozenset(topics))


def check_records(load: LoadTask, others: LeftOut, logs: TopicLogs) -> None:
    """Raises ConfigError where Kafka has records that may be of tables that are left out."""
    for topic in sorted(others.topics):
        for partition in partitions_of(load, logs, topic):
            first, end = logs.bounds(partition)
            if first < end and _has_record(logs, partition, first, end):
                raise ConfigError(
                    f"the load leaves out {others.names}, and {partition} has records already "
                    f"(offsets {first} to {end}): task {load.task_id} will follow from behind "
                    "them, so what they have of these tables would never reach the target. Load "
                    "first, with --others-later, and once that is done take the snapshot of these "
                    f"tables: {others.commands}"
                )


def _has_record(logs: TopicLogs, partition: TopicPartition, first: int, end: int) -> bool:
    """Whether there is more than the markers of transactions."""
    found = logs.next_record(partition, first)
    return found is not None and found[0] < end


def report_left_out(others: LeftOut) -> None:
    """Says what is to be done about tables that are left out."""
    if others.tables:
        LOG.warning(
            "the load leaves out %s: their rows reach the target only by a snapshot that is "
            "started after the load: %s",
            others.names,
            others.commands,
        )
