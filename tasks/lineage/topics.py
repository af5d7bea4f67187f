"""The topics that the rows of a task go to, as far as the task itself says so. Pure."""

from __future__ import annotations

import re

from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.kafka.config import PublishConfig, TopicRule
from cdcbus.plugins.kafka.topic_names import topic_of
from cdcbus.plugins.rowchange import TableId

# In a TableId: any name.
ANY = "*"
ANY_TABLE = TableId(ANY, ANY)
# An unescaped dot counts as a dot as well, as many filters are written that way.
LITERAL = re.compile(r"([\w-]+)\\?\.([\w-]+)")
SCHEMA = re.compile(r"([\w-]+)\\?\.")
WORD = re.compile(r"[\w-]+")
# A name that only patterns match.
OTHER = "\uffff"


def table_of(regex: str) -> TableId:
    """The table that a regular expression names, with `*` for the parts that it leaves open."""
    if literal := LITERAL.fullmatch(regex):
        return TableId(literal[1], literal[2])
    if schema := SCHEMA.match(regex):
        return TableId(schema[1], ANY)
    return ANY_TABLE


def tables_in(word: str) -> set[TableId]:
    """The table that a word such as `shop.orders` names; none for any other word."""
    schema, dot, table = word.partition(".")
    if not (schema and dot and table):
        return set()
    return {TableId(schema, table)}


def written_topics(config: PublishConfig) -> set[str] | None:
    """All topics that rows can go to; None where some are named after tables or schemas."""
    topics = {config.topic}
    for rule in config.topic_rules:
        # A rule without a topic names topics after what it matches, so they cannot be listed.
        if not rule.topic:
            return None
        topics.add(rule.topic)
    return topics


def ruled_tables(config: PublishConfig) -> set[TableId]:
    """The tables with a rule of their own."""
    tables: set[TableId] = set()
    for rule in config.topic_rules:
        table = table_of(rule.regex)
        if rule.names_tables and ANY not in table:
            tables.add(table)
    return tables


def topics_of(table: TableId, config: PublishConfig) -> set[str]:
    """The topic of a table. For a name with `*`, all topics that its tables without a rule of their
    own may go to, with `shop_*` for topics named after tables. Empty for a table that would stop
    the task."""
    if ANY not in table:
        try:
            return {topic_of(table, config)}
        except ConfigError:
            return set()
    other = TableId(_or_other(table.schema), _or_other(table.table))
    found: set[str] = set()
    # Rules for tables take precedence over rules for schemas.
    for rule in sorted(config.topic_rules, key=lambda rule: not rule.names_tables):
        name = str(other) if rule.names_tables else other.schema
        # A rule that matches even a name that no literal can have takes all the rest.
        if re.fullmatch(rule.regex, name, re.IGNORECASE):
            return found | {rule.topic or name.lower().replace(".", "_").replace(OTHER, ANY)}
        if _may_be_for(rule, table) and (topic := rule.topic or _own_name(rule)):
            found.add(topic)
    return found | {config.topic}


def _or_other(name: str) -> str:
    if name == ANY:
        return OTHER
    return name


def _may_be_for(rule: TopicRule, table: TableId) -> bool:
    if not rule.names_tables:
        return table.schema == ANY
    ruled = table_of(rule.regex)
    return ruled.table == ANY and (
        ANY in (ruled.schema, table.schema) or ruled.schema.casefold() == table.schema.casefold()
    )


def _own_name(rule: TopicRule) -> str:
    """The topic named after the schema that a rule names; empty where it names none."""
    if rule.names_tables or not WORD.fullmatch(rule.regex):
        return ""
    return rule.regex.lower()


def table_in(topic: str, schema: str, config: PublishConfig) -> TableId | None:
    """The table of a schema that a topic is named after; None where no rule names topics so."""
    prefix = f"{schema.lower()}_"
    if schema == ANY or topic == config.topic or not topic.startswith(prefix):
        return None
    table = TableId(schema, topic.removeprefix(prefix))
    if topic not in topics_of(table, config):
        return None
    return table
