"""Ensures that the topics that rows go to exist."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._metadata import ClusterMetadata, TopicMetadata
from confluent_kafka.cimpl import NewTopic

from cdcbus.plugins.errors import BusError, BusRejected, BusUnavailable, CdcError
from cdcbus.plugins.kafka.client.errors import LIBRARY_LOG, PASSING, RIGHTS, topic_error
from cdcbus.plugins.kafka.client.making import make_client
from cdcbus.plugins.kafka.config import PublishConfig

LOG = logging.getLogger(__name__)
ANSWER_SECONDS = 10.0
# How long a topic that somebody has just created may be unknown to some brokers.
NEW_SECONDS = 2.0
LOOK_SECONDS = 0.05
NOT_YET = {KafkaError.UNKNOWN_TOPIC_OR_PART, *PASSING}
# The id that brokers before 2.8 give.
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
COMPACTED = {"cleanup.policy": "compact"}
"""The settings of a topic of dead letters, in which open ones never expire."""


def id_of(description: Any) -> str:
    """The id of a topic that a client describes; empty where it has none."""
    topic_id = str(description.topic_id)
    return "" if topic_id == NO_ID else topic_id


def named_topics(config: PublishConfig) -> list[str]:
    """The topics that the task file names, each once: those for rows, and the one for records that
    are too large."""
    by_rule = [rule.topic for rule in config.topic_rules]
    topics = [config.topic, *by_rule, config.dead_letter_topic]
    # A dict keeps their order.
    return list(dict.fromkeys(filter(None, topics)))


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
        self._config = config
        self._connecting = connecting
        self._metadata = metadata
        self._known: set[str] = set()

    def need(self, topics: Iterable[str]) -> None:
        """Ensures that topics exist. Raises BusUnavailable if no broker answers, BusRejected if a
        topic does not exist and must not, or cannot, be created."""
        for topic in topics:
            if topic not in self._known:
                self._look(topic)
                self._known.add(topic)

    def partitions(self, topic: str) -> int:
        """The number of a topic's partitions, of which there is at least one. Raises as `need`,
        also where the topic was deleted since."""
        self.need([topic])
        # Of one that has just been created, a broker asked later can know last.
        found = self._asked(topic, ANSWER_SECONDS)
        if found.error is not None:
            raise self._failure(topic, found.error)
        return len(found.partitions)

    def _look(self, topic: str) -> None:
        # One that is missing is created at once, where the task file says so.
        error = self._asked(topic, 0.0 if self._config.new_topics else NEW_SECONDS).error
        if error is None:
            if topic == self._config.dead_letter_topic:
                with self._admin() as admin:
                    warn_of_expiry(admin, topic)
            return
        is_missing = error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART
        if not is_missing or self._config.new_topics is None:
            raise self._failure(topic, error)
        self._make(topic)

    def _failure(self, topic: str, error: KafkaError) -> BusError:
        failure = topic_error(self._config.servers, topic, error)
        return failure or missing(topic, self._config, error.str())

    def _asked(self, topic: str, seconds: float) -> TopicMetadata:
        """What brokers say of a topic; without partitions, its `error` says why. One that may pass
        is believed after `seconds` only: not all brokers know at once of a topic that was
        created."""
        deadline = time.monotonic() + seconds
        while True:
            found = self._metadata(topic).topics[topic]
            error = found.error
            if error is None or error.code() not in NOT_YET or time.monotonic() > deadline:
                return found
            time.sleep(LOOK_SECONDS)

    def _make(self, topic: str) -> None:
        assert self._config.new_topics is not None
        shape = self._config.new_topics.of(topic)
        servers = self._config.servers
        settings = {}
        if topic == self._config.dead_letter_topic:
            settings = COMPACTED
        try:
            new = NewTopic(topic, shape.partitions, shape.replicas, config=settings)
            with self._admin() as admin:
                # The client's own limit: its error says that brokers are silent, and may answer
                # later.
                answers = admin.create_topics([new], request_timeout=ANSWER_SECONDS)
                answers[topic].result()
        except KafkaException as error:
            reason = error.args[0]
            if reason.code() in RIGHTS:
                raise BusRejected(
                    f"Kafka at {servers} does not let this user make topic {topic} "
                    "(loader.source.createTopic); give it the ACL: Create on the topic"
                ) from error
            if reason.code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise _class_of(reason)(
                    f"Kafka at {servers} does not make topic {topic} (loader.source.createTopic): "
                    f"{reason.str()}"
                ) from error
        if self._asked(topic, ANSWER_SECONDS).error is not None:
            raise BusUnavailable(
                f"Kafka topic {topic} at {servers} was created and is not visible yet"
            )

    def largest_batch(self, topic: str) -> int | None:
        """The topic's limit for one batch of records, in bytes; None if this user may not read
        it."""
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
        try:
            with self._admin() as admin:
                answers = admin.describe_configs([resource])
                found = answers[resource].result(timeout=ANSWER_SECONDS)
            return int(found["max.message.bytes"].value)
        except (KafkaException, CdcError, KeyError, ValueError, TimeoutError):
            return None

    def _admin(self) -> AdminClient:
        options = {**self._connecting, "bootstrap.servers": self._config.servers}
        return make_client(AdminClient, {**options, "logger": LIBRARY_LOG})


def _class_of(error: KafkaError) -> type[BusError]:
    if error.retriable() or error.code() in PASSING:
        return BusUnavailable
    if error.code() == KafkaError.INVALID_REPLICATION_FACTOR:
        # The missing broker may just be down, or there never were that many.
        return BusError
    return BusRejected


def warn_of_expiry(admin: AdminClient, topic: str) -> None:
    """Warns of a topic of dead letters that deletes records by age or size, unless this user may
    not see that."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        found = admin.describe_configs([resource])[resource].result(timeout=ANSWER_SECONDS)
        policy = str(found["cleanup.policy"].value)
        limits = [int(found[name].value) for name in ("retention.ms", "retention.bytes")]
    except (KafkaException, KeyError, ValueError, TimeoutError):
        return
    # -1 means no limit.
    if "delete" in policy and max(limits) >= 0:
        LOG.warning(
            "topic %s deletes its records by age or size (cleanup.policy=%s, retention.ms=%d, "
            "retention.bytes=%d), also dead letters that are still open: run kafka-configs --alter "
            "--entity-type topics --entity-name %s --add-config cleanup.policy=compact",
            topic,
            policy,
            *limits,
            topic,
        )


def missing(topic: str, config: PublishConfig, reason: str) -> BusRejected:
    """The error for a missing topic."""
    remedy = (
        f"create it: kafka-topics --create --topic {topic} --partitions N --bootstrap-server "
        f"{config.servers}"
    )
    if config.new_topics is not None:
        remedy = "start the task again: it creates the topic (loader.source.createTopic)"
    return BusRejected(f"Kafka topic {topic} at {config.servers}: {reason}; {remedy}")
