"""Connections to a target, and the translation of its errors into ours."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from time import sleep
from typing import Any, Final, cast

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine.interfaces import DBAPIConnection, Dialect
from sqlalchemy.exc import (
    DBAPIError,
    InvalidRequestError,
    OperationalError,
    ResourceClosedError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import ConnectionPoolEntry

from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import (
    CHECK_SERVER,
    ConfigError,
    TargetError,
    TargetMisconfigured,
    TargetRejected,
    TargetUnavailable,
)
from cdcbus.plugins.files.file_times import are_written_since, note_read, written_at
from cdcbus.plugins.loaders.dialect import SqlDialect
from cdcbus.plugins.loaders.dialects.jdbc_address import JdbcUrl
from cdcbus.plugins.loaders.sessions import end_other_sessions, set_up_mysql, set_up_postgresql
from cdcbus.plugins.mysql.tls import CurrentTls

LOG = logging.getLogger(__name__)
DRIVERS: Final = {
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "oracle": "oracle+oracledb",
}
CONNECT_PAUSE_SECONDS: Final = 0.5
ORACLE_SESSION: Final = "ALTER SESSION SET TIME_ZONE = '+00:00' NLS_COMP = BINARY NLS_SORT = BINARY"
DISPOSALS: Final = "disposals"
"""The key in a connection's info of how often the engine had been disposed of when it was made."""
RECYCLE_SECONDS: Final = 600
"""The age at which a connection is replaced: open ones stay with their server, also when the
address leads to another one."""


@dataclass(frozen=True, slots=True)
class Database:
    """A target's connection pool and dialect. `shown` is its address for messages. `own_sessions`:
    the numbers of our connections, if the server has no other way to tell whose they are."""

    engine: Engine
    dialect: SqlDialect
    url: JdbcUrl
    target: JdbcTarget
    own_sessions: set[int] = field(default_factory=set)

    @property
    def shown(self) -> str:
        return self.url.shown

    def open_first(self) -> None:
        """Opens the connections that the pool keeps, at least one. Raises TargetErrors only for the
        first: the task can work with fewer."""
        with ExitStack() as opened:
            with self.reported("connection"):
                opened.enter_context(self.engine.connect())
            wanted = min(self.target.min_connections, self.target.pool_size)
            for number in range(2, wanted + 1):
                what = f"connection {number} of {wanted} (loader.source.minPoolSize)"
                try:
                    with self.reported(what):
                        opened.enter_context(self.engine.connect())
                except TargetError as error:
                    LOG.warning(
                        "task %s continues with %d connections: %s",
                        self.target.task_id,
                        number - 1,
                        error,
                    )
                    break

    def end_other_sessions(self) -> None:
        """Ends the sessions of an earlier process of the task, which may hang in the middle of a
        transaction. Failures are logged; raises TargetUnavailable."""
        try:
            with (
                self.connected("connection") as connection,
                self.reported("sessions of an earlier process"),
            ):
                count = end_other_sessions(
                    connection, self.url, self.target.task_id, self.own_sessions
                )
        except TargetUnavailable:
            raise
        except TargetError as error:
            LOG.warning(
                "task %s cannot end what an earlier process of it has open: %s",
                self.target.task_id,
                error,
            )
            return
        if count:
            LOG.warning(
                "task %s has ended %d sessions of an earlier process of it at %s",
                self.target.task_id,
                count,
                self.shown,
            )

    @property
    def schema(self) -> str | None:
        """The connection's default schema as the server spells it, known from the first connection
        on; None if the address names none. SQLAlchemy turns Oracle's SHOP into shop, which in
        quotes would be another schema."""
        sql: Any = self.engine.dialect
        name: str | None = sql.default_schema_name
        if self.dialect.name == "oracle" and name:
            name = sql.denormalize_name(name)
        return name

    def need_schema(self, what: str) -> str:
        """The default schema, for tables of our own; `what` names them, as "table t". Raises
        TargetMisconfigured where there is none."""
        if found := self.schema:
            return found
        reason = "the address names no database: write one behind the port in loader.source.url"
        if self.dialect.name == "postgresql":
            reason = (
                "search_path of this user and database names no schema that exists: add "
                "currentSchema=NAME to loader.source.url"
            )
        raise TargetMisconfigured(f"{self.shown}: there is no place for {what}, as {reason}")

    @contextmanager
    def connected(self, what: str) -> Iterator[Connection]:
        """A connection whose errors are `reported` as those of `what`."""
        with self.reported(what), self.engine.connect() as connection:
            yield connection

    @contextmanager
    def begun(self, what: str) -> Iterator[Connection]:
        """A connection in a transaction, which is committed at the end of the block; errors are
        `reported` as those of `what`."""
        with self.reported(what), self.engine.begin() as connection:
            yield connection

    @contextmanager
    def reported(self, what: str, columns: Collection[str] = ()) -> Iterator[None]:
        """Turns driver errors inside the block into TargetErrors that say where and `what`.
        `columns`: the statement's columns, in order.

        The driver's error is not chained: its text may hold cells.
        """
        try:
            yield
        # the driver's own errors come from the set-up of sessions, which passes SQLAlchemy by
        except (DBAPIError, self.engine.dialect.loaded_dbapi.Error) as error:
            if self.dialect.is_read_only(error):
                # After a failover the address leads to another server, while connections that are
                # open stay with the former one.
                self.engine.dispose()
            diagnosis = self.dialect.diagnose(error, columns)
            kind, text = diagnosis.error, diagnosis.text
            if kind is TargetMisconfigured and self._may_pass(text):
                kind = TargetUnavailable
                text += "; files of its certificates were written since the last connection"
            elif kind is TargetMisconfigured:
                text += (
                    "; check loader.source.url, loader.source.userName, its password and its rights"
                )
            # No statement: the connection could not be made.
            elif kind is TargetUnavailable and getattr(error, "statement", "") is None:
                text += CHECK_SERVER
            raise kind(f"{self.shown}, {what}: {text}") from None
        # a statement after the one that lost the connection
        except (InvalidRequestError, ResourceClosedError):
            raise TargetUnavailable(
                f"{self.shown}, {what}: the connection is lost, and its transaction with it"
            ) from None
        except PoolTimeout:
            busy = (
                f"all {self.target.pool_size} connections stayed busy for "
                f"{self.target.max_wait_seconds:g} s (loader.source.maxWait)"
            )
            raise TargetUnavailable(
                f"{self.shown}, {what}: {busy}; raise loader.source.maxPoolSize"
            ) from None
        except UnicodeEncodeError:
            raise TargetRejected(
                f"{self.shown}, {what}: a cell holds half a character (a lone surrogate)"
            ) from None

    def _may_pass(self, refusal: str) -> bool:
        """Whether a login is refused for a certificate while these are being written."""
        is_of_certificate = "certificate" in refusal.lower()
        return is_of_certificate and are_written_since(written_at(self.url.files()))


def open_database(target: JdbcTarget, url: JdbcUrl, dialect: SqlDialect) -> Database:
    """Returns a database that connects at first use; an unreachable server is retried
    `connect_retries` times, half a second apart.

    A refused login is not retried: servers lock accounts for that. Raises ConfigError,
    TargetUnavailable for a file that has become unusable.
    """
    own = set[int]()
    try:
        engine, tls = open_engine(target, url), CurrentTls(url.mysql_tls)
    except ConfigError as error:
        if url.mysql_tls.is_renewed():
            raise TargetUnavailable(
                f"{url.shown} cannot be connected to with the certificates that were written since "
                f"the last time: {error}; check that certificate and key belong together"
            ) from error
        raise
    if url.dialect == "mysql":
        own = set_up_mysql(engine, url, target.task_id)

    @event.listens_for(engine, "do_connect")
    def connect(
        sql: Dialect, _: Any, arguments: tuple[Any, ...], options: dict[str, Any]
    ) -> DBAPIConnection:
        options |= tls.driver_arguments()
        # Other drivers read the files for each connection.
        times = tls.read_at if url.dialect == "mysql" else written_at(url.files())
        connection = tried(sql, arguments, options)
        note_read(times)
        return connection

    def tried(sql: Dialect, arguments: tuple[Any, ...], options: dict[str, Any]) -> DBAPIConnection:
        for _ in range(target.connect_retries):
            try:
                return _connected(sql, arguments, options)
            except sql.loaded_dbapi.OperationalError as cause:
                diagnosis = dialect.diagnose(OperationalError(None, None, cause), ())
                if diagnosis.error is not TargetUnavailable:
                    raise
            sleep(CONNECT_PAUSE_SECONDS)
        return _connected(sql, arguments, options)

    return Database(engine, dialect, url, target, own)


def _connected(
    sql: Dialect, arguments: tuple[Any, ...], options: dict[str, Any]
) -> DBAPIConnection:
    if sql.driver == "pymysql":
        # Other targets do without the driver.
        from cdcbus.plugins.mysql.connection import MysqlConnection

        connection: Any = MysqlConnection(*arguments, **options)
        return cast("DBAPIConnection", connection)
    return sql.connect(*arguments, **options)


def open_engine(target: JdbcTarget, url: JdbcUrl) -> Engine:
    """Makes a SQLAlchemy engine for an address; with READ COMMITTED, as gap locks would make
    partitions wait for each other.

    Oracle is reached with oracledb in its thin mode, or with cx_Oracle if oracledb is not
    installed. Raises ConfigError for parameters that only oracledb supports.
    """
    driver, arguments = DRIVERS[url.dialect], url.connect_arguments()
    if url.dialect == "oracle" and find_spec("oracledb") is None:
        driver, arguments = "oracle+cx_oracle", _cx_oracle(url)
    engine = create_engine(
        f"{driver}://",
        connect_args=arguments,
        pool_size=target.pool_size,
        # loader.source.maxPoolSize is a limit, not a wish
        max_overflow=0,
        pool_timeout=target.max_wait_seconds,
        pool_recycle=RECYCLE_SECONDS,
        pool_pre_ping=target.is_tested,
        isolation_level="READ COMMITTED",
        # the texts of errors would hold cells
        hide_parameters=True,
    )
    close_if_disposed(engine)
    if url.dialect == "oracle":
        _set_up_oracle(engine, url)
    if url.dialect == "postgresql":
        set_up_postgresql(engine, url)
    return engine


def close_if_disposed(engine: Engine) -> None:
    """Has connections that are in use when the engine is disposed of closed when they are returned:
    SQLAlchemy keeps them open, in a pool that nobody uses. One that is made or returned in the
    middle of that may stay until it is collected."""
    disposals = 0

    @event.listens_for(engine, "engine_disposed")
    def count(_: Engine) -> None:
        nonlocal disposals
        disposals += 1

    @event.listens_for(engine, "connect")
    def note(_: Any, record: ConnectionPoolEntry) -> None:
        record.info[DISPOSALS] = disposals

    @event.listens_for(engine, "checkin")
    def close(connection: Any, record: ConnectionPoolEntry) -> None:
        if connection is not None and record.info[DISPOSALS] != disposals:
            record.invalidate()


def _set_up_oracle(engine: Engine, url: JdbcUrl) -> None:
    """Sets sessions to UTC, as dates come without a zone, has texts compared by their bytes,
    whatever the instance or a trigger at the login says, and declares the bind types of
    statements."""

    @event.listens_for(engine, "connect")
    def set_up(connection: Any, _: Any) -> None:
        if url.call_timeout_milliseconds:
            connection.call_timeout = url.call_timeout_milliseconds
        with connection.cursor() as cursor:
            cursor.execute(ORACLE_SESSION)

    @event.listens_for(engine, "before_cursor_execute")
    def declare(
        _: Any, cursor: Any, statement: str, parameters: Any, context: Any, is_many: bool
    ) -> None:
        if sizes := context.execution_options.get("input_sizes"):
            cursor.setinputsizes(*sizes)


def _cx_oracle(url: JdbcUrl) -> dict[str, Any]:
    """The arguments for cx_Oracle: Oracle's client library reads the rest from its own files, in
    TNS_ADMIN. Raises ConfigError for arguments that cx_Oracle does not take."""
    login = ("user", "password", "dsn")
    # The last three are always there, so nobody need have asked for them.
    other = url.arguments.keys() - {*login, "tcp_connect_timeout", "program", "expire_time"}
    if other:
        names = ", ".join(sorted(other))
        raise ConfigError(
            f"{url.shown}: cx_Oracle cannot be given {names}; install oracledb, or leave the "
            "parameters out"
        )
    return {name: url.arguments[name] for name in login}
