"""The Oracle loader without an Oracle: its SQL runs on H2 in Oracle mode, and what it says to
the driver is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import oracledb
import pytest

from cdcbus.plugins.contracts import (
    VERSION,
    AppliedOffset,
    Counts,
    JdbcTarget,
    Loader,
    OffsetTable,
    RowVersion,
    Swaps,
    TableBatch,
    TargetColumn,
    TargetTable,
    Writes,
    ZeroDate,
)
from cdcbus.plugins.errors import OffsetConflict, RowConflict, TargetRejected
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.loaders.dialects.oracle.cells import binds
from cdcbus.plugins.rowchange import Cell, Column, TableId
from tests.support.stand_ins.h2_oracle import Database, Server

pytestmark = pytest.mark.integration
TARGET = JdbcTarget("jdbc:oracle:thin:@//h/svc?oracle.jdbc.ReadTimeout=5000", "u", "pw", "t1")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture
def database(server: Server, name: str, monkeypatch: pytest.MonkeyPatch) -> Database:
    database = Database(server, name.upper())
    monkeypatch.setattr(oracledb, "connect", database.connect)
    return database


@pytest.fixture
def loader(database: Database) -> Iterator[Loader]:
    loader = make_loader("JdbcBatch", TARGET)
    yield loader
    loader.close()


def made(database: Database, loader: Loader, columns: str) -> TargetTable:
    database.execute(f"CREATE TABLE {database.schema}.T ({columns})")
    table = loader.table(TableId(database.schema.lower(), "t"))
    assert table is not None
    return table


def write(loader: Loader, table: TargetTable, *writes: Writes, **parts: Any) -> Counts:
    with loader.transaction() as transaction:
        return transaction.write(TableBatch(table, writes=writes, **parts))


def rows(database: Database, columns: str = "*") -> list[tuple[Any, ...]]:
    return database.rows(f"SELECT {columns} FROM {database.schema}.T ORDER BY 1")


def test_a_table_tells_columns_key_and_other_unique_keys(
    database: Database, loader: Loader
) -> None:
    columns = (
        "A VARCHAR2(7), B NUMBER(12, 2), C NUMBER, W NUMBER DEFAULT 7 NOT NULL, T "
        "TIMESTAMP(6), PRIMARY KEY (A, C), UNIQUE (B)"
    )
    table = made(database, loader, columns)
    assert (table.key, table.unique_keys, table.dialect) == (("A", "C"), (("B",),), "oracle")
    assert [(column.type, column.length, column.scale) for column in table.columns.values()][
        :2
    ] == [
        ("VARCHAR2", 7, None),
        ("NUMBER", 12, 2),
    ]
    assert [name for name, column in table.columns.items() if column.is_required] == ["A", "C"]
    assert loader.table(TableId(database.schema, "MISSING")) is None


def test_rows_are_merged_updated_deleted_and_counted(database: Database, loader: Loader) -> None:
    table = made(
        database, loader, "K NUMBER PRIMARY KEY, V VARCHAR2(20), W NUMBER DEFAULT 7 NOT NULL"
    )
    both = Writes(("K", "V"), [("1", "a"), ("2", None)])
    assert write(loader, table, both) == Counts(written=2)
    assert write(loader, table, both) == Counts(written=2)
    assert write(
        loader, table, Writes(("V", "K"), [("b", "2"), ("c", "9")], may_insert=False)
    ) == Counts(written=1, missed=1)
    assert write(loader, table, deletes=[("1",), ("8",)]) == Counts(deleted=1, missed=1)
    assert rows(database) == [(2, "b", 7)]
    late = Writes(("K", "V"), [("2", "d"), ("5", "e")], expected=2)
    assert [write(loader, table, late) for _ in range(2)] == [
        Counts(written=2, missed=1),
        Counts(written=2),
    ]
    assert rows(database) == [(2, "d", 7), (5, "e", 7)]
    assert write(loader, table, Writes(("K",), [("2",), ("3",)])) == Counts(written=2)
    assert write(loader, table, both, truncate=True) == Counts(written=2)
    assert rows(database, "K, V") == [(1, "a"), (2, None)]


def test_cells_reach_the_driver_in_its_own_types(database: Database, loader: Loader) -> None:
    columns = (
        "K NUMBER PRIMARY KEY, F BINARY_DOUBLE, T TIMESTAMP(6), D DATE, C CLOB, B BLOB, R "
        "RAW(9), N VARCHAR2(9) NOT NULL, H CHAR(3)"
    )
    table = made(database, loader, columns)
    row: tuple[Cell, ...] = (
        "18446744073709551615", "1e22", "2024-02-29 "
                                        "23:59:59.123456", "2024-02-29", "x" * 1001, "\x00\xff" * 1001, "\xff", "", "ab",
    )  # fmt: skip
    write(loader, table, Writes(tuple(table.columns), [row, ("2", *[None] * 6, "null", None)]))
    [given] = [
        rows
        for sql, rows in database.said
        if sql.startswith("MERGE INTO") and "POSITION" not in sql
    ]
    assert tuple(given[0]) == (
        Decimal("18446744073709551615"), 1e22, datetime(2024, 2, 29, 23, 59, 59, 123456), datetime(2024, 2, 29),
        "x" * 1001, b"\x00\xff" * 1001, b"\xff", " ", "ab",
    )  # fmt: skip
    assert tuple(given[1]) == (Decimal(2), None, None, None, None, None, None, "null", None)
    assert database.sizes[-1] == (
        oracledb.DB_TYPE_NUMBER, oracledb.DB_TYPE_BINARY_DOUBLE, oracledb.DB_TYPE_TIMESTAMP, oracledb.DB_TYPE_DATE, oracledb.DB_TYPE_CLOB,
        oracledb.DB_TYPE_BLOB, oracledb.DB_TYPE_RAW, None, oracledb.DB_TYPE_CHAR,
    )  # fmt: skip
    assert rows(database, "K, T, D, N") == [
        (2, None, None, "null"),
        (18446744073709551615, "2024-02-29 23:59:59.123456", "2024-02-29 00:00:00", " "),
    ]


def test_keys_are_looked_up_with_the_types_of_their_columns(
    database: Database, loader: Loader
) -> None:
    """The driver's own choice compares a CHAR with its blanks and a time without its fraction, and
    finds neither: a version that is not found let an older change win."""
    columns = "C CHAR(3), T TIMESTAMP(6), N NUMBER, PRIMARY KEY (C, T, N)"
    table = made(database, loader, columns)
    loader.scatter()
    versions = loader.version_table(table, make=True)
    assert versions is not None
    key: tuple[Cell, ...] = ("a", "2024-02-29 23:59:59.123456", "7")
    given = (oracledb.DB_TYPE_CHAR, oracledb.DB_TYPE_TIMESTAMP, oracledb.DB_TYPE_NUMBER)
    with loader.transaction() as transaction:
        transaction.write(TableBatch(versions, writes=[Writes(versions.key, [key])]))
        database.sizes.clear()
        transaction.row_versions(versions, [key])
        assert database.sizes == [given, given]
        database.sizes.clear()
        assert not transaction.write(TableBatch(table, fresh=[key])).written
        assert database.sizes == [given]


def test_a_row_never_touches_another_by_a_second_unique_key(
    database: Database, loader: Loader
) -> None:
    table = made(database, loader, "K NUMBER PRIMARY KEY, V VARCHAR2(9) UNIQUE")
    write(loader, table, Writes(("K", "V"), [("1", "a"), ("2", "b")]))
    moved = TableBatch(table, writes=[Writes(("K", "V"), [("3", "a")])])
    with (
        loader.transaction() as transaction,
        pytest.raises(RowConflict) as refused,
        transaction.savepoint(),
    ):
        transaction.write(moved)
    assert "SECRET" not in str(refused.value)
    assert rows(database) == [(1, "a"), (2, "b")]


def test_offsets_come_and_go_with_the_rows(database: Database, loader: Loader) -> None:
    table = made(database, loader, "K NUMBER PRIMARY KEY")
    assert loader.offset_table() == OffsetTable(False, True)
    first, second = AppliedOffset("Orders", 0, 4, 3), AppliedOffset("Orders", 0, 2**33, 2**40)
    for offset, seen in ((first, None), (second, first)):
        with loader.transaction() as transaction:
            transaction.store_offset(offset, seen)
    for unseen in (None, first):
        with pytest.raises(OffsetConflict), loader.transaction() as transaction:
            transaction.store_offset(AppliedOffset("Orders", 0, 6, 8), unseen)
    with pytest.raises(KeyError), loader.transaction() as transaction:
        transaction.write(TableBatch(table, writes=[Writes(("K",), [("1",)])]))
        transaction.store_offset(AppliedOffset("Orders", 0, 6, 8), second)
        raise KeyError
    assert loader.applied_offsets() == [second]
    assert rows(database) == []


def test_versions_of_rows_are_kept_in_a_table_beside_theirs(
    database: Database, loader: Loader
) -> None:
    table = made(database, loader, "K NUMBER, K2 VARCHAR2(9), V DATE, PRIMARY KEY (K, K2)")
    assert [loader.is_scattered(), loader.scatter(), loader.scatter()] == [False, True, False]
    assert loader.is_scattered()
    assert loader.version_table(table, make=False) is None
    versions = loader.version_table(table, make=True)
    assert versions is not None
    assert (versions.id.schema, versions.key) == (database.schema, ("K", "K2"))
    with closing(make_loader("JdbcBatch", TARGET)) as other:
        assert other.version_table(table, make=False) == versions
    keys: list[tuple[Cell, ...]] = [("1", "a"), ("2", "b")]
    with loader.transaction() as transaction:
        assert transaction.has_version_table([table])
        assert [known.version for known in transaction.row_versions(versions, keys)] == [
            RowVersion()
        ] * 2
        newer = Writes((*versions.key, *VERSION), [("2", "b", "77", "mysql-bin.000001:4")])
        transaction.write(TableBatch(versions, writes=[newer]))
    with loader.transaction() as transaction:
        found = transaction.row_versions(versions, keys)
    assert [known.version for known in found] == [
        RowVersion(),
        RowVersion(77, "mysql-bin.000001:4"),
    ]
    loader.forget_versions(lambda: 77)
    kept = f'SELECT K, "cdcbus_ms" FROM {database.schema}."{versions.id.table}"'
    assert database.rows(kept) == [(2, 77)]


def test_versions_of_rows_stay_where_the_key_is_altered(database: Database, loader: Loader) -> None:
    table = made(database, loader, "K NUMBER(5) PRIMARY KEY")
    versions = loader.version_table(table, make=True)
    assert versions is not None
    newer = Writes((*versions.key, *VERSION), [("2", "77", "1:4")])
    write(loader, versions, newer)
    database.execute(f"ALTER TABLE {database.schema}.T MODIFY (K NUMBER(9))")
    loader.refresh(table.id)
    altered = loader.table(table.id)
    assert altered is not None
    widened = loader.version_table(altered, make=True)
    assert widened is not None
    assert widened.id == versions.id
    assert [column.length for column in widened.key_columns] == [9]
    with loader.transaction() as transaction:
        [known] = transaction.row_versions(widened, [("2",)])
    assert known.version == RowVersion(77, "1:4")


def test_versions_of_rows_are_locked_where_the_key_got_another_order(
    database: Database, loader: Loader
) -> None:
    """The catalog is not asked for the key where some of them are known and others are new."""
    table = made(database, loader, "A NUMBER, B NUMBER, PRIMARY KEY (A, B)")
    versions = loader.version_table(table, make=True)
    assert versions is not None
    write(loader, versions, Writes((*versions.key, *VERSION), [("1", "2", "77", "1:4")]))
    database.execute(f"ALTER TABLE {database.schema}.T DROP PRIMARY KEY")
    database.execute(f"ALTER TABLE {database.schema}.T ADD PRIMARY KEY (B, A)")
    loader.refresh(table.id)
    altered = loader.table(table.id)
    assert altered is not None
    turned = loader.version_table(altered, make=True)
    assert turned is not None
    assert (turned.id, turned.key) == (versions.id, ("B", "A"))
    database.said.clear()
    with loader.transaction() as transaction:
        found = transaction.row_versions(turned, [("2", "1"), ("3", "1"), ("4", "1")])
    assert [known.version.came_ms for known in found] == [77, 0, 0]
    assert not [sql for sql, _ in database.said if "all_constraints" in sql]


def test_rows_without_a_key_go_and_come_one_by_one(database: Database, loader: Loader) -> None:
    table = made(database, loader, "A NUMBER, B VARCHAR2(9)")
    write(
        loader,
        table,
        swaps=[Swaps(("A", "B"), [(None, ("1", "x")), (None, ("1", "x")), (None, ("2", ""))])],
    )
    swaps = Swaps(("A", "B"), [(("1", "x"), None), (("2", ""), ("3", "y")), (("9", "z"), None)])
    assert write(loader, table, swaps=[swaps]) == Counts(written=1, deleted=1, missed=1)
    assert rows(database) == [(1, "x"), (3, "y")]


def test_keys_that_the_column_s_collation_takes_for_equal_stay_apart(
    database: Database, loader: Loader
) -> None:
    """In H2 a VARCHAR_IGNORECASE is what a column with COLLATE BINARY_CI is in Oracle."""
    table = made(database, loader, "K VARCHAR_IGNORECASE(9) PRIMARY KEY, V NUMBER")
    assert table.columns["K"].is_folding
    assert loader.is_coarse(table)
    write(loader, table, Writes(("K", "V"), [("a", "1"), ("b", "1")]))
    with pytest.raises(TargetRejected, match="whose key is spelled otherwise"):
        write(loader, table, Writes(("K", "V"), [("A", "2")]))
    for alike in ("ä", "-"):  # of these the collation itself would have to be asked
        with pytest.raises(TargetRejected, match="takes keys that differ for equal"):
            write(loader, table, Writes(("K", "V"), [("c", "2"), (alike, "2")]))
    assert write(loader, table, deletes=[("A",)]) == Counts(missed=1)
    assert write(loader, table, deletes=[("a",)]) == Counts(deleted=1)
    assert rows(database) == [("b", 1)]


def test_rows_are_found_by_numbers_of_single_precision(database: Database, loader: Loader) -> None:
    """0.1 in single precision is another number than in double precision."""
    table = made(database, loader, "ID NUMBER, F REAL")
    columns = ("ID", "F")
    write(loader, table, swaps=[Swaps(columns, [(None, ("1", "0.1")), (None, ("2", "0.1"))])])
    swaps = Swaps(columns, [(("1", "0.1"), ("1", "0.2")), (("2", "0.1"), None)])
    assert write(loader, table, swaps=[swaps]) == Counts(written=1, deleted=1)
    assert rows(database, "ID") == [(1,)]
    database.execute(f"DROP TABLE {database.schema}.T")
    loader.refresh(table.id)
    table = made(database, loader, "F REAL PRIMARY KEY, V NUMBER")
    write(loader, table, Writes(("F", "V"), [("0.1", "1"), ("0.2", "1")]))
    write(loader, table, Writes(("F", "V"), [("0.1", "2")]))
    assert write(loader, table, deletes=[("0.2",)]) == Counts(deleted=1)
    assert rows(database, "V") == [(2,)]


@pytest.mark.parametrize(
    ("type_", "cell", "what"),
    [
        ("NUMBER", "SECRET", r"column V \(NUMBER\): a cell has no number"),
        ("NUMBER", "NaN", r"column V \(NUMBER\): a cell has no number"),
        ("NUMBER(2)", "4242", "ORA-01438: a cell does not fit column V"),
        ("VARCHAR2(3)", "SECRET", "value too large for column"),
        ("DATE", "2024-02-30 SECRET", r"column V \(DATE\): a cell has no date and time"),
        ("DATE", "0000-00-00", r"column V \(DATE\): a cell has a zero or partly zero date"),
        ("RAW(9)", "SECRET\u0100", r"column V \(RAW\): a cell has a character above U\+00FF"),
        ("NUMBER NOT NULL", None, "ORA-01400: cannot insert NULL into .*V"),
    ],
)
def test_a_cell_that_does_not_fit_is_rejected_without_being_shown(
    database: Database, loader: Loader, type_: str, cell: Cell, what: str
) -> None:
    table = made(database, loader, f"K NUMBER PRIMARY KEY, V {type_}")
    with pytest.raises(TargetRejected, match=what) as refused:
        write(loader, table, Writes(("K", "V"), [("1", cell)]))
    assert "SECRET" not in str(refused.value)
    assert "4242" not in str(refused.value)


@pytest.mark.parametrize(
    ("policy", "stored"), [(ZeroDate.NULL, None), (ZeroDate.EPOCH, "1970-01-01 00:00:00")]
)
def test_zero_dates_follow_the_policy(
    database: Database, policy: ZeroDate, stored: str | None
) -> None:
    loader = make_loader("JdbcBatch", JdbcTarget(TARGET.url, zero_date=policy))
    table = made(database, loader, "K NUMBER PRIMARY KEY, V DATE")
    write(loader, table, Writes(("K", "V"), [("1", "0000-00-00 00:00:00")]))
    assert rows(database) == [(1, stored)]
    loader.close()


def test_a_table_grows_by_the_source_s_columns_and_lengths(
    database: Database, loader: Loader
) -> None:
    table = made(database, loader, "K NUMBER PRIMARY KEY, V VARCHAR2(3)")
    table = loader.evolve(
        table, [Column("k", "int"), Column("v", "varchar(40)"), Column("new", "datetime(6)")]
    )
    assert {name: (column.type, column.length) for name, column in table.columns.items()} == {
        "K": ("NUMBER", None),
        "V": ("VARCHAR2", 40),
        "new": ("TIMESTAMP(6)", None),
    }


def test_a_session_is_in_utc_and_waits_no_longer_than_the_address_says(
    database: Database, loader: Loader
) -> None:
    loader.applied_offsets()
    [connection] = database.connections
    assert (connection.call_timeout, connection.given["dsn"]) == (5000, "h:1521/svc")
    set_up = "ALTER SESSION SET TIME_ZONE = '+00:00' NLS_COMP = BINARY NLS_SORT = BINARY"
    assert set_up in [sql for sql, _ in database.said]


def test_a_time_of_more_than_a_day_fits_an_interval() -> None:
    column = TargetColumn("V", "INTERVAL DAY(2) TO SECOND(6)")
    table = TargetTable(TableId("S", "T"), {"V": column}, ())
    assert binds(table, column, ["838:59:59.5", "-00:00:01", None]) == [
        timedelta(hours=838, minutes=59, seconds=59, milliseconds=500),
        -timedelta(seconds=1),
        None,
    ]
