"""Keys of a task that reads Kafka topics."""

from __future__ import annotations

from cdcbus.tasks.config.keys.definition import Key, Route
from cdcbus.tasks.config.keys.types import (
    ADDRESSES,
    EDGE,
    FLAG,
    NAMES,
    NUMBER,
    PARTITIONS,
    POSITIVE,
    TEXT,
)

KAFKA_SOURCE_KEYS = (
    Key("consumer.source.servers", ADDRESSES, "", "The brokers. Required.", route=Route.FROM_KAFKA),
    Key(
        "consumer.source.topics",
        NAMES,
        "",
        "The topics, each with a position of its own. Required.",
        "elements are not trimmed",
        Route.FROM_KAFKA,
    ),
    Key(
        "consumer.source.group",
        TEXT,
        "",
        "The consumer group whose offsets count where ZooKeeper has no position.",
        "default `<ip>_<user>`",
        Route.FROM_KAFKA,
    ),
    Key(
        "consumer.source.firstConsumeFrom",
        EDGE,
        "",
        "Where to start when nothing else says it. Absent: the task refuses to start.",
        "default earliest",
        Route.FROM_KAFKA,
    ),
    Key(
        "consumer.source.partition",
        PARTITIONS,
        "",
        "Only these partitions of each topic, `0,2`; absent: all. Beside several topics a single "
        "number is an error, but "
        "for `0`, which means all there, as in porter.",
        "one number; 0 is the default and means that none is chosen",
        Route.FROM_KAFKA,
    ),
    Key(
        "consumer.source.allowOffsetReset",
        FLAG,
        "false",
        "Whether a stored offset that Kafka no longer has is replaced by the earliest one instead "
        "of stopping the task.",
        route=Route.FROM_KAFKA,
    ),
    Key(
        "consumer.source.maxRecordsPerBatch",
        POSITIVE,
        "50000",
        "Records per batch at most; fewer where rows are large.",
        "not known",
        Route.FROM_KAFKA,
    ),
    Key(
        "consumer.source.autoCommit",
        FLAG,
        "false",
        "Whether Kafka keeps the position.",
        answer="accepted; the position is always kept in ZooKeeper",
    ),
    Key(
        "consumer.source.onceCommitInterval",
        NUMBER,
        "1000",
        "Milliseconds between automatic commits.",
        answer="accepted; the position is stored once a second",
    ),
)
