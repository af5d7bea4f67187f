"""Kafka's consumer groups that have committed offsets of a topic: readers other than tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka import TopicPartition as Partition
from confluent_kafka.admin import AdminClient

from cdcbus.plugins.kafka.client.errors import LIBRARY_LOG
from cdcbus.plugins.kafka.topic_log import ANSWER_SECONDS, Access, TopicLog, end_offsets

MOST_GROUPS = 200  # asked; each is a request to Kafka


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group in a partition: its next offset, and how many records it still has to read."""

    group: str
    state: str
    partition: int
    next_offset: int
    end: int

    @property
    def records(self) -> int:
        return max(0, self.end - self.next_offset)


@dataclass(frozen=True, slots=True)
class Groups:
    """`refused`: why Kafka does not list them, for example to a user who may not."""

    rows: Sequence[GroupRow]
    refused: str = ""
    left_out: int = 0


def groups_of(access: Access, topic: str) -> Groups:
    """Raises BusError where the topic itself cannot be asked for."""
    with TopicLog(access) as log:
        ends = end_offsets(log.bounds(topic))
    options = {**access.options, "bootstrap.servers": access.servers}
    partitions = [Partition(topic, number) for number in ends]
    rows = []
    try:
        with AdminClient(dict[str, Any](options), logger=LIBRARY_LOG) as admin:
            listed = admin.list_consumer_groups(request_timeout=ANSWER_SECONDS).result().valid
            for each in listed[:MOST_GROUPS]:
                asked = ConsumerGroupTopicPartitions(each.group_id, partitions)
                futures = admin.list_consumer_group_offsets([asked], request_timeout=ANSWER_SECONDS)
                state = str(each.state.name).lower().replace("_", " ")
                for place in futures[each.group_id].result().topic_partitions or ():
                    if place.offset < 0 or place.error is not None:
                        continue  # the group has no offset there
                    end = ends[place.partition]
                    row = GroupRow(each.group_id, state, place.partition, place.offset, end)
                    rows.append(row)
    except KafkaException as error:
        return Groups((), f"Kafka does not list its groups: {error.args[0].str()}")
    rows.sort(key=lambda row: (row.group, row.partition))
    return Groups(rows, left_out=max(0, len(listed) - MOST_GROUPS))
