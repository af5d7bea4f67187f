"""Random tables and rows: what the binlog gives is what SELECT shows. The database is the oracle.

CDCBUS_TEST_EXAMPLES makes it try more tables than a test run has time for.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.rowchange import Cell, Op, Row, RowChange
from tests.integration.producer.kinds import Kind, kinds
from tests.integration.producer.reading import connect, fetch_task, position, read

pytestmark = [pytest.mark.integration, pytest.mark.source]

EXAMPLES_GIVEN = os.environ.get("CDCBUS_TEST_EXAMPLES", "")
EXAMPLES = int(EXAMPLES_GIVEN or "60")
PHASES = [Phase.generate, *([Phase.shrink] if EXAMPLES_GIVEN else [])]  # making a found example small takes minutes
BOUNDED = settings(deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES, database=None)
ZONES = st.sampled_from(["+00:00", "+08:00", "-11:30", "+05:45"])
NAMES = st.sampled_from(["a", "B", "select", "a b", "größe", "漢字", "x-y", 'q"', "back`tick", "percent%s"])
Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Example:
    """A table of columns by name; the rows put in; what each becomes; the session's time zone."""

    columns: Mapping[str, Kind]
    rows: Sequence[Values]
    updated: Sequence[Values]
    time_zone: str


@st.composite
def examples(draw: st.DrawFn, has_json: bool) -> Example:
    names = draw(st.lists(NAMES | st.integers(0, 99).map("c{}".format), min_size=1, max_size=12, unique_by=str.lower))
    columns = {name: draw(kinds(has_json=has_json)) for name in names}
    row = st.tuples(*(st.none() | kind.values for kind in columns.values())).map(lambda values: dict(zip(columns, values, strict=True)))
    rows = draw(st.lists(row, min_size=1, max_size=4))
    return Example(columns, rows, [draw(row) for _ in rows], draw(ZONES))


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


class Play:
    """Plays an example in a table of its own, and notes what SELECT shows after each step."""

    def __init__(self, cursor: Cursor, example: Example) -> None:
        self._cursor, self._example = cursor, example
        self.table = "t" + uuid.uuid4().hex[:8]
        declared = "".join(f", {quoted(name)} {kind.ddl}" for name, kind in example.columns.items())
        cursor.execute(f"CREATE TABLE {self.table} (id INT PRIMARY KEY{declared})")
        cursor.execute(f"SET time_zone = '{example.time_zone}'")
        for number, row in enumerate(example.rows):
            cursor.execute(f"INSERT INTO {self.table} VALUES (%s{', %s' * len(row)})", (number, *row.values()))
        self.inserted = self._shown()
        changes = ", ".join(f"{quoted(name).replace('%', '%%')} = %s" for name in example.columns)
        for number, row in enumerate(example.updated):
            cursor.execute(f"UPDATE {self.table} SET {changes} WHERE id = %s", (*row.values(), number))
        self.updated = self._shown()
        cursor.execute(f"DELETE FROM {self.table}")

    def _shown(self) -> list[Values]:
        self._cursor.execute("SET time_zone = '+00:00'")
        shown = ", ".join(kind.select.format(quoted(name)) for name, kind in self._example.columns.items())
        self._cursor.execute(f"SELECT {shown} FROM {self.table} ORDER BY id")
        rows = [dict(zip(self._example.columns, row, strict=True)) for row in self._cursor.fetchall()]
        self._cursor.execute(f"SET time_zone = '{self._example.time_zone}'")
        return rows

    def check(self, changes: Sequence[RowChange]) -> None:
        """An update that changes nothing leaves no trace in the binlog."""
        assert {change.table.id.table for change in changes} == {self.table}
        assert {change.table.key for change in changes} == {("id",)}
        assert [column.name for column in changes[0].table.columns] == ["id", *self._example.columns]
        by_op = {op: {self._number(change): change for change in changes if change.op is op} for op in Op}
        assert len(changes) == sum(map(len, by_op.values()))
        assert set(by_op[Op.INSERT]) == set(by_op[Op.DELETE]) == set(range(len(self.inserted)))
        for number, (first, second) in enumerate(zip(self.inserted, self.updated, strict=True)):
            self._same(by_op[Op.INSERT][number].after, first)
            self._same(by_op[Op.DELETE][number].before, second)
            if number in by_op[Op.UPDATE]:
                self._same(by_op[Op.UPDATE][number].before, first)
                self._same(by_op[Op.UPDATE][number].after, second)
            else:
                assert first == second

    @staticmethod
    def _number(change: RowChange) -> int:
        return int((change.after or change.before or {})["id"] or "")

    def _same(self, row: Row | None, shown: Values) -> None:
        assert row is not None
        assert list(row) == ["id", *shown]
        for name, value in shown.items():
            assert self._same_cell(row[name], value, self._example.columns[name]), (
                f"{self._example.columns[name].ddl}: {row[name]!r}, {value!r}"
            )

    @staticmethod
    def _same_cell(cell: Cell, shown: Any, kind: Kind) -> bool:
        return cell is None if shown is None else cell is not None and kind.is_same(cell, shown)


def play(source: Database, name: str, is_mariadb: bool, count: int) -> None:
    """Tries `count` random tables."""

    @settings(BOUNDED, max_examples=count)
    @given(examples(has_json=not is_mariadb))
    def holds(example: Example) -> None:
        with connect(source) as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_mode = ''")
            cursor.execute(f"USE {name}")
            start = position(cursor)
            played = Play(cursor, example)
            played.check(read(fetch_task(source, name), start, position(cursor)))

    holds()


@pytest.mark.usefixtures("full_metadata", "source_cursor")
def test_the_binlog_holds_what_select_shows(source: Database, name: str, is_mariadb: bool) -> None:
    play(source, name, is_mariadb, EXAMPLES)


@pytest.mark.usefixtures("least_metadata", "source_cursor")
def test_it_does_so_too_when_the_server_says_little_about_its_tables(source: Database, name: str, is_mariadb: bool) -> None:
    play(source, name, is_mariadb, EXAMPLES // 2)
