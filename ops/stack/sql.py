"""One SQL statement on one of the stack's databases, so that nobody needs a client program."""

import json
from dataclasses import dataclass
from typing import Any

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.errors import CdcError

DATABASES = ("source", "mariadb", "postgresql")


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a statement; if it is not a query, `columns` is empty and `affected` counts
    rows."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    affected: int

    def to_json(self) -> str:
        """A list of objects; values without a JSON form as text."""
        objects = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return json.dumps(objects, default=text, ensure_ascii=False, indent=2)


def connect(name: str, database: Database) -> Any:
    """A DB-API connection (autocommit) to one of DATABASES; raises one of `unreachable()`."""
    if name == "postgresql":
        import psycopg

        return psycopg.connect(
            host=database.host,
            port=database.port,
            user=database.user,
            password=database.password,
            dbname=database.database,
            autocommit=True,
            connect_timeout=5,
        )
    from cdcbus.plugins.mysql.connection import MysqlConnection

    return MysqlConnection(
        host=database.host,
        port=database.port,
        user=database.user,
        password=database.password,
        database=database.database,
        charset="utf8mb4",
        autocommit=True,
        connect_timeout=5,
    )


def unreachable() -> tuple[type[Exception], ...]:
    """What `connect` raises when it cannot log in."""
    import psycopg
    import pymysql

    return psycopg.OperationalError, pymysql.OperationalError


def execute(name: str, database: Database, statement: str) -> Result:
    """Runs the statement; raises CdcError with the server's words when it refuses it or cannot
    be reached."""
    import psycopg
    import pymysql

    try:
        connection = connect(name, database)
    except unreachable() as error:
        raise CdcError(
            f"cannot log in to {name} at {database.host}:{database.port}: is it up?"
        ) from error
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute(statement)
            columns = [str(column[0]) for column in cursor.description or ()]
            rows = []
            if columns:  # else the statement returns none, and fetching would fail
                rows = list(cursor.fetchall())
            return Result(columns, rows, cursor.rowcount)
    except pymysql.MySQLError as error:
        raise CdcError(f"{name} refuses the statement: {error.args[-1]}") from error
    except psycopg.Error as error:
        raise CdcError(
            f"{name} refuses the statement: {error.diag.message_primary or error}"
        ) from error


def text(value: object) -> str:
    """A value as one reads it: bytes as hexadecimal digits, null as NULL."""
    if value is None:
        return "NULL"
    if isinstance(value, bytes):
        return f"0x{value.hex()}"
    return str(value)
