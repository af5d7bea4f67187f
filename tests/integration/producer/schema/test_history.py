"""Rows are decoded with the columns that their table had when they were written, although the
server does not send them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import pymysql
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from kazoo.client import KazooClient
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.errors import UnreadableEvent, UnusableHistory
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import RowChange, TableId
from cdcbus.producer.config import FetchTask, FilterConfig
from cdcbus.producer.ddl.statements import changes
from cdcbus.producer.ddl.table_alteration import apply
from cdcbus.producer.ddl.table_changes import Altered, Created
from cdcbus.producer.ddl.table_schema import TableSchema
from cdcbus.producer.ddl.tokens import Session
from cdcbus.producer.decoding.charsets import encoded
from cdcbus.producer.schema.ddl_scanner import version_number
from cdcbus.producer.schema.history_codec import FOLLOWED
from cdcbus.producer.schema.resolver import SchemaReader
from cdcbus.producer.schema.table_versions import MemorySchemas
from cdcbus.producer.source.binlog_source import BinlogSource
from cdcbus.producer.source.row_events import Batch
from cdcbus.tasks.zookeeper.schema_history import ZooKeeperSchemas
from tests.integration.producer.reading import connect, fetch_task, global_variable, position, read
from tests.integration.producer.running import Running, canal
from tests.support.ddl_cases import CASES, shown, steps

pytestmark = [pytest.mark.integration, pytest.mark.source]


@dataclass
class Course:
    """A schema that statements change, and a task whose history outlives its restarts."""

    cursor: Cursor
    task: FetchTask
    entries: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.start = self.read_to = position(self.cursor)

    def run(self, *statements: str) -> BinlogPosition:
        """The place behind them."""
        for statement in statements:
            self.cursor.execute(statement)
        return position(self.cursor)

    def catch_up(self) -> list[dict[str, str | None]]:
        """The rows since it read the last time, by a task that has just started."""
        start, self.read_to = self.read_to, position(self.cursor)
        return self.between(start, self.read_to)

    def between(self, start: BinlogPosition, end: BinlogPosition) -> list[dict[str, str | None]]:
        """The rows between two places, with the history as it is now."""
        return [dict(change.after or change.before or {}) for change in self.changes(start, end)]

    def changes(self, start: BinlogPosition, end: BinlogPosition) -> list[RowChange]:
        return read(self.task, start, end, MemorySchemas(self.entries))


@pytest.fixture
def course(source: Database, source_cursor: Cursor, name: str, least_metadata: None) -> Course:
    """Table `t` (id, a, b), which the task has seen."""
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
    course = Course(source_cursor, fetch_task(source, name))
    course.run("INSERT INTO t VALUES (0, 0, 0)")
    assert course.catch_up() == [{"id": "0", "a": "0", "b": "0"}]
    return course


SWAPS = [
    "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a",
    "ALTER TABLE t CHANGE a b INT, CHANGE b a INT",
    "ALTER TABLE t MODIFY b INT AFTER id",
]
BEFORE, SWAPPED = {"id": "1", "a": "10", "b": "20"}, {"id": "2", "b": "30", "a": "40"}


@pytest.mark.parametrize("swap", SWAPS)
def test_columns_of_one_type_that_exchange_their_places(course: Course, swap: str) -> None:
    """Whether the task runs at the time, starts between, lags behind, or goes back."""
    for is_lagging in (False, True):
        start = course.run(
            "DELETE FROM t",
            "ALTER TABLE t RENAME COLUMN a TO x, RENAME COLUMN b TO y",
            "DROP TABLE t",
        )
        course.run("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
        course.catch_up()
        edge = course.run("INSERT INTO t VALUES (1, 10, 20)")
        if not is_lagging:
            assert course.catch_up() == [BEFORE]
        course.run(swap)
        if not is_lagging:
            assert course.catch_up() == []
        end = course.run("INSERT INTO t VALUES (2, 30, 40)")
        assert course.catch_up() == ([BEFORE, SWAPPED] if is_lagging else [SWAPPED])
        assert course.between(edge, end) == [SWAPPED]
        assert course.between(start, end) == [BEFORE, SWAPPED]


def test_a_reader_that_lags_behind_three_alters_in_a_row(course: Course) -> None:
    course.run(
        "INSERT INTO t VALUES (1, 10, 20)",
        "ALTER TABLE t ADD c INT FIRST",
        "INSERT INTO t VALUES (9, 2, 10, 20)",
        "ALTER TABLE t DROP b, RENAME COLUMN c TO b",
        "INSERT INTO t VALUES (20, 3, 10)",
        "ALTER TABLE t CHANGE b a INT UNSIGNED, CHANGE a b BIGINT",
        "INSERT INTO t VALUES (4000000000, 4, -1)",
    )
    expected: list[dict[str, str | None]] = [
        {"id": "1", "a": "10", "b": "20"},
        {"c": "9", "id": "2", "a": "10", "b": "20"},
        {"b": "20", "id": "3", "a": "10"},
        {"a": "4000000000", "id": "4", "b": "-1"},
    ]
    assert course.catch_up() == expected
    assert course.between(course.start, course.read_to)[1:] == expected


UNLOGGED = (
    "DROP TABLE t",
    "SET sql_log_bin = 0",
    "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)",
    "SET sql_log_bin = 1",
)


def test_a_start_in_front_of_a_swap_that_nobody_followed_stops_where_the_binlog_does_not_show_how_the_table_was_made(
    course: Course,
) -> None:
    course.start = course.run(*UNLOGGED)
    edge = course.run("INSERT INTO t VALUES (1, 10, 20)")
    course.run(SWAPS[0])
    end = course.run("INSERT INTO t VALUES (2, 30, 40)")
    with pytest.raises(UnreadableEvent) as stopped:
        read(course.task, course.start, end)
    sentence = str(stopped.value)
    assert "the row has 3 columns of types int, int, int" in sentence
    assert "the table now has 3: id int" in sentence
    assert "binlog_row_metadata=FULL" in sentence
    assert [change.after for change in read(course.task, edge, end)] == [SWAPPED]


def test_a_start_in_front_of_a_swap_that_nobody_followed_takes_the_table_from_its_text(
    course: Course,
) -> None:
    course.run("INSERT INTO t VALUES (1, 10, 20)", SWAPS[0])
    end = course.run("INSERT INTO t VALUES (2, 30, 40)")
    assert [change.after for change in read(course.task, course.start, end)][1:] == [
        BEFORE,
        SWAPPED,
    ]


def test_a_start_far_behind_is_fine_where_no_ddl_of_the_table_came_since(course: Course) -> None:
    course.run(
        "CREATE TABLE other (a INT)",
        "ALTER TABLE other ADD t INT",
        "INSERT INTO t VALUES (1, 10, 20)",
        "ALTER TABLE t ADD INDEX (a)",
    )
    assert [change.after for change in read(course.task, course.start, position(course.cursor))][
        1:
    ] == [BEFORE]


GHOSTS = {
    "gh-ost": (
        "CREATE TABLE `{0}`.`_t_gho` LIKE `{0}`.`t`",
        "ALTER TABLE `{0}`.`_t_gho` RENAME COLUMN a TO b, RENAME COLUMN b TO a",
        "INSERT INTO _t_gho SELECT * FROM t",
        "RENAME TABLE `{0}`.`t` TO `{0}`.`_t_del`, `{0}`.`_t_gho` TO `{0}`.`t`",
        "DROP TABLE IF EXISTS `{0}`.`_t_del`",
    ),
    "pt-online-schema-change": (
        "CREATE TABLE `{0}`.`_t_new` (`id` int NOT NULL, `a` int DEFAULT NULL, `b` int DEFAULT "
        "NULL, PRIMARY KEY (`id`)) ENGINE=InnoDB",
        "ALTER TABLE `{0}`.`_t_new` CHANGE a b INT, CHANGE b a INT",
        "INSERT LOW_PRIORITY IGNORE INTO `{0}`.`_t_new` SELECT * FROM t",
        "RENAME TABLE `{0}`.`t` TO `{0}`.`_t_old`, `{0}`.`_t_new` TO `{0}`.`t`",
        "DROP TABLE IF EXISTS `_t_old`",
    ),
}


@pytest.mark.parametrize("is_alone", [False, True], ids=["all tables", "one table"])
@pytest.mark.parametrize("is_lagging", [False, True], ids=["live", "lagging"])
@pytest.mark.parametrize("tool", GHOSTS)
def test_online_schema_changes(
    source: Database, course: Course, name: str, tool: str, *, is_lagging: bool, is_alone: bool
) -> None:
    if is_alone:
        course = Course(
            course.cursor,
            fetch_task(
                source, name, tables=FilterConfig(includes=frozenset({f"{name}.T".upper()}))
            ),
        )
    course.run("INSERT INTO t VALUES (1, 10, 20)")
    rows = course.catch_up()
    for statement in GHOSTS[tool]:
        course.run(statement.format(name))
        if not is_lagging:
            rows += course.catch_up()
    course.run("INSERT INTO t VALUES (2, 30, 40)")
    if is_lagging:
        course.run("ALTER TABLE t DROP a")
    rows += course.catch_up()
    assert rows[0] == BEFORE
    assert rows[-1] == SWAPPED
    again = course.between(course.start, course.read_to)
    assert again[0 if is_alone else 1 :] == rows


@pytest.mark.parametrize("is_lagging", [False, True], ids=["live", "lagging"])
def test_tables_that_are_copied_swapped_and_made_again(course: Course, *, is_lagging: bool) -> None:
    statements = [
        "CREATE TABLE u LIKE t",
        "INSERT INTO u VALUES (1, 10, 20)",
        "ALTER TABLE u RENAME COLUMN a TO x, RENAME COLUMN b TO a",
        "RENAME TABLE t TO v, u TO t, v TO u",
        "INSERT INTO t VALUES (2, 10, 20)",
        "INSERT INTO u VALUES (3, 10, 20)",
        "CREATE TABLE IF NOT EXISTS t (c INT PRIMARY KEY, d INT, e INT)",
        "INSERT INTO t VALUES (4, 10, 20)",
        "CREATE TEMPORARY TABLE u (x INT, y INT, z INT)",
        "ALTER TABLE u RENAME COLUMN x TO q",
        "DROP TEMPORARY TABLE u",
        "INSERT INTO u VALUES (5, 10, 20)",
        "DROP TABLE t, u",
        "CREATE TABLE t (c INT PRIMARY KEY, d INT, e INT)",
        "INSERT INTO t VALUES (6, 10, 20)",
        "ALTER TABLE t RENAME w",
        "INSERT INTO w VALUES (7, 10, 20)",
        "DROP TABLE w",
    ]
    rows = []
    for statement in statements:
        course.run(statement)
        rows += [] if is_lagging else course.catch_up()
    rows += course.catch_up()
    names = ["id,a,b", "id,x,a", "id,a,b", "id,x,a", "id,a,b", "c,d,e", "c,d,e"]
    expected = [
        dict(zip(columns.split(","), (str(id_), "10", "20"), strict=True))
        for id_, columns in enumerate(names, 1)
    ]
    assert rows == expected
    assert course.between(course.start, course.read_to)[1:] == expected


UNREADABLE = "ALTER TABLE {0} ADD c INT, ADD d INT, ORDER BY a, b"


def test_ddl_of_tables_that_are_left_out_never_stops(
    source: Database, course: Course, name: str
) -> None:
    course.task = fetch_task(source, name, tables=FilterConfig(regexes=(rf"{name}\.t",)))
    course.run(
        "CREATE TABLE hidden (a INT, b INT)",
        UNREADABLE.format("hidden"),
        "ALTER TABLE hidden ADD t2 INT",
        "INSERT INTO t VALUES (1, 10, 20)",
    )
    assert course.catch_up() == [BEFORE]
    assert all("hidden" not in entry for entry in course.entries)


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


def test_sequences_that_were_made_and_dropped_before_the_task_came_there(
    course: Course, *, is_mariadb: bool
) -> None:
    if not is_mariadb:
        pytest.skip("MySQL has none")
    course.run(
        "CREATE SEQUENCE s START WITH 7",
        "INSERT INTO t VALUES (1, NEXT VALUE FOR s, 20)",
        "ALTER SEQUENCE s RESTART 30",
        "CREATE OR REPLACE SEQUENCE s INCREMENT 5 CACHE 2",
        "RENAME TABLE s TO q",
        "INSERT INTO t VALUES (2, NEXT VALUE FOR q, 20)",
        "DROP SEQUENCE q",
        "CREATE TABLE s (id INT PRIMARY KEY)",
        "INSERT INTO s VALUES (5)",
        "DROP TABLE s",
    )
    assert course.catch_up() == [
        {"id": "1", "a": "7", "b": "20"},
        {"id": "2", "a": "1", "b": "20"},
        {"id": "5"},
    ]


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


@pytest.mark.parametrize("words", ["TABLE", "TABLE IF NOT EXISTS"])
@pytest.mark.parametrize("is_known", [True, False], ids=["a restart", "a first start"])
def test_a_new_table_is_followed_from_its_text(
    course: Course, words: str, *, is_known: bool
) -> None:
    """Also where it was altered before the task came there, which is what a tool for migrations
    does with its own table."""
    if not is_known:
        course.entries.clear()
    course.run(
        f"CREATE {words} u (id INT PRIMARY KEY /*!50000 , b INT */ /*!990000 , x INT */)",
        "INSERT INTO u VALUES (1, 20)",
        "ALTER TABLE u ADD /*! a INT */ FIRST",
        "INSERT INTO u VALUES (10, 2, 20)",
        "ALTER TABLE u DROP b",
    )
    assert course.catch_up() == [{"id": "1", "b": "20"}, {"a": "10", "id": "2", "b": "20"}]


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


def test_ddl_that_is_not_understood_is_answered_by_the_server(course: Course) -> None:
    course.run(UNREADABLE.format("t"), "INSERT INTO t VALUES (1, 10, 20, 30, 40)")
    assert course.catch_up() == [{"id": "1", "a": "10", "b": "20", "c": "30", "d": "40"}]


def test_ddl_that_is_not_understood_and_was_followed_by_more_stops_at_rows(course: Course) -> None:
    edge = course.run(UNREADABLE.format("t"))
    course.run("INSERT INTO t VALUES (1, 10, 20, 30, 40)")
    after = course.run("ALTER TABLE t RENAME COLUMN c TO d, RENAME COLUMN d TO c")
    end = course.run("INSERT INTO t VALUES (2, 10, 20, 30, 40)")
    with pytest.raises(
        UnreadableEvent, match=r"t: the row has 5 columns .* the table now has 5: .*d int.*c int"
    ) as stopped:
        course.catch_up()
    assert str(stopped.value).startswith(edge.file)
    assert course.between(after, end) == [{"id": "2", "a": "10", "b": "20", "d": "30", "c": "40"}]


def test_an_alter_that_the_binlog_does_not_show_stops(course: Course) -> None:
    course.run(
        "SET sql_log_bin = 0",
        "ALTER TABLE t ADD c INT",
        "SET sql_log_bin = 1",
        "INSERT INTO t VALUES (1, 10, 20, 30)",
    )
    with pytest.raises(
        UnreadableEvent,
        match=r"the row has 4 columns .* has 3: .* sql_log_bin=0, delete memory/.*\.t$",
    ):
        course.catch_up()


def test_a_part_of_the_binlog_that_was_passed_over_is_followed_too(course: Course) -> None:
    course.run("INSERT INTO t VALUES (1, 10, 20)", SWAPS[0])
    edge = course.run("FLUSH BINARY LOGS")
    course.run("INSERT INTO t VALUES (2, 30, 40)")
    end = course.run("ALTER TABLE t ADD c INT")
    assert course.between(edge, end) == [SWAPPED]


def test_with_full_metadata_nothing_is_stored(source: Database, course: Course) -> None:
    course.entries.clear()
    with global_variable(source, "binlog_row_metadata", "FULL"):
        start = position(course.cursor)
        end = course.run(SWAPS[0], "INSERT INTO t VALUES (2, 30, 40)")
        assert course.between(start, end) == [SWAPPED]
    assert course.entries == {}


UUID = "123e4567-e89b-12d3-a456-426655440000"
BYTES = "\x12>Egè\x9b\x12Ó¤VBfUD\0\0"


@pytest.fixture
def open_course(source: Database, course: Course, *, is_mariadb: bool) -> Iterator[Course]:
    """The server sends full metadata, and there is a table `own` (id, u, b) with a type that
    these leave open. The history is empty."""
    if not is_mariadb:
        pytest.skip("types of MariaDB")
    course.entries.clear()
    with global_variable(source, "binlog_row_metadata", "FULL"):
        course.run("CREATE TABLE own (id INT PRIMARY KEY, u UUID, b BINARY(16))")
        course.start = course.read_to = position(course.cursor)
        course.run(
            f"INSERT INTO own VALUES (1, '{UUID}', x'{UUID.replace('-', '')}')",
            "INSERT INTO t VALUES (1, 10, 20)",
        )
        yield course


@pytest.mark.parametrize("is_lagging", [False, True], ids=["live", "lagging"])
def test_types_that_full_metadata_leave_open_are_those_of_the_place(
    open_course: Course, *, is_lagging: bool
) -> None:
    course = open_course
    rows = course.catch_up()
    assert rows == [{"id": "1", "u": UUID, "b": BYTES}, BEFORE]
    assert sorted(course.entries) == [FOLLOWED, f"{course.task.task_id}.own"]
    for ddl in (
        "ALTER TABLE own ADD c INT FIRST",
        "ALTER TABLE own RENAME COLUMN u TO b, RENAME COLUMN b TO u",
        "ALTER TABLE own MODIFY b BINARY(16), MODIFY u UUID",
        "ALTER TABLE t ADD u UUID",
        "ALTER TABLE own DROP u",
    ):
        course.run(ddl, "UPDATE own SET id = id + 1")
        rows += [] if is_lagging else course.catch_up()
    rows += course.catch_up()
    assert rows[2:] == [
        {"c": None, "id": "2", "u": UUID, "b": BYTES},
        {"c": None, "id": "3", "b": UUID, "u": BYTES},
        {"c": None, "id": "4", "b": BYTES, "u": UUID},
        {"c": None, "id": "5", "b": BYTES, "u": UUID},
        {"c": None, "id": "6", "b": BYTES},
    ]
    assert course.between(course.start, course.read_to) == rows


def test_types_that_are_left_open_need_no_history_where_only_other_columns_were_altered(
    open_course: Course,
) -> None:
    made = "CREATE TABLE own (id INT PRIMARY KEY, u UUID, b BINARY(16))"
    open_course.read_to = open_course.run(
        "DROP TABLE own", "SET sql_log_bin = 0", made, "SET sql_log_bin = 1"
    )
    open_course.run(
        "INSERT INTO own VALUES (1, NULL, NULL)",
        "ALTER TABLE own ADD c INT FIRST",
        "ALTER TABLE own DROP b, ADD INDEX (u)",
    )
    with pytest.raises(
        UnreadableEvent,
        match=r"table \w+\.own: the types of u, b at .* are not known.*GRANT SELECT, or start "
        r"after the last DDL",
    ):
        open_course.catch_up()
    open_course.read_to = open_course.run("INSERT INTO own VALUES (5, 2, NULL)")
    open_course.run(
        f"INSERT INTO own VALUES (5, 3, '{UUID}')",
        "ALTER TABLE own ADD d INT",
        "ALTER TABLE own RENAME COLUMN d TO e",
    )
    assert open_course.catch_up() == [{"c": "5", "id": "3", "u": UUID}]


def test_types_that_are_left_open_are_told_by_the_text_that_made_the_table(
    open_course: Course,
) -> None:
    open_course.run("ALTER TABLE own ADD c INT FIRST", "ALTER TABLE own DROP b, ADD INDEX (u)")
    assert open_course.catch_up() == [{"id": "1", "u": UUID, "b": BYTES}, BEFORE]


def test_a_history_of_open_types_becomes_whole_when_the_server_says_less(
    source: Database, open_course: Course
) -> None:
    open_course.catch_up()
    with global_variable(source, "binlog_row_metadata", "NO_LOG"):
        open_course.run(
            "INSERT INTO t VALUES (2, 30, 40)", "INSERT INTO own VALUES (2, NULL, NULL)"
        )
        rows: list[dict[str, str | None]] = [
            {"id": "2", "a": "30", "b": "40"},
            {"id": "2", "u": None, "b": None},
        ]
        assert open_course.catch_up() == rows
    assert f"{open_course.task.task_id}.t" in open_course.entries


def test_taking_many_tables_can_be_given_up(
    course: Course, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reader gets empty batches meanwhile; nothing is stored before all tables are known."""
    monkeypatch.setattr("cdcbus.producer.schema.history.TABLES_AT_ONCE", 1)
    course.run("CREATE TABLE u LIKE t", "CREATE TABLE v LIKE t")
    start = course.run("CREATE TABLE w LIKE t")
    course.entries.clear()
    with BinlogSource(course.task, MemorySchemas(course.entries)) as source:
        batches = source.batches(source.locate(start))
        for _ in range(4):
            assert next(batches) == Batch([], None, [])
        assert course.entries == {}
        next(batches)
        assert len(course.entries) == 5


def test_a_history_of_another_server_is_read_anew(course: Course) -> None:
    followed = json.loads(course.entries[FOLLOWED])
    course.entries[FOLLOWED] = json.dumps({**followed, "server": "another"})
    course.run(SWAPS[0])
    course.read_to = course.run("DO 1")
    course.run("INSERT INTO t VALUES (2, 30, 40)")
    assert course.catch_up() == [SWAPPED]
    assert json.loads(course.entries[FOLLOWED])["server"] == followed["server"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"table":["x","t"],"versions":[]}',
        '{"table":["x","y"],"versions":[{"columns":[["a"]]}]}',
    ],
)
def test_a_damaged_entry_is_said(course: Course, name: str, text: str) -> None:
    course.entries[f"{name}.t"] = text
    course.run("INSERT INTO t VALUES (1, 10, 20)")
    with pytest.raises(
        UnusableHistory, match=rf"memory/{name}\.t is not the schema history .* delete this node"
    ):
        course.catch_up()
    del course.entries[f"{name}.t"]
    course.read_to = position(course.cursor)
    course.run("INSERT INTO t VALUES (2, 10, 20)")
    assert course.catch_up() == [{"id": "2", "a": "10", "b": "20"}]


def test_a_running_task_goes_back_to_an_older_position(
    course: Course,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    source: Database,
    positions: PositionStore,
    store: Callable[[str], None],
    zookeeper_client: KazooClient,
) -> None:
    """As an operator sets it with zkCli, also one in front of a swap."""
    make_topic(name)
    start = position(course.cursor)
    store(start.to_json())
    schemas = ZooKeeperSchemas(zookeeper_client, name, name)

    def data() -> list[dict[str, str]]:
        return [record["data"][0] for record in canal(kafka, name)]

    running = Running(fetch_task(source, name, servers=kafka), positions)
    running.schemas = schemas
    with running:
        running.until_stored(course.run("INSERT INTO t VALUES (1, 10, 20)"))
        running.until_stored(course.run(SWAPS[0], "INSERT INTO t VALUES (2, 30, 40)"))
        store(start.to_json())
        running.until(lambda: len(data()) >= 4)
        running.until_stored(position(course.cursor))
    assert data() == [BEFORE, SWAPPED, BEFORE, SWAPPED]
    assert f"{name}.t" in schemas.load()


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


def essence(table: TableSchema) -> object:
    """What rows show of a table: a type's display width is not in it."""

    def type_(text: str, data_type: str) -> str:
        if data_type in ("enum", "set", "decimal"):
            return text
        return data_type + " unsigned" * ("unsigned" in text)

    columns = [
        (c.name, type_(c.type, c.data_type), c.charset.replace("utf8mb3", "utf8"), c.is_nullable)
        for c in table.columns
    ]
    return columns, shown(table).partition(" key ")[2], table.charset


TYPES = [
    "INT",
    "INT UNSIGNED",
    "BIGINT",
    "VARCHAR(20)",
    "ENUM('1','2','3')",
    "VARCHAR(9) CHARACTER SET latin1",
]
numbers = st.integers(0, 5)
types, places = st.sampled_from(TYPES), st.sampled_from(["", " FIRST", " AFTER {0}"])
ALTERS = st.one_of(
    st.builds("ALTER TABLE t ADD n{{n}} {}{}".format, types, places),
    st.builds("ALTER TABLE t ADD n{{n}} {}, DROP {{1}}".format, types),
    st.builds(
        "ALTER TABLE t MODIFY {{0}} {}{}".format,
        types,
        st.sampled_from(["", " FIRST", " AFTER {1}"]),
    ),
    st.builds(
        "ALTER TABLE t CHANGE {{0}} n{{n}} {}{}".format,
        types,
        st.sampled_from(["", " FIRST", " AFTER {1}"]),
    ),
    st.sampled_from(
        [
            "ALTER TABLE t DROP {0}",
            "ALTER TABLE t RENAME COLUMN {0} TO {1}, RENAME COLUMN {1} TO {0}",
            "ALTER TABLE t RENAME COLUMN {0} TO n{n}",
            "ALTER TABLE t CONVERT TO CHARACTER SET latin1",
            "ALTER TABLE t ADD UNIQUE INDEX u{n} ({0})",
            "ALTER TABLE t DROP PRIMARY KEY",
            "ALTER TABLE t ADD INDEX ({0}), COMMENT 'x'",
            "CREATE TABLE IF NOT EXISTS t (q INT)",
            "CREATE TABLE u LIKE t",
            "RENAME TABLE t TO v, u TO t, v TO u",
            "DROP TABLE u",
        ]
    ),
)
STEPS = st.lists(st.tuples(ALTERS, numbers, numbers, st.booleans()), min_size=2, max_size=7)


@given(steps=STEPS)
@settings(
    max_examples=10,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_rows_are_decoded_as_with_full_metadata(
    steps: list[tuple[str, int, int, bool]],
    source: Database,
    source_cursor: Cursor,
    name: str,
    *,
    is_mariadb: bool,
) -> None:
    """Random DDL with a row after each; the reader starts anew at random moments, and at the end
    once more from the beginning. More than 20 s: ten examples of many statements, each with readers
    of its own."""

    def fresh() -> None:
        source_cursor.execute(f"DROP DATABASE {name}")
        source_cursor.execute(f"CREATE DATABASE {name} CHARACTER SET utf8mb4")
        source_cursor.execute(f"USE {name}")
        source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, c VARCHAR(10))")

    task = fetch_task(source, name)
    statements: list[tuple[str, bool]] = []

    def execute(sql: str, is_read: bool) -> None:
        with suppress(pymysql.MySQLError):  # not every one is possible
            source_cursor.execute(sql)
            statements.append((sql, is_read))

    fresh()
    with global_variable(source, "binlog_row_metadata", "FULL"):
        start = position(source_cursor)
        for number, (ddl, first, second, is_read) in enumerate(steps):
            execute(ddl.format(*pick(source_cursor, first, second), n=number), is_read)
            execute(insert(source_cursor), is_read)
        expected = read(task, start, position(source_cursor))
    fresh()
    with global_variable(source, "binlog_row_metadata", "NO_LOG" if is_mariadb else "MINIMAL"):
        start = position(source_cursor)
        source_cursor.execute("CREATE TABLE other (a INT)")
        at = position(source_cursor)
        entries: dict[str, str] = {}
        found = read(task, start, at, MemorySchemas(entries))
        for sql, is_read in statements:
            source_cursor.execute(sql)
            if is_read:
                end = position(source_cursor)
                found += read(task, at, end, MemorySchemas(entries))
                at = end
        end = position(source_cursor)
        found += read(task, at, end, MemorySchemas(entries))
        again = read(task, start, end, MemorySchemas(entries))
    assert [plain(change) for change in found] == [plain(change) for change in expected]
    assert [plain(change) for change in again] == [plain(change) for change in expected]


def pick(cursor: Cursor, first: int, second: int) -> tuple[str, str]:
    """Two columns of `t`."""
    names = columns(cursor)
    return names[first % len(names)], names[second % len(names)]


def columns(cursor: Cursor, table: str = "t") -> list[str]:
    cursor.execute(
        "SELECT column_name FROM information_schema.columns WHERE table_schema = DATABASE() AND "
        "table_name = %s ORDER BY ordinal_position",
        (table,),
    )
    return [row[0] for row in cursor.fetchall()]


def insert(cursor: Cursor) -> str:
    """A row with another value in each column."""
    cursor.execute("SELECT COUNT(*) FROM t")
    first = cursor.fetchall()[0][0] + 1
    return "REPLACE INTO t VALUES ({})".format(
        ", ".join(f"'{(first + i) % 3 + 1}'" for i, _ in enumerate(columns(cursor)))
    )


def plain(change: RowChange) -> object:
    """All but where it comes from, and what least metadata does not tell."""
    return (
        change.table.id.table,
        change.table.key,
        [column.name for column in change.table.columns],
        change.op,
        change.before,
        change.after,
    )
