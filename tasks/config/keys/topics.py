"""How topics are written in a task file: canal's rules for dynamic topics, and what new topics
get."""

from __future__ import annotations

import re

from cdcbus.plugins.kafka.config import NewTopics, TopicRule
from cdcbus.plugins.kafka.topic_names import LEGAL
from cdcbus.tasks.config.keys.types import ValueType


def _rules(text: str) -> tuple[TopicRule, ...]:
    rules = []
    for item in filter(None, map(str.strip, re.split("[,;]", text))):
        topic, _, regex = (part.strip() for part in item.rpartition(":"))
        if topic and not LEGAL.fullmatch(topic):
            raise ValueError("not a topic")
        try:
            re.compile(regex)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError("not a regular expression") from error
        if not regex:
            raise ValueError("no table")
        rules.append(TopicRule(regex, r"\." in regex, topic))
    return tuple(rules)


def _new_topics(text: str) -> NewTopics:
    numbers = re.fullmatch(r"([0-9]{1,6})\s*:\s*([0-9]{1,5})", text)
    if numbers is None or not (int(numbers[1]) and 0 < int(numbers[2]) < 2**15):
        raise ValueError("not two numbers")
    return NewTopics(int(numbers[1]), int(numbers[2]))


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
NEW_TOPICS: ValueType[NewTopics] = ValueType(
    "new topics", _new_topics, "partitions:replication", "6:3"
)
