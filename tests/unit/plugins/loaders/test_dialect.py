"""The statements of each dialect as text: tests/golden/sql/<dialect>.sql, written anew with
CDCBUS_WRITE_GOLDEN=1; then read them."""

import os
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pymysql
import pytest
from sqlalchemy.exc import OperationalError

from cdcbus.plugins.contracts import Swaps, TableBatch, TargetColumn, TargetTable, Writes
from cdcbus.plugins.errors import TargetRejected, TargetUnavailable
from cdcbus.plugins.loaders.cells.arrow_rows import ColumnRows
from cdcbus.plugins.loaders.cells.oracle_types import family
from cdcbus.plugins.loaders.dialect import SqlDialect, check_key
from cdcbus.plugins.loaders.dialects.mysql import catalog as mysql_catalog
from cdcbus.plugins.loaders.dialects.mysql import cells as mysql_cells
from cdcbus.plugins.loaders.dialects.mysql import dialect as mysql_dialect
from cdcbus.plugins.loaders.dialects.mysql import sql as mysql_sql
from cdcbus.plugins.loaders.dialects.mysql.jdbc_address import MAX_PACKET
from cdcbus.plugins.loaders.dialects.oracle import cells as oracle_cells
from cdcbus.plugins.loaders.dialects.oracle import dialect as oracle_dialect
from cdcbus.plugins.loaders.dialects.oracle import sql as oracle_sql
from cdcbus.plugins.loaders.dialects.postgresql import cells as postgresql_cells
from cdcbus.plugins.loaders.dialects.postgresql import dialect as postgresql_dialect
from cdcbus.plugins.loaders.dialects.postgresql import sql as postgresql_sql
from cdcbus.plugins.rowchange import TableId

GOLDEN = Path(__file__).parents[3] / "golden" / "sql"


def table(dialect: str, **types: str) -> TargetTable:
    """A table whose key is the columns that begin with k."""
    columns = {name: TargetColumn(name, type_) for name, type_ in types.items()}
    return TargetTable(
        TableId("Shop", "order"),
        columns,
        tuple(name for name in columns if name.startswith("k")),
        dialect=dialect,
    )


PG = table(
    "postgresql",
    k="bigint",
    k2='"bit"',
    Group="character varying",
    tags="integer[]",
    **{'od"d %': "bytea"},
)
PG_KEY_ONLY = table("postgresql", k="uuid")
PG_FIXED = TargetTable(
    PG.id,
    {name: TargetColumn(name, "integer", is_fixed=True) for name in ("k", "n")},
    ("k",),
    dialect="postgresql",
)
PG_LABELS = TargetTable(
    PG.id,
    {"e%": TargetColumn("e%", 'shop."Mood"', declared="enum('a')")},
    ("e%",),
    dialect="postgresql",
)
PG_FOLDING = TargetTable(
    PG.id,
    {
        "t": TargetColumn("t", "text", is_folding=True),
        "c": TargetColumn("c", "citext", is_folding=True),
        "i": TargetColumn("i", "integer"),
    },
    (),
    dialect="postgresql",
)
MY = table("mysql", k="bigint", k2="bit", Group="varchar", **{"od`d %": "varbinary"})
MY_KEY_ONLY = table("mysql", k="char")
MY_MOMENTS = table("mysql", k="int", k2="int", e="enum", at="timestamp", since="datetime")
MY_TYPES = table("mysql", n="int", x="varchar", f="float", j="json", g="point", b="blob")
ORA = table("oracle", k="NUMBER", k2="CHAR", Group="VARCHAR2", long="CLOB")
ORA_KEY_ONLY = table("oracle", k="RAW")
ORA_FOLDING = TargetTable(
    PG.id,
    {"t": TargetColumn("t", "VARCHAR2", is_folding=True), "n": TargetColumn("n", "NUMBER")},
    (),
    dialect="oracle",
)
PRINTED = "CREATE TABLE `order` (\n  `Group` varchar(3) NOT NULL,\n  `v` int\n)"
ROWS = [("1", "5", "it's \\ %s", "\x00\xff"), ("-2", "0", None, None)]

STATEMENTS = {
    "postgresql": {
        "upsert": postgresql_sql.upsert_sql(PG, list(PG.columns)),
        "upsert of key columns only": postgresql_sql.upsert_sql(PG_KEY_ONLY, ["k"]),
        "copy": postgresql_sql.copy_sql(
            postgresql_sql.COPIED.table(PG.id), list(PG.columns), postgresql_cells.CSV
        ),
        "copy and merge": ";\n".join(
            postgresql_sql.merge_sqls(PG, list(PG.columns), postgresql_cells.PLAIN)
        ),
        "insert what is missing": postgresql_sql.insert_missing_sql(PG, ["tags", "k2", "k"]),
        "update": postgresql_sql.update_sql(PG, ["tags", "k2", "k"]),
        "update of key columns only": postgresql_sql.update_sql(PG_KEY_ONLY, ["k"]),
        "update of what only an insert may set": postgresql_sql.update_sql(PG_FIXED, ["k", "n"]),
        "delete": postgresql_sql.delete_sql(PG),
        "truncate": postgresql_sql.truncate_sql(PG),
        "insert": postgresql_sql.insert_sql(PG, ["tags", "k2", "k"]),
        "one of equal rows goes": postgresql_sql.swap_sql(
            PG, ["k", "Group", "tags"], ["tags"], is_update=False
        ),
        "one of equal rows becomes another": postgresql_sql.swap_sql(
            PG, ["k", "Group", "tags"], [], is_update=True
        ),
        "one of rows with folding texts goes": postgresql_sql.swap_sql(
            PG_FOLDING, ["t", "c", "i"], [], is_update=False
        ),
        "widen": ";\n".join(postgresql_sql.widen_sqls(PG, "Group", "varchar(40)")),
        "widen bits": ";\n".join(postgresql_sql.widen_sqls(PG, "k2", "bit(8)")),
        "widen bits that have a default": ";\n".join(
            postgresql_sql.widen_sqls(PG, "k2", "bit(8)", "'101'::\"bit\"")
        ),
        "add labels": ";\n".join(
            postgresql_sql.widen_sqls(PG_LABELS, "e%", "enum('a','it''s %','new')")
        ),
    },
    "mysql": {
        "upsert": mysql_sql.upsert_sql(
            MY, list(MY.columns), mysql_cells.row_literals(MY, list(MY.columns), ROWS)
        ),
        "upsert of key columns only": mysql_sql.upsert_sql(MY_KEY_ONLY, ["k"], ["('a')"]),
        "stage": mysql_sql.create_stage_sql(MY, ["k2", "k", "Group"]),
        "into the stage": mysql_sql.insert_sql(
            mysql_sql.stage_of(MY), ["k2", "k", "Group"], ["(1, 2, 'a')"]
        ),
        "update": mysql_sql.update_sql(MY, ["k2", "k", "Group"]),
        "update of key columns only": mysql_sql.update_sql(MY_KEY_ONLY, ["k"]),
        "insert what is missing": mysql_sql.insert_missing_sql(MY, ["k2", "k", "Group"]),
        "delete": mysql_sql.delete_sql(
            MY,
            [
                mysql_sql.key_sql(MY, key)
                for key in mysql_cells.literal_rows(MY, MY.key, [row[:2] for row in ROWS])
            ],
        ),
        "delete of one key": mysql_sql.delete_sql(
            MY_KEY_ONLY, [mysql_sql.key_sql(MY_KEY_ONLY, ["'a'"])]
        ),
        "mark invalid labels": mysql_sql.mark_sql(
            MY_MOMENTS,
            "e",
            [mysql_sql.key_sql(MY_MOMENTS, key) for key in (("1", "2"), ("3", "4"))],
        ),
        "truncate": mysql_sql.QUOTED.delete_all(MY.id),
        "update of one row": mysql_sql.update_row_sql(MY, ["k2", "k", "Group"], ["5", "1", "'a'"]),
        "one of equal rows goes": mysql_sql.swap_sql(
            MY_TYPES, list(MY_TYPES.columns), ["1", "'a'", "0.1", "'[]'", "x'00'", "NULL"]
        ),
        "one of equal rows becomes another": mysql_sql.swap_sql(
            MY, ["k", "Group"], ["1", "'a'"], ["2", "NULL"]
        ),
        "widen": mysql_sql.widen_sql(
            MY,
            "Group",
            "varchar(40)",
            "varchar(3)",
            "CREATE TABLE `t` (\n  `Group` varchar(3) NOT NULL,\n  `v` int\n)",
        ),
        "widen a moment": mysql_sql.widen_sql(
            MY,
            "Group",
            "timestamp(6)",
            "timestamp",
            "(\n  `Group` timestamp NOT NULL DEFAULT current_timestamp() ON UPDATE "
            "CURRENT_TIMESTAMP COMMENT 'it''s \\\\ "
            "current_timestamp()',\n)",
        ),
    },
    "oracle": {
        "merge": oracle_sql.merge_sql(ORA, list(ORA.columns)),
        "merge of key columns only": oracle_sql.merge_sql(ORA_KEY_ONLY, ["k"]),
        "update": oracle_sql.update_sql(ORA, ["Group", "k2", "k"]),
        "update of key columns only": oracle_sql.update_sql(ORA_KEY_ONLY, ["k"]),
        "delete": oracle_sql.delete_sql(ORA),
        "truncate": oracle_sql.QUOTED.delete_all(ORA.id),
        "insert": oracle_sql.insert_sql(ORA, ["Group", "k"]),
        "one of equal rows goes": oracle_sql.swap_sql(
            ORA, ["k", "Group", "long"], ["Group"], is_update=False
        ),
        "one of equal rows becomes another": oracle_sql.swap_sql(
            ORA, ["k", "Group", "long"], [], is_update=True
        ),
        "one of rows with folding texts goes": oracle_sql.swap_sql(
            ORA_FOLDING, ["t", "n"], [], is_update=False
        ),
        "widen": oracle_sql.widen_sql(ORA, "Group", "VARCHAR2(40 CHAR)"),
    },
}


@pytest.mark.parametrize("dialect", STATEMENTS)
def test_statements_are_the_golden_ones(dialect: str) -> None:
    text = "".join(f"-- {name}\n{sql};\n\n" for name, sql in STATEMENTS[dialect].items())
    golden = GOLDEN / f"{dialect}.sql"
    if os.environ.get("CDCBUS_WRITE_GOLDEN"):
        golden.write_text(text)
    assert text == golden.read_text()


def test_postgresql_cells_become_one_array_per_column() -> None:
    rows = [("1", "5", 'a"b\\c,{}', "{1,NULL}", "\x00\xff"), ("2", "0", "", None, "")]
    columns = ["k", "k2", "Group", "tags", 'od"d %']
    assert postgresql_cells.arrays(PG, columns, rows) == (
        '{"1","2"}',
        '{"101","0"}',
        '{"a\\"b\\\\c,{}",""}',
        '{"{1,NULL}",NULL}',
        '{"\\\\x00ff","\\\\x"}',
    )


def test_postgresql_bits_have_the_column_s_width() -> None:
    fixed = TargetTable(
        PG.id, {"b": TargetColumn("b", '"bit"', 8), "v": TargetColumn("v", "bit varying", 8)}, ()
    )
    assert postgresql_cells.arrays(fixed, ["b", "v"], [("5", "5"), ("255", None)]) == (
        '{"00000101","11111111"}',
        '{"101",NULL}',
    )


@pytest.mark.parametrize(
    ("columns", "row", "what"),
    [
        (
            ["Group"],
            ("a\0b",),
            "Group (character varying): a cell has the character U+0000, which PostgreSQL text "
            "cannot hold",
        ),
        (
            ['od"d %'],
            ("SECRET\u0100",),
            'od"d % (bytea): a cell has a character above U+00FF, which is no byte',
        ),
        (["k2"], ("SECRET",), 'k2 ("bit"): a cell has no whole number, which bits come as'),
    ],
)
def test_a_cell_that_postgresql_cannot_take_is_named_by_column(
    columns: list[str], row: tuple[str], what: str
) -> None:
    with pytest.raises(TargetRejected) as refused:
        postgresql_cells.arrays(PG, columns, [row])
    assert str(refused.value) == f"target table Shop.order, column {what}"


@pytest.mark.parametrize(
    "number",
    [
        "0",
        "-1",
        "12.50",
        ".5",
        "5.",
        "1e10",
        "1.0E-10",
        "-1.7976931348623157e308",
        "18446744073709551615",
    ],
)
def test_mysql_numbers_stand_bare(number: str) -> None:
    assert mysql_cells.row_literals(MY, ["k"], [(number,), (None,)]) == [f"({number})", "(NULL)"]


@pytest.mark.parametrize(
    "cell", ["", "SECRET", "1; DROP TABLE t", "1,2", "0x10", "--1", "1 ", "nan", "1e", "٣"]
)
def test_nothing_else_stands_bare(cell: str) -> None:
    with pytest.raises(
        TargetRejected,
        match=r"^target table Shop\.order, column k \(bigint\): a cell has no number$",
    ):
        mysql_cells.row_literals(MY, ["k"], [("1",), (cell,)])


@pytest.mark.parametrize(
    "column",
    [
        TargetColumn("n", "bigint", is_nullable=False, declared="bigint(20) auto_increment"),
        TargetColumn("n", "timestamp", is_nullable=False, declared="timestamp"),
    ],
)
def test_null_is_refused_where_mysql_would_replace_it(column: TargetColumn) -> None:
    own = TargetTable(MY.id, {"v": TargetColumn("v", "int"), "n": column}, ())
    nullable = TargetTable(MY.id, {**own.columns, "n": replace(column, is_nullable=True)}, ())
    rows = [("1", "2"), ("3", None)]
    for given in (rows, ColumnRows(list(map(pa.array, zip(*rows, strict=True))))):
        with pytest.raises(TargetRejected, match=r"column n .*a cell has NULL"):
            mysql_cells.refuse_replaced_nulls(own, ["v", "n"], given)
        mysql_cells.refuse_replaced_nulls(own, ["n", "v"], given)
        mysql_cells.refuse_replaced_nulls(own, ["v"], given)
        mysql_cells.refuse_replaced_nulls(nullable, ["v", "n"], given)
    mysql_cells.refuse_replaced_nulls(own, ["v", "n"], rows[:1])


def test_mysql_rows_are_cut_into_statements_and_a_long_row_goes_alone() -> None:
    long, short, wide = "x" * 101, "y" * 48, "漢" * 16
    assert list(mysql_cells.in_statements([long, short, short, short], 100)) == [
        [long],
        [short, short],
        [short],
    ]
    assert list(mysql_cells.in_statements([wide, wide, wide], 100)) == [[wide, wide], [wide]]
    assert list(mysql_cells.in_statements([], 100)) == []


CELL = "SECRET"
BATCH_PARTS = {
    "truncate": True,
    "deletes": [(CELL, CELL)],
    "writes": [
        Writes(("k", "k2", "Group"), [(CELL,) * 3] * 9),
        Writes(("k", "k2", "Group"), [(CELL,) * 3] * 2, may_insert=False),
    ],
    "swaps": [
        Swaps(
            ("k", "Group"),
            [((CELL, None), None), ((CELL, CELL), (CELL, CELL)), (None, (CELL, CELL))],
        )
    ],
}


@pytest.mark.parametrize(
    ("dialect", "target"),
    [
        (postgresql_dialect.Postgresql(), PG),
        (mysql_dialect.Mysql(), MY),
        (oracle_dialect.Oracle(), ORA),
    ],
)
def test_a_preview_has_all_that_a_batch_comes_to_and_no_cell(
    dialect: SqlDialect, target: TargetTable
) -> None:
    statements = list(dialect.preview(TableBatch(target, **BATCH_PARTS)))  # type: ignore[arg-type]
    assert not [sql for sql, _ in statements if CELL in sql]
    assert (
        [rows for _, rows in statements] == [0, 1, 9, 2, 1, 1, 1]
        if dialect.name != "mysql"
        else [0, 1, 9, 2, 2, 1, 1, 1]
    )
    assert [sql.split()[0] for sql, _ in statements[-3:]] == ["DELETE", "UPDATE", "INSERT"]


def test_oracle_s_types_are_taken_by_family_and_long_cells_as_lobs() -> None:
    assert [
        family(type_)
        for type_ in (
            "TIMESTAMP(6) WITH LOCAL TIME ZONE",
            "INTERVAL DAY(2) TO SECOND(6)",
            "LONG RAW",
        )
    ] == [
        "TIMESTAMP",
        "INTERVAL DAY",
        "LONG RAW",
    ]
    floats = [TargetColumn("f", type_) for type_ in ("BINARY_FLOAT", "BINARY_DOUBLE")]
    assert [oracle_cells.bind_type(column, ["0.1"]) for column in floats] == [
        "DB_TYPE_BINARY_FLOAT",
        "DB_TYPE_BINARY_DOUBLE",
    ]
    clob = TargetColumn("c", "CLOB")
    assert [oracle_cells.bind_type(clob, [cell, None]) for cell in ("x" * 1000, "x" * 1001)] == [
        "DB_TYPE_VARCHAR",
        "DB_TYPE_CLOB",
    ]


def test_an_empty_text_is_null_for_oracle_and_a_blank_where_there_is_no_null() -> None:
    columns = TargetColumn("v", "VARCHAR2"), TargetColumn("v", "VARCHAR2", is_nullable=False)
    assert [oracle_cells.binds(ORA, column, ["", "null", None]) for column in columns] == [
        [None, "null", None],
        [" ", "null", None],
    ]


class RefusingConnection:
    """A server that makes no temporary tables in transactions; it takes all else, and notes it."""

    def __init__(self, number: int, message: str) -> None:
        self.info = {MAX_PACKET: 2**24}
        self.ran: list[str] = []
        self.error = OperationalError(None, None, pymysql.OperationalError(number, message))

    def exec_driver_sql(self, sql: str, execution_options: object) -> SimpleNamespace:
        if "TEMPORARY" in sql:
            raise self.error
        self.ran.append(sql)
        return SimpleNamespace(rowcount=1)


@pytest.mark.parametrize(
    ("number", "message"),
    [
        (1787, "Statement violates GTID consistency: CREATE TEMPORARY TABLE and DROP TEMPORARY"),
        (1105, "Percona-XtraDB-Cluster prohibits use of CREATE TABLE AS SELECT"),
    ],
)
def test_rows_are_written_one_by_one_where_a_server_makes_no_temporary_table(
    caplog: pytest.LogCaptureFixture, number: int, message: str
) -> None:
    connection: Any = RefusingConnection(number, message)
    dialect = mysql_dialect.Mysql()
    writes = Writes(("k", "k2", "Group"), [(str(key), "0", "a") for key in range(9)])
    for _ in range(2):
        assert dialect.update(connection, MY, writes) == 9
    assert [sql.split()[0] for sql in connection.ran] == ["UPDATE"] * 18
    assert caplog.text.count("one by one: the server makes no temporary tables") == 1


@pytest.mark.parametrize(
    ("key", "is_other"), [(("k", "k2"), False), (("k2", "k"), False), (("k",), True)]
)
def test_a_key_whose_columns_have_another_order_is_the_same(
    key: tuple[str, ...], is_other: bool
) -> None:
    columns = [(name, "int", None, 0, 0, 1, None, "") for name in MY.columns]
    answers = [columns, [(1, "PRIMARY", name, 0) for name in key]]
    connection: Any = SimpleNamespace(execute=lambda *_: answers.pop(0))
    with pytest.raises(TargetUnavailable) if is_other else nullcontext():
        check_key(connection, mysql_catalog.CATALOG, MY)


def test_another_error_of_a_temporary_table_is_not_passed_over() -> None:
    connection: Any = RefusingConnection(1105, "Unknown error")
    writes = Writes(("k", "k2", "Group"), [(str(key), "0", "a") for key in range(9)])
    with pytest.raises(OperationalError):
        mysql_dialect.Mysql().update(connection, MY, writes)
