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

# Answers say why a key of porter has no effect here: porter's files must run unchanged.
RETRY_ANSWER = (
    "accepted; an unreachable server is retried indefinitely, with growing pauses, and no row is "
    "skipped"
)
TEST_ANSWER = (
    "accepted; a connection test has no limit of its own: set socketTimeout in the "
    "address to notice a dead server"
)
RETURN_ANSWER = "accepted; connections are tested before use instead, see testOnBorrow"
DRIVER_ANSWER = "accepted; the address says which database it is"
STATUS_ANSWER = (
    "without effect: `cdcbus task start` and `cdcbus task stop` decide whether nodes run the task"
)
SOURCE_NAME_MEANING = (
    "A [named source](#named-sources), whose keys apply where this file does not set them. Looked "
    "up in `sources/NAME.properties`, `cdcbus.properties`, then ZooKeeper."
)

LOADER_KEYS = (
    Key(
        "loader.loaderName",
        LOADER_NAME,
        "",
        "Where rows go. `KAFKA_SYNC`: a Kafka topic; `JdbcBatch` (or JdbcMultiThread): a database, "
        "merged and written in sets; `JdbcSingle`: a database, row by row; `JdbcSqlDebug`: "
        "nowhere, the SQL is logged; or a [loader from another "
        "package](targets.md#a-loader-from-another-package). See [targets](targets.md). Required.",
        "also KUDU_NATIVE; 3.0.2: JDBC_SQL_PRINT is JdbcSqlDebug, KAFKA_ASYNC sends nothing",
    ),
    Key(
        "loader.insertOnUpdateError",
        FLAG,
        "true",
        "Whether an update becomes an insert where the target lacks the row.",
        "4.0: always true",
        Route.LOAD,
        answer="accepted; only databases distinguish updates from inserts",
    ),
    Key(
        "loader.onError",
        ON_ERROR,
        "stop",
        "What happens to a record that Kafka refuses as too large, or that the target refuses. "
        "`stop`: the task stops; `deadletter`: the record goes to the dead-letter topic, and the "
        "task continues.",
        "not known",
    ),
    Key(
        "loader.deadletterLimit",
        POSITIVE,
        "1000",
        "The task stops when it has more open dead letters than this.",
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
        "Whether a batch is written as the net effect of its changes. `false`: each change "
        "separately, in source order. See [merging](loading.md#merging).",
        "never",
        Route.LOAD,
    ),
    Key(
        "loader.weight.<TABLE>",
        NUMBER,
        "0",
        "The order of a target table (`TABLE` or `SCHEMA.TABLE`, any case) within a batch: tables "
        "of lower weight are written first, those of higher weight are deleted from first. Give "
        "parents less than their children.",
        "not known; otter's weight",
        Route.LOAD,
    ),
    Key(
        "loader.schemaChange",
        SCHEMA_CHANGE,
        "stop",
        "What happens when the target lacks a source column. `stop`: the task waits until the "
        "column exists; `ignore`: the column is left out everywhere; `evolve`: the task adds it, "
        "and widens columns that are too narrow. See [missing "
        "columns](loading.md#missing-columns).",
        "not known",
        Route.LOAD,
    ),
    Key(
        "loader.zeroDate",
        ZERO_DATE,
        "reject",
        "What a zero or partly zero date (`0000-00-00`) becomes in PostgreSQL and Oracle, which do "
        "not have such dates. `reject`: the row is refused; `null`: NULL; `epoch`: 1970-01-01. "
        "MySQL and MariaDB store it unchanged.",
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
        "loader.source.url",
        JDBC_URL,
        "",
        "The target's [JDBC address](#targets-jdbc-addresses-and-connections). Required.",
        route=Route.LOAD,
    ),
    Key("loader.source.userName", TEXT, "", "The target user.", route=Route.LOAD),
    Key("loader.source.password", SECRET, "", "The user's password.", route=Route.LOAD),
    Key(
        "loader.source.timeZone",
        TIME_ZONE,
        "UTC",
        "The time zone of [target columns that store none](migration.md#local-times): TIMESTAMP "
        "cells are written as local time in this zone. Same syntax as `consumer.source.timeZone`.",
        "not known; the zone of its JVM",
        Route.LOAD,
    ),
    Key(
        "loader.source.maxPoolSize",
        POSITIVE,
        "5",
        "The maximum number of connections, and so of partitions that are written at a time.",
        "default 20, never applied",
        Route.LOAD,
    ),
    Key(
        "loader.source.minPoolSize",
        NATURAL,
        "",
        "Connections that are opened with the first one and kept open; the larger of this and "
        "`initialPoolSize` applies. If unset, connections are opened on demand.",
        "default 20, never applied",
        Route.LOAD,
    ),
    Key(
        "loader.source.initialPoolSize",
        NATURAL,
        "",
        "The same as `minPoolSize`.",
        "default 5, never applied",
        Route.LOAD,
    ),
    Key(
        "loader.source.maxWait",
        POSITIVE,
        "10000",
        "Milliseconds to wait for a free connection, and (in whole seconds) for a new one; then "
        "the batch is retried.",
        route=Route.LOAD,
    ),
    Key(
        "loader.source.connectionErrorRetryAttempts",
        NUMBER,
        "1",
        "How many times an unreachable server is retried, half a second apart, before a start "
        "fails or a running task pauses. A refused login is not retried.",
        route=Route.LOAD,
    ),
    Key(
        "loader.source.testOnBorrow",
        FLAG,
        "true",
        "Whether each connection is tested before use.",
        route=Route.LOAD,
    ),
    Key(
        "loader.source.testOnReturn",
        FLAG,
        "true",
        "Whether connections are tested after use.",
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
        "Whether all columns form the key of a table without one.",
        answer="accepted; in a target table without a key, rows are found by all their columns, "
        "one row at a time",
    ),
)

KAFKA_TARGET_KEYS = (
    Key(
        "loader.source.servers",
        ADDRESSES,
        "",
        "The Kafka brokers, `host:port`, separated by commas. Required.",
        route=Route.TO_KAFKA,
    ),
    Key(
        "loader.source.topic",
        TOPIC,
        "",
        "The topic for tables that no rule of `dynamicTopic` matches. Required.",
        route=Route.TO_KAFKA,
    ),
    Key(
        "loader.source.dynamicTopic",
        TOPIC_RULES,
        "",
        "Topics by table, as in canal: `TOPIC:REGEX`, or `REGEX` for topics named after what it "
        "matches. See [Kafka](kafka.md#topics).",
        "not known",
        Route.TO_KAFKA,
    ),
    Key(
        "loader.source.createTopic",
        NEW_TOPICS,
        "",
        "Creates missing topics with this number of partitions and replicas, such as `6:3`. "
        "`6:3,orders_.*:12:3` sets other numbers for topics that match a regular expression. If "
        "unset, a missing topic stops the task.",
        "not known",
        Route.TO_KAFKA,
    ),
    Key(
        "loader.source.oggJson",
        FLAG,
        "true",
        "The format of the records. `true`: oggJson; `false`: canalRow.",
        "false: a row JSON that nothing reads",
        Route.TO_KAFKA,
    ),
    Key(
        "loader.source.porterCompat",
        FLAG,
        "false",
        "oggJson only: writes all names in upper case, as porter does.",
        "always",
        Route.TO_KAFKA,
    ),
    Key(
        "loader.source.canalCompat",
        FLAG,
        "false",
        "canalRow only: writes canal's own keys only, and renders values as canal does, such as "
        "ENUM and SET as numbers. See [formats](formats.md).",
        route=Route.TO_KAFKA,
    ),
    Key(
        "loader.source.rowsPerRecord",
        POSITIVE,
        "1",
        "canalRow only: the maximum number of rows per record; they come from one statement and go "
        "to one partition. See [Kafka](kafka.md#many-rows-in-a-record).",
        "1; canal: no limit",
        Route.FETCH,
    ),
    Key(
        "loader.source.ddl",
        FLAG,
        "false",
        "canalRow only: whether DDL of tables that are read is published, too, as canal does. See "
        "[Kafka](kafka.md#ddl-and-truncate).",
        "never",
        Route.FETCH,
    ),
    Key(
        "loader.source.truncate",
        FLAG,
        "true",
        "Whether a TRUNCATE of a table that is read is published. It requires a topic with one "
        "partition; with more, it stops the task. See [Kafka](kafka.md#ddl-and-truncate).",
        "never",
        Route.FETCH,
    ),
    Key(
        "loader.source.queueBytes",
        BYTES,
        "67108864",
        "The maximum number of bytes of records that wait for Kafka. At this limit the source is "
        "not read until Kafka acknowledges some.",
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
        "The columns of the record key, in any case, for the table with this name after mapping, "
        "or for all tables that match this regular expression. If unset, the primary key.",
        "exact case, no patterns, not trimmed",
        Route.TO_KAFKA,
    ),
    Key(
        "loader.source.partitionHash",
        KEY_RULES,
        "",
        "canal's setting of the same name, for tables without `partitionKey`. See "
        "[keys](kafka.md#keys-partitions-order).",
        "not known",
        Route.TO_KAFKA,
    ),
    Key(
        "loader.source.transaction",
        FLAG,
        "false",
        "Whether records are written in Kafka transactions that also hold the position. Readers of "
        "committed records then see each row change exactly once, even after a crash. See "
        "[Kafka](kafka.md#transactions).",
        "one transaction per batch, under a name that changes at each start",
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
