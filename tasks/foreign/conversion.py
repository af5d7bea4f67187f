"""Converts another tool's settings to a task file: a table of what each key becomes, and what could
not be carried over."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.kafka.client.options import ENDPOINT
from cdcbus.tasks.config.diagnostics import Diagnostics, Severity
from cdcbus.tasks.config.keys.definition import Route
from cdcbus.tasks.config.keys.task import find_key
from cdcbus.tasks.config.keys.types import PATH_NAME
from cdcbus.tasks.foreign.regexes import check, either

NAME = re.compile(r"[\w$-]+")
# librdkafka takes no larger one.
LARGEST_MESSAGE_BYTES = 1_000_000_000
NO_START = (
    "nothing says where to begin: take over the position with --offsets, or give consumer.offset; "
    "without one the task does not start"
)
Convert = Callable[["Conversion", str, str], None]


@dataclass(frozen=True, slots=True)
class Rule:
    """What a key becomes. `ours`: our key, which gets the value. `convert`: converts it instead.
    Without these, `sentence` says why the key has no counterpart; `severity` NOTE is only for keys
    that affect no row. `default`: the value for which nothing is reported."""

    ours: str = ""
    convert: Convert | None = None
    severity: Severity = Severity.WARNING
    sentence: str = ""
    default: str | None = None


def inside(what: str) -> Rule:
    """The rule for a setting of the tool's own machinery."""
    return Rule(severity=Severity.NOTE, sentence=f"not carried over: {what}")


def all_inside(what: str, *names: str, prefix: str = "") -> dict[str, Rule]:
    """The same rule for several settings, whose names begin with the prefix."""
    return dict.fromkeys((prefix + name for name in names), inside(what))


def _largest_request(made: Conversion, key: str, value: str) -> None:
    # People write Java's largest number for no limit.
    if value.isascii() and value.isdigit():
        value = str(min(int(value), LARGEST_MESSAGE_BYTES))
    made.put("kafka.message.max.bytes", value)


def _put_unless(word: str, prefix: str, made: Conversion, key: str, value: str) -> None:
    """Carries an option of Kafka's client over, unless its value is a word that librdkafka does not
    take."""
    if value == word:
        made.note(key, f"not carried over: {word} is a word of Java's client")
    else:
        _put_option(prefix, made, key, value)


def _put_option(prefix: str, made: Conversion, key: str, value: str) -> None:
    name = key.removeprefix(prefix)
    if name == ENDPOINT:
        value = value or "none"
    made.put(f"kafka.{name}", value)


def producer_rules(prefix: str) -> dict[str, Rule]:
    """The rules for options of Java's producer with this prefix, but the brokers' addresses.
    librdkafka, which sends rows here, refuses names that only Java has."""
    code = Rule(
        severity=Severity.ERROR,
        sentence="not carried over: only Java can load it; say what it does by other settings",
    )
    rules = {
        "max.request.size": Rule(convert=_largest_request),
        "buffer.memory": Rule("loader.source.queueBytes"),
        "acks": inside("all replicas acknowledge each record"),
        **dict.fromkeys(
            ("enable.idempotence", "max.in.flight.requests.per.connection"),
            inside("records are written idempotently"),
        ),
        **dict.fromkeys(
            ("retries", "delivery.timeout.ms"),
            inside("a record is resent until it is acknowledged"),
        ),
        "transactional.id": inside("loader.source.transaction=true derives one"),
        **dict.fromkeys(
            ("key.serializer", "value.serializer"), inside("see the finding on the form of records")
        ),
        **dict.fromkeys(
            ("partitioner.class", "partitioner.ignore.keys"),
            Rule(sentence="not carried over: a record's key decides its partition"),
        ),
        **all_inside(
            "it is about Java's client",
            "max.block.ms", "send.buffer.bytes", "receive.buffer.bytes", "metric.reporters",
            "metrics.*", "auto.include.jmx.reporter", "partitioner.*", "metadata.max.idle.ms",
            "socket.connection.setup.timeout.max.ms", "compression.*.level",
        ),
        **dict.fromkeys(("interceptor.classes", "*.class", "*.providers"), code),
        # Java's words for no batches, and for connections that stay.
        "batch.size": Rule(convert=partial(_put_unless, "0", prefix)),
        "connections.max.idle.ms": Rule(convert=partial(_put_unless, "-1", prefix)),
        "*": Rule(convert=partial(_put_option, prefix)),
    }  # fmt: skip
    return {prefix + name: rule for name, rule in rules.items()}


@dataclass(slots=True)
class Conversion:
    """A task file in the making. `settings`: those of the other tool, as a converting function may
    need several."""

    tool: str
    settings: Mapping[str, str]
    keys: dict[str, str] = field(default_factory=dict)
    found: Diagnostics = field(default_factory=Diagnostics)
    mappers: dict[tuple[str, str], dict[str, str]] = field(default_factory=dict)

    def put(self, ours: str, value: str) -> None:
        self.keys[ours] = value

    def error(self, key: str, sentence: str) -> None:
        self.found.error(0, key, sentence)

    def warning(self, key: str, sentence: str) -> None:
        self.found.warning(0, key, sentence)

    def note(self, key: str, sentence: str) -> None:
        self.found.note(0, key, sentence)

    def apply(self, rules: Mapping[str, Rule]) -> None:
        """Converts each setting by the rule for its name, else by the first pattern that matches;
        reports a setting without either as not carried over."""
        for key, value in self.settings.items():
            # Java turns the check of host names off by an empty value.
            if not value.strip() and not key.endswith(ENDPOINT):
                continue
            rule = _rule_for(key, rules)
            if rule is None:
                self.warning(key, f"not carried over: it is not known here what {self.tool} does")
            elif value.strip() == rule.default:
                continue
            # Their placeholders have other forms and sources than those of task files.
            elif "${" in value and (rule.ours or rule.convert):
                self.error(
                    key, "not carried over: it has a placeholder; write its value, or ${env:NAME}"
                )
            elif rule.ours:
                self.put(rule.ours, value.strip())
            elif rule.convert:
                rule.convert(self, key, value.strip())
            else:
                self.found.add(rule.severity, 0, key, rule.sentence)

    def name_task(self, word: str, fallback: str) -> None:
        """Derives the task's id from the tool's name for itself."""
        name = re.sub(r"[^\w.-]+", "-", word).strip("-") or fallback
        # The id becomes the name of a znode.
        try:
            self.put("taskId", PATH_NAME.read(name))
        except ValueError:
            self.put("taskId", fallback)
            self.warning("taskId", f"{name} cannot be the name of a task; {fallback} is used")

    def filter(self, included: list[str], excluded: list[str], key: str) -> None:
        """Sets the tables to read as one regular expression, which also leaves tables out."""
        regex = ".*"
        if included:
            regex = either(included)
        if excluded:
            regex = f"(?!{either(excluded)}\\Z){regex}"
        self.put_filter(regex, key)

    def put_filter(self, regex: str, key: str, ours: str = "consumer.source.filter") -> None:
        """Sets a filter for `schema.table`. One that cannot be carried over is an error, as other
        rows would be sent."""
        try:
            check(regex)
        except ValueError as error:
            self.error(
                key, f"not carried over: Java's regular expression is none here: {error}; change it"
            )
            return
        self.put(ours, regex)

    def map_column(self, key: str, table: tuple[str, str], ours: str, value: str) -> None:
        """Sets a key of `mapper[i]` for one source table. A key without effect in a fetch task is
        an error, as the rows would differ."""
        known = find_key(f"mapper[0].{ours}")
        if known is None or not known.is_for(Route.FETCH):
            self.error(
                key,
                f"not carried over: mapper[i].{ours} has no effect on a task from a database to "
                f"Kafka; set it in the tasks that read the topic, for {'.'.join(table)}",
            )
            return
        mapper = self.mappers.setdefault(table, {})
        # Several settings, or several columns in one, may concern the same table.
        if ours in mapper:
            value = f"{mapper[ours]},{value}"
        mapper[ours] = value

    def finished(self) -> dict[str, str]:
        """The keys of the task file -> their values, including the mapper's."""
        for number, ((schema, table), entries) in enumerate(self.mappers.items()):
            # Source and target have the same name: only columns change.
            self.put(f"mapper[{number}].schema", f"{schema},{schema}")
            self.put(f"mapper[{number}].table", f"{table},{table}")
            for ours, value in entries.items():
                self.put(f"mapper[{number}].{ours}", value)
        return self.keys


def _rule_for(key: str, rules: Mapping[str, Rule]) -> Rule | None:
    if key in rules:
        return rules[key]
    for name, rule in rules.items():
        if fnmatch.fnmatchcase(key, name):
            return rule
    return None


def literal_table(pattern: str) -> tuple[str, str] | None:
    """The schema and table that a regular expression names literally; None for a pattern."""
    parts = re.split(r"\\?\.", pattern)
    if len(parts) == 2 and all(map(NAME.fullmatch, parts)):
        return parts[0], parts[1]
    return None


def time_of(milliseconds: str) -> datetime | None:
    """The time of epoch milliseconds; None for 0, and for what is no time."""
    # More digits are too many even for the year 9999.
    if not re.fullmatch("[0-9]{1,15}", milliseconds) or not int(milliseconds):
        return None
    try:
        return datetime.fromtimestamp(int(milliseconds) / 1000, UTC)
    except ValueError:
        return None


def leave_out(made: Conversion, key: str, operations: Sequence[str]) -> None:
    """Leaves out the rows of these operations, some of INSERT, UPDATE and DELETE."""
    if len(operations) > 2:
        made.error(
            key, "not carried over: a task without any of its operations has no rows to send"
        )
    elif operations:
        made.put("consumer.skippedOperations", ",".join(operations))


def yes(value: str) -> bool:
    return value.strip().lower() == "true"


def fetch_keys() -> dict[str, str]:
    """The keys that every converted task has."""
    return {
        "consumer.consumerName": "CanalFetch",
        "loader.loaderName": "KAFKA_SYNC",
        "loader.source.oggJson": "false",
    }


def address(host: str, port: str) -> str:
    """host:port; the host may be an IPv6 address. Raises ConfigError for an empty host."""
    if not host.strip():
        raise ConfigError("no host is named; expected the database's")
    bare = host.strip().strip("[]")
    # An IPv6 address needs brackets, or its port would be read as a part of it.
    if ":" in bare:
        bare = f"[{bare}]"
    return f"{bare}:{port}"
