"""Connections to a source server, and the checks that it passes before its binlog is read."""

from __future__ import annotations

import re
import socket
import struct
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pymysql
from pymysql.constants import COMMAND

from cdcbus.plugins.errors import ConfigError, SourceRefused, SourceUnavailable
from cdcbus.plugins.files.file_times import note_read
from cdcbus.plugins.mysql.connection import MysqlConnection
from cdcbus.plugins.mysql.silence import bound_silence
from cdcbus.plugins.mysql.tls import is_tls_refusal
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.producer.config import SourceConfig
from cdcbus.producer.server.errors import source_error
from cdcbus.producer.server.privileges import read_grants

if TYPE_CHECKING:  # generic in the stubs only
    from pymysql.cursors import Cursor

    Connection = pymysql.Connection[Cursor]

_SYNTAX_ERROR = 1064
# What reports the end of the binlog; the latter for MySQL before 8.2, and MariaDB.
STATUS: Final = ("SHOW BINARY LOG STATUS", "SHOW MASTER STATUS")
_OPTION = struct.Struct("<H")
ANSWER_SECONDS: Final = 30.0
GONE_SECONDS: Final = 6
"""After this time without a sign a machine counts as down, where answers can take longer."""
# Limits of the whole server would cut answers without an error, or refuse large queries; its moment
# for tables with system versioning would show former rows; its sql_mode, as MariaDB's ORACLE, would
# change statements and the spelling of types. A source without DDL for hours would end the
# connection that reads its tables: 24 days is the most that all servers take.
_SESSION: Final = (
    f"SET time_zone = '+00:00', sql_mode = '', sql_select_limit = {2**64 - 1}, "
    "sql_big_selects = 1, wait_timeout = 2147483 "
    "/*M!100304 , system_versioning_asof = DEFAULT*/"
)
REQUIRED: Final = {"log_bin": "ON", "binlog_format": "ROW", "binlog_row_image": "FULL"}
"""The settings that a binlog with complete rows requires."""


@contextmanager
def reported(config: SourceConfig) -> Iterator[None]:
    """Raises driver and network errors of the block as `source_error` words them."""
    try:
        yield
    except (pymysql.Error, OSError, EOFError) as error:
        raise source_error(error, config) from error


def need_server(config: SourceConfig) -> None:
    """Raises ConfigError for a source from another package: it has no server to query."""
    if config.added is not None:
        raise ConfigError(
            f"{config.added.name} is a source of another package, not MySQL or MariaDB: features "
            "that query the server itself (snapshot, schema, verify, a direct load, --until) do "
            "not work with it"
        )


def connect(config: SourceConfig, read_timeout_seconds: float = ANSWER_SECONDS) -> Connection:
    """Opens a connection with time zone UTC and utf8mb4, whose answers are complete. Raises
    SourceUnavailable, also for a file that has become unusable, SourceMisconfigured, and
    ConfigError for a file that always was or a source without a server."""
    need_server(config)
    host, port = config.addresses[0]
    times = config.tls.files_written_at()
    try:
        tls = config.tls.driver_arguments()
    except ConfigError as error:
        if config.tls.is_renewed():
            raise SourceUnavailable(
                f"source {host}:{port} cannot be connected to with the certificates that were "
                f"written since the last time: {error}; check that certificate and key belong "
                "together"
            ) from error
        raise
    try:
        connection = MysqlConnection(
            host=host,
            port=port,
            user=config.user,
            password=config.password.encode(),  # the driver would encode it as Latin-1
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=max(1, int(config.connect_timeout_seconds)),
            read_timeout=read_timeout_seconds,
            init_command=_SESSION,
            **tls,
        )
        if read_timeout_seconds > ANSWER_SECONDS:
            bound_silence(connection, GONE_SECONDS)
    except (pymysql.Error, OSError, RuntimeError) as error:
        refused = source_error(error, config)
        if is_tls_refusal(error) and config.tls.is_renewed():
            raise SourceUnavailable(
                f"{refused}; files of its certificates were written since the last connection"
            ) from error
        raise refused from error
    note_read(times)
    return connection


def interrupt(connection: Connection) -> None:
    """Makes the query that another thread waits for fail."""
    raw: Any = connection
    with suppress(OSError, AttributeError):
        # To close it would leave the other thread waiting for its answer.
        raw._sock.shutdown(socket.SHUT_RDWR)


@dataclass(frozen=True, slots=True)
class Server:
    """The properties of a server that reading depends on. `server_uuid`: MariaDB has none;
    `has_checksum`: its events may end with a checksum; each file's head says whether they do, as
    it can be switched at any time; `has_gtids`: all transactions have one; `charsets`: collation
    id -> character set name; `folds_names`: table names are case-insensitive."""

    version: str
    server_uuid: str
    server_id: int
    has_checksum: bool
    has_gtids: bool
    charsets: dict[int, str]
    folds_names: bool = False

    @property
    def is_mariadb(self) -> bool:
        return "mariadb" in self.version.lower()

    @property
    def identity(self) -> str:
        """The server's name in positions: its UUID; if it has none, `server-id-` and that id."""
        return identity_of(self.server_uuid, self.server_id)

    @property
    def checksum_bytes(self) -> int:
        """The size of the checksum after each event, until a file's head says otherwise."""
        if self.has_checksum:
            return 4
        return 0

    def has_files_of(self, position: BinlogPosition) -> bool:
        """Whether a position's file and offset are this server's, as far as is known; else its
        GTIDs count."""
        return position.server_uuid == self.identity or not (position.gtid and self.has_gtids)


def identity_of(server_uuid: str, server_id: int) -> str:
    """See Server."""
    return server_uuid or f"server-id-{server_id}"


def identity(connection: Connection) -> str:
    """The identity of the server that answers now."""
    variables = global_variables(connection, ("server_uuid", "server_id"))
    return identity_of(variables.get("server_uuid", ""), int(variables["server_id"]))


def inspect(connection: Connection, config: SourceConfig) -> Server:
    """Queries what reading needs to know of the server. Raises SourceRefused, which names all
    missing settings and grants without which its binlog is unreadable or lacks whole rows."""
    others = (
        "binlog_row_metadata",
        "binlog_checksum",
        "server_uuid",
        "server_id",
        "gtid_mode",
        "lower_case_table_names",
    )
    names = ("version", *REQUIRED, *others)
    variables = global_variables(connection, names)
    wrong = []
    for name, wanted in required_settings(config).items():
        if variables.get(name, "").upper() != wanted:
            wrong.append(f"{name} is {variables.get(name) or 'missing'}, must be {wanted}")
    remedy = ["Set that in the server's [mysqld] section"] * bool(wrong)
    lacking, sees_no_table = _lacking_grants(connection)
    if lacking:
        wrong.append(f"user {config.user} lacks {', '.join(lacking)}")
        remedy.append(f"GRANT {', '.join(lacking)} ON *.* TO that user")
    if sees_no_table and variables.get("binlog_row_metadata", "").upper() != "FULL":
        wrong.append(f"user {config.user} lacks SELECT, and rows do not say what their columns are")
        remedy.append("GRANT SELECT on the tables that are read, or set binlog_row_metadata=FULL")
    if wrong:
        host, port = config.addresses[0]
        raise SourceRefused(
            f"source {host}:{port} cannot be read completely: {'; '.join(wrong)}. "
            f"{'; '.join(remedy)}"
        )
    return Server(
        version=variables["version"],
        server_uuid=variables.get("server_uuid", ""),
        server_id=int(variables["server_id"]),
        has_checksum="binlog_checksum" in variables,
        # MariaDB always has GTIDs, and no such variable
        has_gtids=variables.get("gtid_mode", "ON").upper() == "ON",
        charsets=_charsets(connection, variables["version"]),
        folds_names=variables.get("lower_case_table_names", "0") != "0",
    )


def required_settings(config: SourceConfig) -> dict[str, str]:
    """The settings of REQUIRED that a task's source must have."""
    settings = dict(REQUIRED)
    if config.takes_partial:
        del settings["binlog_row_image"]
    return settings


def _lacking_grants(connection: Connection) -> tuple[list[str], bool]:
    """Returns the privileges that are certainly missing, and whether no table can be read. Where
    the server does not say, or a role may grant them, reading will show it."""
    try:
        held = read_grants(grants(connection))
    except pymysql.OperationalError:  # a server without grant tables
        return [], False
    if held.has_roles:
        return [], False
    return held.lacking, not held.readable


def global_variables(connection: Connection, names: Iterable[str]) -> dict[str, str]:
    """Returns name in lower case -> value, for the variables that the server has."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW GLOBAL VARIABLES WHERE variable_name IN %s", (tuple(names),))
        return {name.lower(): value for name, value in cursor.fetchall()}


def _charsets(connection: Connection, version: str) -> dict[int, str]:
    """Returns collation id -> character set. MariaDB lists its newer collations, whose names depend
    on the character set, only in the second view."""
    query = (
        "SELECT id, character_set_name FROM information_schema.collations WHERE id IS NOT "
        "NULL AND character_set_name IS NOT NULL"
    )
    with connection.cursor() as cursor:
        cursor.execute(query)
        rows = list(cursor.fetchall())
        if "mariadb" in version.lower():
            cursor.execute(
                "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = "
                "'information_schema'"
                " AND table_name = 'COLLATION_CHARACTER_SET_APPLICABILITY' AND column_name = 'ID'"
            )
            if cursor.fetchall()[0][0]:
                cursor.execute(
                    "SELECT id, character_set_name FROM "
                    "information_schema.collation_character_set_applicability"
                )
                rows += cursor.fetchall()
    return dict(rows)


def binlog_files(connection: Connection) -> list[tuple[str, int]]:
    """Returns (file, size in bytes), oldest first."""
    with connection.cursor() as cursor:
        cursor.execute("SHOW BINARY LOGS")
        return [(row[0], int(row[1])) for row in cursor.fetchall()]


def latest_position(connection: Connection) -> BinlogPosition:
    """The current end of the binlog, always a transaction edge."""
    return position_of(either(connection, *STATUS))


def status_statement(connection: Connection) -> str:
    """The statement that the server answers with the current end of its binlog."""
    newer, older = STATUS
    return older if _rows_if_known(connection, newer) is None else newer


def position_of(status: Sequence[Sequence[Any]]) -> BinlogPosition:
    """The position in the answer to `status_statement`. Raises SourceRefused for a server without
    a binlog."""
    if not status:
        raise SourceRefused(
            f"the source answers {' and '.join(STATUS)} with nothing: it has no binlog. Set "
            "log_bin there, or give the address of a server that has one"
        )
    row = status[0]
    # MariaDB does not return the GTIDs
    return BinlogPosition(
        row[0], int(row[1]), gtid=re.sub(r"\s", "", row[4]) if len(row) > 4 else ""
    )


def gtids_at(connection: Connection, position: BinlogPosition) -> str:
    """The GTIDs that MariaDB has executed at a position in its binlog; empty if no event ends at
    it."""
    return (
        query(connection, "SELECT BINLOG_GTID_POS(%s, %s)", (position.file, position.pos))[0][0]
        or ""
    )


def now_ms(connection: Connection) -> int:
    """The server's clock, in milliseconds since 1970."""
    return int(query(connection, "SELECT UNIX_TIMESTAMP(NOW(3)) * 1000")[0][0])


def logged_gtids(connection: Connection) -> str:
    """The last transaction of each domain in MariaDB's binlog."""
    return str(query(connection, "SELECT @@GLOBAL.gtid_binlog_pos")[0][0])


def gtid_states(connection: Connection) -> tuple[str, str]:
    """The last transaction of each domain and server in MariaDB's binlog, and the last one of each
    domain that it has replicated."""
    [[logged, replicated]] = query(
        connection, "SELECT @@GLOBAL.gtid_binlog_state, @@GLOBAL.gtid_slave_pos"
    )
    return str(logged), str(replicated)


def missing_gtids(connection: Connection, gtid: str) -> str:
    """The part of a MySQL GTID set that the server has not executed."""
    return _gtids(connection, "GTID_SUBTRACT(%s, @@GLOBAL.gtid_executed)", gtid)


def purged_gtids(connection: Connection, gtid: str) -> str:
    """The GTIDs that are not in a MySQL GTID set, and no longer in the server's binlog."""
    return _gtids(connection, "GTID_SUBTRACT(@@GLOBAL.gtid_purged, %s)", gtid)


def other_gtids(connection: Connection, gtid: str, known: str) -> str:
    """The part of a MySQL GTID set that is not in another one."""
    return _gtids(connection, "GTID_SUBTRACT(%s, %s)", gtid, known)


def _gtids(connection: Connection, expression: str, *arguments: str) -> str:
    return re.sub(r"\s", "", query(connection, f"SELECT {expression}", arguments)[0][0])


def replica_ids(connection: Connection) -> list[int]:
    """The server ids of the registered replicas. Requires REPLICATION MASTER ADMIN on MariaDB,
    REPLICATION SLAVE on MySQL."""
    return [int(row[0]) for row in either(connection, "SHOW REPLICAS", "SHOW SLAVE HOSTS")]


def grants(connection: Connection) -> list[str]:
    """The user's grants as the server prints them, including those of active roles."""
    return [row[0] for row in query(connection, "SHOW GRANTS")]


def query(
    connection: Connection, sql: str, parameters: Sequence[object] = ()
) -> Sequence[Sequence[Any]]:
    """Returns all rows of a query."""
    with connection.cursor() as cursor:
        cursor.execute(sql, tuple(parameters) or None)
        return cursor.fetchall()


def in_one_request(
    connection: Connection, statements: Sequence[str]
) -> list[Sequence[Sequence[Any]]]:
    """Returns the rows of each statement. Hardly anything happens in between, except behind a proxy
    that takes statements only one by one."""
    found: list[Sequence[Sequence[Any]]] = []
    with connection.cursor() as cursor:
        try:
            _take_several(connection, True)
            cursor.execute("; ".join(statements))
        # Some take the option, but not the statements.
        except (pymysql.OperationalError, pymysql.ProgrammingError):
            with suppress(pymysql.OperationalError, pymysql.ProgrammingError):
                _take_several(connection, False)
            return [query(connection, statement) for statement in statements]
        for _ in statements:
            found.append(cursor.fetchall())
            cursor.nextset()
        _take_several(connection, False)
    return found


def _take_several(connection: Any, is_allowed: bool) -> None:
    """Has the server take several statements in a request, or no longer."""
    connection._execute_command(COMMAND.COM_SET_OPTION, _OPTION.pack(not is_allowed))
    connection._read_packet()


def either(connection: Connection, sql: str, older: str) -> Sequence[Sequence[Any]]:
    """Returns the rows of a statement, or of the older form if the server does not know it."""
    rows = _rows_if_known(connection, sql)
    return query(connection, older) if rows is None else rows


def _rows_if_known(connection: Connection, sql: str) -> Sequence[Sequence[Any]] | None:
    """The rows of a statement; None if the server does not know this form of it."""
    try:
        return query(connection, sql)
    except pymysql.ProgrammingError as error:
        if error.args[0] != _SYNTAX_ERROR:
            raise
        return None
