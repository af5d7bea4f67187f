"""Sets up a task's sessions at a target: settings are made after connecting and checked, as poolers
drop the settings that a session starts with.

Through a pooler that gives each transaction another connection (PgBouncer in transaction mode)
session settings would get lost, so they are part of each transaction, and nothing is prepared at
the server.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import Connection, Engine, event
from sqlalchemy.exc import DBAPIError

from cdcbus.plugins.errors import TargetMisconfigured
from cdcbus.plugins.loaders.dialects.jdbc_address import JdbcUrl
from cdcbus.plugins.loaders.dialects.jdbc_parameters import GONE_SECONDS
from cdcbus.plugins.loaders.dialects.mysql.jdbc_address import MAX_PACKET, MYSQL_MODE
from cdcbus.plugins.mysql.silence import bound_silence

POOLED: Final = "begin"
"""The key in a pooler connection's info of the statement that begins its transactions."""
# set_config's `is_local`.
OF_SESSION: Final = "false"
OF_TRANSACTION: Final = "true"
SLOTS: Final = 64
"""The number of a task's sessions that other processes can find, on all machines together."""
APPLICATION_NAME_BYTES: Final = 63


def set_up_postgresql(engine: Engine, url: JdbcUrl) -> None:
    """Sets up PostgreSQL's sessions. A pooler is recognized by the server's process id: it differs
    from the one that the driver was given."""

    # insert: before SQLAlchemy's own listener, which looks up the default schema
    @event.listens_for(engine, "connect", insert=True)
    def set_up(connection: Any, record: Any) -> None:
        # in a transaction a rollback would undo the settings
        connection.autocommit = True
        [pid] = connection.execute("SELECT pg_backend_pid()").fetchone()
        if pid == connection.info.backend_pid:
            connection.execute(f"SELECT {_set_configs(url.settings, OF_SESSION)}")
            connection.autocommit = False
        else:
            # a statement prepared in one connection is unknown in the next
            connection.prepare_threshold = None
            record.info[POOLED] = (
                "BEGIN ISOLATION LEVEL READ COMMITTED; SELECT "
                f"{_set_configs(url.settings, OF_TRANSACTION)}"
            )

    @event.listens_for(engine, "connect")
    def find_schema(connection: Any, record: Any) -> None:
        """Looks up the schema again: SQLAlchemy did so outside of a transaction."""
        if POOLED in record.info:
            connection.execute(record.info[POOLED])
            found = connection.execute("SELECT current_schema()")
            [engine.dialect.default_schema_name] = found.fetchone()
            connection.rollback()

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        if POOLED in connection.info:
            connection.exec_driver_sql(connection.info[POOLED])


def _set_configs(settings: Mapping[str, str], scope: str) -> str:
    calls = []
    for name, value in settings.items():
        calls.append(f"set_config({_literal(name)}, {_literal(value)}, {scope})")
    return ", ".join(calls)


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def set_up_mysql(engine: Engine, url: JdbcUrl, task_id: str) -> set[int]:
    """Sets up MySQL's sessions. Returns the numbers of the engine's own connections, a set that
    grows. Opening a connection raises TargetMisconfigured if the session's settings did not take
    effect."""
    own: set[int] = set()

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, record: Any) -> None:
        bound_silence(connection, GONE_SECONDS)
        with connection.cursor() as cursor:
            cursor.execute("SELECT @@time_zone, @@sql_mode, @@max_allowed_packet, CONNECTION_ID()")
            zone, modes, record.info[MAX_PACKET], number = cursor.fetchone()
            if zone != "+00:00" or not is_mode(str(modes)):
                raise TargetMisconfigured(
                    f"{url.shown}: the session has time_zone {zone} and sql_mode "
                    f"{modes or '(none)'} though it was set to +00:00 and {MYSQL_MODE}: a proxy "
                    "before the server must pass on SET"
                )
            own.add(number)
            # a cluster may lack such locks: then other processes cannot tell whose session it is
            with suppress(connection.Error):
                cursor.execute(_take_slot_sql(url, task_id))

    return own


def is_mode(modes: str) -> bool:
    """Whether these SQL modes are those that the form of cells relies on."""
    found = set(modes.split(","))
    refused = {"ANSI_QUOTES", "NO_ZERO_DATE", "NO_ZERO_IN_DATE"}
    return found >= set(MYSQL_MODE.split(",")) and found.isdisjoint(refused)


def _take_slot_sql(url: JdbcUrl, task_id: str) -> str:
    """Takes the first lock that no other session holds."""
    attempts = []
    for name in _slots(url, task_id):
        attempts.append(f"WHEN GET_LOCK({name}, 0) THEN 1")
    return f"SELECT CASE {' '.join(attempts)} END"


def _slots(url: JdbcUrl, task_id: str) -> list[str]:
    """Names of locks, as literals. Each session holds one of them, by which other processes of the
    task find its number: locks need no rights."""
    key = sha256(f"{url.arguments['database']}\n{task_id}".encode()).hexdigest()[:32]
    return [f"'cdcbus/{key}/{slot}'" for slot in range(SLOTS)]


# The sessions of an earlier process of the task

OTHER_POSTGRESQL: Final = """
    SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE application_name = %s AND usename = current_user AND datname = current_database()
        AND pid <> pg_backend_pid()
        AND backend_xid IS NOT NULL"""
"""Ends only sessions with uncommitted writes."""


NO_SUCH_SESSION: Final = 1094


def _is_killed(connection: Connection, number: int) -> bool:
    try:
        connection.exec_driver_sql(f"KILL CONNECTION {number}")
    except DBAPIError as error:
        if error.orig and error.orig.args[0] == NO_SUCH_SESSION:  # it has ended on its own
            return False
        raise
    return True


def end_other_sessions(connection: Connection, url: JdbcUrl, task_id: str, own: set[int]) -> int:
    """Ends the sessions of other processes of the task, as far as they are known; returns their
    number. Raises driver errors."""
    match url.dialect:
        case "postgresql":
            return _end_others_postgresql(connection, url, task_id)
        case "mysql":
            return _end_others_mysql(connection, url, task_id, own)
    return 0


def _end_others_postgresql(connection: Connection, url: JdbcUrl, task_id: str) -> int:
    name = f"cdcbus {task_id}".strip()
    # the server truncates longer names: other tasks may then have the same
    is_own_name = len(name.encode()) <= APPLICATION_NAME_BYTES
    if not task_id or url.arguments["application_name"] != name or not is_own_name:
        return 0
    return len(connection.exec_driver_sql(OTHER_POSTGRESQL, (name,)).all())


def _end_others_mysql(connection: Connection, url: JdbcUrl, task_id: str, own: set[int]) -> int:
    ended = 0
    for number in _slot_holders(connection, url, task_id) - own:
        ended += _is_killed(connection, number)
    return ended


def _slot_holders(connection: Connection, url: JdbcUrl, task_id: str) -> set[int]:
    """The numbers of the connections that hold a slot of the task."""
    holders = []
    for name in _slots(url, task_id):
        holders.append(f"IS_USED_LOCK({name})")
    found = connection.exec_driver_sql(f"SELECT {', '.join(holders)}").one()
    return {int(number) for number in found if number is not None}
