"""One target table of several source tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.ddl.table_schema import PRIMARY
from cdcbus.tasks.schema.definition import ColumnDefinition, TableDefinition, Target
from cdcbus.tasks.schema.merged import merged
from cdcbus.tasks.schema.source_details import Index, IndexPart

TARGET = TableId("copy", "orders")


def part(name: str, *columns: ColumnDefinition, key: str = "id") -> TableDefinition:
    index = Index(PRIMARY, True, "BTREE", (IndexPart(key),))
    return TableDefinition(TARGET, (TableId("shop", name),), columns, index)


def of(parts: Sequence[TableDefinition], dialect: str = "postgresql") -> TableDefinition:
    return merged(parts, Target(dialect))


def column(name: str, type_: str = "int", *, is_nullable: bool = False) -> ColumnDefinition:
    return ColumnDefinition(name, type_, type_, is_nullable=is_nullable)


def nullable(table: TableDefinition) -> dict[str, bool]:
    return {each.name: each.is_nullable for each in table.columns}


def test_it_has_all_columns_and_those_that_one_source_lacks_may_be_null() -> None:
    found = of([part("a", column("id"), column("x")), part("b", column("id"), column("y"))])
    assert nullable(found) == {"id": False, "x": True, "y": True}
    assert found.problems == ()


def test_a_column_may_be_null_where_one_source_has_it_so_but_for_the_key() -> None:
    first = part("a", column("id"), column("x"))
    other = part("b", column("ID", is_nullable=True), column("X", is_nullable=True))
    assert nullable(of([first, other])) == {"id": False, "x": True}


def test_types_that_differ_are_a_problem_that_names_both_sources() -> None:
    found = of([part("a", column("id")), part("b", column("id", "bigint"))])
    assert found.problems == (
        "column id is int for shop.a and bigint for shop.b: make the table by hand, with the wider "
        "of the two",
    )


def test_keys_that_differ_are_a_problem() -> None:
    columns = column("id"), column("x")
    found = of([part("a", *columns), part("b", *columns, key="x")])
    assert found.problems == ("the keys of shop.a and shop.b differ: make the table by hand",)


def test_keys_of_other_prefixes_differ() -> None:
    """The shorter one would treat rows of the other source as one."""
    parts = []
    for name, length in (("a", 5), ("b", 10)):
        key = Index(PRIMARY, True, "BTREE", (IndexPart("id", length),))
        parts.append(replace(part(name, column("id", "varchar(20)")), key=key))
    assert "the keys of shop.a and shop.b differ" in of(parts, "mysql").problems[0]
    assert of([parts[0], parts[0]], "mysql").problems == ()


def text(collation: str) -> ColumnDefinition:
    known = (collation.partition("_")[0], collation)
    return ColumnDefinition(
        *("id", "varchar(9)", "varchar(9)"), collation=known, source_collation=collation
    )


@pytest.mark.parametrize(
    ("collations", "wanted"),
    [
        (("utf8mb4_general_ci", "utf8mb4_bin"), "utf8mb4_bin"),
        (("utf8mb4_bin", "utf8mb4_0900_bin"), "utf8mb4_0900_bin"),
        (("latin1_bin", "utf8mb4_bin"), "utf8mb4_bin"),
        (("latin1_swedish_ci", "utf8mb4_general_ci"), "utf8mb4_0900_bin"),
        (("utf8mb4_general_ci", "utf8mb4_unicode_ci"), "utf8mb4_0900_bin"),
        (("utf8mb4_0900_ai_ci", "utf8mb4_bin"), "utf8mb4_0900_bin"),
        (("latin1_swedish_ci", "latin2_general_ci"), "utf8mb4_0900_bin"),
    ],
)
def test_texts_are_compared_as_strictly_as_by_all_sources_whatever_their_order(
    collations: tuple[str, str], wanted: str
) -> None:
    one, other = (part(name, text(each)) for name, each in zip("ab", collations, strict=True))
    for parts in ([one, other], [other, one]):
        found = of(parts, "mysql")
        assert found.columns[0].collation == (wanted.partition("_")[0], wanted)
        assert found.problems == ()
        shown = ", ".join(sorted(collations))
        assert found.notes[0] == f"id: the sources compare by {shown}, the target by {wanted}"
    same = of([one, one], "mysql")
    assert same.columns[0].collation == one.columns[0].collation
    assert len(same.notes) == 1


@pytest.mark.parametrize(
    ("collations", "wanted"),
    [
        (("latin1_swedish_ci", "latin1_general_ci"), "latin1_bin"),
        (("latin1_swedish_ci", "latin1_swedish_nopad_ci"), "utf8mb4_0900_bin"),
        (("latin1_swedish_ci", "latin2_general_ci"), "utf8mb4_0900_bin"),
    ],
)
def test_texts_keep_the_character_set_of_all_sources_if_one_of_its_collations_suits_them(
    collations: tuple[str, str], wanted: str
) -> None:
    """As a key of 1,000 characters that MySQL allows in latin1, but not in utf8mb4."""

    def of_mysql(name: str) -> tuple[str, str]:
        charset = name.partition("_")[0]
        return charset, name if charset == "utf8mb4" else f"{charset}_bin"

    parts = []
    for name, collation in zip("ab", collations, strict=True):
        column = text(collation)
        # As MySQL has no collation of another character set than utf8mb4 that keeps blanks.
        if "nopad" in collation:
            column = replace(column, collation=of_mysql(collation))
        parts.append(part(name, column))
    for each in (parts, parts[::-1]):
        found = merged(each, Target("mysql", collation_of=of_mysql))
        assert found.columns[0].collation == (wanted.partition("_")[0], wanted)


def test_a_note_says_where_only_a_collation_is_left_that_ignores_trailing_blanks() -> None:
    """As in MySQL 5.7."""
    binary = ("utf8mb4", "utf8mb4_bin")
    nopad = replace(text("utf8mb4_nopad_bin"), collation=binary)
    parts = [part("a", nopad), part("b", text("utf8mb4_general_ci"))]
    [note, _] = merged(parts, Target("mysql", collation_of=lambda _: binary)).notes
    assert note.endswith("by utf8mb4_bin, and ignores trailing blanks, which not all sources do")


def test_it_has_the_indexes_of_all_sources_and_none_is_unique() -> None:
    """Two sources may have equal values."""
    by_x, by_y = (Index(f"by_{each}", True, "BTREE", (IndexPart(each),)) for each in "xy")
    columns = column("id"), column("x"), column("y")
    first = replace(part("a", *columns), indexes=(by_x,))
    other = replace(part("b", *columns), indexes=(replace(by_x, parts=by_y.parts), by_y))
    found = of([first, other])
    assert found.indexes == (replace(by_x, is_unique=False), replace(by_y, is_unique=False))
    assert found.notes[:3] == (
        "index by_x is not unique, as rows of several sources may have equal values",
        "index by_x of shop.b is left out, as another source's has its name and other columns",
        "index by_y is not unique, as rows of several sources may have equal values",
    )
    assert of([first]).indexes == (by_x,)


def test_a_note_says_that_rows_come_together_where_there_are_several_sources() -> None:
    both = of([part("a", column("id")), part("b", column("id"))])
    assert both.sources == (TableId("shop", "a"), TableId("shop", "b"))
    assert both.notes == ("rows of shop.a, shop.b come together: rows with one key become one",)
    assert of([part("a", column("id"))]).notes == ()
