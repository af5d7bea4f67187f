"""What DDL makes of tables, where its text alone does not show it; the texts themselves are in
tests/golden/ddl."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdcbus.producer.ddl.table_alteration import apply, leaves
from cdcbus.producer.ddl.table_schema import (
    NAMED,
    ROW_TIMES,
    Action,
    AddColumn,
    AddUnique,
    ChangeColumn,
    ColumnText,
    DropColumn,
    DropRowTimes,
    RenameColumn,
    TableColumn,
    TableSchema,
    UniqueKey,
    with_row_times,
)

TABLE = TableSchema(
    (TableColumn("id", "int", is_nullable=False), TableColumn("v", "int")),
    (UniqueKey("PRIMARY", ("id",)),),
    "utf8mb4",
)
NEW = ColumnText(TableColumn("New", "int"), None)


def test_the_times_of_versioned_rows_are_the_last_columns_and_one_is_in_each_key() -> None:
    table = with_row_times(TABLE)
    assert str(table) == "id int, v int, row_start timestamp(6), row_end timestamp(6)"
    assert table.key == ("id", "row_end")


def test_a_column_added_to_versioned_rows_stands_before_their_times() -> None:
    versioned = with_row_times(TABLE)
    assert (
        str(apply(versioned, [AddColumn(NEW)]))
        == "id int, v int, New int, row_start timestamp(6), row_end timestamp(6)"
    )
    assert apply(versioned, [DropColumn(ROW_TIMES[0])]) is None
    assert apply(versioned, [DropRowTimes()]) == TABLE


def test_of_columns_that_an_earlier_release_stored_it_is_not_known_who_named_the_times() -> None:
    fields = {
        name: value for name, value in with_row_times(TABLE).to_fields().items() if name != "times"
    }
    assert apply(TableSchema.from_fields(fields), [AddColumn(NEW)]) is None


def test_a_key_added_where_a_table_names_the_times_of_its_rows_is_for_the_server_to_say() -> None:
    named = replace(TABLE, times=NAMED)
    assert apply(named, [AddColumn(NEW)]) is not None
    assert apply(named, [AddUnique(UniqueKey("u", ("v",)), (0,))]) is None


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
def test_an_action_leaves_all_columns_but_those_that_it_names(
    action: Action, names: set[str]
) -> None:
    for name in ("id", "v", "w", "new"):
        assert leaves([DropColumn("other"), action], [name]) is (name not in names)
    assert not leaves([DropColumn("other")], ["id", "OTHER"])
