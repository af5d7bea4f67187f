"""Which topic of a name it is, and which partitions it has: one that is deleted and made anew has
another id, and its offsets mean other records."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from time import monotonic

from confluent_kafka import KafkaException, TopicCollection

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.offsets.kafka_admin import admin_of
from cdcbus.plugins.errors import TopicRemade
from cdcbus.plugins.positions import TopicPartition

LOOK_SECONDS = 30.0
ASK_SECONDS = 10.0
UNKNOWN = "AAAAAAAAAAAAAAAAAAAAAA"  # of brokers before 2.8


def topic_ids(source: TopicConfig) -> dict[str, str]:
    """By topic; of those only that Kafka tells."""
    return _described(source)[0]


def _described(source: TopicConfig) -> tuple[dict[str, str], frozenset[TopicPartition]]:
    """Ids by topic, and all partitions; of those only that Kafka tells."""
    ids, partitions = dict[str, str](), set[TopicPartition]()
    with suppress(KafkaException):
        described = admin_of(source).describe_topics(
            TopicCollection([*source.topics]), request_timeout=ASK_SECONDS
        )
        for topic, answer in described.items():
            with suppress(KafkaException):
                found = answer.result()
                partitions.update(TopicPartition(topic, each.id) for each in found.partitions)
                topic_id = str(found.topic_id)
                if topic_id != UNKNOWN:
                    ids[topic] = topic_id
    return ids, frozenset(partitions)


class TopicIdentity:
    """Looks again and again whether the topics are those that reading began with. `partitions`: the
    partitions that they have now, as far as they are known."""

    def __init__(self, task: LoadTask, known: Mapping[str, str]) -> None:
        self._task, self._known = task, known
        self.partitions = frozenset[TopicPartition]()
        self._looked_at = monotonic()

    def look(self) -> TopicRemade | None:
        """What is wrong; asks Kafka every LOOK_SECONDS only. What it does not tell counts as
        right."""
        if monotonic() - self._looked_at < LOOK_SECONDS:
            return None
        self._looked_at = monotonic()
        now, self.partitions = _described(self._task.source)
        for topic, topic_id in self._known.items():
            if now.get(topic, topic_id) != topic_id:
                task_id = self._task.task_id
                return TopicRemade(
                    f"task {task_id}: topic {topic} was deleted and made anew under the running "
                    f"task (its id was {topic_id}, now it is "
                    f"{now[topic]}), so offsets mean other records; say where to begin: "
                    f"cdcbus offset reset {task_id} --to PLACE --topic {topic}"
                )
        return None
