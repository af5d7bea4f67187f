"""A task's `kafka.*` settings: some are ignored because they would put rows at risk, the others
are translated for each client."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from cdcbus.plugins.kafka.client.options import Client, client_options
from cdcbus.tasks.config.keys.allow_lists import option_name
from cdcbus.tasks.config.settings import Settings

Fixed = Mapping[str, tuple[frozenset[str], str]]
"""Options that a task file cannot change: for each, the values that ask for what is done anyway,
and a sentence about what is done."""


def _fixed(names: str, reason: str, same: str = "") -> dict[str, tuple[frozenset[str], str]]:
    return dict.fromkeys(names.split(), (frozenset(same.split()), reason))


# Names of Java's and of librdkafka's options, as task files have both.
PRODUCER_FIXED: Final[Fixed] = {
    **_fixed("acks request.required.acks", "all replicas acknowledge each record", "all -1"),
    **_fixed("enable.idempotence", "records are written idempotently", "true"),
    **_fixed(
        "message.timeout.ms delivery.timeout.ms retries message.send.max.retries",
        "a record is resent until it is acknowledged",
    ),
    **_fixed(
        "partitioner partitioner.class partitioner.ignore.keys",
        "a record's key decides its partition, as in the Java client",
    ),
    **_fixed("delivery.report.only.error dr_cb dr_msg_cb", "only failed deliveries are reported"),
    **_fixed("transactional.id", "loader.source.transaction=true derives one from the task's id"),
    **_fixed(
        "allow.auto.create.topics",
        "loader.source.createTopic says which topics are created",
        "false",
    ),
    **_fixed("key.serializer value.serializer", "records are written as bytes"),
    **_fixed("bootstrap.servers metadata.broker.list", "loader.source.servers names the brokers"),
    **_fixed(
        "queue.buffering.max.kbytes buffer.memory",
        "loader.source.queueBytes says how many bytes may wait",
    ),
}
CONSUMER_FIXED: Final[Fixed] = {
    **_fixed("isolation.level", "only committed records are read", "read_committed"),
    **_fixed(
        "enable.auto.commit auto.commit.interval.ms", "the position is kept in ZooKeeper", "false"
    ),
    **_fixed(
        "auto.offset.reset",
        "consumer.offset and consumer.source.firstConsumeFrom say where to start",
    ),
    **_fixed("group.id", "consumer.source.group names the group"),
    **_fixed(
        "key.deserializer value.deserializer interceptor.classes",
        "Spark reads records as bytes and allows nothing else",
    ),
    **_fixed("bootstrap.servers metadata.broker.list", "consumer.source.servers names the brokers"),
}


@dataclass(frozen=True, slots=True)
class KafkaOptions:
    """The options that a task file may set. `keys`: option -> its key in the task file."""

    options: Mapping[str, str]
    keys: Mapping[str, str]
    settings: Settings

    def of(self, client: Client) -> dict[str, str]:
        """The options under a client's own names; one that it cannot use is reported as an error
        at its key."""
        return client_options(
            self.options,
            client,
            lambda option, sentence: self.settings.reject(self.keys[option], sentence),
        )


def kafka_options(settings: Settings, fixed: Fixed, *prefixes: str) -> KafkaOptions:
    """The settings under the prefixes, a later prefix winning, without fixed ones, which get a
    warning. Names are in lower case, as all names of Kafka's options are."""
    options: dict[str, str] = {}
    keys: dict[str, str] = {}
    for prefix in prefixes:
        for written, value in settings.below(prefix).items():
            option = option_name(written)
            options[option] = value
            keys[option] = prefix + written
    free: dict[str, str] = {}
    for option, value in options.items():
        if option not in fixed:
            free[option] = value
            continue
        same, reason = fixed[option]
        # No warning for a line that asks for what is done anyway.
        if value and value.strip().lower() not in same:
            settings.warn(keys[option], f"ignored: {reason}; remove the line")
    return KafkaOptions(free, keys, settings)
