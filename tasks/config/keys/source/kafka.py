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
    Key(
        "consumer.source.servers",
        ADDRESSES,
        "",
        "The Kafka brokers, `host:port`, separated by commas. Required.",
        route=Route.FROM_KAFKA,
    ),
    Key(
        "consumer.source.topics",
        NAMES,
        "",
        "The topics to read, each with a position of its own. Required.",
        "elements are not trimmed",
        Route.FROM_KAFKA,
    ),
    Key(
        "consumer.source.group",
        TEXT,
        "",
        "The consumer group whose committed offsets the first start uses, unless a position or "
        "`consumer.offset` was set.",
        "default `<ip>_<user>`",
        Route.FROM_KAFKA,
    ),
    Key(
        # No default, unlike porter's: a wrong one would leave rows out, or apply all of them again.
        "consumer.source.firstConsumeFrom",
        EDGE,
        "",
        "Where the first start begins when nothing else says so: `earliest` or `latest`. If unset, "
        "the task refuses to start.",
        "default earliest",
        Route.FROM_KAFKA,
    ),
    Key(
        "consumer.source.partition",
        PARTITIONS,
        "",
        "Reads only these partitions of each topic, such as `0,2`. If unset, all. With several "
        "topics a single number is an error, except `0`, which then means all partitions, as in "
        "porter.",
        "one number; 0, the default, restricts nothing",
        Route.FROM_KAFKA,
    ),
    Key(
        "consumer.source.allowOffsetReset",
        FLAG,
        "false",
        "Whether the task continues from the earliest offset when Kafka no longer has the stored "
        "one, instead of stopping. The records in between are skipped.",
        route=Route.FROM_KAFKA,
    ),
    Key(
        "consumer.source.maxRecordsPerBatch",
        POSITIVE,
        "50000",
        "The maximum number of records per batch; fewer where rows are large.",
        "not known",
        Route.FROM_KAFKA,
    ),
    Key(
        # Kafka's timer knows nothing of the target's commits, so it must not store positions.
        "consumer.source.autoCommit",
        FLAG,
        "false",
        "Whether Kafka stores the position.",
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
