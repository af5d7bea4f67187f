"""Tables and operations that a fetch task leaves out, on a real server."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.contracts import PositionStore
from cdcbus.plugins.rowchange import Op
from cdcbus.producer.config import FilterConfig
from tests.integration.producer.reading import fetch_task, position
from tests.integration.producer.running import Running, canal

pytestmark = [pytest.mark.integration, pytest.mark.source]


def test_an_archive_keeps_deleted_rows_and_never_has_those_of_tables_on_the_black_list(
    source: Database,
    source_cursor: Cursor,
    kafka: str,
    name: str,
    make_topic: Callable[..., str],
    positions: PositionStore,
) -> None:
    make_topic(name)
    for table in ("kept", "tmp_1"):
        source_cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY, v INT)")
    positions.save(position(source_cursor).to_json())
    source_cursor.execute("BEGIN")
    for statement in (
        "DELETE FROM kept",
        "INSERT INTO kept VALUES (1, 1), (2, 2)",
        "INSERT INTO tmp_1 VALUES (1, 1)",
        "UPDATE kept SET v = 3 WHERE id = 1",
        "UPDATE kept SET id = 4 WHERE id = 2",
        "DELETE FROM kept WHERE id = 1",
    ):
        source_cursor.execute(statement)
    source_cursor.execute("COMMIT")
    tables = FilterConfig((rf"{name}\..*",), black_regexes=(r".*\.TMP_.*",))
    task = fetch_task(source, name, servers=kafka, tables=tables)
    with Running(replace(task, left_out=frozenset((Op.DELETE,))), positions) as running:
        running.until_stored(position(source_cursor))
    assert [
        (record["type"], record["table"], record["data"][0]["id"], record["row"], record["txLast"])
        for record in canal(kafka, name)
    ] == [
        ("INSERT", "kept", "1", 0, False),
        ("INSERT", "kept", "2", 1, False),
        ("UPDATE", "kept", "1", 2, False),
        ("DELETE", "kept", "2", 3, False),
        ("INSERT", "kept", "4", 3, True),
    ]
