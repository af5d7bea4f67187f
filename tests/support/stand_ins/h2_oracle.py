"""oracledb as its callers see it, backed by H2 in its Oracle mode: statements are recorded, checked
against two grammars of Oracle's SQL, and really run.

It has only what the loader and SQLAlchemy use. H2 runs in a JVM of its own, reached by JDBC through
py4j.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import oracledb
import pyspark
from py4j import java_gateway
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError, get_return_value

from cdcbus.consumer.jvm.maven import Coordinate, java, resolve
from tests.support.stand_ins.oracle_grammar import GRAMMARS, WITHOUT, Grammars

H2 = Coordinate("com.h2database", "h2", "2.3.232")
# What Oracle's catalog would say: only the columns that are asked for.
CATALOG = (
    """
    CREATE VIEW PUBLIC.ALL_TAB_COLS AS SELECT table_schema AS owner, table_name, column_name, ordinal_position AS column_id,
        CASE data_type
            WHEN 'CHARACTER VARYING' THEN 'VARCHAR2' WHEN 'CHARACTER' THEN 'CHAR' WHEN 'CHARACTER LARGE OBJECT' THEN 'CLOB'
            WHEN 'BINARY LARGE OBJECT' THEN 'BLOB' WHEN 'BINARY VARYING' THEN 'RAW' WHEN 'DOUBLE PRECISION' THEN 'BINARY_DOUBLE'
            WHEN 'REAL' THEN 'BINARY_FLOAT' WHEN 'VARCHAR_IGNORECASE' THEN 'VARCHAR2'
            WHEN 'TIMESTAMP' THEN CASE datetime_precision WHEN 0 THEN 'DATE' ELSE 'TIMESTAMP(6)' END
            WHEN 'INTERVAL' THEN 'INTERVAL DAY(3) TO SECOND(6)' ELSE 'NUMBER' END AS data_type,
        CASE data_type WHEN 'NUMERIC' THEN declared_numeric_precision END AS data_precision,
        declared_numeric_scale AS data_scale, character_octet_length AS data_length,
        CASE WHEN data_type LIKE '%CHAR%' THEN character_maximum_length ELSE 0 END AS char_length,
        CASE WHEN data_type LIKE '%CHAR%' THEN 'C' END AS char_used,
        CASE WHEN data_type LIKE '%IGNORECASE' THEN 'BINARY_CI' WHEN data_type LIKE '%CHAR%' THEN 'USING_NLS_COMP' END AS collation,
        CASE is_nullable WHEN 'YES' THEN 'Y' ELSE 'N' END AS nullable, LENGTH(column_default) AS default_length,
        CASE is_generated WHEN 'ALWAYS' THEN 'YES' ELSE 'NO' END AS virtual_column, 'NO' AS hidden_column
    FROM information_schema.columns""",
    """
    CREATE VIEW PUBLIC.ALL_CONSTRAINTS AS SELECT constraint_schema AS owner, constraint_name, table_name,
        CASE constraint_type WHEN 'PRIMARY KEY' THEN 'P' ELSE 'U' END AS constraint_type, index_name
    FROM information_schema.table_constraints""",
    """
    CREATE VIEW PUBLIC.ALL_CONS_COLUMNS AS SELECT constraint_schema AS owner, constraint_name, column_name, ordinal_position AS position
    FROM information_schema.key_column_usage""",
    """
    CREATE VIEW PUBLIC.ALL_INDEXES AS SELECT index_schema AS owner, index_name, table_schema AS table_owner, table_name,
        CASE WHEN index_type_name LIKE '%UNIQUE%' OR index_type_name LIKE '%PRIMARY%' THEN 'UNIQUE' ELSE 'NONUNIQUE' END AS uniqueness
    FROM information_schema.indexes""",
    """
    CREATE VIEW PUBLIC.ALL_IND_COLUMNS AS SELECT index_schema AS index_owner, index_name, column_name, ordinal_position AS column_position
    FROM information_schema.index_columns""",
    "CREATE TABLE PUBLIC.ALL_IND_EXPRESSIONS (index_owner VARCHAR(99), index_name VARCHAR(99), "
    "column_position INT)",
    "CREATE VIEW PUBLIC.ALL_TABLES AS SELECT table_schema AS owner, table_name FROM "
    "information_schema.tables",
    "CREATE VIEW PUBLIC.SESSION_PRIVS AS SELECT 'CREATE TABLE' AS privilege FROM dual",
)
# H2 SQLSTATE -> (Oracle's number, its text with the names that H2 reports)
ERRORS = {
    "23505": (1, "unique constraint (X) violated"),
    "23502": (1400, 'cannot insert NULL into ("{column}")'),
    "22003": (1438, "value 4242 greater than specified precision (2, 0) for column {column}"),
    "22001": (12899, 'value too large for column "{column}"'),
    "42S01": (955, "name is already used by an existing object"),
    "42S02": (942, "table or view does not exist"),
    "90079": (1918, "user 'X' does not exist"),
    "40001": (60, "deadlock detected while waiting for resource"),
    "HYT00": (30006, "resource busy; acquire with WAIT timeout expired"),
}

H2_TYPES = {
    oracledb.DB_TYPE_NUMBER: "NUMBER", oracledb.DB_TYPE_BINARY_DOUBLE: "DOUBLE PRECISION", oracledb.DB_TYPE_BINARY_FLOAT: "REAL",
    oracledb.DB_TYPE_TIMESTAMP: "TIMESTAMP(6)",
    oracledb.DB_TYPE_DATE: "TIMESTAMP(0)", oracledb.DB_TYPE_CLOB: "CLOB", oracledb.DB_TYPE_BLOB: "BLOB", oracledb.DB_TYPE_RAW: "VARBINARY",
    oracledb.DB_TYPE_CHAR: "VARCHAR", oracledb.DB_TYPE_VARCHAR: "VARCHAR", oracledb.DB_TYPE_INTERVAL_DS: "INTERVAL DAY(3) TO SECOND(6)",
}  # fmt: skip


class Server:
    """A JVM with one database in memory per schema name."""

    def __init__(self) -> None:
        [py4j] = (Path(pyspark.__file__).parent / "jars").glob("py4j-*.jar")
        jars = [*resolve([H2]), *resolve(GRAMMARS, without=WITHOUT)]
        port = launch_gateway(
            jarpath=str(py4j),
            classpath=":".join(map(str, jars)),
            die_on_exit=True,
            javaopts=["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"],
            java_path=str(java()),
        )
        self.gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=port, auto_convert=True)
        )
        # A Spark session that this process has had asks its own JVM about the exceptions of any: an
        # object there that happens to have the same name is taken for the exception.
        self._spark_handler = java_gateway.get_return_value
        java_gateway.get_return_value = get_return_value
        self._driver = self.gateway.jvm.org.h2.Driver()
        self.grammars = Grammars(self.gateway)

    def connect(self, schema: str) -> Any:
        url = f"jdbc:h2:mem:{schema};MODE=Oracle;DB_CLOSE_DELAY=-1;LOCK_TIMEOUT=300"
        return self._driver.connect(url, self.gateway.jvm.java.util.Properties())

    def close(self) -> None:
        java_gateway.get_return_value = self._spark_handler
        self.gateway.shutdown()


@dataclass
class Database:
    """One schema, called as Oracle would: in upper case. `said`: statements with their rows, as
    the driver got them."""

    server: Server
    schema: str
    said: list[tuple[str, list[Any]]] = field(default_factory=list)
    sizes: list[tuple[Any, ...]] = field(default_factory=list)
    connections: list[Connection] = field(default_factory=list)

    def __post_init__(self) -> None:
        for sql in (f"CREATE SCHEMA {self.schema}", *CATALOG):
            self.execute(sql)

    def execute(self, sql: str) -> None:
        with self._statement() as statement:
            statement.execute(sql)

    def rows(self, sql: str) -> list[tuple[Any, ...]]:
        with self._statement() as statement:
            return _rows(statement.executeQuery(sql))

    @contextmanager
    def _statement(self) -> Iterator[Any]:
        connection = self.server.connect(self.schema)
        yield connection.createStatement()
        connection.close()

    def connect(self, **given: Any) -> Connection:
        """In place of `oracledb.connect`."""
        connection = Connection(self, given)
        self.connections.append(connection)
        return connection


class Connection:
    version, max_identifier_length, thin, autocommit, call_timeout = (
        "19.3.0.0.0",
        128,
        True,
        False,
        0,
    )
    outputtypehandler: Any = None

    def __init__(self, database: Database, given: Mapping[str, Any]) -> None:
        self.database, self.given = database, given
        self.jdbc = database.server.connect(database.schema)
        self.jdbc.createStatement().execute(f"SET SCHEMA_SEARCH_PATH {database.schema}, PUBLIC")
        self.jdbc.createStatement().execute(f"SET SCHEMA {database.schema}")
        self.jdbc.setAutoCommit(False)

    def cursor(self) -> Cursor:
        return Cursor(self)

    def commit(self) -> None:
        self.jdbc.commit()

    def rollback(self) -> None:
        self.jdbc.rollback()

    def close(self) -> None:
        self.jdbc.close()

    def ping(self) -> None:
        pass


class Cursor:
    rowcount, arraysize = -1, 100
    outputtypehandler: Any = None

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.description: list[tuple[Any, ...]] | None = None
        self._rows: list[tuple[Any, ...]] = []
        self._sizes: tuple[Any, ...] = ()

    def __enter__(self) -> Cursor:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass

    def setinputsizes(self, *sizes: Any, **of_names: Any) -> None:
        """H2 knows the types of named binds by their columns."""
        if not of_names:
            self.connection.database.sizes.append(sizes)
            self._sizes = sizes

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        self._run(sql, list(rows))

    def execute(self, sql: str, parameters: Any = ()) -> None:
        self._run(sql, [parameters] if parameters else [])

    def fetchall(self) -> list[tuple[Any, ...]]:
        rows, self._rows = self._rows, []
        return rows

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._rows.pop(0) if self._rows else None

    def _run(self, sql: str, rows: list[Any]) -> None:
        self.connection.database.said.append((sql, rows))
        self.connection.database.server.grammars.check(sql)
        self.description = None
        if sql.startswith("ALTER SESSION"):
            return
        if "1.1 FROM DUAL" in sql or "sys_context" in sql:
            value = "1.1"
            if "sys_context" in sql:
                value = self.connection.database.schema
            self._rows = [(value,)]
            self.description = [("X", None, None, None, None, None, None)]
            return
        try:
            self._run_in_h2(sql, rows)
        except Py4JJavaError as error:
            raise _as_oracle(error) from None

    def _run_in_h2(self, sql: str, rows: list[Any]) -> None:
        if key := re.fullmatch(r"(ALTER TABLE .+) ADD PRIMARY KEY \((.+)\)", sql):
            for column in key[2].split(", "):  # which Oracle does by itself
                self.connection.jdbc.createStatement().execute(f"{key[1]} MODIFY {column} NOT NULL")
        names = [name for name in re.findall(r"""'[^']*'|:("?\w+"?)""", sql) if name]
        statement = self.connection.jdbc.prepareStatement(
            re.sub(
                r"""('[^']*')|:"?\w+"?""",
                lambda found: found[1] or "?",  # a colon in a text is none of a bind
                re.sub(r":(\d+) AS", self._typed, sql),
            )
        )
        self.rowcount = 0
        for row in rows or [()]:
            cells = row
            if isinstance(row, Mapping):
                cells = [row[name] for name in names]
            sizes = [*self._sizes] or [None] * len(cells)
            for place, (cell, size) in enumerate(zip(cells, sizes, strict=True), 1):
                self._bind(statement, place, cell, size)
            if statement.execute():
                result = statement.getResultSet()
                meta = result.getMetaData()
                labels = [meta.getColumnLabel(at) for at in range(1, meta.getColumnCount() + 1)]
                self.description = [(label, None, None, None, None, None, None) for label in labels]
                self._rows = _rows(result)
            else:
                self.rowcount += statement.getUpdateCount()
        statement.close()

    def _typed(self, bind: re.Match[str]) -> str:
        """A bind in a SELECT list has no type for H2, where Oracle's binds bring theirs with
        them."""
        size = self._sizes[int(bind[1]) - 1]
        type_ = H2_TYPES[size] if size else "VARCHAR"
        return f"CAST(? AS {type_}) AS"

    def _bind(self, statement: Any, place: int, cell: Any, size: Any) -> None:
        jvm = self.connection.database.server.gateway.jvm
        match cell:
            case float() if size is oracledb.DB_TYPE_BINARY_FLOAT:
                statement.setFloat(place, cell)
            case Decimal():
                statement.setBigDecimal(place, jvm.java.math.BigDecimal(str(cell)))
            case datetime():
                statement.setObject(place, jvm.java.time.LocalDateTime.parse(cell.isoformat()))
            case timedelta():
                seconds = cell.days * 86_400 + cell.seconds
                statement.setObject(
                    place, jvm.java.time.Duration.ofSeconds(seconds, cell.microseconds * 1000)
                )
            case bytes():
                statement.setBytes(place, cell)
            case _:
                statement.setObject(place, cell)


def _rows(result: Any) -> list[tuple[Any, ...]]:
    count = result.getMetaData().getColumnCount()
    rows = []
    while result.next():
        rows.append(tuple(_plain(result, at) for at in range(1, count + 1)))
    return rows


def _plain(result: Any, at: int) -> Any:
    cell = result.getObject(at)
    if cell is None or isinstance(cell, int | float | str | bytes | Decimal):
        return cell
    kind = cell.getClass().getName()
    if "Blob" in kind:
        return bytes(result.getBytes(at))
    if "Interval" in kind:
        span = timedelta(days=cell.getLeading(), microseconds=cell.getRemaining() // 1000)
        return -span if cell.isNegative() else span
    text = result.getString(at)
    return int(text) if re.fullmatch(r"-?\d+", text) else text


def _as_oracle(error: Py4JJavaError) -> oracledb.Error:
    """The error that Oracle would raise, with a text that quotes a cell, as Oracle's do."""
    cause = error.java_exception
    state = cause.getSQLState()
    said = cause.getMessage()
    if "NUMERIC" in said:
        state = "22003"
    code, text = ERRORS[state]
    column = re.search(r'[cC]olumn "(?:\w+\.)*(\w+)', said) or re.search(r'"(\w+)"', said)
    sentence = text.format(column=column[1] if column else "")
    message = f"ORA-{code:05}: {sentence}\nrow SECRET"
    kind = oracledb.IntegrityError if code in (1, 1400) else oracledb.DatabaseError

    class Detail:
        def __init__(self) -> None:
            self.code, self.message = code, message

        def __str__(self) -> str:
            return message

    return kind(Detail())
