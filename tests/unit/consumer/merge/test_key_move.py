"""Changes of a key that bring only some columns, against an interpreter that goes row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.consumer.merge.fold import merge
from cdcbus.plugins.contracts import Moves, TableBatch, TargetColumn, TargetTable, Writes
from cdcbus.plugins.errors import DataError
from cdcbus.plugins.rowchange import Cell, Column, Op, Row, RowChange, Table, TableId

TARGET = TargetTable(
    TableId("shop", "t"),
    {name: TargetColumn(name, "text") for name in ("id", "a", "b")},
    ("id",),
    can_move=True,
)
DEFAULTS: dict[str, Cell] = {"a": "default", "b": "default"}
IDS = st.sampled_from("1234")
CELLS = st.sampled_from([None, "", "x", "y"])
Rows = dict[str, dict[str, Cell]]


def change(op: Op, before: Row | None, after: Row | None) -> RowChange:
    """As of a format that tells of the columns of its record only."""
    names = {**(before or {}), **(after or {})}
    return RowChange(Table(TARGET.id, tuple(map(Column, names)), (), False), op, before, after)


def key_change(**after: Cell) -> RowChange:
    return change(Op.UPDATE, {"id": "1"}, {"id": "2", **after})


def apply_one(rows: Rows, change: RowChange) -> None:
    """What a change means: what it does not bring stays as it is."""
    before = change.before or {}
    after = change.after or {}
    if change.op is Op.UPDATE:
        old = str(before.get("id", after.get("id")))
        row = {**rows.pop(old), **after}
        rows[str(row["id"])] = row
    elif change.op is Op.DELETE:
        del rows[str(before["id"])]
    else:
        rows[str(after["id"])] = {**DEFAULTS, **after}


def apply_batch(rows: Rows, batch: TableBatch) -> None:
    """What the contract of TableBatch says."""
    for (key,) in batch.deletes:
        rows.pop(str(key), None)
    for (old,), (new,) in batch.moves.rows if batch.moves else ():
        row = rows.pop(str(old), None)
        if row is not None and str(new) not in rows:
            rows[str(new)] = {**row, "id": new}
    for writes in batch.writes:
        for cells in writes.rows:
            image = dict(zip(writes.columns, cells, strict=True))
            key = str(image["id"])
            if writes.may_insert or key in rows:
                rows[key] = {**rows.get(key, DEFAULTS), **image}


def applied(rows: Rows, changes: Sequence[RowChange]) -> None:
    """What is refused at once goes in halves, as in a partition."""
    try:
        batch = merge(changes, TARGET, insert_on_update=True)
    except DataError:
        assert len(changes) > 1
        middle = len(changes) // 2
        applied(rows, changes[:middle])
        applied(rows, changes[middle:])
    else:
        apply_batch(rows, batch)


@st.composite
def histories(draw: st.DrawFn) -> tuple[Rows, list[RowChange], Rows]:
    """Rows, what happens to them, in images that hold the key and any of the other columns, and
    what becomes of them."""
    rows: Rows = {
        key: {"id": key, "a": draw(CELLS), "b": draw(CELLS)} for key in draw(st.sets(IDS))
    }
    now = {key: dict(row) for key, row in rows.items()}
    changes = []
    for _ in range(draw(st.integers(1, 10))):
        key = draw(IDS)
        some = draw(st.dictionaries(st.sampled_from("ab"), CELLS))
        if key not in now:
            made = change(Op.INSERT, None, {"id": key, **some})
        elif draw(st.booleans()):
            free = draw(st.sampled_from([key, *sorted({*"1234"} - now.keys())]))
            is_named = free != key or draw(st.booleans())
            made = change(Op.UPDATE, {"id": key}, {**({"id": free} if is_named else some), **some})
        else:
            made = change(Op.DELETE, {"id": key}, None)
        if made.op is Op.UPDATE and not made.after:
            continue
        changes.append(made)
        apply_one(now, made)
    return rows, changes, now


@given(histories())
def test_what_no_image_brings_stays_as_it_is(
    history: tuple[Rows, list[RowChange], Rows],
) -> None:
    rows, changes, expected = history
    if changes:
        applied(rows, changes)
    assert rows == expected


def test_a_partial_change_of_the_key_keeps_the_row() -> None:
    batch = merge([key_change(b="new")], TARGET, insert_on_update=True)
    assert batch == TableBatch(
        TARGET,
        moves=Moves([(("1",), ("2",))], may_repeat=True),
        writes=[Writes(("id", "b"), [("2", "new")], expected=1)],
    )


@pytest.mark.parametrize("is_old_row_there", [True, False])
def test_a_partial_change_of_the_key_that_comes_again_leaves_one_row(
    is_old_row_there: bool,
) -> None:
    """The insert of the old row comes again before it."""
    rows: Rows = {"2": {"id": "2", "a": "kept", "b": "new"}}
    if is_old_row_there:
        applied(rows, [change(Op.INSERT, None, {"id": "1", "b": "old"})])
    applied(rows, [key_change(b="new")])
    assert rows == {"2": {"id": "2", "a": "kept", "b": "new"}}


def test_a_row_that_the_target_lacks_is_inserted_unless_updates_must_not() -> None:
    for may_insert, left in ((True, {"2": {"id": "2", **DEFAULTS, "b": "new"}}), (False, {})):
        rows: Rows = {}
        batch = merge([key_change(b="new")], TARGET, insert_on_update=may_insert)
        apply_batch(rows, batch)
        assert rows == left


def test_a_source_that_checks_keys_late_may_give_a_key_that_is_still_taken() -> None:
    late = key_change(b="new")
    table = replace(late.table, checks_keys_late=True)
    batch = merge([replace(late, table=table)], TARGET, insert_on_update=True)
    assert batch.moves == Moves([(("1",), ("2",))], may_repeat=False)


def test_a_loader_that_moves_no_rows_gets_none() -> None:
    with pytest.raises(DataError, match="the change lacks column a: it cannot be written whole"):
        merge([key_change(b="new")], replace(TARGET, can_move=False), insert_on_update=True)


def test_a_change_of_the_key_that_brings_all_columns_is_a_delete_and_an_insert() -> None:
    batch = merge([key_change(a="x", b="y")], TARGET, insert_on_update=True)
    assert (batch.deletes, batch.moves) == ([("1",)], None)
    assert batch.writes == [Writes(("id", "a", "b"), [("2", "x", "y")])]


@pytest.mark.parametrize(
    "column",
    [
        TargetColumn("id", "varchar", is_folding=True),
        TargetColumn("id", "int8", is_fixed=True),
        TargetColumn("id", "real"),
    ],
    ids=["folding", "given by inserts only", "rounding"],
)
def test_a_row_that_might_not_be_found_by_its_key_is_not_moved(column: TargetColumn) -> None:
    target = replace(TARGET, columns={**TARGET.columns, "id": column}, dialect="postgresql")
    for each in (target, replace(TARGET, is_key_deferrable=True)):
        with pytest.raises(
            DataError, match="the change lacks column a: it cannot be written whole"
        ):
            merge([key_change(b="new")], each, insert_on_update=True)


def test_a_row_is_not_moved_where_whole_numbers_hold_less_of_its_key() -> None:
    columns = {**TARGET.columns, "id": TargetColumn("id", "int")}
    target = replace(TARGET, columns=columns)
    moving = key_change(b="new")
    assert merge([moving], target, insert_on_update=True).moves is not None
    names = (Column("id", "decimal(3,1)"), Column("b", "text"))
    moving.table = Table(TARGET.id, names, (), False)
    with pytest.raises(DataError, match="the change lacks column a"):
        merge([moving], target, insert_on_update=True)


@pytest.mark.parametrize(
    ("column", "old", "new", "is_moved"),
    [
        (TargetColumn("id", "bigint"), "1.40", "2", False),
        (TargetColumn("id", "bigint"), "1", "2.40", False),
        (TargetColumn("id", "bigint"), "1.00", "2", True),
        (TargetColumn("id", "double"), "9007199254740993", "2", False),
        (TargetColumn("id", "numeric", length=10, scale=1), "1.4", "2", True),
        (TargetColumn("id", "numeric", length=10, scale=1), "1.4", "2.04", False),
        (TargetColumn("id", "NUMBER", length=10, scale=0), "1", "2", True),
    ],
)
def test_cells_tell_whether_the_target_holds_all_of_a_key_that_a_row_gets(
    column: TargetColumn, old: str, new: str, is_moved: bool
) -> None:
    """Of a source whose types are unknown. A row of the rounded key can be another one."""
    target = replace(TARGET, columns={**TARGET.columns, "id": column})
    moving = change(Op.UPDATE, {"id": old}, {"id": new, "b": "new"})
    if is_moved:
        assert merge([moving], target, insert_on_update=True).moves is not None
    else:
        with pytest.raises(DataError, match="the change lacks column a"):
            merge([moving], target, insert_on_update=True)


def test_a_row_with_changes_in_other_partitions_is_not_moved() -> None:
    with pytest.raises(
        DataError,
        match="the source must log full row images, and the target have no columns of its own",
    ):
        merge([key_change(b="new")], TARGET, insert_on_update=True, may_move=False)
