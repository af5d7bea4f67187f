"""Heartbeats: a row at the source, written at an interval, so that its way to the end of the bus
can be timed.

One row per source server, whichever task wrote it last: tasks that share a source share its row. A
source that refuses the row is logged, and is read nevertheless.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from threading import Event, Thread
from typing import TYPE_CHECKING

import pymysql

from cdcbus.plugins.errors import CdcError
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.config import FetchTask, HeartbeatConfig
from cdcbus.producer.server import connection as servers

if TYPE_CHECKING:
    from cdcbus.producer.server.connection import Connection

LOG = logging.getLogger(__name__)
ANSWER_SECONDS = 10.0
FRESH = 0.9  # of the interval: a row younger than this is another task's, and left unchanged
_NO_SUCH_TABLE = 1146


def create_table(table: TableId) -> str:
    """The statement that creates the heartbeat table; `beat_at` is UTC by the source's clock."""
    return (
        f"CREATE TABLE IF NOT EXISTS {_quoted(table)} ("
        "server_id INT UNSIGNED NOT NULL PRIMARY KEY, task_id VARCHAR(255) NOT NULL, beat_at "
        "DATETIME(6) NOT NULL)"
    )


def needed(table: TableId) -> str:
    """A sentence for operators on the grants that heartbeats need."""
    return (
        f"The user needs SELECT, INSERT, UPDATE on {table}, and CREATE if it does not exist "
        f"yet: {create_table(table)}"
    )


@contextmanager
def beating(task: FetchTask) -> Iterator[None]:
    """Writes the task's heartbeats, if it has any, for the duration of the block; never waits for
    the source, and never fails."""
    over = Event()
    if task.heartbeat is not None:
        # Never joined: a source that does not answer must not hold up the end of the task.
        Thread(
            target=_beats, args=(task, task.heartbeat, over), name="heartbeats", daemon=True
        ).start()
    try:
        yield
    finally:
        over.set()


def _beats(task: FetchTask, config: HeartbeatConfig, over: Event) -> None:
    """Writes heartbeats until `over`. Logs a failure once, until it changes or ends."""
    reported = ""
    while not over.is_set():
        failure = beat(task, config)
        if failure and failure != reported:
            LOG.warning(
                "%s. The binlog is read all the same; the next heartbeat is due in %g s",
                failure,
                config.interval_seconds,
            )
        elif reported and not failure:
            LOG.info("task %s: heartbeats are written to %s again", task.task_id, config.table)
        reported = failure
        over.wait(config.interval_seconds)


def beat(task: FetchTask, config: HeartbeatConfig) -> str:
    """Writes one heartbeat, and creates its table if missing. Returns a sentence on why it could
    not be written, else empty."""
    host, port = task.source.addresses[0]
    try:
        with closing(servers.connect(task.source, ANSWER_SECONDS)) as connection:
            try:
                _write(task, config, connection)
            except pymysql.ProgrammingError as error:
                if error.args[0] != _NO_SUCH_TABLE:
                    raise
                servers.query(connection, create_table(config.table))
                _write(task, config, connection)
    except CdcError as error:
        return f"no heartbeat of task {task.task_id}: {error}"
    except (pymysql.Error, OSError, EOFError) as error:
        return (
            f"source {host}:{port} does not take the heartbeat of task {task.task_id} "
            f"({' '.join(map(str, error.args))}). "
            f"{needed(config.table)}"
        )
    # As of a damaged packet: the heartbeats would end, and with them what tells the delay.
    except Exception as error:
        return (
            f"no heartbeat of task {task.task_id}: unexpected {type(error).__name__}, please "
            "report it"
        )
    return ""


def probe(task: FetchTask, config: HeartbeatConfig, connection: Connection) -> bool:
    """Whether the table exists. Changes nothing; raises pymysql errors if a heartbeat would be
    refused."""
    try:
        _write(task, config, connection, "EXPLAIN ")
    except pymysql.ProgrammingError as error:
        if error.args[0] != _NO_SUCH_TABLE:
            raise
        return False
    return True


def _write(task: FetchTask, config: HeartbeatConfig, connection: Connection, how: str = "") -> None:
    stale_us = int(config.interval_seconds * FRESH * 1_000_000)
    table = _quoted(config.table).replace("%", "%%")  # the driver formats the statement
    is_stale = f"beat_at <= UTC_TIMESTAMP(6) - INTERVAL {stale_us} MICROSECOND"
    servers.query(
        connection,
        f"{how}INSERT INTO {table} (server_id, task_id, beat_at) VALUES "
        "(@@global.server_id, %s, UTC_TIMESTAMP(6)) "
        # Columns are assigned in this order: the time last, as the condition for the other column
        # reads the previous time.
        f"ON DUPLICATE KEY UPDATE task_id = IF({is_stale}, VALUES(task_id), task_id), beat_at = "
        f"IF({is_stale}, VALUES(beat_at), beat_at)",
        (task.task_id,),
    )


def _quoted(table: TableId) -> str:
    return ".".join(f"`{name.replace('`', '``')}`" for name in table)
