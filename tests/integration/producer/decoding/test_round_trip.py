"""Random tables and rows: what the binlog gives is what SELECT shows. The database is the oracle.

CDCBUS_TEST_EXAMPLES makes it try more tables than a test run has time for.
"""

from __future__ import annotations

import json
import os
import random
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pymysql.cursors import Cursor
from pymysqlreplication.constants import FIELD_TYPE

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.rowchange import Cell, Op, Row, RowChange
from cdcbus.producer.decoding.column_types import BinlogColumn, reader
from tests.integration.producer.kinds import Kind, kinds
from tests.integration.producer.reading import connect, fetch_task, global_variable, position, read

pytestmark = [pytest.mark.integration, pytest.mark.source]

EXAMPLES_GIVEN = os.environ.get("CDCBUS_TEST_EXAMPLES", "")
EXAMPLES = int(EXAMPLES_GIVEN or "60")
# making a found example small takes minutes
PHASES = [Phase.generate, *([Phase.shrink] if EXAMPLES_GIVEN else [])]
BOUNDED = settings(
    deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES, database=None
)
ZONES = st.sampled_from(["+00:00", "+08:00", "-11:30", "+05:45"])
NAMES = st.sampled_from(
    ["a", "B", "select", "a b", "größe", "漢字", "x-y", 'q"', "back`tick", "percent%s"]
)
Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Example:
    """A table of columns by name; the rows put in; what each becomes; the session's time zone."""

    columns: Mapping[str, Kind]
    rows: Sequence[Values]
    updated: Sequence[Values]
    time_zone: str


@st.composite
def examples(draw: st.DrawFn, is_mariadb: bool, has_compressed: bool) -> Example:
    names = draw(
        st.lists(
            NAMES | st.integers(0, 99).map("c{}".format),
            min_size=1,
            max_size=12,
            unique_by=str.lower,
        )
    )
    columns = {
        name: draw(kinds(is_mariadb=is_mariadb, has_compressed=has_compressed)) for name in names
    }
    row = st.tuples(*(st.none() | kind.values for kind in columns.values())).map(
        lambda values: dict(zip(columns, values, strict=True))
    )
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
            cursor.execute(
                f"INSERT INTO {self.table} VALUES (%s{', %s' * len(row)})", (number, *row.values())
            )
        self.inserted = self._shown()
        changes = ", ".join(f"{quoted(name).replace('%', '%%')} = %s" for name in example.columns)
        for number, row in enumerate(example.updated):
            cursor.execute(
                f"UPDATE {self.table} SET {changes} WHERE id = %s", (*row.values(), number)
            )
        self.updated = self._shown()
        cursor.execute(f"DELETE FROM {self.table}")

    def _shown(self) -> list[Values]:
        self._cursor.execute("SET time_zone = '+00:00'")
        shown = ", ".join(
            kind.select.format(quoted(name)) for name, kind in self._example.columns.items()
        )
        self._cursor.execute(f"SELECT {shown} FROM {self.table} ORDER BY id")
        rows = [
            dict(zip(self._example.columns, row, strict=True)) for row in self._cursor.fetchall()
        ]
        self._cursor.execute(f"SET time_zone = '{self._example.time_zone}'")
        return rows

    def check(self, changes: Sequence[RowChange]) -> None:
        """An update that changes nothing leaves no trace in the binlog."""
        assert {change.table.id.table for change in changes} == {self.table}
        assert {change.table.key for change in changes} == {("id",)}
        assert [column.name for column in changes[0].table.columns] == [
            "id",
            *self._example.columns,
        ]
        by_op: dict[Op, dict[int, RowChange]] = {op: {} for op in Op}
        for change in changes:
            by_op[change.op][self._number(change)] = change
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


def play(
    source: Database, name: str, is_mariadb: bool, count: int, *, has_compressed: bool = False
) -> None:
    """Tries `count` random tables."""

    @settings(BOUNDED, max_examples=count)
    @given(examples(is_mariadb, has_compressed))
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
    play(source, name, is_mariadb, EXAMPLES, has_compressed=is_mariadb)


@pytest.mark.usefixtures("least_metadata", "source_cursor")
def test_it_does_so_too_when_the_server_says_little_about_its_tables(
    source: Database, name: str, is_mariadb: bool
) -> None:
    play(source, name, is_mariadb, EXAMPLES // 2, has_compressed=is_mariadb)


@pytest.fixture
def far_zones(source: Database, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Server and client are each in a time zone of its own."""
    with global_variable(source, "time_zone", "-09:30"):
        monkeypatch.setenv("TZ", "Asia/Kathmandu")
        time.tzset()
        yield
        monkeypatch.undo()
        time.tzset()


@pytest.mark.usefixtures("full_metadata", "source_cursor", "far_zones")
def test_it_does_so_too_wherever_server_and_client_are(
    source: Database, name: str, is_mariadb: bool
) -> None:
    assert time.localtime(0).tm_gmtoff == 19800
    play(source, name, is_mariadb, EXAMPLES // 2)


@pytest.mark.usefixtures("full_metadata")
def test_every_sql_value_in_a_json_document_is_spelled_as_the_server_does(
    source: Database, source_cursor: Cursor, name: str, is_mariadb: bool
) -> None:
    """JSON_ARRAY keeps the types that JSON has no word for."""
    if is_mariadb:
        pytest.skip("MariaDB's JSON is text")
    source_cursor.execute(
        "CREATE TABLE sources (bi BIT(12), y YEAR, t TIME(3), ts TIMESTAMP(2) NULL, d DATE, dt "
        "DATETIME(6), de DECIMAL(65,30),"
        " e ENUM('a','b'), s SET('a','b'), b BINARY(3), vb VARBINARY(300), tb TINYBLOB, bl BLOB, "
        "mb MEDIUMBLOB, lb LONGBLOB,"
        " tx TEXT CHARACTER SET gbk, f FLOAT, do DOUBLE, g POINT, bu BIGINT UNSIGNED)"
    )
    source_cursor.execute(
        "INSERT INTO sources VALUES (b'101', 2024, '-838:59:58.5', '2024-01-02 03:04:05.67', "
        "'2024-02-29', '9999-12-31 23:59:59.999999',"
        " -0.000000000000000000000000000001, 'b', 'a,b', 'x', REPEAT('y', 57), REPEAT('z', 58), "
        "REPEAT('b', 300), 'm', '', '汉',"
        " 0.1, 1e300, ST_GeomFromText('POINT(1 2)'), 18446744073709551615)"
    )
    columns = (
        "bi",
        "y",
        "t",
        "ts",
        "d",
        "dt",
        "de",
        "e",
        "s",
        "b",
        "vb",
        "tb",
        "bl",
        "mb",
        "lb",
        "tx",
        "f",
        "do",
        "g",
        "bu",
    )
    doubles = [
        mantissa * 10.0**power
        for power in range(-25, 26)
        for mantissa in (1, -1.5, 1.2345678901234567, 9.999999999999999)
    ]
    source_cursor.execute("CREATE TABLE documents (id INT PRIMARY KEY AUTO_INCREMENT, j JSON)")
    start = position(source_cursor)
    for column in columns:
        source_cursor.execute(f"INSERT INTO documents (j) SELECT JSON_ARRAY({column}) FROM sources")
    source_cursor.execute(
        "INSERT INTO documents (j) VALUES (%s), (%s)",
        (json.dumps(doubles), json.dumps("".join(map(chr, range(0x300))))),
    )
    end = position(source_cursor)
    source_cursor.execute("SELECT CAST(j AS CHAR) FROM documents ORDER BY id")
    shown = [text for (text,) in source_cursor.fetchall()]
    assert [
        change.after and change.after["j"] for change in read(fetch_task(source, name), start, end)
    ] == shown


@pytest.mark.parametrize("data_type", ["UUID", "INET6", "INET4"])
def test_mariadbs_own_types_are_spelled_as_the_server_does(
    source_cursor: Cursor, data_type: str, is_mariadb: bool
) -> None:
    """Cast to bytes they are what the binlog has; that it is,
    tests/golden/source/types_mariadb.sql shows."""
    if not is_mariadb:
        pytest.skip("types of MariaDB")
    size = 4 if data_type == "INET4" else 16
    chance = random.Random(data_type)
    word = (b"\0\0", b"\0\0", b"\0\x01", b"\xff\xff", b"\x0a\xbc")
    values = [b"".join(chance.choices(word, k=size // 2)) for _ in range(1000)] + [
        bytes(size),
        b"\xff" * size,
    ]
    source_cursor.execute("SET sql_mode = ''")
    source_cursor.execute(f"CREATE TABLE own (v {data_type})")
    source_cursor.executemany("INSERT INTO own VALUES (%s)", [(value,) for value in values])
    source_cursor.execute(
        f"SELECT HEX(CAST(v AS BINARY({size}))), CAST(v AS CHAR) FROM own WHERE v IS NOT NULL"
    )
    rows = source_cursor.fetchall()
    assert len(rows) > 500
    read_own = reader(
        BinlogColumn(
            "v", FIELD_TYPE.STRING, (size, 0), charset="binary", data_type=data_type.lower()
        )
    )
    assert [read_own(bytes((size,)) + bytes.fromhex(raw), 0)[0] for raw, _ in rows] == [
        text for _, text in rows
    ]


@pytest.mark.parametrize("metadata", ["full_metadata", "least_metadata"])
def test_a_table_with_system_versions_brings_the_times_of_its_rows(
    source: Database,
    source_cursor: Cursor,
    name: str,
    is_mariadb: bool,
    metadata: str,
    request: pytest.FixtureRequest,
) -> None:
    """What SELECT * does not show, and information_schema does not list."""
    if not is_mariadb:
        pytest.skip("tables of MariaDB")
    request.getfixturevalue(metadata)
    source_cursor.execute(
        "CREATE TABLE versioned (id INT PRIMARY KEY, v INT INVISIBLE DEFAULT 3) WITH SYSTEM "
        "VERSIONING"
    )
    source_cursor.execute("SET time_zone = '+00:00'")
    start = position(source_cursor)
    source_cursor.execute("INSERT INTO versioned VALUES (1)")
    source_cursor.execute(
        "SELECT id, v, CAST(row_start AS CHAR), CAST(row_end AS CHAR) FROM versioned"
    )
    shown = [str(value) for value in source_cursor.fetchall()[0]]
    (change,) = read(fetch_task(source, name), start, position(source_cursor))
    assert change.after == dict(zip(("id", "v", "row_start", "row_end"), shown, strict=True))
    assert change.table.key == ("id", "row_end")


@pytest.mark.parametrize("metadata", ["full_metadata", "least_metadata"])
def test_times_in_the_old_format_of_mariadb_are_what_select_shows(
    source: Database,
    source_cursor: Cursor,
    name: str,
    is_mariadb: bool,
    metadata: str,
    request: pytest.FixtureRequest,
) -> None:
    if not is_mariadb:
        pytest.skip("a format of MariaDB")
    request.getfixturevalue(metadata)
    with global_variable(source, "mysql56_temporal_format", "OFF"):
        source_cursor.execute("CREATE TABLE old (ts TIMESTAMP NULL, t TIME, dt DATETIME)")
    source_cursor.execute("SET time_zone = '+00:00'")
    start = position(source_cursor)
    source_cursor.execute(
        "INSERT INTO old VALUES ('2024-02-29 23:59:59', '-838:59:59', '0000-00-00 00:00:00'), "
        "(NULL, '00:00:01', NULL)"
    )
    source_cursor.execute("SELECT CAST(ts AS CHAR), CAST(t AS CHAR), CAST(dt AS CHAR) FROM old")
    shown = [dict(zip(("ts", "t", "dt"), row, strict=True)) for row in source_cursor.fetchall()]
    assert [
        change.after for change in read(fetch_task(source, name), start, position(source_cursor))
    ] == shown
