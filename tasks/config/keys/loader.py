"""The keys `loader.*`: where rows go."""

from __future__ import annotations

from cdcbus.tasks.config.keys.definition import Key, Route
from cdcbus.tasks.config.keys.topics import KEY_RULES, NEW_TOPICS, TOPIC, TOPIC_RULES
from cdcbus.tasks.config.keys.types import (
    ADDRESSES,
    BYTES,
    FLAG,
    JDBC_URL,
    LOADER_NAME,
    NAMES,
    NATURAL,
    NUMBER,
    ON_ERROR,
    PATH_NAME,
    POSITIVE,
    SCHEMA_CHANGE,
    SECRET,
    TEXT,
    TIME_ZONE,
    ZERO_DATE,
)

RETRY_ANSWER = (
    "accepted; an unreachable server is tried again for ever, with growing pauses, and no row is "
    "skipped"
)
TEST_ANSWER = (
    "accepted; a connection test has no limit of its own: set socketTimeout in the "
    "address to notice a server that is gone"
)
RETURN_ANSWER = "accepted; connections are tested before use instead, see testOnBorrow"
DRIVER_ANSWER = "accepted; the address says which database it is"
STATUS_ANSWER = (
    "without effect: `cdcbus task start` and `cdcbus task stop` say whether nodes "
    "shall run the task"
)
SOURCE_NAME_MEANING = (
    "A named source, whose keys count where this file has none of that name: "
    "`sources/NAME.properties`, else ZooKeeper."
)

LOADER_KEYS = (
    Key(
        "loader.loaderName",
        LOADER_NAME,
        "",
        "Where rows go: `KAFKA_SYNC` a Kafka topic; `JdbcBatch` (JdbcMultiThread is the same) a "
        "database, merged and written in sets; "
        "`JdbcSingle` row by row; `JdbcSqlDebug` nowhere, it logs the SQL; or a [loader from "
        "another package](targets.md#a-loader-from-another-package). See [targets](targets.md). "
        "Required.",
        "also KUDU_NATIVE",
    ),
    Key(
        "loader.insertOnUpdateError",
        FLAG,
        "true",
        "Whether an update of a row that the target lacks becomes an insert.",
        "4.0: always true",
        Route.LOAD,
        answer="accepted; only databases tell updates from inserts",
    ),
    Key(
        "loader.onError",
        ON_ERROR,
        "stop",
        "What becomes of a record that is refused, by Kafka as too large or by the target: the "
        "task stops, or the record goes to the "
        "dead-letter topic and the task goes on.",
        "not known",
    ),
    Key(
        "loader.deadletterLimit",
        POSITIVE,
        "1000",
        "More open dead letters of this task than these stop it.",
        "not known",
        Route.FROM_KAFKA,
    ),
    Key(
        "loader.deadletterTopic", TOPIC, "cdcbus-deadletters", "The dead-letter topic.", "not known"
    ),
    Key(
        "loader.merge",
        FLAG,
        "true",
        "Whether a batch is written as the net effect of its changes; false: each change by "
        "itself, in source order. See "
        "[merging](loading.md#merging).",
        "never",
        Route.LOAD,
    ),
    Key(
        "loader.weight.<TABLE>",
        NUMBER,
        "0",
        "The place of a target table (`TABLE` or `SCHEMA.TABLE`, any case) inside a batch: light "
        "tables are written first, heavy ones "
        "deleted from first. Parents get less than their children.",
        "not known; otter's weight",
        Route.LOAD,
    ),
    Key(
        "loader.schemaChange",
        SCHEMA_CHANGE,
        "stop",
        "What becomes of a source column that the target lacks: `stop` waits until it is there, "
        "`ignore` leaves it out everywhere, "
        "`evolve` adds it, and widens columns that are too narrow. See [missing "
        "columns](loading.md#missing-columns).",
        "not known",
        Route.LOAD,
    ),
    Key(
        "loader.zeroDate",
        ZERO_DATE,
        "reject",
        "What a zero or partly zero date (`0000-00-00`) becomes in PostgreSQL and Oracle, which "
        "have none: `reject` refuses the row, "
        "`null`, `epoch` 1970-01-01. MySQL and MariaDB take it as it is.",
        "not known",
        Route.LOAD,
    ),
    Key("loader.source.sourceName", PATH_NAME, "", SOURCE_NAME_MEANING),
    Key(
        "loader.source.sourceType",
        TEXT,
        "",
        "The kind of target.",
        answer="accepted; loaderName says where rows go",
    ),
    Key(
        "loader.source.clientType",
        TEXT,
        "",
        "The kind of target.",
        answer="accepted; loaderName says where rows go",
    ),
    Key(
        "loader.source.retries",
        NUMBER,
        "",
        "Attempts to write.",
        "3 for Kafka, 6 for databases",
        answer=RETRY_ANSWER,
    ),
)

JDBC_TARGET_KEYS = (
    Key(
        "loader.source.url", JDBC_URL, "", "The target's JDBC address. Required.", route=Route.LOAD
    ),
    Key("loader.source.userName", TEXT, "", "The user at the target.", route=Route.LOAD),
    Key("loader.source.password", SECRET, "", "The user's password.", route=Route.LOAD),
    Key(
        "loader.source.timeZone",
        TIME_ZONE,
        "UTC",
        "The zone of [the target's columns that have none](migration.md#local-times): TIMESTAMP "
        "cells are written there as its clocks show them. As consumer.source.timeZone.",
        "not known; the zone of its JVM",
        Route.LOAD,
    ),
    Key(
        "loader.source.maxPoolSize",
        POSITIVE,
        "5",
        "The largest number of connections, and so of partitions that are written at a time.",
        "default 20, never applied",
        Route.LOAD,
    ),
    Key(
        "loader.source.minPoolSize",
        NATURAL,
        "",
        "Connections opened with the first one, and kept; the larger of this and initialPoolSize. "
        "Absent: each when it is needed.",
        "default 20, never applied",
        Route.LOAD,
    ),
    Key(
        "loader.source.initialPoolSize",
        NATURAL,
        "",
        "The same as minPoolSize.",
        "default 5, never applied",
        Route.LOAD,
    ),
    Key(
        "loader.source.maxWait",
        POSITIVE,
        "10000",
        "Milliseconds to wait for a free connection, and (in whole seconds) for a new one; then "
        "the batch is tried again.",
        route=Route.LOAD,
    ),
    Key(
        "loader.source.connectionErrorRetryAttempts",
        NUMBER,
        "1",
        "How often a server that cannot be reached is tried again, half a second apart, before a "
        "start fails or a running task pauses; "
        "a refused login is not tried again.",
        route=Route.LOAD,
    ),
    Key(
        "loader.source.testOnBorrow",
        FLAG,
        "true",
        "Whether each connection is tested before it is used.",
        route=Route.LOAD,
    ),
    Key(
        "loader.source.testOnReturn",
        FLAG,
        "true",
        "Test connections after use.",
        answer=RETURN_ANSWER,
    ),
    Key(
        "loader.source.validationQueryTimeout",
        NUMBER,
        "3000",
        "Seconds for a connection test.",
        answer=TEST_ANSWER,
    ),
    Key("loader.source.driverClassName", TEXT, "", "The Java driver.", answer=DRIVER_ANSWER),
    Key("loader.source.dbType", TEXT, "", "The kind of database.", answer=DRIVER_ANSWER),
    Key(
        "loader.source.makePrimaryKeyWhenNo",
        FLAG,
        "true",
        "All columns are the key of a table without one.",
        answer="accepted; a row of a target table without a key is found by all its columns, one "
        "at a time",
    ),
)

KAFKA_TARGET_KEYS = (
    Key("loader.source.servers", ADDRESSES, "", "The brokers. Required.", route=Route.TO_KAFKA),
    Key(
        "loader.source.topic",
        TOPIC,
        "",
        "The topic of all tables that no rule of dynamicTopic is for. Required.",
        route=Route.TO_KAFKA,
    ),
    Key(
        "loader.source.dynamicTopic",
        TOPIC_RULES,
        "",
        "Topics by table, as in canal: `TOPIC:REGEX`, or `REGEX` for topics named after what it "
        "matches; see [Kafka](kafka.md#topics).",
        "not known",
        Route.TO_KAFKA,
    ),
    Key(
        "loader.source.createTopic",
        NEW_TOPICS,
        "",
        "Makes missing topics, with so many partitions and replicas; `6:3,orders_.*:12:3` names "
        "other numbers for topics that a regular expression fits. Absent: a missing topic stops "
        "the task.",
        "not known",
        Route.TO_KAFKA,
    ),
    Key(
        "loader.source.oggJson",
        FLAG,
        "true",
        "The form of the records: true oggJson, false canalRow.",
        "false: a row JSON that nothing reads",
        Route.TO_KAFKA,
    ),
    Key(
        "loader.source.porterCompat",
        FLAG,
        "false",
        "oggJson with all names in upper case, as porter writes them.",
        "always",
        Route.TO_KAFKA,
    ),
    Key(
        "loader.source.canalCompat",
        FLAG,
        "false",
        "canalRow with canal's own keys only and its rendering of values: ENUM and SET as numbers "
        "and so on, see [formats](formats.md).",
        route=Route.TO_KAFKA,
    ),
    Key(
        "loader.source.rowsPerRecord",
        POSITIVE,
        "1",
        "canalRow only: how many rows of a statement a record may hold, of those that go to one "
        "partition; see "
        "[Kafka](kafka.md#many-rows-in-a-record).",
        "1; canal: as many as there are",
        Route.FETCH,
    ),
    Key(
        "loader.source.ddl",
        FLAG,
        "false",
        "canalRow only: DDL of tables that are read is published, too, as canal does; see "
        "[Kafka](kafka.md#ddl-and-truncate).",
        "never",
        Route.FETCH,
    ),
    Key(
        "loader.source.truncate",
        FLAG,
        "true",
        "Whether a TRUNCATE of a table that is read is published. It needs a topic with one "
        "partition: on others it stops the task. See "
        "[Kafka](kafka.md#ddl-and-truncate).",
        "never",
        Route.FETCH,
    ),
    Key(
        "loader.source.queueBytes",
        BYTES,
        "67108864",
        "How many bytes of records may wait for Kafka; when so many do, the source is not read "
        "until some are acknowledged.",
        "not known",
        Route.TO_KAFKA,
    ),
    Key(
        "loader.source.group",
        TEXT,
        "",
        "The producer's `client.id`.",
        "default `<ip>_<user>_<pid>`",
        Route.TO_KAFKA,
    ),
    Key(
        "loader.source.partitionKey.<SCHEMA>.<TABLE>",
        NAMES,
        "",
        "The columns of the record key, any case, for a table by its name after mapping, or for "
        "all that a regular expression fits; "
        "absent: the primary key.",
        "exact case, no patterns, not trimmed",
        Route.TO_KAFKA,
    ),
    Key(
        "loader.source.partitionHash",
        KEY_RULES,
        "",
        "canal's line of that name, for tables without `partitionKey`: see "
        "[keys](kafka.md#keys-partitions-order).",
        "not known",
        Route.TO_KAFKA,
    ),
    Key(
        "loader.source.transaction",
        FLAG,
        "false",
        "Write in Kafka transactions that hold the position, too: who reads committed records "
        "only sees each row change exactly once, "
        "also after a crash; see [Kafka](kafka.md#transactions).",
        "one transaction per batch, whose name changes at each start",
        Route.TO_KAFKA,
    ),
    Key(
        "loader.source.workerCount",
        NUMBER,
        "10",
        "KUDU_NATIVE: parallel writers.",
        answer="accepted; this release has no Kudu target",
    ),
)
