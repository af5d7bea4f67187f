from collections.abc import Sequence
from dataclasses import replace

import pytest

from cdcbus.plugins.contracts import ZeroDate
from cdcbus.plugins.rowchange import Column, Table, TableId
from cdcbus.plugins.transform.cells.expression import read_expression
from cdcbus.plugins.transform.cells.mask import read_mask
from cdcbus.plugins.transform.route import Route
from cdcbus.plugins.transform.rules import MapperRule
from cdcbus.producer.ddl.table_schema import PRIMARY, TableColumn, TableSchema, UniqueKey
from cdcbus.tasks.control.source_of import MappedTable, record_type
from cdcbus.tasks.schema.create_table import create_table
from cdcbus.tasks.schema.definition import TableDefinition, Target, define, with_own_index_names
from cdcbus.tasks.schema.source_details import (
    ColumnDetails,
    Default,
    DefaultKind,
    Index,
    IndexPart,
    TableDetails,
)

ID = TableId("shop", "orders")
NOTHING = TableDetails({})


def mapped(
    columns: Sequence[TableColumn], key: str = "id", rule: MapperRule | None = None
) -> MappedTable:
    schema = TableSchema(tuple(columns), (UniqueKey(PRIMARY, tuple(key.split())),) if key else ())
    source = Table(ID, tuple(Column(each.name, record_type(each)) for each in columns), schema.key)
    route = Route(ID, rule or MapperRule(), is_shared=False)
    names = {each.name: name for each in columns if (name := route.wanted(each.name))}
    return MappedTable(source, schema, "shop", route, names)


def column(name: str, type_: str, *, is_nullable: bool = True) -> TableColumn:
    return TableColumn(name, type_, is_nullable=is_nullable)


def made(
    *columns: TableColumn,
    dialect: str = "postgresql",
    details: TableDetails = NOTHING,
    key: str = "id",
    rule: MapperRule | None = None,
    zero_date: ZeroDate = ZeroDate.EPOCH,
) -> TableDefinition:
    wanted = mapped([column("id", "int"), *columns], key, rule)
    return define(wanted, details, Target(dialect, zero_date=zero_date))


def nullable(table: TableDefinition) -> list[str]:
    return [each.name for each in table.columns if each.is_nullable]


def test_columns_of_the_key_are_not_null_and_others_as_at_the_source() -> None:
    table = made(column("a", "int", is_nullable=False), column("b", "int"))
    assert nullable(table) == ["b"]


def test_dates_may_be_null_where_zero_dates_become_that() -> None:
    day = column("day", "date", is_nullable=False)
    assert nullable(made(day, zero_date=ZeroDate.NULL)) == ["day"]
    assert nullable(made(day)) == []
    assert nullable(made(day, dialect="mysql", zero_date=ZeroDate.NULL)) == []


def test_where_zero_dates_are_refused_a_note_names_the_columns() -> None:
    columns = column("day", "date"), column("at", "timestamp(3)"), column("clock", "time")
    [note] = made(*columns, zero_date=ZeroDate.REJECT).notes
    assert note.startswith("day, at: zero dates are refused")
    assert made(*columns, dialect="mysql", zero_date=ZeroDate.REJECT).notes == ()


def test_in_oracle_texts_may_be_null_but_for_the_key() -> None:
    columns = column("a", "varchar(5)", is_nullable=False), column("b", "int", is_nullable=False)
    assert nullable(made(*columns, dialect="oracle")) == ["a"]
    assert nullable(made(*columns, dialect="oracle", key="a id")) == []


def test_a_note_says_where_oracle_rounds_a_decimal() -> None:
    columns = column("a", "decimal(39,2)"), column("b", "decimal(38,2)")
    assert made(*columns, dialect="oracle").notes == (
        "a: Oracle keeps 38 digits of a decimal(39,2), and rounds the rest",
    )
    assert made(*columns).notes == ()


def test_a_long_text_is_no_key_in_oracle() -> None:
    table = made(column("a", "varchar(5000)"), dialect="oracle", key="a")
    assert table.problems == ("a is of type CLOB, which cannot be in a key in Oracle",)


@pytest.mark.parametrize(
    ("dialect", "type_", "text"), [("postgresql", "date", "0000-00-00"), ("oracle", "int", "")]
)
def test_a_default_that_the_target_cannot_have_is_left_out_with_a_note(
    dialect: str, type_: str, text: str
) -> None:
    details = TableDetails({"a": ColumnDetails(Default(DefaultKind.TEXT, text))})
    table = made(column("a", type_), dialect=dialect, details=details)
    assert table.columns[1].default is None
    assert table.notes[0].startswith("a: default")


@pytest.mark.parametrize(
    ("source", "there", "more"),
    [
        (
            "latin1_swedish_nopad_ci",
            "latin1_bin",
            ", and ignores trailing blanks, which the source",
        ),
        ("utf8mb4_0900_ai_ci", "utf8mb4_nopad_bin", ""),
        ("latin1_german1_ci", "latin1_bin", ""),
    ],
)
def test_a_collation_that_ignores_trailing_blanks_instead_of_one_that_does_not_is_said(
    source: str, there: str, more: str
) -> None:
    details = TableDetails({"word": ColumnDetails(collation=source)})
    target = Target("mysql", collation_of=lambda _: (there.partition("_")[0], there))
    found = define(mapped([column("id", "int"), column("word", "varchar(9)")]), details, target)
    (note,) = found.notes
    assert note.startswith(f"word: the target has no collation {source}; {there} replaces it{more}")
    assert ("blanks" in note) is bool(more)


@pytest.mark.parametrize(
    ("of_table", "words"),
    [
        (
            "latin1_swedish_ci",
            [
                "`cut` varchar(9) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NULL",
                "`fixed` text CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL",
                "`hashed` char(64) NULL",
                "`both` longtext CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL",
            ],
        ),
        (
            "utf8mb4_general_ci",
            ["`cut` varchar(9) NULL", "`fixed` text NULL", "`hashed` char(64) NULL"],
        ),
    ],
)
def test_masked_and_computed_columns_have_all_characters_of_their_texts(
    of_table: str, words: list[str]
) -> None:
    """The table's own character set may lack some."""
    masks = {"cut": "truncate:2", "fixed": "fixed:Ж", "hashed": "hash"}
    rule = MapperRule(
        masks={name: read_mask(text) for name, text in masks.items()},
        computed={"both": read_expression("{cut}-{id}")},
    )
    own = {name: ColumnDetails(collation="utf8mb4_general_ci") for name in masks}
    details = TableDetails(own, collation=of_table)
    columns = [column(name, "varchar(9)") for name in masks]
    table = made(*columns, dialect="mysql", details=details, rule=rule)
    [sql] = create_table(table, "mysql")
    for word in words:
        assert word in sql
    assert table.by_name["cut"].source_collation == "utf8mb4_general_ci"


@pytest.mark.parametrize(
    ("type_", "wanted"),
    [("char(9)", "char(9)"), ("mediumtext", "mediumtext"), ("int", "text")]
    + [(each, "text") for each in ("enum('abc','d')", "set('abc','d')", "json", "uuid")],
)
def test_what_is_cut_has_a_type_that_takes_it(type_: str, wanted: str) -> None:
    rule = MapperRule(masks={"a": read_mask("truncate:2")})
    table = made(column("a", type_), dialect="mysql", rule=rule)
    assert (table.by_name["a"].type, table.by_name["a"].source) == (wanted, wanted)


def test_a_name_that_is_too_long_is_a_problem_of_the_table() -> None:
    long = "é" * 32  # 64 bytes
    assert "rename it with mapper[i]" in made(column(long, "int")).problems[0]
    assert made(column(long, "int"), dialect="mysql").problems == ()


def test_two_columns_of_one_name_are_a_problem() -> None:
    rule = MapperRule(columns={"a": "b"})
    table = made(column("a", "int"), column("b", "int"), rule=rule)
    assert "would be called b" in table.problems[0]


def test_a_timestamp_gets_a_default_where_the_server_would_add_one_for_updates() -> None:
    wanted = mapped([column("id", "int"), column("at", "timestamp(3)", is_nullable=False)])
    table = define(wanted, NOTHING, Target("mysql", adds_on_update=True))
    [sql] = create_table(table, "mysql")
    assert "`at` timestamp(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)" in sql


def test_a_masked_column_is_text_that_may_be_as_long_as_the_mask_makes_it() -> None:
    masks = {"a": "hash", "b": "fixed:none", "c": "truncate:2", "d": "truncate:2"}
    rule = MapperRule(masks={name: read_mask(text) for name, text in masks.items()})
    columns = [column("a", "int"), column("b", "int"), column("c", "int"), column("d", "char(9)")]
    types = [each.type for each in made(*columns, rule=rule).columns]
    assert types == ["integer", "char(64)", "text", "text", "char(9)"]


def test_a_prefix_of_the_key_stays_in_mysql_and_is_all_of_the_column_elsewhere() -> None:
    index = Index(PRIMARY, True, "BTREE", (IndexPart("a", 10),))
    details = TableDetails({}, (index,))
    there = made(column("a", "text"), dialect="mysql", key="a", details=details)
    assert "PRIMARY KEY (`a`(10))" in create_table(there, "mysql")[0]
    elsewhere = made(column("a", "text"), key="a", details=details)
    assert 'PRIMARY KEY ("a")' in create_table(elsewhere, "postgresql")[0]
    assert "first 10 characters" in elsewhere.notes[0]


def test_names_of_indexes_are_the_tables_own_and_short_enough() -> None:
    parts = (IndexPart("a"),)
    indexes = tuple(Index(f"{number}{'x' * 63}", False, "BTREE", parts) for number in (1, 2))
    table = made(column("a", "int"), details=TableDetails({}, indexes))
    names = [index.name for index in table.indexes]
    assert len(set(names)) == 2
    assert all(len(name) == 63 and name.startswith("orders_") for name in names)


def test_an_index_gets_another_name_where_a_table_a_key_or_an_index_has_it_too() -> None:
    own = made(
        column("a", "int"), details=TableDetails({}, indexes_of("item", "pkey", "item_a", "b"))
    )
    item = replace(
        own, id=own.id._replace(table="orders_item"), indexes=indexes_of("orders_item_a")
    )
    elsewhere = replace(item, id=TableId("other", "orders_b"), indexes=())
    tables = own, item, elsewhere
    named = with_own_index_names(tables, "postgresql")
    names = [index.name for table in named for index in table.indexes]
    beginnings = [name[:-9] for name in names]
    assert beginnings == ["orders_item", "orders_pkey", "orders_item_a", "", "orders_item_a"]
    assert names[3] == "orders_b"
    assert len(set(names)) == 5
    assert with_own_index_names(tables, "mysql") == [*tables]


def indexes_of(*names: str) -> tuple[Index, ...]:
    return tuple(Index(name, False, "BTREE", (IndexPart("a"),)) for name in names)


def test_quotes_and_backslashes_in_texts_are_just_these() -> None:
    details = TableDetails(
        {"a": ColumnDetails(Default(DefaultKind.TEXT, "it's \\n"), comment="a'b")}, comment="c'd"
    )
    create, table, comment = create_table(made(column("a", "text"), details=details), "postgresql")
    assert "\"a\" text DEFAULT 'it''s \\n'" in create
    assert table.endswith("IS 'c''d'")
    assert comment.endswith("IS 'a''b'")
