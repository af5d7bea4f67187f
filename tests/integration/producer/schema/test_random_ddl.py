"""Rows between random statements are decoded as with the server's full metadata."""

from __future__ import annotations

from contextlib import suppress

import pymysql
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.rowchange import RowChange
from cdcbus.producer.schema.table_versions import MemorySchemas
from tests.integration.producer.reading import fetch_task, global_variable, position, read
from tests.integration.producer.schema.course import columns

pytestmark = [pytest.mark.integration, pytest.mark.source]


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
