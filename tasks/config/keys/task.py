"""Every key of a task file: the one place that knows them, from which suggestions and
docs/configuration.md are made.

In a name `[i]` stands for a number in brackets, `<X>` for any name, a final `*` for any rest.
"""

from __future__ import annotations

import difflib
import re

from cdcbus.tasks.config.diagnostics import ALLOW
from cdcbus.tasks.config.keys.allow_lists import ENVIRONMENT
from cdcbus.tasks.config.keys.bus import ALARM_LIMIT_KEYS
from cdcbus.tasks.config.keys.definition import Key, Route
from cdcbus.tasks.config.keys.loader import (
    JDBC_TARGET_KEYS,
    KAFKA_TARGET_KEYS,
    LOADER_KEYS,
    SOURCE_NAME_MEANING,
    STATUS_ANSWER,
)
from cdcbus.tasks.config.keys.mapper import MAPPER_KEYS
from cdcbus.tasks.config.keys.source.canal import CANAL_SOURCE_KEYS
from cdcbus.tasks.config.keys.source.jdbc import JDBC_SOURCE_KEYS
from cdcbus.tasks.config.keys.source.kafka import KAFKA_SOURCE_KEYS
from cdcbus.tasks.config.keys.start import STOP_AT
from cdcbus.tasks.config.keys.two_way import TWO_WAY_KEYS
from cdcbus.tasks.config.keys.types import (
    CONSUMER,
    FLAG,
    NAMES,
    NUMBER,
    OPERATIONS,
    PATH_NAME,
    POSITIVE,
    SCHEDULE,
    START,
    TABLES,
    TEXT,
    TIME_ZONE,
    word,
)

TAGS = "tags"

TASK_KEYS = (
    Key(
        "taskId",
        PATH_NAME,
        "",
        "The task's id, and the name of its directory in ZooKeeper. Required.",
    ),
    Key("nodeId", NAMES, "", "The nodes that may run the task; absent: any."),
    Key(
        ENVIRONMENT,
        PATH_NAME,
        "",
        "The environment that the task is meant for, such as `prod`: it runs only where the "
        "setting `environment` says the same.",
    ),
    Key(
        TAGS,
        NAMES,
        "",
        "Words that group tasks, such as `orders,team-a`: the [console](console.md) filters by "
        "them.",
        "not known",
    ),
    Key(
        "status",
        word("NEW", "WORKING", "STOPPED", "DELETED"),
        "WORKING",
        "Whether nodes run the task.",
        answer=STATUS_ANSWER,
    ),
    Key(
        "localTask",
        FLAG,
        "false",
        "Set by porter's node itself.",
        answer="accepted; porter sets it itself, nothing reads it here",
    ),
    Key(
        "positionCheckInterval",
        NUMBER,
        "60",
        "Seconds that a lag of alarmPositionCount must last before [somebody is told](alarms.md); "
        "below 1: never.",
        "-1, which is off, is the default; seconds between checks",
    ),
    Key("alarmPositionCount", NUMBER, "10000", "The lag in records that raises an alarm."),
    Key(
        "receiver[i].realName",
        TEXT,
        "",
        "Whose address the next one is; in mails, and for `alarm.webhook.url` and "
        "`alarm.exec.command`.",
    ),
    Key(
        "receiver[i].email",
        TEXT,
        "",
        "Who gets the task's alarms as mail, besides `alarm.smtp.to`.",
    ),
    Key(
        "receiver[i].phone",
        TEXT,
        "",
        "A telephone number, for `alarm.webhook.url` and `alarm.exec.command`: cdcbus calls "
        "nobody itself.",
    ),
    *(
        Key(
            key.name,
            key.value_type,
            "",
            "As in [cdcbus.properties](#settings-for-all-tasks), for this task.",
            "not known",
        )
        for key in ALARM_LIMIT_KEYS
    ),
    Key(
        "verify.schedule",
        SCHEDULE,
        "",
        "When the node that runs the task [verifies](verify.md#by-schedule) all its tables: an "
        "interval (`30m`, `6h`, `1d`), or the five fields of cron (`0 3 * * *`), by the clock of "
        "the node's machine; absent: never.",
        "not known",
        Route.LOAD,
    ),
    Key(
        "verify.throttle",
        POSITIVE,
        "50000",
        "Rows of the source in a second that this verify reads at most.",
        "not known",
        Route.LOAD,
    ),
    Key(
        ALLOW,
        NAMES,
        "",
        "Keys of this file, spelled as they stand in it, whose lines are meant although a start is "
        "[refused](#what-refuses-a-start) for them.",
        "not known",
    ),
    Key("restartRetries", NUMBER, "20", "How often a node starts a failed task again."),
    Key(
        "restartIncreaseBySecond", NUMBER, "300", "Seconds by which the pause between starts grows."
    ),
    Key(
        "porter.source.*",
        TEXT,
        "",
        "Named sources of a porter node.",
        answer="read from cdcbus.properties only; move the line there",
    ),
    Key(
        "porter.*",
        TEXT,
        "",
        "Settings of a porter node.",
        answer="a setting of porter's node, not of a task; nothing reads it here",
    ),
)

CONSUMER_KEYS = (
    Key(
        "consumer.consumerName",
        CONSUMER,
        "",
        "What is read: `CanalFetch` a MySQL or MariaDB binlog, `KafkaFetch` Kafka topics, or [a "
        "source of another package](plugins.md#sources-of-rows). Required.",
        "also JdbcFetch",
    ),
    Key(
        "consumer.converter",
        TEXT,
        "",
        "KafkaFetch: the form of the records, `oggJson` when absent; [all forms](formats.md). "
        "CanalFetch: names the input, always `canalRow`.",
        "KafkaFetch with canalRow drops every record",
    ),
    Key(
        "consumer.source.timeZone",
        TIME_ZONE,
        "UTC",
        "KafkaFetch: the zone of [times that name none](formats.md#time-zones): canal's own "
        "TIMESTAMP cells, and `op_ts` of porter and GoldenGate. A name (`Asia/Shanghai`) or an "
        "offset (`+08:00`).",
        "not known; the zone of its JVM",
        Route.FROM_KAFKA,
        answer="accepted; a binlog holds moments, which are written in UTC",
    ),
    Key(
        "consumer.includes",
        TABLES,
        "",
        "Only these tables, by their source name, any case: names, `SCHEMA.*`, [regular "
        "expressions](loading.md#which-rows-a-task-takes).",
        "elements are not trimmed; one without a schema matches nothing",
    ),
    Key(
        "consumer.excludes",
        TABLES,
        "",
        "Not these tables, written so too; ignored for those that includes has by name.",
        "elements are not trimmed",
    ),
    Key(
        "consumer.skippedOperations",
        OPERATIONS,
        "",
        "Operations whose rows are left out, as `DELETE,TRUNCATE` for an archive that keeps what "
        "is deleted at the source: see [loading](loading.md#which-rows-a-task-takes), and of a "
        "fetch task [Kafka](kafka.md#operations-that-are-left-out).",
        "not known",
    ),
    Key(
        "consumer.offset",
        START,
        "",
        "Where to start when ZooKeeper holds no position. KafkaFetch: the last processed offset, "
        "a replay `a-b` (both included, "
        "then the task ends), `earliest`, `latest`, an ISO time. CanalFetch: a binlog file, "
        "`file:position`, a GTID set, `earliest`, "
        "`latest`, an ISO time. Times are UTC unless they say otherwise.",
        "only a binlog file name works",
    ),
    Key(
        STOP_AT,
        TEXT,
        "",
        "Where the task ends by itself, as by `cdcbus task run --until`, which counts before it: "
        "`now`, an ISO time; CanalFetch also `file:position` or a GTID set, KafkaFetch the last "
        "offset to apply. On a node it is DONE then. See "
        "[runs that end](operating.md#runs-that-end).",
        "not known",
        Route.BUILT_IN,
    ),
    Key(
        "consumer.emptyFetchThreshold",
        NUMBER,
        "3600",
        "Seconds without rows that raise an alarm; below 1: none.",
    ),
    Key("consumer.emptyFetchNoticeSpan", NUMBER, "3600", "Seconds between two notices of that."),
    Key(
        "consumer.eventProcessor.className",
        TEXT,
        "",
        "What sees, changes, leaves out and adds rows between filter and mapping: a Python "
        "function, `module:function` or the name of an "
        "entry point, see [event processors](loading.md#event-processors). A Java class is not "
        "run.",
        "a Java class",
    ),
    Key(
        "consumer.eventProcessor.content",
        TEXT,
        "",
        "Path or source of that class.",
        answer="accepted; Java classes are not run, rows pass unchanged: check that the target "
        "can do without",
    ),
    Key(
        "consumer.metaSource.*",
        TEXT,
        "",
        "The database for row-count checks.",
        answer="accepted; this release makes no row-count checks",
    ),
    Key(
        "consumer.source.sourceType",
        TEXT,
        "",
        "The kind of source.",
        answer="accepted; consumerName says what is read",
    ),
    Key(
        "consumer.source.clientType",
        TEXT,
        "",
        "The kind of source.",
        answer="accepted; consumerName says what is read",
    ),
    Key("consumer.source.sourceName", PATH_NAME, "", SOURCE_NAME_MEANING),
    Key(
        "consumer.source.oncePollSize",
        POSITIVE,
        "",
        "Kafka's `max.poll.records`; absent: about 5 MB of records, 8,000 at most.",
        "default 1000, and how far a restart steps back",
        Route.FROM_KAFKA,
        answer="accepted; the binlog is read as it comes",
    ),
    Key(
        "consumer.source.pollTimeOut",
        NUMBER,
        "",
        "Milliseconds to wait for rows.",
        "1000 for Kafka, -1 for canal",
        answer="accepted; new rows are taken at once, without a wait of that length",
    ),
)

ISOLATED = "spark.isolated"

PASSED_THROUGH = (
    Key(
        "consumer.source.plugin.*",
        TEXT,
        "",
        "A setting of a [source of another package](plugins.md#sources-of-rows), by its own name.",
        "not known",
        Route.SOURCE,
    ),
    Key(
        "kafka.*",
        TEXT,
        "",
        "A setting of the Kafka client, by its own name; see [TLS and logins](#tls-and-logins).",
        "not known",
    ),
    Key("consumer.source.kafka.*", TEXT, "", "The same.", "not known", Route.FROM_KAFKA),
    Key("loader.source.kafka.*", TEXT, "", "The same.", "not known", Route.TO_KAFKA),
    Key(
        ISOLATED,
        FLAG,
        "false",
        "Whether a node runs the task in a Spark application of its own, not in the one that its "
        "tasks share; so do other `spark.*` keys.",
        "not known",
        Route.FROM_KAFKA,
    ),
    Key("spark.*", TEXT, "", "A setting of Spark, by its own name.", "not known", Route.FROM_KAFKA),
    Key("consumer.source.spark.*", TEXT, "", "The same.", "not known", Route.FROM_KAFKA),
    Key("loader.source.spark.*", TEXT, "", "The same.", "not known", Route.FROM_KAFKA),
)

KEYS: dict[str, Key] = {
    key.name: key
    for key in (
        *TASK_KEYS,
        *CONSUMER_KEYS,
        *KAFKA_SOURCE_KEYS,
        *CANAL_SOURCE_KEYS,
        *JDBC_SOURCE_KEYS,
        *LOADER_KEYS,
        *JDBC_TARGET_KEYS,
        *KAFKA_TARGET_KEYS,
        *TWO_WAY_KEYS,
        *MAPPER_KEYS,
        *PASSED_THROUGH,
    )
}
PATTERNS = tuple(key for key in KEYS.values() if re.search(r"[*<\[]", key.name))


def find_key(written: str) -> Key | None:
    """The key of a written name, or None when there is no such key."""
    # By name first: most are written so, and there are hundreds.
    if written in KEYS:
        return KEYS[written]
    for key in PATTERNS:
        if key.matches(written):
            return key
    return None


def nearest_key(written: str) -> str | None:
    """The known key that looks most like an unknown one."""
    names = {re.sub(r"<[a-z]+>|\*", "", name.casefold()): name for name in KEYS}
    sought = re.sub(r"\[\s*[0-9]+\s*\]", "[i]", written).casefold()
    close = difflib.get_close_matches(sought, names, n=1, cutoff=0.75)
    return names[close[0]] if close else None
