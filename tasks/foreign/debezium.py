"""A Debezium connector for MySQL or MariaDB, as Kafka Connect's JSON or Debezium Server's
properties, as a task file."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.config.keys.two_way import GTID_SOURCES
from cdcbus.tasks.config.keys.types import split_list
from cdcbus.tasks.foreign.conversion import (
    NO_START,
    Conversion,
    Rule,
    address,
    all_inside,
    fetch_keys,
    inside,
    leave_out,
    literal_table,
    producer_rules,
    yes,
)
from cdcbus.tasks.foreign.regexes import either, part_of_name, split_regexes

TOOL = "Debezium"
OPERATIONS = {"c": "INSERT", "u": "UPDATE", "d": "DELETE"}
SERVER_PREFIX = "debezium.source."
SERVER_PRODUCER = "debezium.sink.kafka.producer."
CONNECTORS = ("io.debezium.connector.mysql.MySqlConnector",
              "io.debezium.connector.mariadb.MariaDbConnector")  # fmt: skip
# Debezium's modes -> those of consumer.snapshot: no_data and its like read schemas only.
SNAPSHOTS = {
    "initial": "initial",
    "when_needed": "initial",
    "always": "initial",
    "initial_only": "only",
    "never": "never",
    "no_data": "never",
    "schema_only": "never",
    "recovery": "never",
    "schema_only_recovery": "never",
}
UNWRAP = "io.debezium.transforms.ExtractNewRecordState"
NEW_TOPICS = "topic.creation.default."
TLS_MODES = {
    "disable": "disabled",
    "trust": "required",
    "verify_full": "verify-identity",
}
# Names before Debezium 2.0, and before include and exclude lists.
OLD_NAMES = {
    "database.server.name": "topic.prefix",
    "database.whitelist": "database.include.list",
    "database.blacklist": "database.exclude.list",
    "table.whitelist": "table.include.list",
    "table.blacklist": "table.exclude.list",
    "column.whitelist": "column.include.list",
    "column.blacklist": "column.exclude.list",
}


def is_debezium(settings: Mapping[str, str]) -> bool:
    return "connector.class" in settings or f"{SERVER_PREFIX}connector.class" in settings


def connector_of(settings: Mapping[str, str]) -> dict[str, str]:
    """The connector's own settings, under their current names."""
    is_server = f"{SERVER_PREFIX}connector.class" in settings
    own: dict[str, str] = {}
    for key, value in settings.items():
        if not is_server or key.startswith(SERVER_PREFIX):
            name = key.removeprefix(SERVER_PREFIX)
            own[OLD_NAMES.get(name, name)] = value
        elif key.startswith(SERVER_PRODUCER):
            own[f"producer.override.{key.removeprefix(SERVER_PRODUCER)}"] = value
        # Debezium Server's other settings are about itself.
        elif key.startswith("debezium."):
            own[key] = value
    return own


def from_debezium(settings: Mapping[str, str]) -> Conversion:
    """The task from the settings of `connector_of`. Raises ConfigError for a connector of another
    database."""
    kind = settings["connector.class"]
    if kind not in CONNECTORS:
        raise ConfigError(
            f"connector.class={kind} does not read MySQL or MariaDB; expected one of "
            f"{', '.join(CONNECTORS)}"
        )
    made = Conversion(TOOL, settings, fetch_keys())
    prefix = settings.get("topic.prefix", "")
    made.name_task(settings.get("name", "") or prefix, "debezium")
    made.apply(RULES)
    made.put(
        "consumer.source.address",
        address(settings.get("database.hostname", ""), settings.get("database.port", "3306")),
    )
    _tables(made)
    _check_columns(made)
    _truncates(made)
    _topics(made, prefix)
    _servers(made)
    _snapshot(made)
    made.warning(
        "value.converter",
        "records have canalRow's form, not Debezium's envelope, and deletes no tombstones: readers "
        "of the topics must know it (docs/formats.md)",
    )
    return made


def _tables(made: Conversion) -> None:
    settings = made.settings
    of_schemas = _tables_of(made, "database.include.list")
    tables = split_regexes(settings.get("table.include.list", ""))
    no_tables = split_regexes(settings.get("table.exclude.list", ""))
    excluded = _tables_of(made, "database.exclude.list") + no_tables
    # Both must match: tables outside the schemas are left out.
    if of_schemas and tables:
        excluded.append(f"(?!{either(of_schemas)}\\Z).*")
    included = tables or of_schemas
    if not yes(settings.get("table.ignore.builtin", "true")):
        made.warning("table.ignore.builtin", "not carried over: system tables are not read")
    if included or excluded:
        made.filter(included, excluded, "table.include.list")


def _tables_of(made: Conversion, key: str) -> list[str]:
    """Regular expressions for all tables of the schemas that a setting names."""
    found: list[str] = []
    for schema in split_regexes(made.settings.get(key, "")):
        try:
            found.append(f"{part_of_name(schema, is_database=True)}\\..*")
        except ValueError as error:
            made.error(key, f"not carried over: {schema}: {error}")
    return found


def _topics(made: Conversion, prefix: str) -> None:
    """Sets the topics: prefix.schema.table if tables are named, else names after what patterns
    match."""
    if not prefix:
        made.error("topic.prefix", "there is none; name a topic in loader.source.topic")
        return
    made.put("loader.source.topic", prefix)
    patterns = _whole(made.settings.get("table.include.list", ""))
    rules: list[str] = []
    for pattern in patterns:
        # A pattern has no single topic, so one is enough to name all topics in another way.
        if (found := literal_table(pattern)) is None:
            rules.clear()
            break
        schema, table = found
        rules.append(f"{prefix}.{schema}.{table}:{schema}\\.{table}")
    if rules:
        made.put("loader.source.dynamicTopic", ",".join(rules))
        made.note(
            "topic.prefix",
            "topics are spelled as in table.include.list, in Debezium as the server's tables are",
        )
        return
    made.put("loader.source.dynamicTopic", r".*\..*")
    made.warning(
        "topic.prefix",
        f"topics are named schema_table in lower case, not {prefix}.schema.table, as tables are "
        "given by patterns; name each in loader.source.dynamicTopic to keep the names",
    )


def _servers(made: Conversion) -> None:
    for key in (
        "producer.override.bootstrap.servers",
        "schema.history.internal.kafka.bootstrap.servers",
        "database.history.kafka.bootstrap.servers",
    ):
        if servers := made.settings.get(key, "").strip():
            made.put("loader.source.servers", servers)
            # The producer's own options count before Kafka Connect's.
            others = "" if key.startswith("producer.") else "; Kafka Connect's own count there"
            made.note(key, f"taken for the brokers that rows go to{others}")
            return
    made.error(
        "bootstrap.servers",
        "the connector does not say which brokers Kafka Connect writes to; name them in "
        "loader.source.servers",
    )


def _snapshot(made: Conversion) -> None:
    mode = made.settings.get("snapshot.mode", "initial").strip().lower()
    ours = SNAPSHOTS.get(mode)
    if ours is None:
        made.error("snapshot.mode", f"not carried over: {mode}; set consumer.snapshot")
        return
    made.put("consumer.snapshot", ours)
    if ours == "never":
        made.warning("snapshot.mode", NO_START)
    else:
        # The snapshot brings the rows that exist; the binlog, what changes from then on.
        made.put("consumer.offset", "latest")
        made.note(
            "snapshot.mode",
            f"consumer.snapshot={ours}, and the binlog from its end at the first start; --offsets "
            "takes over where the connector is",
        )
    if mode in ("always", "when_needed"):
        made.warning(
            "snapshot.mode", f"{mode}: rows are sent once; cdcbus snapshot sends them again"
        )


def _truncates(made: Conversion) -> None:
    """Leaves TRUNCATE out where nothing is said, as Debezium does since 2.0."""
    if made.settings.get("skipped.operations", "").strip():
        return
    made.put("loader.source.truncate", "false")
    made.note(
        "skipped.operations",
        "not given: loader.source.truncate=false, as Debezium since 2.0 leaves TRUNCATE out; true "
        "sends it, as older releases do",
    )


def _tls(made: Conversion, key: str, value: str) -> None:
    mode = value.lower().replace("-", "_")
    made.put("consumer.source.sslMode", TLS_MODES.get(mode, mode.replace("_", "-")))


def _whole(text: str) -> list[str]:
    """The expressions of a list, without the anchors that each has anyway."""
    return list(map(_unanchored, split_regexes(text)))


def _unanchored(regex: str) -> str:
    # An escaped $ is a part of the name.
    return re.sub(r"\A\^|(?<!\\)\$\Z", "", regex)


def _columns_in(made: Conversion, key: str, value: str, ours: str, text: str = "") -> None:
    """Maps columns given as schema.table.column, each by its name."""
    for pattern in _whole(value):
        table, _, column = pattern.rpartition(".")
        # The dot before the column may be escaped, as the list holds regular expressions.
        found = literal_table(table.removesuffix("\\"))
        if found is None or not re.fullmatch(r"[\w$-]+", column):
            made.error(key, f"not carried over: {pattern} is no name of a column; name each")
        elif text:
            made.map_column(key, found, f"{ours}{column}", text)
        else:
            made.map_column(key, found, ours, column)


def _check_columns(made: Conversion) -> None:
    """Makes an error of a list of columns to send where a table may have none in it: Debezium hides
    all columns that are not in the list."""
    key = "column.include.list"
    columns = _whole(made.settings.get(key, ""))
    if not columns:
        return
    named = set()
    for pattern in columns:
        named.add(literal_table(pattern.rpartition(".")[0].removesuffix("\\")))
    for table in _whole(made.settings.get("table.include.list", "")) or [""]:
        if (literal := literal_table(table)) is None or literal not in named:
            made.error(
                key,
                f"not carried over for {table or 'all other tables'}: all columns would be sent; "
                "name the tables in table.include.list, and columns of each here",
            )


def _masked(made: Conversion, key: str, value: str) -> None:
    if found := re.fullmatch(r"column\.truncate\.to\.(\d+)\.chars", key):
        _columns_in(made, key, value, "mask.", f"truncate:{found[1]}")
    elif found := re.fullmatch(r"column\.mask\.with\.(\d+)\.chars", key):
        _columns_in(made, key, value, "mask.", f"fixed:{'*' * int(found[1])}")
    else:
        made.error(
            key, "not carried over: set mapper[i].mask.COLUMN=hash:SALT, which gives other hashes"
        )


def _keys(made: Conversion, key: str, value: str) -> None:
    for item in filter(None, map(str.strip, value.split(";"))):
        table, _, columns = item.partition(":")
        found = literal_table(_unanchored(table))
        if found is None:
            made.error(key, f"not carried over: {table} is no name of a table; name each")
        else:
            made.put(f"loader.source.partitionKey.{found[0]}.{found[1]}", columns)


def _skipped(made: Conversion, key: str, value: str) -> None:
    operations = set(map(str.strip, value.lower().split(",")))
    made.put("loader.source.truncate", str("t" not in operations).lower())
    leave_out(made, key, [name for letter, name in OPERATIONS.items() if letter in operations])


def _new_topics(made: Conversion, key: str, value: str) -> None:
    partitions = made.settings.get(f"{NEW_TOPICS}partitions", "1")
    replicas = made.settings.get(f"{NEW_TOPICS}replication.factor", "-1")
    # -1 means the broker's own number, which createTopic cannot say.
    if not partitions.isdigit() or not replicas.isdigit():
        made.warning(key, "not carried over: loader.source.createTopic=PARTITIONS:REPLICAS")
    else:
        made.put("loader.source.createTopic", f"{partitions}:{replicas}")


def _transform(made: Conversion, key: str, value: str) -> None:
    # `transforms`, which names all, or `transforms.<name>.<its setting>`.
    before, _, after = key.partition("transforms")
    names = [after.split(".")[1]] if after.startswith(".") else split_list(value)
    kinds = {made.settings.get(f"{before}transforms.{each}.type", "").strip() for each in names}
    option = after.partition(".")[2].partition(".")[2]
    if kinds != {UNWRAP} or option == "route.by.field":
        made.error(key, "not carried over: say what they do by mapper[i] or an event processor")
    elif option in ("", "type", "drop.tombstones"):
        made.note(key, "not carried over: rows have no envelope here that it could take off")
    else:
        made.warning(
            key,
            "not carried over: deletes are sent, as records of their own, and each record has its "
            "operation, time and table (docs/formats.md)",
        )


def _sink(made: Conversion, key: str, value: str) -> None:
    if value != "kafka":
        made.error(
            key, f"{value}: rows go to Kafka; name brokers and a topic in loader.source.servers "
            "and loader.source.topic"
        )  # fmt: skip


def _gtid_sources(made: Conversion, key: str, value: str) -> None:
    try:
        # Debezium takes regular expressions, consumer.source.excludeGtidSources takes names only.
        GTID_SOURCES.read(value)
    except ValueError:
        made.error(
            key,
            "not carried over: a regular expression; write UUIDs into "
            "consumer.source.excludeGtidSources",
        )
    else:
        made.put("consumer.source.excludeGtidSources", value)


def _done(made: Conversion, key: str, value: str) -> None:
    """Does nothing: the setting is converted elsewhere, together with others."""


_ENGINE = "sizes, threads and pauses are Debezium's own"
_FORM = "see the finding on the form of records"
_VALUES = "values are written as docs/values.md says"
RULES: dict[str, Rule] = {
    "name": Rule(convert=_done),
    "connector.class": Rule(convert=_done),
    "database.hostname": Rule(convert=_done),
    "database.port": Rule(convert=_done),
    "database.user": Rule("consumer.source.username"),
    "database.password": Rule("consumer.source.password"),
    "database.server.id": Rule("consumer.source.slaveId"),
    "database.server.id.offset": inside("one server id is enough"),
    "database.include.list": Rule(convert=_done),
    "database.exclude.list": Rule(convert=_done),
    "table.include.list": Rule(convert=_done),
    "table.exclude.list": Rule(convert=_done),
    "table.ignore.builtin": Rule(convert=_done),
    "column.include.list": Rule(
        convert=lambda made, key, value: _columns_in(made, key, value, "include")
    ),
    "column.exclude.list": Rule(
        convert=lambda made, key, value: _columns_in(made, key, value, "ignore")
    ),
    "column.mask.*": Rule(convert=_masked),
    "column.truncate.*": Rule(convert=_masked),
    "column.propagate.source.type": inside(_VALUES),
    "topic.prefix": Rule(convert=_done),
    f"{NEW_TOPICS}partitions": Rule(convert=_new_topics),
    f"{NEW_TOPICS}replication.factor": Rule(convert=_new_topics),
    f"{NEW_TOPICS}*": Rule(
        sentence="not carried over: create the topics with it, or they get the broker's default"
    ),
    "topic.creation.*": Rule(sentence="not carried over: loader.source.createTopic is for all"),
    "topic.*": Rule(sentence="not carried over: loader.source.dynamicTopic names topics"),
    "message.key.columns": Rule(convert=_keys),
    "snapshot.mode": Rule(convert=_done),
    "snapshot.include.collection.list": Rule(
        severity=Severity.ERROR,
        sentence="not carried over: consumer.snapshot=initial is for all tables; set it to never, "
        "and ask for tables with cdcbus snapshot",
    ),
    "snapshot.select.statement.overrides*": Rule(
        severity=Severity.ERROR,
        sentence="not carried over: set consumer.snapshot=never, and ask for rows with cdcbus "
        "snapshot start --where",
    ),
    "snapshot.*": inside("snapshots lock nothing here"),
    "incremental.snapshot.*": inside("snapshots go in chunks beside the stream, always"),
    "signal.*": inside("cdcbus snapshot takes its place"),
    "read.only": inside("nothing is written at the source, but heartbeats"),
    "include.schema.changes": inside("loader.source.ddl=true publishes DDL, in the tables' topics"),
    "include.schema.comments": inside(_VALUES),
    "include.query": inside("rows do not say their statement"),
    "tombstones.on.delete": Rule(
        sentence="not carried over: a delete is a record, without a tombstone; do not compact "
        "the topics",
        default="false",
    ),
    "skipped.operations": Rule(convert=_skipped),
    "provide.transaction.metadata": Rule(
        sentence="not carried over: there is no topic of transactions; rows say their GTID",
        default="false",
    ),
    "gtid.source.excludes": Rule(convert=_gtid_sources),
    "gtid.source.filter.dml.events": inside("see gtid.source.excludes"),
    "gtid.source.*": Rule(
        severity=Severity.ERROR, sentence="not carried over: rows of all servers would be sent"
    ),
    "heartbeat.interval.ms": Rule(
        sentence="not carried over: heartbeats are rows of a table, consumer.source.heartbeatTable",
        default="0",
    ),
    "heartbeat.*": inside("see heartbeat.interval.ms"),
    "database.ssl.mode": Rule(convert=_tls),
    "database.ssl.*": Rule(
        severity=Severity.ERROR,
        sentence="not carried over: write PEM files as consumer.source.sslCa, sslCert and sslKey",
    ),
    "decimal.handling.mode": inside(_VALUES),
    "time.precision.mode": inside(_VALUES),
    "bigint.unsigned.handling.mode": inside(_VALUES),
    "binary.handling.mode": inside(_VALUES),
    "enable.time.adjuster": inside(_VALUES),
    "field.name.adjustment.mode": inside(_VALUES),
    "schema.name.adjustment.mode": inside(_VALUES),
    "sanitize.field.names": inside(_VALUES),
    "event.processing.failure.handling.mode": Rule(
        sentence="not carried over: an event that cannot be read stops the task", default="fail"
    ),
    "inconsistent.schema.handling.mode": Rule(
        sentence="not carried over: a table whose columns are not known stops the task",
        default="fail",
    ),
    "schema.history.internal.kafka.bootstrap.servers": Rule(convert=_done),
    "database.history.kafka.bootstrap.servers": Rule(convert=_done),
    "schema.history.internal.*": inside("the schema history is kept beside the position"),
    "schema.history.internal": inside("the schema history is kept beside the position"),
    "database.history.*": inside("the schema history is kept beside the position"),
    "database.history": inside("the schema history is kept beside the position"),
    "producer.override.bootstrap.servers": Rule(convert=_done),
    **producer_rules("producer.override."),
    # The second name of each is Debezium Server's.
    "transforms*": Rule(convert=_transform),
    "debezium.transforms*": Rule(convert=_transform),
    **dict.fromkeys(
        ("predicates*", "debezium.predicates*"),
        Rule(severity=Severity.ERROR, sentence="not carried over: they belong to transforms"),
    ),
    "debezium.sink.type": Rule(convert=_sink),
    "debezium.format.*": inside(_FORM),
    "post.processors*": Rule(
        severity=Severity.ERROR,
        sentence="not carried over: say what they do by mapper[i] or an event processor",
    ),
    "converters": Rule(
        severity=Severity.ERROR,
        sentence="not carried over: say what they do by mapper[i] or an event processor",
    ),
    "exactly.once.support": Rule(
        sentence="not carried over: loader.source.transaction=true writes records in transactions "
        "with the position",
        default="requested",
    ),
    "key.converter*": inside("the key is the text of the key columns"),
    "value.converter*": inside(_FORM),
    "errors.tolerance": Rule(
        sentence="not carried over: loader.onError=deadletter sets aside records that Kafka "
        "refuses; nothing else is left out",
        default="none",
    ),
    "errors.*": inside("see errors.tolerance"),
    "offset.storage*": inside("--offsets reads the connector's position"),
    "offset.*": inside("the position is stored once a second"),
    **all_inside(
        _ENGINE,
        "tasks.max", "max.*", "poll.interval.ms", "connect.*", "connection.*", "retriable.*",
        "min.row.count.to.stream.results", "database.connection*", "database.query.*",
        "database.initial.statements", "database.jdbc.driver", "database.protocol",
        "database.timezone", "transaction.*", "custom.metric.tags",
        "notification.*", "internal.*", "binlog.buffer.size", "use.nongraceful.disconnect",
        "executor.*", "streaming.*", "extended.headers.enabled", "openlineage.*", "query.*",
    ),
}  # fmt: skip
