"""Keys of a task that reads a binlog, and keys of canal itself, which have no effect here."""

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

# porter hands these on to canal; they are accepted, so that its files run unchanged.
CANAL_ANSWER = "accepted; a setting inside canal, which is not used here"

CANAL_SOURCE_KEYS = (
    Key(
        "consumer.source.address",
        ADDRESSES,
        "",
        "The source server, `host:port`. Several are tried in turn: after 3 failures the task "
        "moves on to the next one. Required.",
        "one address",
        Route.FETCH,
    ),
    Key(
        "consumer.source.username",
        TEXT,
        "",
        "The source user, which needs the right to read the binlog. Required.",
        route=Route.FETCH,
    ),
    Key("consumer.source.password", SECRET, "", "The user's password.", route=Route.FETCH),
    Key(
        "consumer.source.sslMode",
        TLS_MODE,
        "",
        "TLS to the server: `disabled`; `preferred`: where the server supports it; `required`; "
        "`verify-ca`: with a certificate from a trusted CA; `verify-identity`: with one that also "
        "names the host. If unset, `verify-ca` with `sslCa`, `required` with `sslCert`, else "
        "`preferred`.",
        "not known",
        Route.FETCH,
    ),
    Key(
        "consumer.source.sslCa",
        TEXT,
        "",
        "PEM file with the trusted CA certificates. If unset, the system's.",
        "not known",
        Route.FETCH,
    ),
    Key(
        "consumer.source.sslCert",
        TEXT,
        "",
        "PEM file with the task's client certificate, if the user needs one.",
        "not known",
        Route.FETCH,
    ),
    Key(
        "consumer.source.sslKey",
        TEXT,
        "",
        "PEM file with the key of `sslCert`, without a password.",
        "not known",
        Route.FETCH,
    ),
    Key(
        # porter's key: it stays a part of the position's path, although it filters nothing.
        "consumer.source.database",
        PATH_NAME,
        "binlog",
        "The swimlane: the last part of the position's path in ZooKeeper. It does not filter. A "
        "task that has run refuses to start with another one, until a position is set.",
        "effectively required",
        Route.INTO_KAFKA,
    ),
    Key(
        "consumer.source.filter",
        REGEXES,
        "",
        "Regular expressions that must match the whole of `schema.table`, in any case. If unset, "
        "all tables. Together with includes and excludes, both must let a table through.",
        "CanalFetch only",
    ),
    Key(
        "consumer.source.blackFilter",
        REGEXES,
        "",
        "Regular expressions, as in `consumer.source.filter`, for tables that are not read, "
        "whatever the filter and `consumer.includes` say: canal's "
        "`canal.instance.filter.black.regex`.",
        "not known",
        Route.INTO_KAFKA,
    ),
    Key(
        "consumer.source.slaveId",
        SERVER_ID,
        "",
        "The task's server id as a replica, unique among the source's replicas. If unset or 0, "
        "derived from the task's id.",
        "default from the clock",
        Route.FETCH,
    ),
    Key(
        "consumer.source.rowImage",
        ROW_IMAGE,
        "full",
        "`full`: the task stops at a row that was logged without some of its columns "
        "(`binlog_row_image` MINIMAL or NOBLOB). `any`: such rows are sent as they are. See [row "
        "images](binlog.md#row-images).",
        "not known",
        Route.FETCH,
    ),
    Key(
        "consumer.source.heartbeatTable",
        TABLE,
        "",
        "`schema.table`. CanalFetch: the source table for [heartbeats](binlog.md#heartbeats); if "
        "unset, none are written. KafkaFetch: the table whose rows are heartbeats; if unset, any "
        "table named `cdcbus_heartbeat`.",
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
        # Never skips on its own: what is missing would be lost without notice.
        "consumer.source.onPositionLost",
        ON_POSITION_LOST,
        "stop",
        "What to do when the server no longer has the next events: `stop`, or skip what is missing "
        "and continue from the `earliest` or `latest` position that the server has, with a line "
        "in the log.",
        "not known; canal continues by time, or at the latest",
        Route.FETCH,
    ),
    Key(
        # The rows that such a statement changes are in no event, so a skip leaves them out.
        "consumer.onStatement",
        ON_STATEMENT,
        "stop",
        "What to do at a statement that was logged as text (`binlog_format` STATEMENT or MIXED) "
        "and changes, or may change, tables of the task: `stop`, or `skip` it with a line in the "
        "log and the alarm `skipped`. Statements that change other tables never stop a task.",
        "not known",
        Route.FETCH,
    ),
    Key(
        "consumer.snapshot",
        SNAPSHOT,
        "never",
        "Whether [existing rows](snapshot.md) are sent, too, while the binlog is followed. "
        "`never`: only when `cdcbus snapshot start` asks for it; `initial`: once per table; "
        "`only`: once per table, and then the task ends.",
        "not known",
        Route.FETCH,
    ),
    Key(
        "consumer.source.positionIntervalSeconds",
        SECONDS,
        "1",
        "Seconds between two writes of the position.",
        "not known",
        Route.INTO_KAFKA,
    ),
    Key(
        "consumer.source.parallel",
        FLAG,
        "false",
        "Whether canal parses in several threads.",
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
