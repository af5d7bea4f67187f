"""Chooses the topic for a table's rows. Pure."""

from __future__ import annotations

import re

from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.rowchange import TableId

LEGAL = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
"""Valid names of Kafka topics."""


def topic_of(table: TableId, config: PublishConfig) -> str:
    """The topic of the first matching rule for tables, else of the first for schemas, else the
    task's own, as in canal. Raises ConfigError if a name derived from the table is not a valid
    topic name."""
    for names_tables, name in ((True, str(table)), (False, table.schema)):
        for rule in config.topic_rules:
            if rule.names_tables is names_tables and re.fullmatch(rule.regex, name, re.IGNORECASE):
                return rule.topic or _named_after(name)
    return config.topic


def plain_name(name: str) -> str:
    """The name of a topic that is named after a table or schema, whether it is valid or not."""
    return name.lower().replace(".", "_")


def _named_after(name: str) -> str:
    topic = plain_name(name)
    if not LEGAL.fullmatch(topic):
        raise ConfigError(
            f"loader.source.dynamicTopic: {name} would go to a topic of its own name, and {topic} "
            "is not a valid name for a Kafka topic; "
            "name one in front of it: TOPIC:REGEX"
        )
    return topic
