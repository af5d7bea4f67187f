"""Random tables and rows: what a comparison selects of the source is what the binlog gives."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given, settings
from pymysql.cursors import Cursor, SSCursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.schema.schema_reader import SchemaReader
from cdcbus.tasks.verify.sides import open_source
from cdcbus.tasks.verify.sql.source_cells import reading, selected
from tests.integration.producer.decoding.test_round_trip import (
    BOUNDED,
    Example,
    examples,
    quoted,
)
from tests.integration.producer.reading import connect, fetch_task, position, read

pytestmark = [
    pytest.mark.integration,
    pytest.mark.source,
    # an example that fails may be long
    pytest.mark.filterwarnings("ignore::hypothesis.errors.HypothesisWarning"),
]
EXAMPLES = 60


@pytest.mark.usefixtures("source_cursor")
def test_what_is_selected_is_what_the_binlog_holds(source: Database, name: str) -> None:
    with connect(source) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        [(version,)] = cursor.fetchall()
    is_mariadb = "mariadb" in version.lower()

    @settings(BOUNDED, max_examples=EXAMPLES)
    @given(examples(is_mariadb, is_mariadb))
    def holds(example: Example) -> None:
        task = fetch_task(source, name)
        with connect(source) as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_mode = ''")
            cursor.execute(f"USE {name}")
            start = position(cursor)
            table = make(cursor, example)
            changes = read(task, start, position(cursor))
        with open_source(task.source) as connection:
            schema, _ = SchemaReader(connection).read(TableId(name, table))
            assert schema is not None
            picked = [selected(column, quoted(column.name)) for column in schema.columns]
            sql = f"SELECT {', '.join(sql for sql, _ in picked)} FROM {name}.{table} ORDER BY id"
            with SSCursor(connection) as rows:
                rows.execute(sql)
                found = list(map(reading([read for _, read in picked]), rows))
        for row, change in zip(found, changes, strict=True):
            for column, cell, binlog in zip(
                schema.columns, row, (change.after or {}).values(), strict=True
            ):
                assert cell == binlog, f"{column}: {str(cell)[:99]!r}, {str(binlog)[:99]!r}"

    holds()


def make(cursor: Cursor, example: Example) -> str:
    """A table with the example's rows; its name."""
    table = "t" + uuid.uuid4().hex[:8]
    declared = "".join(f", {quoted(name)} {kind.ddl}" for name, kind in example.columns.items())
    cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY{declared})")
    cursor.execute(f"SET time_zone = '{example.time_zone}'")
    for number, row in enumerate(example.rows):
        cells = (number, *row.values())
        cursor.execute(f"INSERT INTO {table} VALUES (%s{', %s' * len(row)})", cells)
    return table
