"""What DDL makes of tables, where its text alone does not show it; the texts themselves are in tests/golden/ddl."""

from __future__ import annotations

import pytest

from cdcbus.producer.table_schema import (
    Action,
    AddColumn,
    AddUnique,
    ChangeColumn,
    ColumnText,
    DropColumn,
    RenameColumn,
    TableColumn,
    TableSchema,
    UniqueKey,
    apply,
    leaves,
    with_row_times,
)

TABLE = TableSchema((TableColumn("id", "int", is_nullable=False), TableColumn("v", "int")), (UniqueKey("PRIMARY", ("id",)),), "utf8mb4")
NEW = ColumnText(TableColumn("New", "int"), None)


def test_the_times_of_versioned_rows_are_the_last_columns_and_one_is_in_each_key() -> None:
    table = with_row_times(TABLE)
    assert str(table) == "id int, v int, row_start timestamp(6), row_end timestamp(6)"
    assert table.key == ("id", "row_end")


def test_what_a_column_added_to_versioned_rows_makes_of_them_is_for_the_server_to_say() -> None:
    assert apply(TABLE, [AddColumn(NEW)]) is not None
    assert apply(with_row_times(TABLE), [AddColumn(NEW)]) is None


@pytest.mark.parametrize(
    ("action", "names"),
    [
        (AddColumn(NEW), {"new"}),
        (ChangeColumn("V", NEW), {"v", "new"}),
        (RenameColumn("v", "w"), {"v", "w"}),
        (DropColumn("v"), {"v"}),
        (AddUnique(UniqueKey("u", ("v",))), set()),
    ],
)
def test_an_action_leaves_all_columns_but_those_that_it_names(action: Action, names: set[str]) -> None:
    for name in ("id", "v", "w", "new"):
        assert leaves([DropColumn("other"), action], [name]) is (name not in names)
    assert not leaves([DropColumn("other")], ["id", "OTHER"])
