"""An ALTER that MariaDB logs when it starts and again when it ends counts where it has ended, if it
has not failed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from threading import Thread

import pymysql
import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.rowchange import TableDdl
from cdcbus.producer.config import DdlConfig
from cdcbus.producer.source.row_events import Batch
from tests.integration.producer.reading import connect, fetch_task, read_batches
from tests.integration.producer.schema.course import Course

pytestmark = [pytest.mark.integration, pytest.mark.source]

FAILS = "ALTER TABLE t MODIFY a INT UNSIGNED, ALGORITHM=COPY"
SWAP = "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a, FORCE"


@pytest.fixture
def course(source: Database, source_cursor: Cursor, name: str, least_metadata: None) -> Course:
    """Table `t` (id, a, b), which the task has seen, and a session whose ALTERs have two phases."""
    if not source_cursor.execute("SHOW VARIABLES LIKE 'binlog_alter_two_phase'"):
        pytest.skip("this server logs an ALTER once")
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
    course = Course(source_cursor, fetch_task(source, name))
    course.run("INSERT INTO t VALUES (0, -1, 1)", "SET SESSION binlog_alter_two_phase = ON")
    assert course.catch_up() == [{"id": "0", "a": "-1", "b": "1"}]
    return course


def fail(course: Course) -> None:
    with pytest.raises(pymysql.MySQLError, match="Out of range"):
        course.run(FAILS)


@pytest.mark.parametrize("is_lagging", [False, True], ids=["follows", "lags behind"])
def test_an_alter_that_fails_changes_nothing(course: Course, *, is_lagging: bool) -> None:
    fail(course)
    if not is_lagging:
        assert course.catch_up() == []
    course.run("INSERT INTO t VALUES (1, -10, 20)", SWAP, "INSERT INTO t VALUES (2, 30, -40)")
    assert course.catch_up() == [
        {"id": "1", "a": "-10", "b": "20"},
        {"id": "2", "b": "30", "a": "-40"},
    ]


def test_rows_written_while_a_table_is_altered_have_its_old_columns(
    source: Database, course: Course, name: str
) -> None:
    course.run(
        "SET sql_log_bin = 0",
        "INSERT INTO t SELECT seq, 0, 0 FROM seq_1_to_100000",
        "SET sql_log_bin = 1",
    )
    altering = Thread(target=course.run, args=(SWAP,))
    number = 100_000
    with connect(source) as connection, connection.cursor() as cursor:
        altering.start()
        while altering.is_alive():
            number += 1
            cursor.execute(f"INSERT INTO {name}.t (id, a, b) VALUES (%s, 1, -1)", (number,))
    altering.join()
    course.run("INSERT INTO t (id, a, b) VALUES (-1, 1, -1)")
    found = course.catch_up()
    assert len(found) == number - 100_000 + 1
    assert {(row["a"], row["b"]) for row in found} == {("1", "-1")}


def test_it_is_published_once_and_only_if_it_has_not_failed(course: Course) -> None:
    fail(course)
    end = course.run("ALTER TABLE t ADD c INT")
    task = replace(course.task, ddl=DdlConfig(definitions=True))
    batches = read_batches(task, course.read_to, end)
    assert [ddl.sql for ddl in published(batches)] == ["ALTER TABLE t ADD c INT"]


def published(batches: list[Batch]) -> Iterator[TableDdl]:
    for batch in batches:
        for part in (*batch.closed, *batch.opened):
            if isinstance(part, TableDdl):
                yield part
