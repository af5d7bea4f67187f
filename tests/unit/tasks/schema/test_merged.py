"""One target table of several source tables."""

from __future__ import annotations

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.ddl.table_schema import PRIMARY
from cdcbus.tasks.schema.definition import ColumnDefinition, TableDefinition, merged
from cdcbus.tasks.schema.source_details import Index, IndexPart

TARGET = TableId("copy", "orders")


def part(name: str, *columns: ColumnDefinition, key: str = "id") -> TableDefinition:
    index = Index(PRIMARY, True, "BTREE", (IndexPart(key),))
    return TableDefinition(TARGET, (TableId("shop", name),), columns, index)


def column(name: str, type_: str = "int", *, is_nullable: bool = False) -> ColumnDefinition:
    return ColumnDefinition(name, type_, type_, is_nullable=is_nullable)


def nullable(table: TableDefinition) -> dict[str, bool]:
    return {each.name: each.is_nullable for each in table.columns}


def test_it_has_all_columns_and_those_that_one_source_lacks_may_be_null() -> None:
    found = merged([part("a", column("id"), column("x")), part("b", column("id"), column("y"))])
    assert nullable(found) == {"id": False, "x": True, "y": True}
    assert found.problems == ()


def test_a_column_may_be_null_where_one_source_has_it_so_but_for_the_key() -> None:
    first = part("a", column("id"), column("x"))
    other = part("b", column("ID", is_nullable=True), column("X", is_nullable=True))
    assert nullable(merged([first, other])) == {"id": False, "x": True}


def test_types_that_differ_are_a_problem_that_names_both_sources() -> None:
    found = merged([part("a", column("id")), part("b", column("id", "bigint"))])
    assert found.problems == (
        "column id is int for shop.a and bigint for shop.b: make the table by hand, with the wider "
        "of the two",
    )


def test_keys_that_differ_are_a_problem() -> None:
    columns = column("id"), column("x")
    found = merged([part("a", *columns), part("b", *columns, key="x")])
    assert found.problems == ("the keys of shop.a and shop.b differ: make the table by hand",)


def test_a_note_says_that_rows_come_together_where_there_are_several_sources() -> None:
    both = merged([part("a", column("id")), part("b", column("id"))])
    assert both.sources == (TableId("shop", "a"), TableId("shop", "b"))
    assert both.notes == ("rows of shop.a, shop.b come together: rows with one key become one",)
    assert merged([part("a", column("id"))]).notes == ()
