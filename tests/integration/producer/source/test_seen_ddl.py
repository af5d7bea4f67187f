"""Which DDL of a real server is warned of, by the rows before it."""

from __future__ import annotations

from collections import deque

import pytest

from cdcbus.ops.stack.addresses import Database
from cdcbus.producer.source.seen_ddl import SeenDdl
from tests.integration.producer.reading import connect, fetch_task, position, read_batches

pytestmark = [pytest.mark.integration, pytest.mark.source]

CREATED = (
    "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20) NOT NULL, "
    "price DECIMAL(9,2), made DATETIME, kind ENUM('a','é'), note TEXT, raw VARBINARY(20), "
    "odd VARCHAR(20) CHARACTER SET latin1, code BINARY(3), at_ TIMESTAMP NULL) CHARSET utf8mb4"
)


@pytest.mark.parametrize(
    ("action", "is_warned_of"),
    [
        ("MODIFY id BIGINT AUTO_INCREMENT", False),
        ("MODIFY name VARCHAR(40) CHARACTER SET utf8mb4 NOT NULL DEFAULT 'x' COMMENT 'é'", False),
        ("MODIFY odd VARCHAR(40) CHARACTER SET utf8mb4 AFTER id", False),
        ("MODIFY price DECIMAL(12,4) NULL, CHANGE made MADE DATETIME(6)", False),
        ("MODIFY kind ENUM('a','é','b'), MODIFY note LONGTEXT, MODIFY at_ TIMESTAMP NULL", False),
        ("MODIFY raw VARBINARY(40), MODIFY code BINARY(3) NOT NULL DEFAULT 'abc'", False),
        ("MODIFY odd VARBINARY(40)", True),
        ("MODIFY raw VARCHAR(40)", True),
        ("MODIFY code BINARY(4)", True),
        ("MODIFY name CHAR(20)", True),
        ("MODIFY id VARCHAR(20)", True),
        ("CONVERT TO CHARACTER SET utf8mb3", True),
    ],
)
def test_a_new_type_is_warned_of_where_cells_may_be_others(
    action: str,
    source: Database,
    name: str,
    caplog: pytest.LogCaptureFixture,
    *,
    is_warned_of: bool,
) -> None:
    with connect(source) as connection, connection.cursor() as cursor:
        start = position(cursor)
        cursor.execute(f"CREATE DATABASE {name}")
        cursor.execute(f"USE {name}")
        cursor.execute("SET sql_mode = 'STRICT_TRANS_TABLES'")
        cursor.execute(CREATED)
        cursor.execute("INSERT INTO t (name, code) VALUES ('ab', 'abc')")
        cursor.execute(f"ALTER TABLE t {action}")
        end = position(cursor)
        task = fetch_task(source, name)
        ddl = SeenDdl(task, deque())
        for batch in read_batches(task, start, end):
            ddl.take(batch)
        cursor.execute(f"DROP DATABASE {name}")
    lines = [line for line in caplog.messages if line.startswith(f"{name}.t: DDL before ")]
    assert len(lines) == is_warned_of
