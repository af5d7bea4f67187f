"""Keys of porter's JdbcFetch, which this release does not have."""

from __future__ import annotations

from cdcbus.tasks.config.keys.definition import Key
from cdcbus.tasks.config.keys.types import NUMBER, TEXT

JDBC_FETCH_ANSWER = (
    "accepted; this release has no JdbcFetch: it reads binlogs instead of polling tables"
)


def _as_of_target(name: str) -> Key:
    """A key that means the same as the target's of that name."""
    return Key(
        f"consumer.source.{name}",
        TEXT,
        "",
        f"JdbcFetch: as loader.source.{name}.",
        answer=JDBC_FETCH_ANSWER,
    )


JDBC_SOURCE_KEYS = (
    Key(
        "consumer.source.tasksMax",
        NUMBER,
        "1",
        "JdbcFetch: parallel readers.",
        answer=JDBC_FETCH_ANSWER,
    ),
    Key(
        "consumer.source.table.<N>.table",
        TEXT,
        "",
        "JdbcFetch: the table.",
        answer=JDBC_FETCH_ANSWER,
    ),
    Key(
        "consumer.source.table.<N>.incrementColumn",
        TEXT,
        "",
        "JdbcFetch: the increasing column.",
        answer=JDBC_FETCH_ANSWER,
    ),
    Key(
        "consumer.source.table.<N>.incrementColumnSpan",
        NUMBER,
        "500",
        "JdbcFetch: rows per poll.",
        answer=JDBC_FETCH_ANSWER,
    ),
    Key(
        "consumer.source.table.<N>.timestampColumn",
        TEXT,
        "",
        "JdbcFetch: the time column.",
        answer=JDBC_FETCH_ANSWER,
    ),
    Key(
        "consumer.source.table.<N>.timestampColumnCast",
        TEXT,
        "",
        "JdbcFetch: SQL for its epoch milliseconds.",
        answer=JDBC_FETCH_ANSWER,
    ),
    Key(
        "consumer.source.table.<N>.timestampSpan",
        NUMBER,
        "300000",
        "JdbcFetch: milliseconds per poll.",
        answer=JDBC_FETCH_ANSWER,
    ),
    Key(
        # A warning instead of a note: a fetch task with this spelling has no user.
        "consumer.source.userName",
        TEXT,
        "",
        "JdbcFetch: the user.",
        dead="JdbcFetch's spelling, without effect here; CanalFetch reads "
        "consumer.source.username: rename it",
    ),
    *map(
        _as_of_target,
        (
            "url",
            "driverClassName",
            "dbType",
            "minPoolSize",
            "maxPoolSize",
            "initialPoolSize",
            "maxWait",
            "connectionErrorRetryAttempts",
            "validationQueryTimeout",
            "testOnBorrow",
            "testOnReturn",
            "makePrimaryKeyWhenNo",
            "retries",
        ),
    ),
)
