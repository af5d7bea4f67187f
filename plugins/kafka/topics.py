"""Ensures that the topics that rows go to exist."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._metadata import ClusterMetadata
from confluent_kafka.cimpl import NewTopic

from cdcbus.plugins.errors import BusError, BusRejected, BusUnavailable
from cdcbus.plugins.kafka.client_errors import PASSING, RIGHTS, denied
from cdcbus.plugins.kafka.config import PublishConfig

ANSWER_SECONDS = 10.0


def named_topics(config: PublishConfig) -> list[str]:
    """The topics that the task file names, each once: those for rows, and the one for records that
    are too large."""
    topics = [config.topic, *(rule.topic for rule in config.topic_rules), config.dead_letter_topic]
    return [*dict.fromkeys(filter(None, topics))]


class Topics:
    """The topics known to exist. Missing ones are created if the task file says so, and never
    otherwise.

    `metadata` queries the brokers for a topic and raises BusError if none answers.
    """

    def __init__(
        self,
        config: PublishConfig,
        connecting: dict[str, str],
        metadata: Callable[[str], ClusterMetadata],
    ) -> None:
        self._config, self._connecting, self._metadata = config, connecting, metadata
        self._known: set[str] = set()

    def need(self, topics: Iterable[str]) -> None:
        """Ensures that topics exist. Raises BusUnavailable if no broker answers, BusRejected if a
        topic does not exist and must not, or cannot, be created."""
        for topic in topics:
            if topic not in self._known:
                self._look(topic)
                self._known.add(topic)

    def _look(self, topic: str) -> None:
        error = self._metadata(topic).topics[topic].error
        if error is None:
            return
        if error.code() in RIGHTS:
            raise denied(self._config.servers, f"topic {topic}: {error.str()}", error.code())
        if error.code() in PASSING:
            raise BusUnavailable(f"Kafka topic {topic} at {self._config.servers}: {error.str()}")
        if error.code() != KafkaError.UNKNOWN_TOPIC_OR_PART or self._config.new_topics is None:
            raise missing(topic, self._config, error.str())
        self._make(topic)

    def _make(self, topic: str) -> None:
        assert self._config.new_topics is not None
        new, servers = self._config.new_topics.of(topic), self._config.servers
        try:
            admin = AdminClient({**self._connecting, "bootstrap.servers": servers})
            admin.create_topics([NewTopic(topic, new.partitions, new.replicas)])[topic].result(
                timeout=ANSWER_SECONDS
            )
        except KafkaException as error:
            if error.args[0].code() in RIGHTS:
                raise BusRejected(
                    f"Kafka at {servers} does not let this user make topic {topic} "
                    "(loader.source.createTopic); give it the ACL: Create on the topic"
                ) from error
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise _class_of(error.args[0])(
                    f"Kafka at {servers} does not make topic {topic} (loader.source.createTopic): "
                    f"{error.args[0].str()}"
                ) from error
        deadline = time.monotonic() + ANSWER_SECONDS
        while self._metadata(topic).topics[topic].error is not None:  # until all brokers know of it
            if time.monotonic() > deadline:
                raise BusUnavailable(
                    f"Kafka topic {topic} at {servers} was created and is not visible yet"
                )
            time.sleep(0.05)

    def largest_batch(self, topic: str) -> int | None:
        """The topic's limit for one batch of records, in bytes; None if this user may not read
        it."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        try:
            admin = AdminClient({**self._connecting, "bootstrap.servers": self._config.servers})
            found = admin.describe_configs([resource])[resource].result(timeout=ANSWER_SECONDS)
            return int(found["max.message.bytes"].value)
        except (KafkaException, KeyError, ValueError, TimeoutError):
            return None


def _class_of(error: KafkaError) -> type[BusError]:
    if error.retriable() or error.code() in PASSING:
        return BusUnavailable
    # the missing broker may just be down, or there never were that many
    is_too_few = error.code() == KafkaError.INVALID_REPLICATION_FACTOR
    return BusError if is_too_few else BusRejected


def missing(topic: str, config: PublishConfig, reason: str) -> BusRejected:
    """The error for a missing topic."""
    return BusRejected(
        f"Kafka topic {topic} at {config.servers}: {reason}; "
        f"create it: kafka-topics --create --topic {topic} --partitions N --bootstrap-server "
        f"{config.servers}"
    )
