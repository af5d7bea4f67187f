"""The ids and partitions of topics: a topic that is deleted and created again has another id, and
its offsets mean other records."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from time import monotonic

from confluent_kafka import KafkaException, TopicCollection

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.offsets.kafka_admin import admin_of
from cdcbus.plugins.errors import TopicRemade
from cdcbus.plugins.kafka.topics import id_of
from cdcbus.plugins.positions import TopicPartition

LOOK_SECONDS = 30.0
ASK_SECONDS = 10.0


def topic_ids(source: TopicConfig) -> dict[str, str]:
    """The ids by topic. Topics whose id Kafka does not return are missing."""
    return _described(source)[0]


def _described(source: TopicConfig) -> tuple[dict[str, str], frozenset[TopicPartition]]:
    """The ids by topic, and all partitions. Those that Kafka does not return are missing."""
    ids: dict[str, str] = {}
    partitions = set[TopicPartition]()
    with suppress(KafkaException):
        described = admin_of(source).describe_topics(
            TopicCollection([*source.topics]), request_timeout=ASK_SECONDS
        )
        for topic, answer in described.items():
            with suppress(KafkaException):
                found = answer.result()
                partitions.update(TopicPartition(topic, each.id) for each in found.partitions)
                if topic_id := id_of(found):
                    ids[topic] = topic_id
    return ids, frozenset(partitions)


class TopicIdentity:
    """Checks repeatedly that the topics are the ones that reading began with."""

    def __init__(self, task: LoadTask, known: Mapping[str, str]) -> None:
        self._task = task
        self._known = known
        # The partitions that the topics have now; empty before the first look.
        self.partitions = frozenset[TopicPartition]()
        self._looked_at = monotonic()

    def look(self) -> TopicRemade | None:
        """Returns the error where a topic was created again. Queries Kafka at most once in
        LOOK_SECONDS; topics about which it does not answer count as unchanged."""
        if monotonic() - self._looked_at < LOOK_SECONDS:
            return None
        self._looked_at = monotonic()
        now, self.partitions = _described(self._task.source)
        task_id = self._task.task_id
        for topic, topic_id in self._known.items():
            if now.get(topic, topic_id) != topic_id:
                return TopicRemade(
                    f"task {task_id}: topic {topic} was deleted and created again under the "
                    f"running task (its id was {topic_id}, now it is {now[topic]}), so offsets "
                    f"mean other records; say where to begin: cdcbus offset reset {task_id} "
                    f"--to PLACE --topic {topic}"
                )
        return None
