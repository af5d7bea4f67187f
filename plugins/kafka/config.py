"""The settings of a task that writes to Kafka."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TopicRule:
    """Tables whose rows go to a topic of their own. `regex` must match the whole `schema.table` if
    it `names_tables`, else the whole schema, ignoring case. An empty `topic`: a topic named after
    the matched text."""

    regex: str
    names_tables: bool
    topic: str = ""


@dataclass(frozen=True, slots=True)
class KeyRule:
    """The record keys of tables whose whole `schema.table` the `regex` matches, ignoring case:
    `columns`, as written in the task file; without columns the table's name if it `is_by_table`,
    else the primary key. `setting`: the line of the task file."""

    regex: str
    columns: tuple[str, ...] = ()
    is_by_table: bool = False
    setting: str = ""


@dataclass(frozen=True, slots=True)
class NewTopics:
    """The settings of a created topic: those of the first of `rules` whose regular expression
    matches its whole name, ignoring case, else the defaults."""

    partitions: int
    replicas: int
    rules: tuple[tuple[str, int, int], ...] = ()

    def of(self, topic: str) -> NewTopics:
        """The settings of this topic."""
        for regex, partitions, replicas in self.rules:
            if re.fullmatch(regex, topic, re.IGNORECASE):
                return NewTopics(partitions, replicas)
        return NewTopics(self.partitions, self.replicas)


@dataclass(frozen=True, slots=True)
class PublishConfig:
    """Where row changes go: to the topic of the first of `topic_rules` that matches their table,
    else to `topic`.

    `partition_keys`: SCHEMA.TABLE in upper case -> column names as written in the task file; other
    tables use the first of `key_rules` that matches, else their primary key. `kafka_options` are
    librdkafka's, passed through. `queue_bytes`: the most bytes of records that wait for Kafka.
    `new_topics`: how missing topics are created; None = they are not. `dead_letter_topic`: for
    records too large for Kafka; empty = such a record stops the task. `transactional_id`: rows are
    written in transactions of this name, the same at each start; empty = without transactions.
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
