"""The syntax of topics in a task file: canal's rules for dynamic topics and record keys, and the
partitions and replicas of new topics."""

from __future__ import annotations

import re
from collections.abc import Iterator

from cdcbus.plugins.kafka.config import KeyRule, NewTopics, TopicRule
from cdcbus.plugins.kafka.topic_names import LEGAL
from cdcbus.plugins.transform.selectors import is_pattern
from cdcbus.tasks.config.keys.types import ValueType

PRIMARY_KEY = "$pk$"
_BARE_DOT = re.compile(r"(?<![\[_])\.(?![*+?{]|\.*$)")
_PLAIN_TABLE = re.compile(r"[^.]+(?:\.[^.]+)+")


def _items(text: str) -> Iterator[str]:
    """The elements of a list, which canal separates by commas or semicolons, without empty ones."""
    return filter(None, map(str.strip, re.split("[,;]", text)))


def _rules(text: str) -> tuple[TopicRule, ...]:
    rules = []
    for topic, regex in _topics_and_regexes(text):
        if topic and not LEGAL.fullmatch(topic):
            raise ValueError("not a topic")
        if not is_regex(regex):
            raise ValueError("not a regular expression")
        if not regex:
            raise ValueError("no table")
        if _is_plain_table(regex):
            regex = regex.replace(".", r"\.")
        # With an escaped dot a rule is for tables, else for schemas, as in canal.
        rules.append(TopicRule(regex, r"\." in regex, topic))
    return tuple(rules)


def _topics_and_regexes(text: str) -> Iterator[tuple[str, str]]:
    for item in _items(text):
        # From the right, so that a text without a colon is the regular expression.
        topic, _, regex = item.rpartition(":")
        yield topic.strip(), regex.strip()


def _is_plain_table(regex: str) -> bool:
    """Whether a rule names SCHEMA.TABLE, which canal compares with names as it is: its dots are
    none of a pattern, and the schema's name can have some. In `shop_.` and `db..` they can only be
    of one."""
    is_literal = not is_pattern(regex) and "$" not in regex
    return is_literal and _PLAIN_TABLE.fullmatch(regex) is not None


def plain_tables(text: str) -> list[str]:
    """The tables that rules name without a pattern: one was meant for schemas, if its dot was to
    stand for any character."""
    return [regex for _, regex in _topics_and_regexes(text) if _is_plain_table(regex)]


def is_misread(rule: TopicRule) -> bool:
    """Whether a rule for schemas looks as if it were meant for tables: one of its dots, which stand
    for any character, is followed by more of a name. `[.]` is the dot in a schema's own name,
    and `_.` is hardly the end of one."""
    return not rule.names_tables and _BARE_DOT.search(rule.regex) is not None


def is_regex(text: str) -> bool:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _key_rules(text: str) -> tuple[KeyRule, ...]:
    """The rules of canal's partitionHash. Raises ValueError."""
    rules = []
    for item in _items(text):
        name, colon, columns = map(str.strip, item.partition(":"))
        # A plain name is matched as it is: its dot is no wildcard.
        regex = name if is_pattern(name) else re.escape(name)
        if not is_regex(regex) or not name or bool(colon) != bool(columns):
            raise ValueError("no rule")
        names = tuple(filter(None, columns.split("^")))
        # No names mean the primary key.
        if columns == PRIMARY_KEY:
            names = ()
        setting = "loader.source.partitionHash"
        rules.append(KeyRule(regex, names, is_by_table=not colon, setting=setting))
    return tuple(rules)


def _new_topics(text: str) -> NewTopics:
    every: list[tuple[int, int]] = []
    rules = []
    for item in _items(text):
        found = re.fullmatch(r"(?:(.+):)?\s*([0-9]{1,6})\s*:\s*([0-9]{1,5})", item)
        # Kafka stores the number of replicas in 16 bits.
        if found is None or not (int(found[2]) and 0 < int(found[3]) < 2**15):
            raise ValueError("not two numbers")
        partitions, replicas = int(found[2]), int(found[3])
        if found[1] is None:
            every.append((partitions, replicas))
        elif is_regex(found[1].strip()):
            rules.append((found[1].strip(), partitions, replicas))
        else:
            raise ValueError("not a regular expression")
    if len(every) != 1:
        raise ValueError("not one for all others")
    return NewTopics(*every[0], tuple(rules))


def _topic(text: str) -> str:
    if not LEGAL.fullmatch(text):
        raise ValueError("not a topic")
    return text


TOPIC: ValueType[str] = ValueType(
    "topic", _topic, "a topic's name: letters, digits, and . _ -", "orders"
)
TOPIC_RULES: ValueType[tuple[TopicRule, ...]] = ValueType(
    "topic rules",
    _rules,
    "REGEX or TOPIC:REGEX, several separated by commas; a regex for tables has \\\\. in it",
    r"orders:shop\\.orders,stock\\..*",
)
KEY_RULES: ValueType[tuple[KeyRule, ...]] = ValueType(
    "key rules",
    _key_rules,
    "canal's SCHEMA.TABLE:COLUMN^COLUMN, SCHEMA.TABLE:$pk$ or SCHEMA.TABLE, several separated by "
    "commas; a table may be a regular expression",
    "shop.orders_[0-9]+:id^region,shop.log",
)
NEW_TOPICS: ValueType[NewTopics] = ValueType(
    "new topics",
    _new_topics,
    "partitions:replication, and before or after it TOPIC:partitions:replication for other "
    "topics, where TOPIC may be a regular expression",
    "6:3,orders_.*:12:3",
)
