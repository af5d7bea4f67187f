"""The text of DDL means what the server makes of it."""

from __future__ import annotations

from pathlib import Path

import pymysql
import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.rowchange import RowChange, TableId
from cdcbus.producer.ddl.statements import changes
from cdcbus.producer.ddl.table_alteration import apply
from cdcbus.producer.ddl.table_changes import Altered, Created
from cdcbus.producer.ddl.table_schema import TableSchema
from cdcbus.producer.ddl.tokens import Session
from cdcbus.producer.decoding.charsets import encoded
from cdcbus.producer.schema.ddl_scanner import version_number
from cdcbus.producer.schema.schema_reader import SchemaReader
from tests.integration.producer.reading import connect, fetch_task, global_variable, position
from tests.integration.producer.schema.course import Course, columns
from tests.support.changes.ddl_cases import CASES, essence, steps

pytestmark = [pytest.mark.integration, pytest.mark.source]


# the second bytes of the last are a backslash's
CLIENTS = {"latin1": "größe", "gbk": "表", "sjis": "表ソ"}


@pytest.mark.parametrize("is_lagging", [False, True], ids=["live", "lagging"])
@pytest.mark.parametrize("client", CLIENTS)
def test_ddl_means_what_it_means_in_the_character_set_of_its_session(
    course: Course, source: Database, name: str, client: str, *, is_lagging: bool
) -> None:
    word = CLIENTS[client]
    ddl = (
        f"ALTER TABLE t ADD `{word}` ENUM('{word}', 'x', 'y''{word}') CHARACTER SET utf8mb4, DROP "
        "a",
        f"INSERT INTO t VALUES (1, 20, '{word}'), (2, 20, 'y''{word}')",
        f"ALTER TABLE t CHANGE `{word}` `2{word}` ENUM('{word}', 'x', 'y''{word}', '{word}z') "
        f"CHARACTER SET utf8mb4 COMMENT '{word}'",
        f"INSERT INTO t VALUES (3, 20, '{word}z')",
        "ALTER TABLE t DROP b",
    )
    rows = []
    with connect(source) as connection, connection.cursor() as cursor:
        cursor.execute(f"USE {name}")
        cursor.execute(f"SET NAMES {client}")
        for statement in ddl:
            sql = encoded(client, statement)
            assert sql is not None
            connection.query(sql)
            rows += [] if is_lagging else course.catch_up()
    rows += course.catch_up()
    after = [
        {"id": "1", "b": "20", word: word},
        {"id": "2", "b": "20", word: f"y'{word}"},
        {"id": "3", "b": "20", f"2{word}": f"{word}z"},
    ]
    assert rows == after


@pytest.mark.parametrize("mode", ["", "STRICT_ALL_TABLES"])
def test_labels_that_their_character_set_cannot_hold_are_read_as_the_server_stores_them(
    course: Course, mode: str
) -> None:
    course.run(
        f"SET sql_mode = '{mode}'",
        "CREATE TABLE u (id INT, e ENUM('ä', '表', 'x') CHARACTER SET latin1, s SET('a表b', '😀') "
        "CHARACTER SET utf8mb3, g ENUM('é', '表')"
        " CHARACTER SET gbk)",
        "INSERT INTO u VALUES (1, 1, 3, 2), (2, 2, 1, 2)",
        "ALTER TABLE u MODIFY id ENUM('ä', 'y') CHARACTER SET ascii",
        "INSERT INTO u VALUES (1, 3, 2, 2)",
        "ALTER TABLE u DROP s",
    )
    assert course.catch_up() == [
        {"id": "1", "e": "ä", "s": "a表b,?", "g": "表"},
        {"id": "2", "e": "?", "s": "a表b", "g": "表"},
        {"id": "?", "e": "x", "s": "?", "g": "表"},
    ]


def test_labels_that_information_schema_does_not_show_are_read_as_they_are(course: Course) -> None:
    """It has a `?` in place of characters beyond U+FFFF, and labels may have one of their own."""
    many = ", ".join(f"'{number}😀'" for number in range(64))
    course.run(
        "CREATE TABLE u (id INT, e ENUM('why?', '😀', 'it''s 𝄞?\\\\', 'a') CHARACTER SET utf8mb4, "
        f"s SET('x', '😀', '?', 'y') CHARACTER SET utf16, b SET({many}) CHARACTER SET utf8mb4)",
        "INSERT INTO u VALUES (1, 1, 15, 1), (2, 2, 2, 2), (3, 3, 4, 1 << 62), (4, 4, 9, 1 << 63)",
    )
    rows = [
        {"id": "1", "e": "why?", "s": "x,😀,?,y", "b": "0😀"},
        {"id": "2", "e": "😀", "s": "😀", "b": "1😀"},
        {"id": "3", "e": "it's 𝄞?\\", "s": "?", "b": "62😀"},
        {"id": "4", "e": "a", "s": "x,y", "b": "63😀"},
    ]
    assert course.catch_up() == rows


@pytest.mark.parametrize("is_lagging", [False, True])
def test_hashes_by_which_mariadb_keeps_long_unique_texts_are_no_columns(
    course: Course, *, is_mariadb: bool, is_lagging: bool
) -> None:
    if not is_mariadb:
        pytest.skip("MySQL has no such keys")
    long = "VARCHAR(3000) CHARACTER SET utf8mb4"
    course.run(f"CREATE TABLE u (id INT PRIMARY KEY, a TEXT, b {long}, UNIQUE (a), UNIQUE (b, id))")
    course.run("INSERT INTO u VALUES (1, 'x', NULL)")
    rows = course.catch_up()
    for statement in (
        "ALTER TABLE u ADD n BIGINT AFTER id",
        "UPDATE u SET a = 'y', n = 7",
        "ALTER TABLE u DROP KEY a, ADD m BIGINT",
        "DELETE FROM u",
    ):
        course.run(statement)
        rows += [] if is_lagging else course.catch_up()
    assert rows + course.catch_up() == [
        {"id": "1", "a": "x", "b": None},
        {"id": "1", "n": "7", "a": "y", "b": None},
        {"id": "1", "n": "7", "a": "y", "b": None, "m": None},
    ]


@pytest.mark.parametrize("is_explicit", [0, 1])
def test_a_timestamp_is_null_or_a_key_as_the_session_had_it(
    course: Course, *, is_mariadb: bool, is_explicit: int
) -> None:
    """By explicit_defaults_for_timestamp, which decides whether a unique key of it is the
    table's."""
    course.run("SET sql_mode = ''")
    try:
        course.run(f"SET explicit_defaults_for_timestamp = {is_explicit}")
    except pymysql.MySQLError:
        pytest.skip("this release has it for the whole server")
    course.run(
        "CREATE TABLE u (a TIMESTAMP, b INT NOT NULL, n TIMESTAMP NULL, UNIQUE x (a), UNIQUE y "
        "(b), UNIQUE z (n))",
        "INSERT INTO u VALUES ('2020-01-01 00:00:00', 1, NULL)",
        "ALTER TABLE u ADD c TIMESTAMP DEFAULT '2021-01-01 00:00:00' FIRST, ADD UNIQUE w (c, b)",
        "INSERT INTO u (a, b) VALUES ('2020-01-01 00:00:01', 2)",
        "ALTER TABLE u DROP INDEX x",
    )
    start, course.read_to = course.read_to, position(course.cursor)
    keys = [change.table.key for change in course.changes(start, course.read_to)]
    assert keys == ([("b",), ("b",)] if is_explicit else [("a",), ("a",)])


ALTERED = (
    "ALTER TABLE v ADD c INT",
    "ALTER TABLE v DROP a, ADD INDEX (c)",
    "ALTER TABLE v RENAME COLUMN c TO d",
)


VERSIONED = (
    "ALTER TABLE v ADD c INT",
    "ALTER TABLE v ADD d INT FIRST, ADD UNIQUE u (d)",
    "ALTER TABLE v DROP a",
    "ALTER TABLE v MODIFY c VARCHAR(9) AFTER d, DROP PRIMARY KEY",
    "ALTER TABLE v RENAME COLUMN d TO e, ADD PRIMARY KEY (id)",
    "ALTER TABLE v DROP SYSTEM VERSIONING",
    "ALTER TABLE v ADD f INT",
    "ALTER TABLE v ADD SYSTEM VERSIONING, ADD UNIQUE (f)",
    "ALTER TABLE v ADD g INT AFTER f",
    "DROP TABLE v",
)


@pytest.mark.parametrize(
    "times",
    ["", ", row_start x ROW START, row_end x ROW END, PERIOD FOR SYSTEM_TIME (row_start, row_end)"],
)
def test_tables_with_system_versions_that_are_altered(
    source: Database, course: Course, times: str, *, is_mariadb: bool
) -> None:
    """While they keep their history, which is what system_versioning_alter_history=KEEP allows."""
    if not is_mariadb:
        pytest.skip("tables of MariaDB")
    read: list[list[object]] = []
    course.run("SET system_versioning_alter_history = KEEP")
    named = times.replace(" x ", " TIMESTAMP(6) GENERATED ALWAYS AS ")
    for metadata in ("FULL", "NO_LOG"):
        with global_variable(source, "binlog_row_metadata", metadata):
            course.run(f"CREATE TABLE v (id INT PRIMARY KEY, a INT{named}) WITH SYSTEM VERSIONING")
            if times:
                course.catch_up()
            for number, ddl in enumerate(ALTERED if times else VERSIONED):
                names = [
                    name for name in columns(course.cursor, "v") if not name.startswith("row_")
                ]
                values = ", ".join(str(number * 10 + i) for i, _ in enumerate(names))
                course.run(
                    f"INSERT INTO v ({', '.join(names)}) VALUES ({values})",
                    "DELETE FROM v WHERE id < 7",
                    ddl,
                )
            course.run("DROP TABLE IF EXISTS v")
            start, course.read_to = course.read_to, position(course.cursor)
            read.append([_untimed(change) for change in course.changes(start, course.read_to)])
    assert len(read[0]) >= 4
    assert read[1] == read[0]


def _untimed(change: RowChange) -> object:
    """All but the cells that hold a row's times."""
    row = {}
    for name, cell in (change.after or change.before or {}).items():
        if not name.startswith("row_"):
            row[name] = cell
    names = [column.name for column in change.table.columns]
    return change.op, change.table.key, names, row


def test_sql_modes_are_those_of_the_session(course: Course) -> None:
    course.run(
        "SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
        "ALTER TABLE t ADD \"c d\" ENUM('a\\', 'b') COMMENT 'x\\', DROP a",
        "INSERT INTO t VALUES (1, 20, 2)",
        """CREATE TABLE u (id INT COMMENT 'a\\', "SELECT" INT COMMENT 'SELECT 1')""",
        "INSERT INTO u VALUES (2, 3)",
        "ALTER TABLE t DROP b",
        "ALTER TABLE u DROP id",
    )
    assert course.catch_up() == [{"id": "1", "b": "20", "c d": "b"}, {"id": "2", "SELECT": "3"}]


def test_a_key_that_the_server_made_and_hides_is_read(
    source: Database, source_cursor: Cursor, name: str, least_metadata: None
) -> None:
    """MySQL's generated invisible primary key, which it shows to sessions that want to see it."""
    source_cursor.execute(
        "SHOW GLOBAL VARIABLES LIKE 'show_gipk_in_create_table_and_information_schema'"
    )
    if not source_cursor.fetchall():
        pytest.skip("a key of MySQL's")
    with global_variable(source, "show_gipk_in_create_table_and_information_schema", "OFF"):
        source_cursor.execute("SET sql_generate_invisible_primary_key = ON")
        source_cursor.execute("CREATE TABLE t (a INT)")
        course = Course(source_cursor, fetch_task(source, name))
        course.run("INSERT INTO t VALUES (5)")
        assert course.catch_up() == [{"my_row_id": "1", "a": "5"}]
        course.run(
            "CREATE TABLE u (a INT)",
            "INSERT INTO u VALUES (6)",
            "ALTER TABLE u ADD b INT",
            "INSERT INTO u VALUES (7, 8)",
            "DROP TABLE u",
        )
        assert course.catch_up() == [
            {"my_row_id": "1", "a": "6"},
            {"my_row_id": "2", "a": "7", "b": "8"},
        ]


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_text_of_ddl_means_what_the_server_makes_of_it(
    path: Path, source: Database, source_cursor: Cursor, name: str, *, is_mariadb: bool
) -> None:
    only, found = steps(path)
    if only and (only == "mariadb") != is_mariadb:
        pytest.skip(f"a case for {only}")
    with connect(source) as connection:
        reader = SchemaReader(connection)
        before = TableSchema((), (), reader.default_charset(name))
        source_cursor.execute("SELECT VERSION()")
        session = Session(
            version=version_number(source_cursor.fetchall()[0][0]), is_mariadb=is_mariadb
        )
        for step in found:
            source_cursor.execute(step.sql)
            after, _ = reader.read(TableId(name, "t"))
            assert after is not None
            made: TableSchema | None = before
            for change in changes(step.sql.encode(), name, session):
                assert isinstance(change, Altered | Created)
                if made is not None and change.actions is not None:
                    made = apply(made, change.actions)
                else:
                    made = None
            if made is not None:
                assert essence(made) == essence(after), step.sql
            before = after
