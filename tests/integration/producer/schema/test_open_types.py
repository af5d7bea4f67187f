"""Types that full metadata leaves open, such as MariaDB's UUID, are those of the place."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.producer.schema.history_codec import FOLLOWED
from tests.integration.producer.reading import global_variable, position
from tests.integration.producer.schema.course import BEFORE, Course

pytestmark = [pytest.mark.integration, pytest.mark.source]


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
