"""The settings of a task that writes to Kafka."""

from __future__ import annotations

import re
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
class KeyRule:
    """What makes the record keys of tables whose `schema.table` the `regex` fits, whole, in any
    case: `columns`, as written in the task file; without columns the table's name where it
    `is_by_table`, else the primary key. `setting`: the line that says so."""

    regex: str
    columns: tuple[str, ...] = ()
    is_by_table: bool = False
    setting: str = ""


@dataclass(frozen=True, slots=True)
class NewTopics:
    """What a topic that is made gets: what the first of `rules` says whose regular expression fits
    its name, whole, in any case."""

    partitions: int
    replicas: int
    rules: tuple[tuple[str, int, int], ...] = ()

    def of(self, topic: str) -> NewTopics:
        """What this topic gets."""
        for regex, partitions, replicas in self.rules:
            if re.fullmatch(regex, topic, re.IGNORECASE):
                return NewTopics(partitions, replicas)
        return NewTopics(self.partitions, self.replicas)


@dataclass(frozen=True, slots=True)
class PublishConfig:
    """Where row changes go: to the topic of the first of `topic_rules` that fits their table, else
    to `topic`.

    `partition_keys`: SCHEMA.TABLE in upper case -> column names as written in the task file; tables
    not in it go by the first of `key_rules` that fits, else by their primary key. `kafka_options`
    are librdkafka's, passed through.
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
    key_rules: tuple[KeyRule, ...] = ()
