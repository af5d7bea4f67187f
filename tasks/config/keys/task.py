"""Every key of a task file: the one table that suggestions and docs/configuration.md come from.

In a name, `[i]` stands for a number in brackets, `<X>` for any name, and a final `*` for any rest.
"""

from __future__ import annotations

import difflib
import re

from cdcbus.tasks.config.diagnostics import ALLOW
from cdcbus.tasks.config.keys.allow_lists import ENVIRONMENT
from cdcbus.tasks.config.keys.bus import ALARM_LIMIT_KEYS
from cdcbus.tasks.config.keys.definition import Key, Route, by_name
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


def _override(key: Key) -> Key:
    """The key of a task that overrides a setting for all tasks."""
    meaning = "Overrides [cdcbus.properties](#settings-for-all-tasks) for this task."
    # Without a default, as an unset one means the setting for all tasks.
    return Key(key.name, key.value_type, "", meaning, "not known")


TASK_KEYS = (
    Key(
        "taskId",
        PATH_NAME,
        "",
        "The task's id, and the name of its znode in ZooKeeper. Required.",
    ),
    Key("nodeId", NAMES, "", "The nodes that may run the task. If unset, any node."),
    Key(
        ENVIRONMENT,
        PATH_NAME,
        "",
        "The environment that the task is meant for, such as `prod`. The task runs only where the "
        "setting `environment` has the same value.",
    ),
    Key(
        TAGS,
        NAMES,
        "",
        "Labels that group tasks, such as `orders,team-a`. The [console](console.md) filters by "
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
        "Set by porter's node.",
        answer="accepted; porter's node sets it, and nothing reads it here",
    ),
    Key(
        "positionCheckInterval",
        NUMBER,
        "60",
        "Seconds that a lag of `alarmPositionCount` must last to raise an [alarm](alarms.md); "
        "below 1: never.",
        "seconds between checks; default -1, which is off",
    ),
    Key("alarmPositionCount", NUMBER, "10000", "The lag, in records, that raises an alarm."),
    Key(
        "receiver[i].realName",
        TEXT,
        "",
        "The recipient's name: used in mails, and passed to `alarm.webhook.url` and "
        "`alarm.exec.command`.",
    ),
    Key(
        "receiver[i].email",
        TEXT,
        "",
        "The address that receives the task's alarms by mail, in addition to `alarm.smtp.to`.",
    ),
    Key(
        "receiver[i].phone",
        TEXT,
        "",
        "The recipient's telephone number, passed to `alarm.webhook.url` and `alarm.exec.command`. "
        "cdcbus itself calls nobody.",
    ),
    *map(_override, ALARM_LIMIT_KEYS),
    Key(
        "verify.schedule",
        SCHEDULE,
        "",
        "When the node that runs the task [verifies](verify.md#by-schedule) all its tables: an "
        "interval (`30m`, `6h`, `1d`) or five cron fields (`0 3 * * *`), by the clock of the "
        "node's machine. If unset, never.",
        "not known",
        Route.LOAD,
    ),
    Key(
        "verify.throttle",
        POSITIVE,
        "50000",
        "The maximum number of source rows per second that a scheduled verify reads.",
        "not known",
        Route.LOAD,
    ),
    Key(
        ALLOW,
        NAMES,
        "",
        "Keys of this file, spelled as in the file, whose lines are intended although they [refuse "
        "a start](#what-refuses-a-start).",
        "not known",
    ),
    Key("restartRetries", NUMBER, "20", "How many times a node restarts a failed task."),
    Key(
        "restartIncreaseBySecond",
        NUMBER,
        "300",
        "Seconds by which the pause before each further restart grows.",
    ),
    Key(
        # Before porter.*, which matches it as well: the first pattern counts.
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
        answer="a setting of porter's node, not of a task, and nothing reads it here",
    ),
)

CONSUMER_KEYS = (
    Key(
        "consumer.consumerName",
        CONSUMER,
        "",
        "What the task reads: `CanalFetch`, a MySQL or MariaDB binlog; `KafkaFetch`, Kafka topics; "
        "or [a source from another package](plugins.md#sources-of-rows). Required.",
        "also JdbcFetch",
    ),
    Key(
        # Any text here, as the words differ by route: each route narrows the type.
        "consumer.converter",
        TEXT,
        "",
        "KafkaFetch: the [format](formats.md) of the records; `oggJson` if unset. CanalFetch: may "
        "be left out; porter's files have `canalRow`. `loader.source.oggJson` chooses its format.",
        "KafkaFetch with canalRow drops every record",
    ),
    Key(
        "consumer.source.timeZone",
        TIME_ZONE,
        "UTC",
        "KafkaFetch: the time zone of [times that carry none](formats.md#time-zones), which are "
        "canal's own TIMESTAMP cells and `op_ts` of porter and GoldenGate. A name "
        "(`Asia/Shanghai`) or an offset (`+08:00`).",
        "not known; the zone of its JVM",
        Route.FROM_KAFKA,
        answer="accepted; a binlog holds points in time, which are written in UTC",
    ),
    Key(
        "consumer.includes",
        TABLES,
        "",
        "Reads only these tables, by their source names, in any case: names, `SCHEMA.*`, or "
        "[regular expressions](loading.md#which-rows-a-task-takes).",
        "elements are not trimmed; one without a schema matches nothing",
    ),
    Key(
        "consumer.excludes",
        TABLES,
        "",
        "Leaves out these tables, written the same way. Ignored for tables that "
        "`consumer.includes` lists by name.",
        "elements are not trimmed",
    ),
    Key(
        "consumer.skippedOperations",
        OPERATIONS,
        "",
        "Operations whose rows are left out, such as `DELETE,TRUNCATE` for an archive that keeps "
        "what the source deletes. See [loading](loading.md#which-rows-a-task-takes); for a fetch "
        "task, [Kafka](kafka.md#operations-that-are-left-out).",
        "not known",
    ),
    Key(
        # Any text here, too: each route reads it by a type of its own.
        "consumer.offset",
        START,
        "",
        "Where the task's first start begins, unless a position was set. Later starts resume where "
        "the task was. KafkaFetch: the last processed offset, a replay `a-b` (both included, then "
        "the task ends), `earliest`, `latest`, or an ISO time. CanalFetch: a binlog file, "
        "`file:position`, a GTID set, `earliest`, `latest`, or an ISO time. Times without a zone "
        "are UTC.",
        "only a binlog file name works",
    ),
    Key(
        STOP_AT,
        TEXT,
        "",
        "Where the task ends on its own: `now` or an ISO time; CanalFetch: also `file:position` or "
        "a GTID set; KafkaFetch: also the last offset to apply. `cdcbus task run --until` "
        "overrides it. On a node the task is then DONE. See "
        "[runs that end](operating.md#runs-that-end).",
        "not known",
        Route.BUILT_IN,
    ),
    Key(
        "consumer.emptyFetchThreshold",
        NUMBER,
        "3600",
        "Seconds without rows that raise an alarm; below 1: never.",
    ),
    Key(
        "consumer.emptyFetchNoticeSpan",
        NUMBER,
        "3600",
        "Seconds between two notices of that alarm; below 1: `alarm.intervalTime`.",
    ),
    Key(
        "consumer.eventProcessor.className",
        TEXT,
        "",
        "A Python function that sees, changes, leaves out and adds rows between filter and "
        "mapping: `module:function` or the name of an entry point. See [event "
        "processors](loading.md#event-processors). Java classes are not run.",
        "a Java class",
    ),
    Key(
        "consumer.eventProcessor.content",
        TEXT,
        "",
        "The path or source code of that class.",
        answer="accepted; Java classes are not run, so rows pass unchanged: check that the target "
        "works without it",
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
        "Kafka's `max.poll.records`. If unset, about 5 MB of records, at most 8,000.",
        "default 1000; also how far a restart steps back",
        Route.FROM_KAFKA,
        answer="accepted; the binlog is read as it comes",
    ),
    Key(
        "consumer.source.pollTimeOut",
        NUMBER,
        "",
        "Milliseconds to wait for rows.",
        "1000 for Kafka, -1 for canal",
        answer="accepted; new rows are processed immediately, without a wait of that length",
    ),
)

# A key of cdcbus among Spark's own: it is not passed on to Spark.
ISOLATED = "spark.isolated"

PASSED_THROUGH = (
    Key(
        "consumer.source.plugin.*",
        TEXT,
        "",
        "A setting of a [source from another package](plugins.md#sources-of-rows), under its own "
        "name.",
        "not known",
        Route.SOURCE,
        is_free_text=True,
    ),
    Key(
        "kafka.*",
        TEXT,
        "",
        "A setting of the Kafka client, under its own name. See [TLS and logins](#tls-and-logins).",
        "not known",
    ),
    Key(
        "consumer.source.kafka.*", TEXT, "", "The same as `kafka.*`.", "not known", Route.FROM_KAFKA
    ),
    Key("loader.source.kafka.*", TEXT, "", "The same as `kafka.*`.", "not known", Route.TO_KAFKA),
    Key(
        ISOLATED,
        FLAG,
        "false",
        "Whether a node runs the task in a Spark application of its own, not in the one that its "
        "tasks share. Any other `spark.*` key has the same effect.",
        "not known",
        Route.FROM_KAFKA,
    ),
    Key(
        "spark.*",
        TEXT,
        "",
        "A setting of Spark, under its own name.",
        "not known",
        Route.FROM_KAFKA,
    ),
    Key(
        "consumer.source.spark.*", TEXT, "", "The same as `spark.*`.", "not known", Route.FROM_KAFKA
    ),
    Key("loader.source.spark.*", TEXT, "", "The same as `spark.*`.", "not known", Route.FROM_KAFKA),
)

KEYS: dict[str, Key] = by_name(
    (
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
)
PATTERNS = tuple(key for key in KEYS.values() if re.search(r"[*<\[]", key.name))


def find_key(written: str) -> Key | None:
    """The key that a written name stands for; None for an unknown name."""
    # By exact name first: most match so, and there are hundreds.
    if written in KEYS:
        return KEYS[written]
    for key in PATTERNS:
        if key.matches(written):
            return key
    return None


def nearest_key(written: str) -> str | None:
    """The known key most similar to an unknown one; None where none is close."""
    # Without placeholders, which would count as differences to any name.
    names = {re.sub(r"<[a-z]+>|\*", "", name.casefold()): name for name in KEYS}
    sought = re.sub(r"\[\s*[0-9]+\s*\]", "[i]", written).casefold()
    close = difflib.get_close_matches(sought, names, n=1, cutoff=0.75)
    if not close:
        return None
    return names[close[0]]
