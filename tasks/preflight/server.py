"""Checks a source server's settings, its other replicas and heartbeats for a fetch task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import pymysql

from cdcbus.producer.config import FetchTask, SourceConfig
from cdcbus.producer.server import connection as servers
from cdcbus.producer.server.connection import REQUIRED
from cdcbus.producer.server.retention import DAY_SECONDS, RETENTION, binlog_retention
from cdcbus.producer.server.unlogged import find_gaps
from cdcbus.producer.source import heartbeat
from cdcbus.producer.source.binlog_source import server_id
from cdcbus.producer.table_filter import TableFilter
from cdcbus.tasks.preflight.result import CheckResult, error, ok, warning

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection

# MySQL's, MariaDB's.
GTID: Final = ("gtid_mode", "gtid_strict_mode")
SETTINGS: Final = (*REQUIRED, "binlog_row_metadata", *RETENTION, *GTID)


def is_full(settings: Mapping[str, str]) -> bool:
    """Whether rows in the binlog carry the names of their columns."""
    return settings.get("binlog_row_metadata", "").upper() == "FULL"


def describe_settings(settings: Mapping[str, str], config: SourceConfig) -> Iterator[CheckResult]:
    """One result per relevant setting."""
    required = servers.required_settings(config)
    for name, wanted in REQUIRED.items():
        value = settings.get(name) or "unknown to the server"
        if value.upper() == wanted:
            yield ok(name, value)
        elif name not in required:
            remedy = "Nothing to do, as consumer.source.rowImage=any."
            yield warning(
                name,
                f"{value}: rows are sent without columns that did not change or were not set",
                remedy,
            )
        else:
            yield error(
                name,
                f"{value}, must be {wanted}",
                f"Set {name}={wanted} in the server's [mysqld] section.",
            )
    yield _metadata(settings)
    yield _gtid(settings)
    yield _retention(settings)


def _metadata(settings: Mapping[str, str]) -> CheckResult:
    name = "binlog_row_metadata"
    value = settings.get(name) or "unknown to the server"
    if is_full(settings):
        return ok(name, value)
    found = (
        f"{value}: columns come from a schema history that follows DDL, and a table whose DDL "
        "it cannot follow stops the task"
    )
    return warning(name, found, f"SET GLOBAL {name} = FULL, and in the server's [mysqld] section.")


def _gtid(settings: Mapping[str, str]) -> CheckResult:
    # Of MySQL only.
    mode = settings.get("gtid_mode")
    if mode is None:
        strict = settings.get("gtid_strict_mode", "unknown")
        mode = f"MariaDB: always on, strict mode {strict}"
    return ok("GTID mode", mode)


def _retention(settings: Mapping[str, str]) -> CheckResult:
    subject = "binlog retention"
    seconds = binlog_retention(settings)
    if seconds is None:
        return ok(subject, "files are kept until someone removes them")
    hours = f"files are kept for {seconds / 3600:.1f} hours"
    if seconds < DAY_SECONDS:
        return warning(
            subject,
            f"{hours}: a task that is stopped for longer loses its position",
            f"SET GLOBAL {RETENTION[0]} = 604800",
        )
    return ok(subject, hours)


def describe_logged(task: FetchTask, connection: Connection) -> Iterator[CheckResult]:
    """One result per setting by which the server does not log rows that the task may want."""
    gaps = find_gaps(connection, TableFilter(task.tables), task.elsewhere)
    for gap in gaps:
        yield (error if gap.is_sure else warning)(gap.subject, gap.found, gap.remedy)
    if not gaps:
        yield ok("logged rows", "no setting leaves out rows that the task may want")


def describe_replicas(task: FetchTask, connection: Connection) -> Iterator[CheckResult]:
    """Checks that no other server or replica has the task's server id."""
    ours = server_id(task)
    subject = f"server id {ours}"
    remedy = "Give the task a consumer.source.slaveId of its own."
    ((theirs,),) = servers.query(connection, "SELECT @@global.server_id")
    if ours == theirs:
        yield warning(
            subject,
            "the source itself has this id: the task still receives rows, but an id should name "
            "only one server",
            remedy,
        )
        return
    try:
        others = servers.replica_ids(connection)
    # MariaDB wants a privilege for it that the task does not need.
    except pymysql.err.OperationalError as refusal:
        yield ok(
            subject,
            f"the source is {theirs}; this user may not see its replicas ({refusal.args[0]})",
        )
        return
    if ours in others:
        yield error(
            subject,
            "another replica of the source has this id: the two would disconnect each other",
            remedy,
        )
    else:
        listed = ", ".join(map(str, sorted(others))) or "none"
        yield ok(subject, f"the source is {theirs}, its registered replicas: {listed}")


def describe_heartbeats(task: FetchTask, connection: Connection) -> Iterator[CheckResult]:
    """Checks that the source accepts the task's heartbeats. Reading works without them."""
    config = task.heartbeat
    if config is None:
        return
    subject = f"heartbeats in {config.table}"
    try:
        exists = heartbeat.probe(task, config, connection)
    except pymysql.Error as refusal:
        yield warning(
            subject,
            f"the source refuses them ({' '.join(map(str, refusal.args))})",
            heartbeat.needed(config.table),
        )
        return
    if exists:
        yield ok(subject, f"one every {config.interval_seconds:g} s")
    else:
        yield ok(subject, "the table does not exist yet; a start creates it")
