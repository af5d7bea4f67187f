"""The questions about a new task, and the text made from the answers: one of the examples with
other values. Pure, except for reading the example."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cdcbus.tasks.config.keys.types import ADDRESSES, PATH_NAME, TABLES, ValueType, split_list
from cdcbus.tasks.config.template import example_text, task_text

TO_KAFKA, ONWARD = "mysql->kafka", "kafka->kafka"
TO_MYSQL, TO_POSTGRESQL, TO_ORACLE = DATABASES = (
    "kafka->mysql",
    "kafka->postgresql",
    "kafka->oracle",
)
# Where each server listens by default, and the beginning of its JDBC address.
ADDRESSES_OF = {
    TO_MYSQL: ("127.0.0.1:3306", "jdbc:mysql://"),
    TO_POSTGRESQL: ("127.0.0.1:5432", "jdbc:postgresql://"),
    TO_ORACLE: ("127.0.0.1:1521", "jdbc:oracle:thin:@//"),
}
FROM_KAFKA = (ONWARD, *DATABASES)
ROUTES = (TO_KAFKA, *FROM_KAFKA)


def _matching(pattern: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError("does not match")
        return text

    return read


def _tables(text: str) -> object:
    return text and TABLES.read(text)


# These characters have a meaning in JDBC addresses, lists of tables or remarks.
NAME = ValueType(
    "name", _matching(r"[^\s#,./?;=]+"), "a name without blanks, # , . / ? ; =", "shop"
)
NAME_OR_NONE = ValueType(
    "name",
    lambda text: text and NAME.read(text),
    f"{NAME.expected}; nothing for none",
    NAME.example,
)
ID = ValueType("id", lambda text: NAME.read(PATH_NAME.read(text)), NAME.expected, "1084")
USER = ValueType("user", _matching(r"[^\s#]+"), "a name without blanks and #", "cdc")
# Kafka's own limits of a topic's name.
TOPIC = ValueType(
    "topic", _matching(r"[A-Za-z0-9._-]{1,249}"), "one topic's name: letters, digits, . _ -", "shop"
)
TOPICS = ValueType(
    "topics",
    _matching(r"[A-Za-z0-9._-]{1,249}(\s*,\s*[A-Za-z0-9._-]{1,249})*"),
    "topics' names separated by commas",
    "shop",
)
LOADED = ValueType("tables", _tables, f"{TABLES.expected}; nothing for all", TABLES.example)
FETCHED = ValueType(
    "tables",
    # SCHEMA.* is no table name, so a name stands in for the star while the rest is checked.
    lambda text: _tables(text.replace(".*", ".x")),
    "SCHEMA.TABLE or SCHEMA.* separated by commas; nothing for all",
    "shop.*",
)
Answers = Mapping[str, str]
# Keys that only the examples' shop needs.
EXTRAS = {
    TO_MYSQL: ("consumer.excludes",),
    TO_POSTGRESQL: ("mapper[1].schema", "mapper[1].table", "mapper[1].column.MAIL"),
    TO_ORACLE: (),
}


@dataclass(frozen=True, slots=True)
class Question:
    """One question, which an option can also answer. `default`: computed from the answers so far;
    None where there is none."""

    name: str
    text: str
    value_type: ValueType[Any]
    default: Callable[[Answers], str | None]
    routes: tuple[str, ...] = ROUTES
    # Replaces `value_type` for mysql->kafka.
    fetched_type: ValueType[Any] | None = None

    @property
    def option(self) -> str:
        return f"--{self.name.replace('_', '-')}"

    def type_for(self, route: str) -> ValueType[Any]:
        if self.fetched_type and route == TO_KAFKA:
            return self.fetched_type
        return self.value_type


def _always(text: str | None) -> Callable[[Answers], str | None]:
    return lambda _: text


def _first_schema(answers: Answers) -> str:
    return answers["tables"].partition(".")[0]


def _target_schema(answers: Answers) -> str | None:
    defaults = {
        TO_MYSQL: answers.get("target_database"),
        TO_POSTGRESQL: "public",
        # In Oracle a schema is a user, in upper case unless quoted.
        TO_ORACLE: answers.get("target_user", "").upper(),
    }
    return defaults.get(answers["route"])


def _target(answers: Answers) -> str:
    if answers["route"] == ONWARD:
        return answers["servers"]
    return ADDRESSES_OF[answers["route"]][0]


QUESTIONS = (
    Question("id", "Id of the task", ID, lambda answers: answers["route"].replace("->", "-to-")),
    Question(
        "source",
        "MySQL or MariaDB server to read, HOST:PORT",
        ADDRESSES,
        _always("127.0.0.1:3306"),
        (TO_KAFKA,),
    ),
    Question("source_user", "User at the source", USER, _always("cdc"), (TO_KAFKA,)),
    Question("servers", "Kafka brokers, HOST:PORT[,...]", ADDRESSES, _always("127.0.0.1:9092")),
    Question(
        "topic",
        "Kafka topic (to read several, separate them by commas)",
        TOPICS,
        _always(None),
        fetched_type=TOPIC,
    ),
    Question(
        "tables",
        "Only these tables, SCHEMA.TABLE[,...] (nothing: all; to read MySQL also SCHEMA.*)",
        LOADED,
        _always(""),
        fetched_type=FETCHED,
    ),
    Question(
        "target",
        "Server to write to, HOST:PORT (of Kafka: brokers)",
        ADDRESSES,
        _target,
        FROM_KAFKA,
    ),
    Question("target_topic", "Kafka topic to write to", TOPIC, _always(None), (ONWARD,)),
    Question(
        "target_database",
        "Database at the target (of Oracle: the service)",
        NAME,
        _always(None),
        DATABASES,
    ),
    Question("target_user", "User at the target", USER, _always("cdc"), DATABASES),
    Question(
        "source_schema",
        "Schema whose tables get another schema (nothing: none)",
        NAME_OR_NONE,
        _first_schema,
        FROM_KAFKA,
    ),
    Question(
        "target_schema", "Schema of these tables at the target", NAME, _target_schema, FROM_KAFKA
    ),
)


def questions_of(route: str) -> tuple[Question, ...]:
    return tuple(question for question in QUESTIONS if route in question.routes)


def new_text(answers: Answers, file_name: str, more: Mapping[str, str] | None = None) -> str:
    """The text of the new task. `file_name`: its name in the commands of its remarks. `more`:
    values of keys without a question."""
    values_of = {TO_KAFKA: _fetch_values, ONWARD: _onward_values}.get(
        answers["route"], _load_values
    )
    example = answers["route"].replace("->", "-to-")
    text = task_text(example_text(example), {**values_of(answers), **(more or {})})
    # The example's remarks name its own file in their commands.
    return text.replace(f" {example}.properties", f" {file_name}")


def password_variable(route: str) -> str:
    """The environment variable that the text names for a password; empty for none."""
    if route == ONWARD:
        return ""
    if route == TO_KAFKA:
        return "SOURCE_PASSWORD"
    return "TARGET_PASSWORD"


def _fetch_values(answers: Answers) -> dict[str, str]:
    return {
        "taskId": answers["id"],
        "consumer.source.address": answers["source"],
        "consumer.source.username": answers["source_user"],
        "consumer.source.database": _first_schema(answers),
        # An empty text turns the example's line into a remark.
        "consumer.source.slaveId": "",
        "consumer.source.filter": ",".join(map(_regex, split_list(answers["tables"]))),
        "loader.source.servers": answers["servers"],
        "loader.source.topic": answers["topic"],
        "loader.source.partitionKey.SHOP.ORDER_ITEMS": "",
    }


def _regex(table: str) -> str:
    # The filter is a regular expression, as canal's is.
    regex = re.escape(table.removesuffix("*"))
    if table.endswith(".*"):
        regex += ".*"
    return regex


def _load_values(answers: Answers) -> dict[str, str]:
    prefix = ADDRESSES_OF[answers["route"]][1]
    values = {
        "consumer.source.group": f"cdcbus-{answers['id']}",
        "loader.source.url": f"{prefix}{answers['target']}/{answers['target_database']}",
        "loader.source.userName": answers["target_user"],
    }
    return values | dict.fromkeys(EXTRAS[answers["route"]], "") | _read_values(answers)


def _onward_values(answers: Answers) -> dict[str, str]:
    values = {
        "loader.source.servers": answers["target"],
        "loader.source.topic": answers["target_topic"],
        "loader.source.partitionKey.STORE.ORDER_ITEMS": "",
    }
    return values | _read_values(answers)


def _read_values(answers: Answers) -> dict[str, str]:
    """The values of every task that reads Kafka."""
    schema = answers["source_schema"]
    # An empty text turns the example's line into a remark.
    mapping = f"{schema},{answers['target_schema']}" if schema else ""
    return {
        "taskId": answers["id"],
        "consumer.source.servers": answers["servers"],
        "consumer.source.topics": answers["topic"],
        "consumer.includes": answers["tables"],
        "mapper[0].schema": mapping,
    }
