"""A table's definition as SQL of each kind of target."""

from __future__ import annotations

import pytest

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.ddl.table_schema import PRIMARY
from cdcbus.tasks.schema.compare import other_indexes
from cdcbus.tasks.schema.create_table import (
    ExistingIndex,
    create_schema,
    create_table,
    default_sql,
    missing_indexes,
)
from cdcbus.tasks.schema.definition import ColumnDefinition, TableDefinition
from cdcbus.tasks.schema.source_details import Default, DefaultKind, Index, IndexPart

ID = TableId("shop", "orders")
TEXT, NOW, BITS, BYTES = (
    DefaultKind.TEXT,
    DefaultKind.NOW,
    DefaultKind.BITS,
    DefaultKind.BYTES,
)


@pytest.mark.parametrize(
    ("source", "default", "mysql", "postgresql", "oracle"),
    [
        (
            "timestamp(3)",
            Default(NOW, "3"),
            "CURRENT_TIMESTAMP(3)",
            "CURRENT_TIMESTAMP",
            "CURRENT_TIMESTAMP",
        ),
        ("bit(5)", Default(BITS, "101"), "b'101'", "B'00101'", "5"),
        ("bit(1)", Default(BITS, ""), "b''", "B'0'", "0"),
        ("binary(2)", Default(BYTES, "00ff"), "x'00ff'", "'\\x00ff'::bytea", "HEXTORAW('00ff')"),
        ("varbinary(2)", Default(TEXT, "ab"), "'ab'", "'\\x6162'::bytea", "HEXTORAW('6162')"),
        ("int unsigned", Default(TEXT, "-1"), "-1", "-1", "-1"),
        ("decimal(5,2)", Default(TEXT, "1.50"), "1.50", "1.50", "1.50"),
        ("date", Default(TEXT, "2024-01-01"), *["'2024-01-01'"] * 2, "DATE '2024-01-01'"),
        (
            "timestamp",
            Default(TEXT, "2024-01-01 01:02:03"),
            "'2024-01-01 01:02:03'",
            "'2024-01-01 01:02:03+00'",
            "TIMESTAMP '2024-01-01 01:02:03'",
        ),
        ("varchar(9)", Default(TEXT, "it's"), *["'it''s'"] * 3),
    ],
)
def test_a_default_is_the_same_value_at_each_target(
    source: str, default: Default, mysql: str, postgresql: str, oracle: str
) -> None:
    column = ColumnDefinition("a", source, "", default=default)
    found = [default_sql(column, dialect) for dialect in ("mysql", "postgresql", "oracle")]
    assert found == [mysql, postgresql, oracle]


def table(*indexes: Index, comment: str = "") -> TableDefinition:
    columns = (
        ColumnDefinition("id", "int", "int", is_nullable=False),
        ColumnDefinition("a", "varchar(9)", "varchar(9)", default=Default(TEXT, "x")),
    )
    key = Index(PRIMARY, True, "BTREE", (IndexPart("id"),))
    return TableDefinition(ID, (ID,), columns, key, indexes=indexes, comment=comment)


PREFIX = Index("by_a", False, "BTREE", (IndexPart("a", 4), IndexPart("id", is_descending=True)))
UNIQUE = Index("only_a", True, "BTREE", (IndexPart("a"),))


def test_mysql_gets_indexes_and_comment_inside_the_one_statement() -> None:
    [sql] = create_table(table(PREFIX, UNIQUE, comment="it's"), "mysql", with_indexes=True)
    assert "KEY `by_a` (`a`(4), `id` DESC)" in sql
    assert "UNIQUE KEY `only_a` (`a`)" in sql
    assert sql.endswith("ENGINE=InnoDB COMMENT='it''s'")
    assert "`a` varchar(9) NULL DEFAULT 'x'" in sql


def test_postgresql_gets_a_statement_for_each_index() -> None:
    create, *indexes = create_table(table(PREFIX, UNIQUE), "postgresql", with_indexes=True)
    assert 'PRIMARY KEY ("id")' in create
    assert indexes == [
        'CREATE INDEX "by_a" ON "shop"."orders" (substr("a", 1, 4), "id" DESC)',
        'CREATE UNIQUE INDEX "only_a" ON "shop"."orders" ("a")',
    ]


def test_oracle_gets_the_default_before_not_null_and_indexes_in_the_tables_schema() -> None:
    create, index = create_table(table(UNIQUE), "oracle", with_indexes=True)
    assert "DEFAULT 'x'" in create
    assert "NULL DEFAULT" not in create
    assert index.split(" ON ")[0].count(".") == 1


def test_indexes_are_made_only_where_they_are_asked_for() -> None:
    for dialect in ("mysql", "postgresql", "oracle"):
        [sql] = create_table(table(PREFIX, UNIQUE), dialect)
        assert "by_a" not in sql


@pytest.mark.parametrize(
    ("there", "count"),
    [
        ([], 1),
        ([ExistingIndex("only_a", True, ("a",))], 0),
        ([ExistingIndex("other", True, ("A",))], 0),
        ([ExistingIndex("other", False, ("a",))], 1),
        ([ExistingIndex("other", True, ("a", "id"))], 1),
    ],
)
def test_an_index_is_missing_where_none_does_its_work(
    there: list[ExistingIndex], count: int
) -> None:
    assert len(missing_indexes(table(UNIQUE), there, "postgresql")) == count
    assert not list(other_indexes(table(UNIQUE), there, "postgresql"))


@pytest.mark.parametrize(
    ("other", "shown"),
    [
        (ExistingIndex("only_a", True, ("id",)), "on id and unique"),
        (ExistingIndex("only_a", False, ("a",)), "on a and not unique"),
        (
            ExistingIndex("only_a", True, ("id", "")),
            "on id, an expression or a condition and unique",
        ),
        (ExistingIndex("ONLY_A", True, ("id",)), "on id and unique"),
    ],
)
def test_another_index_of_its_name_is_told_and_only_where_none_does_its_work(
    other: ExistingIndex, shown: str
) -> None:
    assert missing_indexes(table(UNIQUE), [other], "mysql") == []
    [told] = other_indexes(table(UNIQUE), [other], "mysql")
    assert (told.is_lost, told.what) == (
        False,
        f"index only_a is missing, and another one has its name, {shown}, while the source's is "
        "on a and unique: rename or drop it",
    )
    there = [other, ExistingIndex("more", True, ("a",))]
    assert not list(other_indexes(table(UNIQUE), there, "mysql"))


def test_outside_of_mysql_names_of_indexes_differ_by_case() -> None:
    other = ExistingIndex("ONLY_A", True, ("id",))
    assert len(missing_indexes(table(UNIQUE), [other], "postgresql")) == 1
    assert not list(other_indexes(table(UNIQUE), [other], "postgresql"))


def test_outside_of_mysql_an_expression_of_its_name_stands_for_a_prefix() -> None:
    there = [ExistingIndex("by_a", False, ("", "id"))]
    assert missing_indexes(table(PREFIX), there, "postgresql") == []
    assert not list(other_indexes(table(PREFIX), there, "postgresql"))
    assert list(other_indexes(table(PREFIX), there, "mysql"))


def test_a_schema_is_quoted_as_the_target_does() -> None:
    assert create_schema("a b", "mysql") == "CREATE SCHEMA IF NOT EXISTS `a b`"
    assert create_schema("a b", "postgresql") == 'CREATE SCHEMA IF NOT EXISTS "a b"'
