"""Checks that existing rows can be read while the binlog is followed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pymysql

from cdcbus.producer.config import FetchTask, SnapshotMode
from cdcbus.producer.server import connection as servers
from cdcbus.tasks.preflight.result import CheckResult, error, ok

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection

SUBJECT = "snapshot"
# MySQL's error for a missing global privilege.
_NO_PRIVILEGE = 1227


def check_snapshot(task: FetchTask, connection: Connection) -> Iterator[CheckResult]:
    """Checks the source for snapshots; no result for a task that takes none on its own."""
    if task.snapshot is SnapshotMode.NEVER:
        return
    server = servers.inspect(connection, task.source)
    # GTIDs, which MariaDB always has, show when readers see a change that is in the binlog.
    if server.is_mariadb or server.has_gtids:
        yield ok(SUBJECT, "existing rows are read once per table, without a lock")
        return
    try:
        servers.query(connection, "SELECT 1 FROM information_schema.innodb_trx LIMIT 1")
    except pymysql.Error as refused:
        if refused.args[0] != _NO_PRIVILEGE:
            raise
        yield error(
            SUBJECT,
            "the server has no GTIDs, and the user lacks PROCESS: the task cannot know when other "
            "sessions see a change that is in the binlog",
            "GRANT PROCESS ON *.* TO that user, or set gtid_mode=ON.",
        )
        return
    yield ok(
        SUBJECT,
        "existing rows are read once per table, without a lock; without GTIDs each chunk waits for "
        "the end of the transactions that are open when it begins",
    )
