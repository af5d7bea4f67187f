"""Random tables and keys: a snapshot reads the rows that the binlog holds, to the last character.

CDCBUS_TEST_EXAMPLES makes it try more tables than a test run has time for.
"""

from __future__ import annotations

import os
import random
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import NO_ORIGIN, RowChange, TableId
from cdcbus.producer.server import connection as servers
from cdcbus.producer.snapshot.chunks import Bound, page
from cdcbus.producer.snapshot.columns import SelectedTable
from cdcbus.producer.snapshot.reader import ChunkReader
from cdcbus.producer.snapshot.rows import row_events
from tests.integration.producer.decoding.test_round_trip import Example, examples, quoted
from tests.integration.producer.reading import (
    connect,
    fetch_task,
    global_variable,
    position,
    read,
    source_config,
)

pytestmark = [pytest.mark.integration, pytest.mark.source]

EXAMPLES_GIVEN = os.environ.get("CDCBUS_TEST_EXAMPLES", "")
EXAMPLES = int(EXAMPLES_GIVEN or "25")
BOUNDED = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate, *([Phase.shrink] if EXAMPLES_GIVEN else [])],
    database=None,
)


@contextmanager
def reading(source: Database) -> Iterator[ChunkReader]:
    config = source_config(source)
    with closing(servers.connect(config)) as connection:
        server = servers.inspect(connection, config)
    with closing(ChunkReader(config, server)) as reader:
        yield reader


def described(reader: ChunkReader, table: TableId) -> SelectedTable:
    selected = reader.describe(table)
    assert selected is not None
    return selected


def snapshot(reader: ChunkReader, table: TableId, most_rows: int = 1000) -> list[RowChange]:
    """All rows of the table, chunk by chunk."""
    selected = described(reader, table)
    found: list[RowChange] = []
    after: Bound | None = None
    until = reader.greatest(selected, "") if selected.key else None
    while True:
        if selected.key is None:
            chunk = reader.table(selected, "")
        else:
            chunk = reader.chunk(selected, after, until, most_rows, "")
        for event in row_events(selected.table, chunk.rows, NO_ORIGIN):
            found += event.changes()
        if selected.key is None or chunk.count < most_rows:
            return found
        after = chunk.last


def assert_alike(
    source: Database, name: str, start: BinlogPosition, end: BinlogPosition, table: str, rows: int
) -> None:
    """Rows by small chunks, as what the binlog holds between these places: inserts only."""
    logged = read(fetch_task(source, name), start, end)
    with reading(source) as reader:
        found = snapshot(reader, TableId(name, table), rows)
    assert {change.table for change in found} == {change.table for change in logged}
    assert list(found[0].after or ()) == list(logged[0].after or ())

    def by_text(changes: Sequence[RowChange]) -> list[Any]:
        return sorted([list((change.after or {}).items()) for change in changes], key=str)

    assert by_text(found) == by_text(logged)


def play(source: Database, name: str, is_mariadb: bool, count: int) -> None:
    @settings(BOUNDED, max_examples=count)
    @given(examples(is_mariadb, is_mariadb))
    def holds(example: Example) -> None:
        with connect(source) as connection, connection.cursor() as cursor:
            cursor.execute("SET sql_mode = ''")
            cursor.execute(f"USE {name}")
            table = "t" + uuid.uuid4().hex[:8]
            columns = "".join(f", {quoted(each)} {k.ddl}" for each, k in example.columns.items())
            cursor.execute(f"CREATE TABLE {table} (id INT PRIMARY KEY{columns})")
            cursor.execute(f"SET time_zone = '{example.time_zone}'")
            start = position(cursor)
            for number, row in enumerate(example.rows):
                marks = ", %s" * len(row)
                cursor.execute(f"INSERT INTO {table} VALUES (%s{marks})", (number, *row.values()))
            assert_alike(source, name, start, position(cursor), table, 3)

    holds()


@pytest.mark.usefixtures("full_metadata", "source_cursor")
def test_any_cell_is_read_as_the_binlog_holds_it(
    source: Database, name: str, is_mariadb: bool
) -> None:
    play(source, name, is_mariadb, EXAMPLES)


@pytest.mark.usefixtures("least_metadata", "source_cursor")
def test_so_it_is_whatever_the_servers_settings_are_for_sessions(
    source: Database, name: str, is_mariadb: bool
) -> None:
    with ExitStack() as settings_:
        for variable, value in (
            ("time_zone", "-09:30"),
            ("sql_mode", "PAD_CHAR_TO_FULL_LENGTH,ANSI_QUOTES,NO_BACKSLASH_ESCAPES"),
            ("character_set_client", "latin1"),
            ("character_set_results", "latin1"),
            ("collation_connection", "latin1_swedish_ci"),
            ("transaction_isolation", "READ-UNCOMMITTED"),
            ("div_precision_increment", 0),
        ):
            settings_.enter_context(global_variable(source, variable, value))
        play(source, name, is_mariadb, EXAMPLES // 2)


KEYS: dict[str, list[Any]] = {
    "BIGINT UNSIGNED": [0, 1, 2**63 - 1, 2**63, 2**64 - 1, 10**12, 10**13],
    "BIGINT": [-(2**63), -1, 0, 1, 2**63 - 1],
    "INT ZEROFILL": [0, 7, 70, 4294967295],
    "DECIMAL(30,10)": ["-1.5", "0", "0.0000000001", "99999999999999999999.9999999999"],
    "FLOAT": [-1e20, -0.1, 0, 1e-38, 0.1, 16777216, 3e38],
    "DOUBLE": [-1e300, -0.1, 0, 5e-324, 0.1, 0.30000000000000004, 1e300],
    "BIT(40)": [0, 1, 255, 256, 2**39],
    "YEAR": [0, 1901, 1999, 2000, 2155],
    "DATE": ["0000-00-00", "2024-00-00", "2024-02-29", "9999-12-31"],
    "TIME(6)": ["-838:59:59", "-00:00:00.000001", "00:00:00", "00:00:00.5", "838:59:59"],
    "DATETIME(3)": ["0000-00-00", "1000-01-01 00:00:00.001", "9999-12-31 23:59:59.999"],
    "TIMESTAMP(6)": ["0000-00-00", "1970-01-01 00:00:01", "2038-01-19 03:14:07.999999"],
    "VARCHAR(30) COLLATE utf8mb4_general_ci": ["", "a", "B", "c", "é", "ß", "'", "\\", "😀", "漢"],
    "VARCHAR(30) COLLATE utf8mb4_bin": ["", "A", "a", "B", "a\t", "ab", "é", "_", "\\'"],
    "VARCHAR(30) CHARACTER SET gbk": ["", "a", "汉", "字", "表\\", "中文"],
    "CHAR(5) CHARACTER SET utf16": ["", "a", "b", "é", "漢", "😀"],
    "CHAR(9) CHARACTER SET latin1 COLLATE latin1_german2_ci": ["", "a", "ä", "z", "oe", "of"],
    "BINARY(4)": [b"", b"\0\0\0\1", b"a", b"a\0b", b"\xff\xff\xff\xff", b"'\\"],
    "VARBINARY(9)": [b"", b"\0", b"\0\0", b"a", b"a ", b"\xff", b"'"],
    "ENUM('z','y','a','it''s')": ["z", "y", "a", "it's", ""],
    "SET('z','y','a')": ["", "z", "y", "z,a", "a", "z,y,a"],
    # As many as a double tells apart.
    f"SET({','.join(map(repr, map(str, range(53))))})": [0, 1, 2**52, 2**52 + 1, 2**53 - 1],
}
KEYS_MARIADB: dict[str, list[Any]] = {
    "UUID": [uuid.UUID(int=number).hex for number in (0, 1, 2**64, 2**127 + 5)],
    "INET6": ["::", "::1", "::ffff:1.2.3.4", "2001:db8::ff00:42:8329"],
}


@pytest.mark.usefixtures("full_metadata")
def test_every_row_is_read_once_whatever_its_key_is(
    source: Database, source_cursor: Cursor, name: str, is_mariadb: bool
) -> None:
    """By chunks of two, each kind of key alone and behind another column."""
    source_cursor.execute("SET sql_mode = ''")
    keys = KEYS | (KEYS_MARIADB if is_mariadb else {})
    for number, (kind, values) in enumerate(keys.items()):
        source_cursor.execute(
            f"CREATE TABLE one{number} (n INT, k {kind} NOT NULL, PRIMARY KEY (k))"
        )
        source_cursor.execute(
            f"CREATE TABLE two{number} (k {kind} NOT NULL, n INT NOT NULL, m VARCHAR(5) NOT NULL, "
            "UNIQUE KEY `by ``m` (m, k, n))"
        )
        chance = random.Random(kind)
        mixed = chance.sample(values, len(values))
        for table, rows in (
            (f"one{number} (n, k)", [(at, value) for at, value in enumerate(mixed)]),
            (
                f"two{number} (n, k, m)",
                [(at % 3, value, letter) for at, value in enumerate(mixed * 3) for letter in "aB"],
            ),
        ):
            start = position(source_cursor)
            marks = ", ".join(["%s"] * len(rows[0]))
            for row in rows:
                source_cursor.execute(f"INSERT IGNORE INTO {table} VALUES ({marks})", row)
            end = position(source_cursor)
            assert_alike(source, name, start, end, table.partition(" ")[0], 2)


@pytest.mark.parametrize(
    ("columns", "key"),
    [
        ("id BIGINT UNSIGNED PRIMARY KEY", ["500000000000000"]),
        ("a INT, b VARCHAR(20), c DATE, PRIMARY KEY (a, b, c)", ["2", "'b'", "'2024-01-01'"]),
    ],
)
def test_a_chunk_is_a_range_of_the_key_and_is_not_sorted(
    source: Database, source_cursor: Cursor, name: str, columns: str, key: list[str]
) -> None:
    """10,000 rows, most of them in one range, the others behind gaps of 10^12: the server looks at
    no more rows than the chunk has."""
    source_cursor.execute(f"CREATE TABLE t ({columns})")
    if len(key) == 1:
        rows: list[tuple[Any, ...]] = [(at,) for at in range(9_000)]
        rows += [(at * 10**12,) for at in range(1, 1_001)]
    else:
        rows = [
            (at % 3, chr(97 + at % 26) * (at % 7), f"2024-01-{at % 28 + 1}") for at in range(9_000)
        ]
    marks = ", ".join(["%s"] * len(key))
    source_cursor.executemany(f"INSERT IGNORE INTO t VALUES ({marks})", rows)
    source_cursor.execute("ANALYZE TABLE t")
    with reading(source) as reader:
        selected = described(reader, TableId(name, "t"))
        assert selected.key is not None
        after = []
        for text, column in zip(key, selected.key.columns, strict=True):
            if text[0] == "'" and column.kind != "quoted":
                text = f"_utf8mb4 x'{text[1:-1].encode().hex()}'"
            after.append(text)
        until = reader.greatest(selected, "")
        sql = page(selected.name, selected.expressions, selected.key, tuple(after), until, 50)
    source_cursor.execute("FLUSH STATUS")
    source_cursor.execute(sql)
    assert len(source_cursor.fetchall()) == 50
    source_cursor.execute("SHOW SESSION STATUS LIKE 'Handler_read%'")
    looked = sum(int(count) for _, count in source_cursor.fetchall())
    source_cursor.execute("SHOW SESSION STATUS LIKE 'Sort_rows'")
    assert looked < 120
    assert source_cursor.fetchall()[0][1] == "0"


ODD_TABLES = {
    "generated": (
        "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT AS (a + 1) VIRTUAL, c INT AS (a + 2) "
        "STORED, d TINYINT(1), KEY (b))",
        "INSERT INTO t (id, a, d) VALUES (1, 1, 1), (2, NULL, 0)",
    ),
    "prefix": (
        "CREATE TABLE t (a VARCHAR(50), b BLOB, v INT NOT NULL, PRIMARY KEY (a(3), b(2)), UNIQUE "
        "KEY (v))",
        "INSERT INTO t VALUES ('abcd', 'x', 1), ('abde', 'y', 2)",
    ),
    "keyless": (
        "CREATE TABLE t (a INT, b TEXT, UNIQUE KEY (a))",
        "INSERT INTO t VALUES (1, 'x'), (NULL, 'y'), (NULL, 'y')",
    ),
    "empty texts": (
        "CREATE TABLE t (a VARCHAR(9) PRIMARY KEY, b CHAR(3), c BLOB)",
        "INSERT INTO t VALUES ('', '', ''), ('b', NULL, NULL)",
    ),
}
OF_MARIADB = {
    "versioned": (
        "CREATE TABLE t (id INT PRIMARY KEY, v INT INVISIBLE DEFAULT 3) WITH SYSTEM VERSIONING",
        "INSERT INTO t VALUES (1), (2)",
    ),
    "own types": (
        "CREATE TABLE t (id INT PRIMARY KEY, u UUID, i INET6, z INT(5) ZEROFILL)",
        "INSERT INTO t VALUES (1, '123e4567-e89b-12d3-a456-426655440000', '::1', 7), (2, NULL, "
        "NULL, 12)",
    ),
    "hashes": (
        "CREATE TABLE t (u TEXT NOT NULL, w VARCHAR(3000) CHARACTER SET utf8mb4 NOT NULL, n INT, "
        "v INT NOT NULL, UNIQUE KEY (w), UNIQUE KEY (u), UNIQUE KEY (v)) WITH SYSTEM VERSIONING",
        "INSERT INTO t VALUES ('a', 'b', 1, 1), ('b', 'c', NULL, 2)",
    ),
    "ignored": (
        "CREATE TABLE t (a VARCHAR(50), v INT NOT NULL, PRIMARY KEY (a(3)), UNIQUE KEY (v) /*M!100600 "
        "IGNORED */)",
        "INSERT INTO t VALUES ('abcd', 1), ('abde', 2)",
    ),
    "hash alone": (
        "CREATE TABLE t (n INT, u VARCHAR(3000) CHARACTER SET utf8mb4 NOT NULL, UNIQUE KEY (u))",
        "INSERT INTO t VALUES (1, 'a'), (NULL, 'b')",
    ),
}
OF_MYSQL = {
    "invisible": (
        "CREATE TABLE t (id INT PRIMARY KEY, v INT INVISIBLE DEFAULT 3)",
        "INSERT INTO t VALUES (1), (2)",
    ),
    "invisible key": (
        "CREATE TABLE t (a VARCHAR(50), v INT NOT NULL, PRIMARY KEY (a(3)), UNIQUE KEY (v) "
        "INVISIBLE)",
        "INSERT INTO t VALUES ('abcd', 1), ('abde', 2)",
    ),
    "hidden key": ("CREATE TABLE t (a INT)", "INSERT INTO t VALUES (1), (1)"),
    "functional key": (
        "CREATE TABLE t (id INT, j JSON, UNIQUE KEY ((id + 1)), UNIQUE KEY real_one (id, j2), j2 "
        "INT NOT NULL)",
        'INSERT INTO t (id, j, j2) VALUES (1, \'{"b": 1.0, "a": [1, null]}\', 1)',
    ),
}


@pytest.mark.parametrize("metadata", ["full_metadata", "least_metadata"])
def test_odd_tables_have_the_columns_and_keys_that_their_binlog_has(
    source: Database,
    source_cursor: Cursor,
    name: str,
    is_mariadb: bool,
    metadata: str,
    request: pytest.FixtureRequest,
) -> None:
    request.getfixturevalue(metadata)
    for what, (create, insert) in (ODD_TABLES | (OF_MARIADB if is_mariadb else OF_MYSQL)).items():
        source_cursor.execute("DROP TABLE IF EXISTS t")
        if what == "hidden key":
            source_cursor.execute("SET sql_generate_invisible_primary_key = ON")
        source_cursor.execute(create)
        start = position(source_cursor)
        source_cursor.execute(insert)
        assert_alike(source, name, start, position(source_cursor), "t", 1)


def test_former_rows_of_a_versioned_table_are_read_as_the_binlog_holds_them(
    source: Database, source_cursor: Cursor, name: str, is_mariadb: bool
) -> None:
    if not is_mariadb:
        pytest.skip("MySQL has no system versioning")
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, v INT) WITH SYSTEM VERSIONING")
    start = position(source_cursor)
    for sql in (
        "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)",
        "UPDATE t SET v = 4 WHERE id = 1",
        "DELETE FROM t WHERE id = 2",
        "REPLACE INTO t VALUES (3, 5)",
    ):
        source_cursor.execute(sql)

    def key(row: Mapping[str, Any] | None) -> tuple[Any, ...]:
        return tuple((row or {})[column] for column in ("id", "row_end"))

    logged: dict[tuple[Any, ...], dict[str, Any]] = {}
    for change in read(fetch_task(source, name), start, position(source_cursor)):
        if change.before:
            del logged[key(change.before)]
        if change.after:
            logged[key(change.after)] = dict(change.after)
    assert len(logged) == 5
    with reading(source) as reader:
        found = snapshot(reader, TableId(name, "t"), 2)
    assert {key(change.after): dict(change.after or {}) for change in found} == logged
