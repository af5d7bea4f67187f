"""The statements of each dialect as text: tests/golden/sql/<dialect>.sql, written anew with CDCBUS_WRITE_GOLDEN=1; then read them."""

import os
from pathlib import Path

import pytest

from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.errors import TargetRejected
from cdcbus.plugins.loaders import mysql, postgresql
from cdcbus.plugins.rowchange import TableId

GOLDEN = Path(__file__).parents[3] / "golden" / "sql"


def table(dialect: str, **types: str) -> TargetTable:
    """A table whose key is the columns that begin with k."""
    columns = {name: TargetColumn(name, type_) for name, type_ in types.items()}
    return TargetTable(TableId("Shop", "order"), columns, tuple(name for name in columns if name.startswith("k")), dialect=dialect)


PG = table("postgresql", k="bigint", k2='"bit"', Group="character varying", tags="integer[]", **{'od"d %': "bytea"})
PG_KEY_ONLY = table("postgresql", k="uuid")
MY = table("mysql", k="bigint", k2="bit", Group="varchar", **{"od`d %": "varbinary"})
MY_KEY_ONLY = table("mysql", k="char")
ROWS = [("1", "5", "it's \\ %s", "\x00\xff"), ("-2", "0", None, None)]

STATEMENTS = {
    "postgresql": {
        "upsert": postgresql.upsert_sql(PG, list(PG.columns)),
        "upsert of key columns only": postgresql.upsert_sql(PG_KEY_ONLY, ["k"]),
        "insert what is missing": postgresql.insert_missing_sql(PG, ["tags", "k2", "k"]),
        "update": postgresql.update_sql(PG, ["tags", "k2", "k"]),
        "update of key columns only": postgresql.update_sql(PG_KEY_ONLY, ["k"]),
        "delete": postgresql.delete_sql(PG),
        "displace": postgresql.displace_sql(PG, ["Group"]),
        "truncate": postgresql.truncate_sql(PG),
    },
    "mysql": {
        "upsert": mysql.upsert_sql(MY, list(MY.columns), mysql.row_literals(MY, list(MY.columns), ROWS)),
        "upsert of key columns only": mysql.upsert_sql(MY_KEY_ONLY, ["k"], ["('a')"]),
        "stage": mysql.create_stage_sql(MY, ["k2", "k", "Group"]),
        "into the stage": mysql.insert_sql(mysql.stage_of(MY), ["k2", "k", "Group"], ["(1, 2, 'a')"]),
        "update": mysql.update_sql(MY, ["k2", "k", "Group"]),
        "update of key columns only": mysql.update_sql(MY_KEY_ONLY, ["k"]),
        "insert what is missing": mysql.insert_missing_sql(MY, ["k2", "k", "Group"]),
        "displace": mysql.displace_sql(MY, ["Group"]),
        "delete": mysql.delete_sql(MY, mysql.row_literals(MY, MY.key, [row[:2] for row in ROWS])),
        "delete of one key": mysql.delete_sql(MY_KEY_ONLY, ["('a')"]),
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
    assert postgresql.arrays(PG, columns, rows) == (
        '{"1","2"}',
        '{"101","0"}',
        '{"a\\"b\\\\c,{}",""}',
        '{"{1,NULL}",NULL}',
        '{"\\\\x00ff","\\\\x"}',
    )


def test_postgresql_bits_have_the_column_s_width() -> None:
    fixed = TargetTable(PG.id, {"b": TargetColumn("b", '"bit"', 8), "v": TargetColumn("v", "bit varying", 8)}, ())
    assert postgresql.arrays(fixed, ["b", "v"], [("5", "5"), ("255", None)]) == ('{"00000101","11111111"}', '{"101",NULL}')


@pytest.mark.parametrize(
    ("columns", "row", "what"),
    [
        (["Group"], ("a\0b",), "Group (character varying): a cell has the character U+0000, which PostgreSQL text cannot hold"),
        (['od"d %'], ("SECRET\u0100",), 'od"d % (bytea): a cell has a character above U+00FF, which is no byte'),
        (["k2"], ("SECRET",), 'k2 ("bit"): a cell has no whole number, which bits come as'),
    ],
)
def test_a_cell_that_postgresql_cannot_take_is_named_by_column(columns: list[str], row: tuple[str], what: str) -> None:
    with pytest.raises(TargetRejected) as refused:
        postgresql.arrays(PG, columns, [row])
    assert str(refused.value) == f"target table Shop.order, column {what}"


@pytest.mark.parametrize("number", ["0", "-1", "12.50", ".5", "5.", "1e10", "1.0E-10", "-1.7976931348623157e308", "18446744073709551615"])
def test_mysql_numbers_stand_bare(number: str) -> None:
    assert mysql.row_literals(MY, ["k"], [(number,), (None,)]) == [f"({number})", "(NULL)"]


@pytest.mark.parametrize("cell", ["", "SECRET", "1; DROP TABLE t", "1,2", "0x10", "--1", "1 ", "nan", "1e", "٣"])
def test_nothing_else_stands_bare(cell: str) -> None:
    with pytest.raises(TargetRejected, match=r"^target table Shop\.order, column k \(bigint\): a cell has no number$"):
        mysql.row_literals(MY, ["k"], [("1",), (cell,)])


def test_mysql_rows_are_cut_into_statements_and_a_long_row_goes_alone() -> None:
    long, short = "x" * (mysql.STATEMENT_CHARACTERS + 1), "y" * (mysql.STATEMENT_CHARACTERS // 2)
    assert list(mysql.in_statements([long, short, short, short])) == [[long], [short, short], [short]]
    assert list(mysql.in_statements([])) == []
