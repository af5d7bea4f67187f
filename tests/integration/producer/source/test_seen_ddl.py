"""Which DDL of a real server is warned of, by the rows before it."""

from __future__ import annotations

from collections import deque

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.producer.config import FetchTask
from cdcbus.producer.source.seen_ddl import SeenDdl
from tests.integration.producer.reading import fetch_task, position, read_batches

pytestmark = [pytest.mark.integration, pytest.mark.source]

CREATED = (
    "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, name VARCHAR(20) NOT NULL, "
    "price DECIMAL(9,2), made DATETIME, kind ENUM('a','é'), note TEXT, raw VARBINARY(20), "
    "odd VARCHAR(20) CHARACTER SET latin1, code BINARY(3), at_ TIMESTAMP NULL, "
    "number INT) CHARSET utf8mb4"
)


def warnings_of(
    action: str,
    task: FetchTask,
    cursor: Cursor,
    caplog: pytest.LogCaptureFixture,
    client: str = "utf8mb4",
) -> list[str]:
    """What is said of an ALTER TABLE behind a row."""
    caplog.clear()
    start = position(cursor)
    cursor.execute("SET sql_mode = 'STRICT_TRANS_TABLES'")
    cursor.execute(CREATED)
    cursor.execute("INSERT INTO t (name, code) VALUES ('ab', 'abc')")
    cursor.execute(f"SET NAMES {client}")
    cursor.execute(f"ALTER TABLE t {action}")
    cursor.execute("SET NAMES utf8mb4")
    ddl = SeenDdl(task, deque())
    for batch in read_batches(task, start, position(cursor)):
        ddl.take(batch)
    return [line for line in caplog.messages if f"{task.task_id}.t: DDL before " in line]


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
    source_cursor: Cursor,
    name: str,
    caplog: pytest.LogCaptureFixture,
    *,
    is_warned_of: bool,
) -> None:
    lines = warnings_of(action, fetch_task(source, name), source_cursor, caplog)
    assert len(lines) == is_warned_of


def test_what_a_server_does_to_rows_without_an_event_is_warned_of(
    source: Database,
    source_cursor: Cursor,
    name: str,
    caplog: pytest.LogCaptureFixture,
    *,
    is_mariadb: bool,
) -> None:
    actions = [
        "ADD since TIMESTAMP",
        "ADD x INT, DROP PRIMARY KEY, MODIFY id INT, ADD PRIMARY KEY (id, x)",
        "MODIFY id INT, DROP PRIMARY KEY, MODIFY number INT AUTO_INCREMENT, ADD KEY (number)",
    ]
    if is_mariadb:
        actions += ["MODIFY at_ TIMESTAMP NOT NULL", "ADD SYSTEM VERSIONING"]
    else:
        actions.append("ENGINE = BLACKHOLE")
    source_cursor.execute("SET explicit_defaults_for_timestamp = OFF")
    for action in actions:
        source_cursor.execute("DROP TABLE IF EXISTS t")
        lines = warnings_of(action, fetch_task(source, name), source_cursor, caplog)
        assert len(lines) == 1, action


@pytest.mark.parametrize(
    ("action", "is_warned_of"),
    [("ADD x INT NOT NULL DEFAULT 1 COMMENT '数量'", True), ("ADD x INT", False)],
)
def test_a_statement_of_bytes_that_may_be_any_characters_is_warned_of(
    action: str,
    source: Database,
    source_cursor: Cursor,
    name: str,
    caplog: pytest.LogCaptureFixture,
    *,
    is_warned_of: bool,
) -> None:
    lines = warnings_of(action, fetch_task(source, name), source_cursor, caplog, "binary")
    assert ["is not understood" in line for line in lines] == [True] * is_warned_of
