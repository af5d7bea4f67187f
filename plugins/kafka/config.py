"""The settings of a task that writes to Kafka."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TopicRule:
    """Tables whose rows go to a topic of their own. `regex` is matched whole, in any case: on
    `schema.table` if it `names_tables`, else on the schema. An empty `topic`: one named after
    what was matched."""

    regex: str
    names_tables: bool
    topic: str = ""


@dataclass(frozen=True, slots=True)
class NewTopics:
    """What a topic that is made gets."""

    partitions: int
    replicas: int


@dataclass(frozen=True, slots=True)
class PublishConfig:
    """Where row changes go: to the topic of the first of `topic_rules` that fits their table, else
    to `topic`.

    `partition_keys`: SCHEMA.TABLE in upper case -> column names as written in the task file; tables
    not in it use their primary key. `kafka_options` are librdkafka's, passed through.
    `queue_bytes`: how many bytes of records may wait for Kafka. `new_topics`: how missing topics
    are made; None = they are not. `dead_letter_topic`: of records too large for Kafka; empty = such
    a record stops the task. `transactional_id`: rows are written in transactions of this name, the
    same at each start; empty = without.
    """

    servers: str
    topic: str
    converter: str
    partition_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kafka_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    queue_bytes: int = 64 << 20
    topic_rules: tuple[TopicRule, ...] = ()
    new_topics: NewTopics | None = None
    dead_letter_topic: str = ""
    transactional_id: str = ""
