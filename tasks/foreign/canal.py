"""canal.properties with an instance.properties, as a task file."""

from __future__ import annotations

import re
from collections.abc import Mapping

from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.foreign.conversion import (
    NO_START,
    Conversion,
    Rule,
    all_inside,
    fetch_keys,
    inside,
    leave_out,
    literal_table,
    producer_rules,
    time_of,
    yes,
)
from cdcbus.tasks.foreign.regexes import either, split_regexes

TOOL = "canal"
OPERATIONS = ("INSERT", "UPDATE", "DELETE")
DESTINATION = "canal.instance.destination"
# The parts of a position, each a setting.
PLACE = "journal.name", "position", "timestamp", "gtid"


def is_canal(settings: Mapping[str, str]) -> bool:
    return any(key.startswith(("canal.instance.", "canal.destinations")) for key in settings)


def from_canal(settings: Mapping[str, str], destination: str) -> Conversion:
    """The task from both files' settings, those of the instance winning. `destination` names the
    task."""
    made = Conversion(TOOL, settings, fetch_keys())
    # Readers of the topics know canal's records, which canalCompat writes; rules may change both.
    made.put("loader.source.canalCompat", "true")
    made.put("loader.source.ddl", "true")
    made.name_task(destination, TOOL)
    made.apply(RULES)
    _tables(made)
    _start(made)
    # canal's default is tcp; without the key no rule sees it.
    if "canal.serverMode" not in settings:
        _mode(made, "canal.serverMode", "tcp")
    # Without it canal sends all rows to one partition, whose order readers may rely on.
    if not settings.get("canal.mq.partitionHash", "").strip():
        made.warning(
            "canal.mq.partition",
            f"canal sent all rows to partition {settings.get('canal.mq.partition') or '0'}; here "
            "the primary key chooses: give the topic one partition to keep one order",
        )
    return made


def _mode(made: Conversion, key: str, value: str) -> None:
    if value.lower() != "kafka":
        made.error(
            key,
            f"{value}: clients of canal's port, and brokers other than Kafka, get no rows; name "
            "brokers in loader.source.servers and a topic in loader.source.topic",
        )


def _tables(made: Conversion) -> None:
    key = "canal.instance.filter.regex"
    # canal's default: all tables.
    white = split_regexes(made.settings.get(key, "") or r".*\..*")
    made.filter(white, [], key)
    key = "canal.instance.filter.black.regex"
    if black := split_regexes(made.settings.get(key, "")):
        made.put_filter(either(black), key, "consumer.source.blackFilter")


def _start(made: Conversion) -> None:
    """The start in canal's own order: GTIDs where they are on, a position, a time. Without any of
    these canal begins at the end, which is never intended."""
    prefix = "canal.instance.master."
    settings = made.settings
    gtid = settings.get(f"{prefix}gtid", "").strip()
    file = settings.get(f"{prefix}journal.name", "").strip()
    pos = settings.get(f"{prefix}position", "").strip()
    time = settings.get(f"{prefix}timestamp", "").strip()
    if yes(settings.get("canal.instance.gtidon", "")) and gtid:
        made.put("consumer.offset", gtid)
    elif file:
        made.put("consumer.offset", f"{file}:{pos}" if pos else file)
    elif at := time_of(time):
        made.put("consumer.offset", f"{at:%Y-%m-%dT%H:%M:%S}Z")
    else:
        made.warning(prefix + "position", NO_START)


def _standby(made: Conversion, key: str, value: str) -> None:
    # The master is put before the comma, whichever of the two lines comes first.
    made.put("consumer.source.address", f"{made.keys.get('consumer.source.address', '')},{value}")


def _master(made: Conversion, key: str, value: str) -> None:
    standby = made.keys.get("consumer.source.address", "")
    made.put("consumer.source.address", value + standby)


def _druid(made: Conversion, key: str, value: str) -> None:
    if yes(value):
        # The line of the password may have come first.
        made.keys.pop("consumer.source.password", None)
        made.error(
            key,
            "not carried over: the password is encrypted by Druid; write "
            "consumer.source.password=${env:NAME}",
        )


def _password(made: Conversion, key: str, value: str) -> None:
    if not yes(made.settings.get("canal.instance.enableDruid", "")):
        made.put("consumer.source.password", value)


def _columns(made: Conversion, key: str, value: str) -> None:
    ours = "include"
    if ".black." in key:
        ours = "ignore"
    for item in split_regexes(value):
        table, _, columns = item.partition(":")
        found = literal_table(table)
        if found is None:
            made.error(key, f"not carried over: {table} is no name of a table; name each")
            continue
        made.map_column(key, found, ours, ",".join(columns.split("/")))


def _flat(made: Conversion, key: str, value: str) -> None:
    if not yes(value):
        made.error(
            key,
            "canal's protobuf form is read (consumer.converter=canalProtobuf, or auto for a topic "
            "that holds both), but not written: readers get canal's flat JSON messages",
        )


def _topic(made: Conversion, key: str, value: str) -> None:
    if made.settings.get("canal.mq.dynamicTopic", "").strip():
        value = _without_dots(made, key, value)
    made.put("loader.source.topic", value)


def _topics(made: Conversion, key: str, value: str) -> None:
    rules = []
    for rule in re.split(r"[;,]", value):
        topic, colon, tables = rule.partition(":")
        if colon:
            topic = _without_dots(made, key, topic)
        rules.append(topic + colon + tables)
    made.put("loader.source.dynamicTopic", ",".join(rules))


def _without_dots(made: Conversion, key: str, topic: str) -> str:
    """The topic that canal sends to while it has dynamic topics."""
    sent = topic.replace(".", "_")
    if sent != topic:
        made.note(key, f"{topic} becomes {sent}, as with dynamicTopic canal writes _ for each dot")
    return sent


def _partition_hash(made: Conversion, key: str, value: str) -> None:
    made.put("loader.source.partitionHash", ",".join(re.split(r"[;,]", value)))
    made.note(
        key,
        "keys are hashed as Kafka's own clients do: rows go to other partitions than canal's; and "
        "tables without a match are spread by their primary key, not all sent to partition 0",
    )


def _no_ddl(made: Conversion, key: str, value: str) -> None:
    if yes(value):
        made.put("loader.source.ddl", "false")


def _no_rows(made: Conversion, key: str, value: str) -> None:
    if yes(value):
        made.error(key, "not carried over: a task that leaves all rows out has nothing to send")


def _operations(made: Conversion, key: str, value: str) -> None:
    """Converts all of `filter.dml.*`, of which this is one."""
    if yes(value):
        prefix = key.removesuffix(key.rpartition(".")[2])
        names = [each for each in OPERATIONS if yes(made.settings.get(prefix + each.lower(), ""))]
        leave_out(made, key, names)


def _detecting(made: Conversion, key: str, value: str) -> None:
    if yes(value):
        made.warning(
            key,
            "not carried over: heartbeats are rows of a table, consumer.source.heartbeatTable; a "
            "dead connection is noticed after 15 s anyway",
        )


def _latest(made: Conversion, key: str, value: str) -> None:
    if yes(value):
        made.put("consumer.source.onPositionLost", "latest")
        made.warning(key, "rows between are lost, as in canal, but with a line in the log")


_MEMORY = "sizes and threads are canal's own"
_OTHER_BROKER = "another broker's than Kafka"
RULES: dict[str, Rule] = {
    # Rules that do nothing are for keys that other functions convert, together with others.
    DESTINATION: Rule(convert=lambda *_: None),
    "canal.instance.master.address": Rule(convert=_master),
    "canal.instance.standby.address": Rule(convert=_standby),
    "canal.instance.mysql.slaveId": Rule("consumer.source.slaveId"),
    "canal.instance.dbUsername": Rule("consumer.source.username"),
    "canal.instance.dbPassword": Rule(convert=_password),
    "canal.instance.enableDruid": Rule(convert=_druid),
    "canal.instance.filter.regex": Rule(convert=lambda *_: None),
    "canal.instance.filter.black.regex": Rule(convert=lambda *_: None),
    "canal.instance.filter.field": Rule(convert=_columns),
    "canal.instance.filter.black.field": Rule(convert=_columns),
    "canal.instance.filter.query.ddl": Rule(convert=_no_ddl),
    **dict.fromkeys(
        (f"canal.instance.filter.dml.{name.lower()}" for name in OPERATIONS),
        Rule(convert=_operations),
    ),
    "canal.instance.filter.rows": Rule(convert=_no_rows),
    "canal.instance.filter.table.error": Rule(
        sentence="not carried over: a table that cannot be read stops the task, its rows are not "
        "left out",
        default="false",
    ),
    **all_inside(
        "statements and transactions are not published",
        "query.dcl", "query.dml", "druid.ddl", "transaction.entry",
        prefix="canal.instance.filter.",
    ),
    "canal.instance.filter.*": Rule(
        severity=Severity.ERROR, sentence="not carried over: rows that it leaves out would be sent"
    ),
    "canal.instance.gtidon": inside("GTIDs are kept beside each position, and used at a failover"),
    "canal.instance.master.sslMode": Rule("consumer.source.sslMode"),
    **dict.fromkeys(
        (f"canal.instance.master.{name}" for name in PLACE), Rule(convert=lambda *_: None)
    ),
    **all_inside(
        "the place on another server is found by GTID or time",
        *PLACE, prefix="canal.instance.standby.",
    ),
    # Exact names are looked up first, wherever they stand; then the first pattern that matches.
    "canal.instance.detecting.enable": Rule(convert=_detecting),
    "canal.instance.detecting.*": inside("see canal.instance.detecting.enable"),
    "canal.instance.connectionCharset": inside("each column's own character set counts"),
    "canal.instance.defaultDatabaseName": inside("tables are named with their schema"),
    "canal.instance.rds.*": Rule(
        sentence="not carried over: binlogs that were archived are not read, only the server's own"
    ),
    "canal.instance.tsdb.*": inside("the schema history is kept beside the position"),
    "canal.instance.pwdPublicKey": inside("see canal.instance.enableDruid"),
    "canal.instance.binlog.*": inside("row images are looked at before the start"),
    "canal.instance.fallbackIntervalInSeconds": inside("a failover goes by GTID, else a minute"),
    **all_inside(
        _MEMORY,
        "memory.*", "network.*", "parser.*", "transaction.size", "get.ddl.isolation", "global.*",
        prefix="canal.instance.",
    ),
    "canal.serverMode": Rule(convert=_mode),
    "canal.mq.servers": Rule("loader.source.servers"),
    "canal.mq.topic": Rule(convert=_topic),
    "canal.mq.dynamicTopic": Rule(convert=_topics),
    "canal.mq.flatMessage": Rule(convert=_flat),
    "canal.mq.partition": Rule(convert=lambda *_: None),
    "canal.mq.partitionHash": Rule(convert=_partition_hash),
    "canal.mq.partitionsNum": inside("the topic itself says how many partitions it has"),
    "canal.mq.dynamicTopicPartitionNum": inside("the topics themselves say it"),
    "canal.mq.database.hash": inside("keys are hashed as Kafka's own clients do"),
    **all_inside(
        _MEMORY,
        "canalBatchSize", "canalGetTimeout", "accessChannel", "send.thread.size",
        "build.thread.size",
        prefix="canal.mq.",
    ),
    "canal.auto.reset.latest.pos.mode": Rule(convert=_latest),
    "canal.zkServers": inside("cdcbus has its own setting zookeeper; --offsets reads the cursor"),
    "canal.admin.*": inside("nodes and the console take its place"),
    "canal.aliyun.*": inside(_OTHER_BROKER),
    "canal.destinations": inside("each instance is a task"),
    **all_inside(
        "it is about canal's server",
        "id", "ip", "port", "register.ip", "metrics.pull.port", "user", "passwd",
        "zookeeper.flush.period", "withoutNetty", "file.*", "conf.dir", "auto.scan*",
        prefix="canal.",
    ),
    "kafka.bootstrap.servers": Rule("loader.source.servers"),
    "kafka.kerberos.enable": Rule(
        severity=Severity.ERROR,
        sentence="not carried over: write kafka.security.protocol and kafka.sasl.* for Kerberos",
        default="false",
    ),
    "kafka.kerberos.*": inside("see kafka.kerberos.enable"),
    **producer_rules("kafka."),
    "rocketmq.*": inside(_OTHER_BROKER),
    "rabbitmq.*": inside(_OTHER_BROKER),
    "pulsarmq.*": inside(_OTHER_BROKER),
}  # fmt: skip
