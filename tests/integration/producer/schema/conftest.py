"""A course of DDL on the source."""

from __future__ import annotations

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from tests.integration.producer.reading import fetch_task
from tests.integration.producer.schema.course import Course


@pytest.fixture
def course(source: Database, source_cursor: Cursor, name: str, least_metadata: None) -> Course:
    """Table `t` (id, a, b), which the task has seen."""
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
    course = Course(source_cursor, fetch_task(source, name))
    course.run("INSERT INTO t VALUES (0, 0, 0)")
    assert course.catch_up() == [{"id": "0", "a": "0", "b": "0"}]
    return course
