"""Tables that are renamed into the filter bring the columns that they had outside of it, also
where more DDL followed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.producer.config import FilterConfig
from tests.integration.producer.reading import fetch_task
from tests.integration.producer.schema.course import Course

pytestmark = [pytest.mark.integration, pytest.mark.source]

BEFORE = {"id": "1", "a": "10", "b": "20"}


@pytest.fixture
def other(source_cursor: Cursor, name: str) -> Iterator[str]:
    """A schema that no filter lets in."""
    schema = f"{name}_other"
    source_cursor.execute(f"CREATE DATABASE {schema} CHARACTER SET utf8mb4")
    yield schema
    source_cursor.execute(f"DROP DATABASE {schema}")


@pytest.fixture
def course(source: Database, source_cursor: Cursor, name: str, least_metadata: None) -> Course:
    """Table `t` (id, a, b), the only one that the task reads, which it has seen."""
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
    course = Course(
        source_cursor,
        fetch_task(source, name, tables=FilterConfig(includes=frozenset({f"{name}.T".upper()}))),
    )
    course.run("INSERT INTO t VALUES (0, 0, 0)")
    assert course.catch_up() == [{"id": "0", "a": "0", "b": "0"}]
    return course


def row(columns: str, *values: int) -> dict[str, str | None]:
    return dict(zip(columns.split(","), map(str, values), strict=True))


GHOSTS = {
    "LIKE": (
        "CREATE TABLE built LIKE t",
        "ALTER TABLE built RENAME COLUMN a TO b, RENAME COLUMN b TO a",
    ),
    "its text": ("CREATE TABLE built (id INT PRIMARY KEY, b INT, a INT)",),
    "another schema": (
        "CREATE TABLE {other}.x (id INT PRIMARY KEY, a INT, b INT)",
        "ALTER TABLE {other}.x RENAME COLUMN a TO b, RENAME COLUMN b TO a",
        "RENAME TABLE {other}.x TO {other}.y",
        "ALTER TABLE {other}.y RENAME TO built",
    ),
}


@pytest.mark.parametrize("is_fresh", [False, True], ids=["a restart", "a first start"])
@pytest.mark.parametrize("is_seen", [False, True], ids=["all behind", "built while the task ran"])
@pytest.mark.parametrize("ghost", GHOSTS)
def test_a_table_that_was_swapped_in_and_altered_before_the_task_came_there(
    course: Course, other: str, ghost: str, *, is_seen: bool, is_fresh: bool
) -> None:
    course.run("INSERT INTO t VALUES (1, 10, 20)")
    course.run(
        *(sql.format(other=other) for sql in GHOSTS[ghost]), "INSERT INTO built VALUES (8, 0, 0)"
    )
    if is_seen:
        assert course.catch_up() == [BEFORE]
    course.run(
        "RENAME TABLE t TO gone, built TO t",
        "INSERT INTO t VALUES (2, 30, 40)",
        "ALTER TABLE t ADD c INT FIRST",
        "INSERT INTO t VALUES (5, 3, 30, 40)",
        "ALTER TABLE t DROP a",
        "INSERT INTO t VALUES (6, 4, 30)",
        "DROP TABLE gone",
    )
    if is_fresh:
        course.entries.clear()
    after = [row("id,b,a", 2, 30, 40), row("c,id,b,a", 5, 3, 30, 40), row("c,id,b", 6, 4, 30)]
    assert course.catch_up() == [*([] if is_seen else [BEFORE]), *after]
    assert course.between(course.start, course.read_to)[-3:] == after


def test_a_table_of_another_schema_that_is_older_than_the_history(
    course: Course, other: str
) -> None:
    course.run("DROP TABLE t", f"CREATE TABLE {other}.t (id INT PRIMARY KEY, s ENUM('x', 'y'))")
    course.entries.clear()
    course.read_to = course.run(
        "FLUSH BINARY LOGS",
        "FLUSH BINARY LOGS",
        "FLUSH BINARY LOGS",
        f"CREATE TABLE {other}.y (id INT)",
    )
    course.run(f"DROP TABLE {other}.y")
    assert course.catch_up() == []
    course.run(
        f"RENAME TABLE {other}.t TO t",
        "INSERT INTO t VALUES (1, 'y')",
        "ALTER TABLE t ADD b INT",
        "INSERT INTO t VALUES (2, 'x', 3)",
    )
    assert course.catch_up() == [{"id": "1", "s": "y"}, {"id": "2", "s": "x", "b": "3"}]


def test_a_table_that_came_in_for_a_while(course: Course, other: str) -> None:
    """What it was like is asked of it under the name that it has now; or, where it was altered
    there, its text tells."""
    for altered in ("DO 1", f"ALTER TABLE {other}.x ADD c INT FIRST", f"DROP TABLE {other}.x"):
        course.run(
            f"CREATE TABLE {other}.x (id INT PRIMARY KEY, b INT, a INT)",
            f"RENAME TABLE t TO {other}.t, {other}.x TO t",
        )
        course.run(
            "INSERT INTO t VALUES (2, 30, 40)",
            f"RENAME TABLE t TO {other}.x, {other}.t TO t",
            altered,
        )
        assert course.catch_up() == [row("id,b,a", 2, 30, 40)]
        course.run(f"DROP TABLE IF EXISTS {other}.x")


def test_a_table_that_came_in_for_a_while_is_asked_under_the_name_that_it_has_now(
    course: Course, other: str
) -> None:
    """No text tells of it: it was made where the binlog does not show it."""
    course.run(
        "SET sql_log_bin = 0",
        f"CREATE TABLE {other}.x (id INT PRIMARY KEY, b INT, a INT)",
        "SET sql_log_bin = 1",
    )
    course.run(f"RENAME TABLE t TO {other}.t, {other}.x TO t", "INSERT INTO t VALUES (2, 30, 40)")
    course.run(
        f"RENAME TABLE t TO {other}.x, {other}.t TO t",
        f"ALTER TABLE {other}.x RENAME {other}.z",
        "INSERT INTO t VALUES (3, 4, 5)",
    )
    assert course.catch_up() == [row("id,b,a", 2, 30, 40), row("id,a,b", 3, 4, 5)]


UNREAD = {
    "made where the binlog does not show it": (
        "SET sql_log_bin = 0",
        "CREATE TABLE {0} (id INT PRIMARY KEY, b INT, a INT)",
        "SET sql_log_bin = 1",
    ),
    "altered in a way that is not understood": (
        "CREATE TABLE {0} (id INT PRIMARY KEY)",
        "ALTER TABLE {0} ADD b INT, ADD a INT, ORDER BY id, id",
    ),
}


@pytest.mark.parametrize("unread", UNREAD)
def test_a_table_that_nothing_tells_of_stops_at_its_rows(
    course: Course, other: str, unread: str
) -> None:
    course.run(*(sql.format(f"{other}.x") for sql in UNREAD[unread]))
    course.read_to = course.run(f"RENAME TABLE t TO {other}.gone, {other}.x TO t")
    course.run("INSERT INTO t VALUES (2, 30, 40)", "ALTER TABLE t DROP a")
    with pytest.raises(
        UnreadableEvent,
        match=r"the row has 3 columns .* the table now has 2: .*that does not show the columns",
    ):
        course.catch_up()
    course.read_to = course.run("DO 1")
    course.run("INSERT INTO t VALUES (4, 30)")
    assert course.catch_up() == [row("id,b", 4, 30)]


def test_a_schema_that_was_made_again_says_nothing_of_the_one_before_it(
    source: Database, course: Course, other: str, name: str, *, is_mariadb: bool
) -> None:
    """Its default character set is not that of the tables that were made in it before."""
    course.task = fetch_task(source, name, tables=FilterConfig(regexes=(rf"{other}\..*",)))
    course.run(
        f"CREATE TABLE {other}.u (id INT PRIMARY KEY, s VARCHAR(9))",
        f"INSERT INTO {other}.u VALUES (1, 'ä')",
    )
    course.run(f"DROP DATABASE {other}", f"CREATE DATABASE {other} CHARACTER SET latin1")
    with pytest.raises(UnreadableEvent, match="the table now does not exist"):
        course.catch_up()
