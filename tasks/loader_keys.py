"""The keys `loader.*`: where rows go."""

from __future__ import annotations

from cdcbus.tasks.key import Key, Route
from cdcbus.tasks.kinds import ADDRESSES, FLAG, JDBC_URL, LOADER, NAMES, NATURAL, NUMBER, PATH_NAME, POSITIVE, SECRET, TEXT

RETRY_ANSWER = "accepted; an unreachable server is tried again for ever, with growing pauses, and no row is skipped"
TEST_ANSWER = "accepted; a connection test has no limit of its own: set socketTimeout in the address to notice a server that is gone"
RETURN_ANSWER = "accepted; connections are tested before use instead, see testOnBorrow"
DRIVER_ANSWER = "accepted; the address says which database it is"
NODE_ANSWER = "accepted; this release has no nodes: `cdcbus task run` runs the task where it is called"
SOURCE_NAME_MEANING = "A named source, whose keys count where this file has none of that name: `sources/NAME.properties`, else ZooKeeper."

LOADER_KEYS = (
    Key(
        "loader.loaderName",
        LOADER,
        "",
        "Where rows go: `KAFKA_SYNC` a Kafka topic; `JdbcBatch` a database, merged and written in batches (JdbcSingle and JdbcMultiThread "
        "do the same here). Required.",
        "also JdbcSqlDebug and KUDU_NATIVE; JdbcSingle writes row by row",
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
    Key("loader.source.sourceName", PATH_NAME, "", SOURCE_NAME_MEANING),
    Key("loader.source.sourceType", TEXT, "", "The kind of target.", answer="accepted; loaderName says where rows go"),
    Key("loader.source.clientType", TEXT, "", "The kind of target.", answer="accepted; loaderName says where rows go"),
    Key("loader.source.retries", NUMBER, "", "Attempts to write.", "3 for Kafka, 6 for databases", answer=RETRY_ANSWER),
)

JDBC_TARGET_KEYS = (
    Key("loader.source.url", JDBC_URL, "", "The target's JDBC address. Required.", route=Route.LOAD),
    Key("loader.source.userName", TEXT, "", "The user at the target.", route=Route.LOAD),
    Key("loader.source.password", SECRET, "", "The user's password.", route=Route.LOAD),
    Key(
        "loader.source.maxPoolSize",
        POSITIVE,
        "5",
        "Connections at most; so many partitions are written at once.",
        "default 20, never applied",
        Route.LOAD,
    ),
    Key(
        "loader.source.minPoolSize",
        NATURAL,
        "",
        "Connections opened with the first one, and kept; the larger of this and initialPoolSize. Absent: each when it is needed.",
        "default 20, never applied",
        Route.LOAD,
    ),
    Key("loader.source.initialPoolSize", NATURAL, "", "The same as minPoolSize.", "default 5, never applied", Route.LOAD),
    Key(
        "loader.source.maxWait",
        POSITIVE,
        "10000",
        "Milliseconds to wait for a free connection, and (in whole seconds) for a new one; then the batch is tried again.",
        route=Route.LOAD,
    ),
    Key(
        "loader.source.connectionErrorRetryAttempts",
        NUMBER,
        "1",
        "How often a server that cannot be reached is tried again, half a second apart, before a start fails or a running task pauses; "
        "a refused login is not tried again.",
        route=Route.LOAD,
    ),
    Key("loader.source.testOnBorrow", FLAG, "true", "Whether each connection is tested before it is used.", route=Route.LOAD),
    Key("loader.source.testOnReturn", FLAG, "true", "Test connections after use.", answer=RETURN_ANSWER),
    Key("loader.source.validationQueryTimeout", NUMBER, "3000", "Seconds for a connection test.", answer=TEST_ANSWER),
    Key("loader.source.driverClassName", TEXT, "", "The Java driver.", answer=DRIVER_ANSWER),
    Key("loader.source.dbType", TEXT, "", "The kind of database.", answer=DRIVER_ANSWER),
    Key(
        "loader.source.makePrimaryKeyWhenNo",
        FLAG,
        "true",
        "All columns are the key of a table without one.",
        answer="accepted; a target table without a primary key is refused: give it one",
    ),
)

KAFKA_TARGET_KEYS = (
    Key("loader.source.servers", ADDRESSES, "", "The brokers. Required.", route=Route.FETCH),
    Key("loader.source.topic", TEXT, "", "The topic. Required.", route=Route.FETCH),
    Key(
        "loader.source.oggJson",
        FLAG,
        "true",
        "The form of the records: true oggJson, false canalRow.",
        "false: a row JSON that nothing reads",
        Route.FETCH,
    ),
    Key(
        "loader.source.porterCompat",
        FLAG,
        "false",
        "oggJson with all names in upper case, as porter writes them.",
        "always",
        Route.FETCH,
    ),
    Key(
        "loader.source.canalCompat",
        FLAG,
        "false",
        "canalRow with canal's own keys only and its rendering of values: ENUM and SET as numbers and so on, see [formats](formats.md).",
        route=Route.FETCH,
    ),
    Key("loader.source.group", TEXT, "", "The producer's `client.id`.", "default `<ip>_<user>_<pid>`", Route.FETCH),
    Key(
        "loader.source.partitionKey.<SCHEMA>.<TABLE>",
        NAMES,
        "",
        "The columns of the record key, any case, for a table by its source name; absent: the primary key.",
        "exact case, after mapping, not trimmed",
        Route.FETCH,
    ),
    Key(
        "loader.source.transaction",
        FLAG,
        "false",
        "Write in Kafka transactions.",
        answer="accepted; records are written idempotently, without transactions: a crash may repeat rows, never lose one",
    ),
    Key("loader.source.workerCount", NUMBER, "10", "KUDU_NATIVE: parallel writers.", answer="accepted; this release has no Kudu target"),
)
