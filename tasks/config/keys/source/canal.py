"""Keys of a task that reads a binlog, and those of canal itself, which have no effect here."""

from __future__ import annotations

from cdcbus.tasks.config.keys.definition import Key, Route
from cdcbus.tasks.config.keys.start import ON_POSITION_LOST
from cdcbus.tasks.config.keys.types import (
    ADDRESSES,
    FLAG,
    ON_STATEMENT,
    PATH_NAME,
    REGEXES,
    ROW_IMAGE,
    SECONDS,
    SECRET,
    SERVER_ID,
    SNAPSHOT,
    TABLE,
    TEXT,
    TLS_MODE,
)

CANAL_ANSWER = "accepted; a setting inside canal, which is not used here"

CANAL_SOURCE_KEYS = (
    Key(
        "consumer.source.address",
        ADDRESSES,
        "",
        "The server, `host:port`. Several are tried one after the other: after 3 failures the "
        "next one's turn comes. Required.",
        "one address",
        Route.FETCH,
    ),
    Key(
        "consumer.source.username",
        TEXT,
        "",
        "The user, who may read the binlog. Required.",
        route=Route.FETCH,
    ),
    Key("consumer.source.password", SECRET, "", "The user's password.", route=Route.FETCH),
    Key(
        "consumer.source.sslMode",
        TLS_MODE,
        "",
        "TLS to the server: `disabled`; `preferred`, where the server can; `required`; "
        "`verify-ca`, with a certificate of a known issuer; "
        "`verify-identity`, and for that host. Absent: `verify-ca` beside sslCa, `required` "
        "beside sslCert, else `preferred`.",
        "not known",
        Route.FETCH,
    ),
    Key(
        "consumer.source.sslCa",
        TEXT,
        "",
        "PEM file of the issuers that are trusted; absent: those of the system.",
        "not known",
        Route.FETCH,
    ),
    Key(
        "consumer.source.sslCert",
        TEXT,
        "",
        "PEM file of the task's own certificate, where the user must have one.",
        "not known",
        Route.FETCH,
    ),
    Key(
        "consumer.source.sslKey",
        TEXT,
        "",
        "PEM file of its key, without a password.",
        "not known",
        Route.FETCH,
    ),
    Key(
        "consumer.source.database",
        PATH_NAME,
        "binlog",
        "The last part of the position's path; it does not filter.",
        "required in effect",
        Route.INTO_KAFKA,
    ),
    Key(
        "consumer.source.filter",
        REGEXES,
        "",
        "Regular expressions for `schema.table`, any case, matched whole; absent: all. Beside "
        "includes and excludes both must let a table through.",
        "CanalFetch only",
    ),
    Key(
        "consumer.source.blackFilter",
        REGEXES,
        "",
        "The same for tables that are not read, whatever the filter and `consumer.includes` say: "
        "canal's `canal.instance.filter.black.regex`.",
        "not known",
        Route.INTO_KAFKA,
    ),
    Key(
        "consumer.source.slaveId",
        SERVER_ID,
        "",
        "The server id as a replica, unique among the source's replicas; absent or 0: derived "
        "from the task's id.",
        "default from the clock",
        Route.FETCH,
    ),
    Key(
        "consumer.source.rowImage",
        ROW_IMAGE,
        "full",
        "`full`: the task stops at a row that was logged without some of its columns "
        "(`binlog_row_image` MINIMAL or NOBLOB); "
        "`any`: such rows are sent as they are, see [row images](binlog.md#row-images).",
        "not known",
        Route.FETCH,
    ),
    Key(
        "consumer.source.heartbeatTable",
        TABLE,
        "",
        "`schema.table`. CanalFetch: the table at the source for "
        "[heartbeats](binlog.md#heartbeats); absent: none are written. "
        "KafkaFetch: the table whose rows are heartbeats; absent: any that is called "
        "`cdcbus_heartbeat`.",
        "not known",
    ),
    Key(
        "consumer.source.heartbeatIntervalSeconds",
        SECONDS,
        "60",
        "Seconds between two heartbeats.",
        "not known",
        Route.FETCH,
    ),
    Key(
        "consumer.source.onPositionLost",
        ON_POSITION_LOST,
        "stop",
        "When the server no longer has what comes next: `stop`, or go on without what lies "
        "between from the `earliest` or the `latest` "
        "place that it has, with a line in the log.",
        "not known; canal goes on by time, or at the latest",
        Route.FETCH,
    ),
    Key(
        "consumer.onStatement",
        ON_STATEMENT,
        "stop",
        "At a statement that was logged as text (`binlog_format` STATEMENT or MIXED) and changes "
        "tables of the task, or may: `stop`, or "
        "`skip` it, with a line in the log and the alarm `skipped`. Statements that change other "
        "tables never stop a task.",
        "not known",
        Route.FETCH,
    ),
    Key(
        "consumer.snapshot",
        SNAPSHOT,
        "never",
        "Whether rows that tables have already are [sent, too](snapshot.md), while the binlog is "
        "followed: `never`, unless `cdcbus snapshot start` asks for it; `initial`: once per table; "
        "`only`: so, and then the task ends.",
        "not known",
        Route.FETCH,
    ),
    Key(
        "consumer.source.positionIntervalSeconds",
        SECONDS,
        "1",
        "Seconds between two stores of the position.",
        "not known",
        Route.INTO_KAFKA,
    ),
    Key(
        "consumer.source.parallel",
        FLAG,
        "false",
        "Whether canal parses on several threads.",
        answer=CANAL_ANSWER,
    ),
    Key("consumer.source.canalId", TEXT, "", "canal's id.", answer=CANAL_ANSWER),
    Key("consumer.source.canalName", TEXT, "", "canal's name.", answer=CANAL_ANSWER),
    Key(
        "consumer.source.sourcingType",
        TEXT,
        "MYSQL",
        "canal's kind of source.",
        answer=CANAL_ANSWER,
    ),
)
