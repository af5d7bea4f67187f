"""Where rows and cells go."""

import pytest

from cdcbus.consumer.mapper import Mapper
from cdcbus.consumer.task import MapperRule
from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.errors import ConfigError, DataError, UnmappedColumn
from cdcbus.plugins.rowchange import Column, Op, Origin, Row, RowChange, Table, TableId

SOURCE = Table(TableId("Shop", "Orders"), (Column("ID", "bigint"), Column("Note", "varchar(40)", 12), Column("extra", "int")), ("ID",))
ORIGIN = Origin("bin.1", 7)


def target(*columns: str, generated: tuple[str, ...] = ()) -> TargetTable:
    types = {name: TargetColumn(name, "text", is_generated=name in generated) for name in columns}
    return TargetTable(TableId("shop", "orders"), types, ("id",), dialect="postgresql")


def update(before: Row, after: Row) -> RowChange:
    return RowChange(SOURCE, Op.UPDATE, before, after, ORIGIN, 3, True)


# Tables

RULES = (
    MapperRule(),
    MapperRule(schema=("SHOP", "s")),
    MapperRule(table=("orders", "t")),
    MapperRule(schema=("shop", "st"), table=("Orders", "both")),
    MapperRule(schema=("shop", "later"), table=("orders", "later")),
)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (TableId("Shop", "ORDERS"), TableId("st", "both")),
        (TableId("other", "Orders"), TableId("other", "t")),
        (TableId("shop", "items"), TableId("s", "items")),
        (TableId("Other", "Items"), TableId("Other", "Items")),
    ],
)
def test_the_most_telling_rule_names_the_table(source: TableId, expected: TableId) -> None:
    assert Mapper(RULES).target(source) == expected
    assert Mapper(tuple(reversed(RULES[:4]))).target(source) == expected


def test_without_rules_names_stay() -> None:
    assert Mapper(()).target(SOURCE.id) == SOURCE.id


# Columns


def test_columns_match_exactly_first_then_in_any_case() -> None:
    mapped = Mapper(()).map(update({"ID": "1"}, {"ID": "1", "Note": "x", "extra": None}), target("id", "note", "Note", "EXTRA"))
    assert mapped == RowChange(
        Table(TableId("shop", "orders"), (Column("id", "bigint"), Column("Note", "varchar(40)"), Column("EXTRA", "int")), ("id",)),
        Op.UPDATE,
        {"id": "1"},
        {"id": "1", "Note": "x", "EXTRA": None},
        ORIGIN,
        3,
        True,
    )


def test_columns_are_renamed_in_any_case() -> None:
    rule = MapperRule(columns={"NOTE": "REMARK", "absent": "ignored"})
    mapped = Mapper((rule,)).map(update({}, {"ID": "1", "Note": "x"}), target("id", "remark", "extra"))
    assert mapped.after == {"id": "1", "remark": "x"}


def test_a_column_that_the_target_lacks_is_refused_with_its_cure() -> None:
    with pytest.raises(UnmappedColumn) as refused:
        Mapper((MapperRule(columns={"note": "Remark"}),)).map(update({}, {}), target("id", "extra"))
    assert str(refused.value) == (
        "column Note of source table Shop.Orders has no column Remark in target table shop.orders: "
        'add it (ALTER TABLE "shop"."orders" ADD COLUMN "Remark" varchar(40)), '
        "rename it with mapper[i].column, or set mapper[i].forceMatched=false to drop it"
    )


def test_a_column_that_the_target_lacks_is_dropped_where_the_rule_says_so() -> None:
    mapped = Mapper((MapperRule(force_matched=False),)).map(update({"ID": "1", "extra": "5"}, {"extra": "6"}), target("id", "note"))
    assert (mapped.before, mapped.after) == ({"id": "1"}, {})
    assert [column.name for column in mapped.table.columns] == ["id", "note"]


def test_a_column_that_the_target_computes_is_left_out() -> None:
    mapped = Mapper(()).map(update({}, {"ID": "1", "extra": "6"}), target("id", "note", "extra", generated=("extra",)))
    assert mapped.after == {"id": "1"}


def test_a_column_that_the_record_does_not_describe_is_refused() -> None:
    with pytest.raises(DataError, match=r"^a row of Shop\.Orders holds column new, which its record does not describe$"):
        Mapper(()).map(update({}, {"ID": "1", "new": "x"}), target("id", "note", "extra"))


def test_two_columns_cannot_go_to_one() -> None:
    with pytest.raises(ConfigError) as refused:
        Mapper((MapperRule(columns={"note": "extra"}),)).map(update({}, {}), target("id", "extra"))
    assert str(refused.value) == "columns Note and extra of source table Shop.Orders both go to column extra of shop.orders"


def test_a_truncate_is_mapped_too() -> None:
    mapped = Mapper(()).map(RowChange(SOURCE, Op.TRUNCATE, None, None), target("id", "note", "extra"))
    assert (mapped.table.id, mapped.before, mapped.after) == (TableId("shop", "orders"), None, None)


def test_rows_whose_names_are_equal_are_taken_as_they_are() -> None:
    row = {"ID": "1", "Note": "x"}
    assert Mapper(()).map(update({}, row), target("ID", "Note", "extra")).after is row


def test_a_target_that_has_changed_is_looked_at_again() -> None:
    mapper = Mapper((MapperRule(force_matched=False),))
    assert mapper.map(update({}, {"extra": "6"}), target("id")).after == {}
    assert mapper.map(update({}, {"extra": "6"}), target("id", "extra")).after == {"extra": "6"}


def test_a_source_that_has_changed_is_looked_at_again() -> None:
    mapper, table = Mapper(()), target("id", "note")
    for name in ("note", "Note", "NOTE"):
        source = Table(SOURCE.id, (Column(name),), ())
        assert mapper.map(RowChange(source, Op.INSERT, None, {name: "x"}), table).after == {"note": "x"}
