"""A target table that the task alters for some rows of a batch gets all cells of the others, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcbus.consumer.apply.applier import PartitionApplier
from cdcbus.consumer.config import SchemaChange
from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Cell, Column, Op, Origin, RowChange, Table, TableId
from cdcbus.plugins.transform.rules import MapperRule
from tests.support.stand_ins.memory_target import MemoryTarget
from tests.support.topics.records import records_of
from tests.unit.consumer.apply.applying import ALONE, PARTITION, TASK

ORDERS = TableId("shop", "orders")
EVOLVING = replace(
    TASK,
    schema_change=SchemaChange.EVOLVE,
    rules=(
        MapperRule(table=("orders_1", "orders")),
        MapperRule(table=("orders_2", "orders")),
    ),
)


def source(name: str, *columns: str) -> Table:
    return Table(
        TableId("shop", name), tuple(Column(each, "varchar(9)") for each in columns), ("id",)
    )


def target(*columns: str) -> MemoryTarget:
    made = {name: TargetColumn(name, "text") for name in columns}
    return MemoryTarget({ORDERS: TargetTable(ORDERS, made, ("id",), dialect="mysql")})


def change(table: Table, op: Op, key: int, cell: str = "") -> RowChange:
    cells: dict[str, Cell] = {name: cell or name for name in table.names}
    cells["id"] = str(key)
    is_delete = op is Op.DELETE
    return RowChange(
        table,
        op,
        cells if is_delete else None,
        None if is_delete else cells,
        Origin("mysql-bin.000001", 100, server_id=1, commit_us=1_000_000),
    )


def apply(
    loader: MemoryTarget,
    changes: Sequence[RowChange],
    converter: str = "canalRow",
    at_once: int = ALONE,
) -> None:
    wire = make_converter(converter)
    applier = PartitionApplier(EVOLVING, wire, loader)
    records = records_of([(at, wire.to_bytes(each)) for at, each in enumerate(changes)])
    for begin in range(0, len(changes), at_once):
        part = records.take(list(range(begin, min(begin + at_once, len(changes)))))
        applier.apply(PARTITION, part, min(begin + at_once, len(changes)), 5, ALONE)


def new_cells(loader: MemoryTarget) -> list[Cell]:
    return [row.get("new") for row in loader.rows[ORDERS].values()]


@pytest.mark.parametrize("count", [20, 200], ids=["row by row", "by columns"])
def test_a_column_that_is_added_between_deletes_and_inserts(count: int) -> None:
    old, new = source("orders", "id", "a"), source("orders", "id", "a", "new")
    loader = target("id", "a")
    changes = [change(old, Op.DELETE, number) for number in range(count)]
    changes += [change(new, Op.INSERT, count + number) for number in range(count)]
    apply(loader, changes)
    assert new_cells(loader) == ["new"] * count


def test_a_column_that_one_of_two_sources_has_already() -> None:
    wide, narrow = source("orders_1", "id", "a", "new"), source("orders_2", "id", "a")
    loader = target("id", "a")
    changes = [
        change(narrow, Op.INSERT, 1),
        change(wide, Op.INSERT, 2),
        change(narrow, Op.INSERT, 3),
    ]
    apply(loader, changes)
    assert shown(loader)[("2",)]["new"] == "new"


class ByName(MemoryTarget):
    """Finds another object at each look, as loaders may for each spelling of a name."""

    def table(self, name: TableId) -> TargetTable | None:
        found = super().table(name)
        return None if found is None else replace(found)


@pytest.mark.parametrize("count", [5, 300], ids=["row by row", "by columns"])
def test_one_table_under_two_names_is_of_one_definition(count: int) -> None:
    made = {name: TargetColumn(name, "text") for name in ("id", "a")}
    loader = ByName({ORDERS: TargetTable(ORDERS, made, ("id",), dialect="mysql")})
    upper, lower = source("Orders", "id", "a"), source("orders", "id", "a")
    changes = [change(upper, Op.INSERT, number) for number in range(count)]
    changes += [change(lower, Op.INSERT, count + number) for number in range(count)]
    apply(loader, changes)
    assert len(loader.rows[ORDERS]) == 2 * count


def test_a_format_whose_table_is_as_wide_as_each_row() -> None:
    old, new = source("orders", "id", "a"), source("orders", "id", "a", "new")
    loader = target("id", "a")
    changes = [
        change(old, Op.DELETE, 9),
        change(new, Op.INSERT, 1),
        change(old, Op.DELETE, 8),
    ]
    apply(loader, changes, "oggJson")
    assert new_cells(loader) == ["new"]


def test_partitions_that_are_applied_together() -> None:
    wide, narrow = source("orders", "id", "a", "new"), source("orders", "id", "a")
    loader = target("id", "a")
    wire = make_converter("canalRow")
    parts = []
    for number, made in enumerate(
        [
            [change(narrow, Op.DELETE, 8)],
            [change(wide, Op.INSERT, 1)],
            [change(narrow, Op.DELETE, 9)],
        ]
    ):
        records = records_of([(at, wire.to_bytes(each)) for at, each in enumerate(made)])
        parts.append((TopicPartition("shop", number), records, 1, 5))
    applier = PartitionApplier(EVOLVING, wire, loader)
    # The first attempt meets the ALTER of its own, and leaves all to the next one.
    assert applier.apply_together(parts) == {}
    assert len(applier.apply_together(parts)) == 3
    assert new_cells(loader) == ["new"]


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["orders_1", "orders_2"]),
            st.sampled_from([Op.INSERT, Op.INSERT, Op.DELETE]),
            st.integers(0, 9),
        ),
        max_size=30,
    ),
    st.integers(0, 30),
    st.integers(0, 30),
    st.sampled_from(["canalRow", "oggJson"]),
)
def test_one_batch_leaves_what_many_leave(
    made: list[tuple[str, Op, int]], first: int, second: int, converter: str
) -> None:
    """Each of two sources is altered at some place."""
    altered = {"orders_1": first, "orders_2": second}
    changes = []
    for at, (name, op, key) in enumerate(made):
        columns = ("id", "a", "new") if at >= altered[name] else ("id", "a")
        # Keys of the two sources differ.
        number = key + 100 * (name == "orders_2")
        changes.append(change(source(name, *columns), op, number, str(at)))
    at_once, one_by_one = target("id", "a"), target("id", "a")
    apply(at_once, changes, converter)
    apply(one_by_one, changes, converter, at_once=1)
    assert shown(at_once) == shown(one_by_one)


def shown(loader: MemoryTarget) -> dict[object, dict[str, Cell]]:
    """Rows without the cells that are NULL, as those of a new column are in earlier rows."""
    return {
        key: {name: cell for name, cell in row.items() if cell is not None}
        for key, row in loader.rows[ORDERS].items()
    }
