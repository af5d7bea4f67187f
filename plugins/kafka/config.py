"""The settings of a task that writes to Kafka."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class TopicRule:
    """Tables whose rows go to a topic of their own."""

    # Must match the whole name, ignoring case.
    regex: str
    # Whether that is `schema.table`, or the schema.
    names_tables: bool
    # Empty: a topic named after the matched text.
    topic: str = ""


@dataclass(frozen=True, slots=True)
class KeyRule:
    """How the record keys of some tables are made."""

    # Must match the whole `schema.table`, ignoring case.
    regex: str
    # As written in the task file.
    columns: tuple[str, ...] = ()
    # Without columns: the key is the table's name, else the primary key.
    is_by_table: bool = False
    # The line of the task file.
    setting: str = ""


@dataclass(frozen=True, slots=True)
class NewTopics:
    """The settings of a created topic."""

    # Of a topic that no rule is for.
    partitions: int
    replicas: int
    # A regular expression that must match the whole name, ignoring case; partitions; replicas. The
    # first that matches counts.
    rules: tuple[tuple[str, int, int], ...] = ()

    def of(self, topic: str) -> NewTopics:
        """The settings of this topic."""
        for regex, partitions, replicas in self.rules:
            if re.fullmatch(regex, topic, re.IGNORECASE):
                return NewTopics(partitions, replicas)
        return NewTopics(self.partitions, self.replicas)


@dataclass(frozen=True, slots=True)
class PublishConfig:
    """Where row changes go, and how."""

    servers: str
    # For tables that none of `topic_rules` matches.
    topic: str
    converter: str
    # SCHEMA.TABLE in upper case -> column names as written in the task file. Other tables use the
    # first of `key_rules` that matches, else their primary key.
    partition_keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # librdkafka's, passed through.
    kafka_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    # The most bytes of records that wait for Kafka.
    queue_bytes: int = 64 << 20
    # The first that matches a table counts.
    topic_rules: tuple[TopicRule, ...] = ()
    # How missing topics are created; None: they are not.
    new_topics: NewTopics | None = None
    # For records too large for Kafka; empty: such a record stops the task.
    dead_letter_topic: str = ""
    # Rows are written in transactions of this name, the same at each start; empty: without.
    transactional_id: str = ""
    key_rules: tuple[KeyRule, ...] = ()
