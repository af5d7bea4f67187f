"""Maxwell's config.properties as a task file."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.foreign.conversion import (
    NO_START,
    Conversion,
    Rule,
    address,
    all_inside,
    fetch_keys,
    inside,
    producer_rules,
    yes,
)
from cdcbus.tasks.foreign.regexes import part_of_name

TOOL = "Maxwell"
# One rule of Maxwell's filter: a word, database.table (names or /regular expressions/), and perhaps
# a condition on a column.
RULE = re.compile(
    r"\s*(include|exclude|blacklist)\s*:\s*(/(?:\\.|[^/\\])*/|[^.,/]+)\s*\.\s*"
    r"(/(?:\\.|[^/\\])*/|[^.,/]+?)\s*(\.[^,]*)?(?:,|\Z)",
    re.IGNORECASE,
)
QUOTES = "`'\""


def is_maxwell(settings: Mapping[str, str]) -> bool:
    # Keys that occur in no file of another tool.
    own = {"client_id", "replica_server_id", "kafka_topic", "schema_database", "log_level"}
    return "producer" in settings and bool(own & settings.keys())


def from_maxwell(settings: Mapping[str, str]) -> Conversion:
    """The task from the file's settings, without those of the command line and the environment."""
    made = Conversion(TOOL, settings, fetch_keys())
    made.name_task(settings.get("client_id", ""), "maxwell")
    made.apply(RULES)
    source = source_of(settings)
    made.put("consumer.source.address", address(source["host"], source["port"]))
    for name, ours in (("user", "username"), ("password", "password")):
        if source[name]:
            made.put(f"consumer.source.{ours}", source[name])
    if source["ssl"]:
        made.put("consumer.source.sslMode", source["ssl"].lower().replace("_", "-"))
    _topic(made)
    _partitions(made)
    made.warning(
        "output_*",
        "records have canalRow's form, not Maxwell's: readers of the topics must know it "
        "(docs/formats.md)",
    )
    if "consumer.offset" not in made.keys:
        made.warning("schema_database", NO_START)
    return made


def source_of(settings: Mapping[str, str]) -> dict[str, str]:
    """The server whose binlog is read; Maxwell may keep its own tables on another server."""
    prefix = ""
    if settings.get("replication_host", "").strip():
        prefix = "replication_"
    found: dict[str, str] = {"host": "localhost", "port": "3306"}
    for name in ("host", "port", "user", "password", "ssl"):
        given = settings.get(prefix + name, "").strip()
        found[name] = given or found.get(name, "")
    return found


def _topic(made: Conversion) -> None:
    topic = made.settings.get("kafka_topic", "").strip() or "maxwell"
    if "%{" not in topic:
        made.put("loader.source.topic", topic)
        return
    made.put("loader.source.topic", "maxwell")
    made.put("loader.source.dynamicTopic", r".*\..*")
    # The one pattern that dynamicTopic's own names equal, but for their case.
    if topic == "%{database}_%{table}":
        made.warning(
            "kafka_topic",
            "topics named after tables are in lower case here, in Maxwell as the tables are; name "
            "each with capitals in loader.source.dynamicTopic",
        )
    else:
        made.error(
            "kafka_topic",
            f"not carried over: {topic}; topics named after tables are schema_table in lower "
            "case; name each in loader.source.dynamicTopic",
        )


def _partitions(made: Conversion) -> None:
    # Maxwell's default.
    by = made.settings.get("producer_partition_by", "").strip() or "database"
    if by != "primary_key":
        made.warning(
            "producer_partition_by",
            f"not carried over: {by}; here the primary key chooses the partition, or "
            "loader.source.partitionKey.SCHEMA.TABLE: give the topic one partition to keep one "
            "order",
        )


def _producer(made: Conversion, key: str, value: str) -> None:
    if value.lower() != "kafka":
        made.error(
            key, f"{value}: rows go to Kafka; name brokers and a topic in loader.source.servers "
            "and loader.source.topic"
        )  # fmt: skip


def _filter(made: Conversion, key: str, value: str) -> None:
    """Converts the filter, with the case of names as in Maxwell. The last of the rules that match a
    table wins; a table that none matches is read. A blacklist wins wherever it stands."""
    text, regex = value.strip().strip("\"'"), ".*"
    black: list[str] = []
    at = 0
    while found := RULE.match(text, at):
        at = found.end()
        if found[4]:
            made.error(
                key,
                f"not carried over: {found[0].strip(' ,')} looks at the cells of a row; an event "
                "processor can",
            )
            continue
        try:
            table = f"{_part(found[2], is_database=True)}\\.{_part(found[3])}"
        except ValueError as error:
            made.error(key, f"not carried over: {found[0].strip(' ,')}: {error}")
            continue
        kind = found[1].lower()
        # Each rule wraps those before it, so that the last one that matches decides.
        if kind == "blacklist":
            black.append(table)
        elif kind == "include":
            regex = f"(?:{table}|{regex})"
        else:
            regex = f"(?!(?:{table})\\Z){regex}"
    if text[at:].strip():
        made.error(key, f"not carried over: {text[at:].strip()!r} is no rule that is known here")
        return
    # Ours ignores case, and takes letters of all scripts for those of words.
    made.put_filter(f"(?a-i:{regex})", key)
    if black:
        made.put_filter(f"(?a-i:{'|'.join(black)})", key, "consumer.source.blackFilter")


def _part(word: str, is_database: bool = False) -> str:
    """The regular expression for one part of a table's name. Raises ValueError for one that would
    fit other names within `schema.table`."""
    word = word.strip()
    if word == "*":
        return r"[^.]*"
    # Names are expressions, too: Maxwell puts anchors around them.
    regex = f"^{word.strip(QUOTES)}$"
    if word.startswith("/"):
        regex = word[1:-1]
    return part_of_name(regex, "[^.]*", is_database)


def _dead_letters(made: Conversion, key: str, value: str) -> None:
    made.put("loader.onError", "deadletter")
    made.put("loader.deadletterTopic", value)


def _ddl(made: Conversion, key: str, value: str) -> None:
    if yes(value):
        made.put("loader.source.ddl", "true")


def _place(made: Conversion, key: str, value: str) -> None:
    # The third part is a heartbeat.
    made.put("consumer.offset", ":".join(value.split(":")[:2]))


def _done(made: Conversion, key: str, value: str) -> None:
    """Does nothing: the setting is converted elsewhere, together with others."""


_NODES = "nodes and the console take its place"
_FORM = "see the finding on the form of records"
RULES: dict[str, Rule] = {
    **dict.fromkeys(
        (
            "host", "port", "user", "password", "ssl", "replication_host", "replication_port",
            "replication_user", "replication_password", "replication_ssl",
        ),
        Rule(convert=_done),
    ),
    "replica_server_id": Rule("consumer.source.slaveId"),
    "client_id": Rule(convert=_done),
    "producer": Rule(convert=_producer),
    # It is used whatever `producer` says.
    "custom_producer.factory": Rule(convert=_producer),
    "kafka_topic": Rule(convert=_done),
    "kafka.bootstrap.servers": Rule("loader.source.servers"),
    **producer_rules("kafka."),
    "kafka_key_format": inside("the key is the text of the key columns"),
    "kafka_partition_hash": inside("keys are hashed as Kafka's own clients do"),
    "kafka_version": inside("any broker that answers is written to"),
    "ddl_kafka_topic": Rule(
        sentence="not carried over: loader.source.ddl publishes DDL in the tables' topics"
    ),
    "dead_letter_topic": Rule(convert=_dead_letters),
    "ignore_producer_error": Rule(
        sentence="not carried over: a record that Kafka refuses stops the task, or is set aside "
        "with loader.onError=deadletter",
        default="false",
    ),
    "producer_partition_*": Rule(convert=_done),
    "producer_ack_timeout": inside("a record is resent until it is acknowledged"),
    "filter": Rule(convert=_filter),
    # of older releases
    **dict.fromkeys(
        (
            "include_dbs", "exclude_dbs", "include_tables", "exclude_tables", "blacklist_dbs",
            "blacklist_tables",
        ),
        Rule(
            severity=Severity.ERROR,
            sentence="not carried over: rows that it leaves out would be sent; write it as filter",
        ),
    ),
    **dict.fromkeys(
        ("exclude_columns", "include_column_values"),
        Rule(
            severity=Severity.ERROR,
            sentence="not carried over: what it leaves out would be sent; write mapper[i].ignore "
            "or a filter of rows",
        ),
    ),
    "javascript": Rule(
        severity=Severity.ERROR, sentence="not carried over: write it as an event processor"
    ),
    "encrypt": Rule(
        severity=Severity.ERROR,
        sentence="not carried over: cells would go to Kafka in clear; mask columns by mapper[i]",
        default="none",
    ),
    "secret_key": inside("see encrypt"),
    "output_ddl": Rule(convert=_ddl),
    "output_null_zerodates": Rule(
        sentence="not carried over: zero dates are sent as they are; loader.zeroDate=null says it "
        "in the tasks that read the topic",
        default="false",
    ),
    "output_naming_strategy": Rule(
        severity=Severity.ERROR,
        sentence="not carried over: rename columns by mapper[i].column.COLUMN",
    ),
    "output_*": inside(_FORM),
    "schema_database": inside("--offsets reads Maxwell's position there"),
    "schema_*": inside("the schema comes from the server that is read"),
    "jdbc_options": inside("the address, and TLS by consumer.source.sslMode, is all there is"),
    "replication_jdbc_options": inside("as jdbc_options"),
    "gtid_mode": inside("GTIDs are kept beside each position, and used at a failover"),
    "master_recovery": inside("GTIDs are kept beside each position, and used at a failover"),
    "bootstrapper": inside("cdcbus snapshot takes its place"),
    "binlog_heartbeat": inside("a dead connection is noticed after 15 s"),
    "env_config_prefix": Rule(
        sentence="not carried over: settings of the environment are not seen here"
    ),
    "init_position": Rule(convert=_place),
    **all_inside(
        _NODES,
        "log_level", "daemon", "config", "ha", "jgroups_config", "raft_member_id", "metrics_*",
        "http_*", "custom_health.*", "max_schemas", "recapture_schema", "buffer_memory_usage",
        "binlog_event_queue_size", "replay", "custom_producer.*",
    ),
    **all_inside(
        "another producer's than Kafka",
        "output_file*", "kinesis_*", "sqs_*", "sns_*", "nats_*", "pubsub_*", "ddl_pubsub_*",
        "bigquery_*", "rabbitmq_*", "redis_*",
    ),
}  # fmt: skip
