"""The net effect on columns is the net effect of the row changes one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from cdcbus.consumer.merge.columnar_fold import merge_columns
from cdcbus.consumer.merge.fold import merge
from cdcbus.plugins.contracts import TableBatch, TargetColumn, TargetTable
from cdcbus.plugins.converters.columnar import RowGroup
from cdcbus.plugins.errors import DataError
from cdcbus.plugins.loaders.cells.canonical import holding
from cdcbus.plugins.rowchange import Column, Op, Row, RowChange, Table, TableId
from tests.support.processes.module_searches import module_searches

ID = TableId("shop", "orders")


def target(*names: str, key: tuple[str, ...], generated: str = "") -> TargetTable:
    return TargetTable(
        ID,
        {name: TargetColumn(name, "text", is_generated=name == generated) for name in names},
        key,
    )


def grouped(changes: Sequence[RowChange]) -> list[RowGroup]:
    """The changes as columns: a group for each operation and set of columns."""
    places: dict[tuple[Op, tuple[str, ...], tuple[str, ...]], list[int]] = {}
    for place, change in enumerate(changes):
        places.setdefault(
            (change.op, tuple(change.before or ()), tuple(change.after or ())), []
        ).append(place)
    groups = []
    for (op, before, after), members in places.items():

        def columns(names: tuple[str, ...], rows: list[Row | None]) -> dict[str, pa.Array] | None:
            return {
                name: pa.array([(row or {})[name] for row in rows], pa.string()) for name in names
            } or None

        chosen = [changes[place] for place in members]
        groups.append(
            RowGroup(
                chosen[0].table,
                op,
                pa.array(members, pa.int64()),
                columns(before, [change.before for change in chosen]),
                columns(after, [change.after for change in chosen]),
                pa.array([0] * len(members), pa.int64()),
            )
        )
    return groups


def effect(
    batch: TableBatch,
) -> tuple[
    bool, set[tuple[str | None, ...]], dict[tuple[str, ...], set[tuple[str | None, ...]]], int, int
]:
    """A batch without the order of its rows."""
    expected = sum(writes.expected for writes in batch.writes)
    return (
        batch.truncate,
        set(batch.deletes),
        {writes.columns: set(writes.rows) for writes in batch.writes},
        batch.passing,
        expected,
    )


CELLS = st.sampled_from([None, "", "a", "b", "null", "é'\"\\"])
KEYS = st.sampled_from(["1", "2", "3"])


@st.composite
def histories(draw: DrawFn) -> tuple[list[RowChange], TargetTable]:
    """Inserts, updates and deletes of few keys, mostly of whole rows that keep their keys."""
    key = draw(st.sampled_from([("id",), ("id", "part"), ("part", "id")]))
    names = ("id", "part", "a", "b")
    table = Table(ID, tuple(map(Column, names)), key)
    extra = draw(st.sampled_from([(), ("z",)]))
    order = draw(st.permutations([*names, *extra]))
    changes = []
    for _ in range(draw(st.integers(1, 12))):
        op = draw(st.sampled_from([Op.INSERT, Op.UPDATE, Op.DELETE]))
        keys = {"id": draw(KEYS), "part": draw(KEYS)}
        before, after = ({**keys, "a": draw(CELLS), "b": draw(CELLS)} for _ in range(2))
        if op is Op.UPDATE and draw(st.integers(0, 9)) == 0:
            after["id"] = draw(KEYS)
        if op is Op.UPDATE and draw(st.integers(0, 9)) == 0:
            del after["a"]
        changes.append(
            RowChange(
                table, op, None if op is Op.INSERT else before, None if op is Op.DELETE else after
            )
        )
    return changes, target(*order, key=key, generated=draw(st.sampled_from(["", *extra])))


@settings(max_examples=500)
@given(histories())
def test_both_ways_give_the_same_batch(history: tuple[list[RowChange], TargetTable]) -> None:
    changes, table = history
    found = merge_columns(grouped(changes), table)
    if found is not None:
        assert effect(found) == effect(merge(changes, table, insert_on_update=True))


NUMBERS = {
    ("int", "int"): ["1", "2", "3"],
    ("int", "decimal(10,2)"): ["1.00", "1.20", "1.40", "2.00"],
    # Of an unknown type only keys that are rounded themselves are noticed.
    ("int", ""): ["1.20", "1.40", "2", "3"],
    ("numeric", "decimal(10,2)"): ["1.20", "1.21", "1.30"],
    ("numeric", "double"): ["1.2", "1.21", "1.3"],
    ("numeric", ""): ["1.21", "1.22", "1.3"],
    ("float", "decimal(30,20)"): ["0.10000000000000000001", "0.10000000000000000002", "2"],
    ("double", "double"): ["0.1", "1e22", "5.0"],
    ("double", ""): ["9007199254740993", "9007199254740992.5", "5"],
    ("double", "bigint"): ["9007199254740992", "9007199254740993", "5"],
}
Rows = dict[str, dict[str, str | None]]


def told_in_part(row: Row) -> Row:
    """The row as an image that lacks a column."""
    return {name: cell for name, cell in row.items() if name != "b"}


def next_change(
    draw: DrawFn, table: Table, rows: Rows, keys: Sequence[str], cell: str
) -> RowChange:
    """An insert, an update or a delete, whatever the row of a key allows; some updates bring
    another key, and some only a part of the row."""
    key = draw(st.sampled_from(keys))
    before = rows.get(key)
    if before is None:
        return RowChange(table, Op.INSERT, None, {"id": key, "a": cell, "b": cell})
    if draw(st.booleans()):
        return RowChange(table, Op.DELETE, before, None)
    free = [each for each in keys if each not in rows]
    after: Row = {"id": draw(st.sampled_from([key, *free])), "a": cell, "b": cell}
    if draw(st.integers(0, 3)) == 0:
        return RowChange(table, Op.UPDATE, told_in_part(before), told_in_part(after))
    return RowChange(table, Op.UPDATE, before, after)


def apply_one(rows: Rows, change: RowChange) -> None:
    """What a change means at the source."""
    old = rows.pop(str((change.before or {}).get("id")), {})
    if change.after is not None:
        rows[str(change.after["id"])] = {**old, **change.after}


@st.composite
def histories_of_numbers(draw: DrawFn) -> tuple[TargetTable, list[RowChange], list[RowChange]]:
    """A target table, changes that it has, and those that come next."""
    (own, source), keys = draw(st.sampled_from(sorted(NUMBERS.items())))
    scale = 1 if own == "numeric" else None
    columns = {name: TargetColumn(name, "text") for name in ("id", "a", "b")}
    columns["id"] = TargetColumn("id", own, scale=scale)
    table = Table(ID, (Column("id", source), Column("a", "text"), Column("b", "text")), ("id",))
    rows: Rows = {}
    changes: list[RowChange] = []
    for number in range(draw(st.integers(1, 8))):
        changes.append(next_change(draw, table, rows, keys, str(number)))
        apply_one(rows, changes[-1])
    done = draw(st.integers(0, min(3, len(changes) - 1)))
    to = TargetTable(ID, columns, ("id",), can_move=draw(st.booleans()))
    return to, changes[:done], changes[done:]


def apply_batch(rows: dict[tuple[str | None, ...], Row], batch: TableBatch) -> None:
    """What the contract of TableBatch says."""
    for key in batch.deletes:
        rows.pop(key, None)
    for old, new in batch.moves.rows if batch.moves else ():
        if old in rows:
            rows[new] = rows.pop(old)
    for writes in batch.writes:
        for cells in writes.rows:
            row = dict(zip(writes.columns, cells, strict=True))
            rows[row["id"],] = {**rows.get((row["id"],), {}), **row}


def is_move_in_part(change: RowChange) -> bool:
    before, after = change.before, change.after
    if before is None or after is None:
        return False
    return "b" not in after and before["id"] != after["id"]


@settings(max_examples=1000)
@given(histories_of_numbers())
def test_numbers_of_which_the_target_holds_less_never_make_one_row_of_two(
    history: tuple[TargetTable, list[RowChange], list[RowChange]],
) -> None:
    table, done, changes = history
    hold = holding(table, ("id",))
    rows: Rows = {}

    def as_held() -> dict[tuple[str | None, ...], Row]:
        return {hold((key,)): {**row, "id": hold((key,))[0]} for key, row in rows.items()}

    for each in done:
        apply_one(rows, each)
        assume(len(as_held()) == len(rows))
    left = as_held()
    were_apart = True
    for each in changes:
        apply_one(rows, each)
        were_apart = were_apart and len(as_held()) == len(rows)
    by_columns = merge_columns(grouped(changes), table)
    try:
        batch = merge(changes, table, insert_on_update=True)
    except DataError:
        assert by_columns is None
        # A row that gets another key must be known as a whole.
        assert not were_apart or any(map(is_move_in_part, changes))
        return
    assert by_columns is None or effect(by_columns) == effect(batch)
    if not left.keys().isdisjoint(batch.fresh):
        assert not were_apart
        return
    apply_batch(left, batch)
    assert left == as_held()
    assert len(left) == len(rows)


def change(op: Op, key: str, cell: str | None = "x", new_key: str | None = None) -> RowChange:
    table = Table(ID, (Column("id"), Column("a")), ("id",))
    before, after = {"id": key, "a": "old"}, {"id": new_key or key, "a": cell}
    return RowChange(
        table, op, None if op is Op.INSERT else before, None if op is Op.DELETE else after
    )


WHOLE = target("id", "a", key=("id",))


def test_the_last_change_of_a_key_counts() -> None:
    changes = [
        change(Op.INSERT, "1"),
        change(Op.UPDATE, "1", "y"),
        change(Op.INSERT, "2"),
        change(Op.DELETE, "2"),
        change(Op.DELETE, "3"),
    ]
    batch = merge_columns(grouped([*changes, change(Op.INSERT, "3", None)]), WHOLE)
    assert batch is not None
    assert effect(batch) == (False, {("2",)}, {("id", "a"): {("1", "y"), ("3", None)}}, 1, 1)


def test_deletes_alone_need_the_key_only() -> None:
    batch = merge_columns(grouped([change(Op.DELETE, "1"), change(Op.DELETE, "1")]), WHOLE)
    assert batch is not None
    assert effect(batch) == (False, {("1",)}, {}, 0, 0)


def test_changes_of_one_kind_tell_which_rows_should_be_there() -> None:
    updates = merge_columns(
        grouped([change(Op.UPDATE, "1", "y"), change(Op.UPDATE, "1", "z"), change(Op.UPDATE, "2")]),
        WHOLE,
    )
    inserts = merge_columns(grouped([change(Op.INSERT, "1"), change(Op.INSERT, "2")]), WHOLE)
    assert updates is not None
    assert inserts is not None
    assert [writes.expected for writes in (*updates.writes, *inserts.writes)] == [2, 0]


def test_no_module_is_looked_for() -> None:
    groups = grouped([change(Op.INSERT, "1"), change(Op.UPDATE, "1", "y"), change(Op.DELETE, "2")])
    merge_columns(groups, WHOLE)
    with module_searches() as names:
        assert merge_columns(groups, WHOLE)
    assert names == []


def test_what_the_last_change_does_not_tell_is_left_to_the_plain_way() -> None:
    moved = change(Op.UPDATE, "1", new_key="2")
    partial = change(Op.UPDATE, "1")
    partial.after = {"id": "1"}
    open_columns = target("id", "a", "z", key=("id",))
    assert merge_columns(grouped([moved]), WHOLE) is None
    assert merge_columns(grouped([change(Op.INSERT, "1"), partial]), WHOLE) is None
    assert (
        merge_columns(grouped([change(Op.DELETE, "1"), change(Op.INSERT, "1")]), open_columns)
        is None
    )
    assert merge_columns(grouped([change(Op.INSERT, "1")]), open_columns) is not None
    numbered = replace(WHOLE.columns["a"], is_fixed=True)
    fixed = replace(WHOLE, columns={**WHOLE.columns, "a": numbered})
    assert merge_columns(grouped([change(Op.DELETE, "1"), change(Op.INSERT, "1")]), fixed) is None
    assert merge_columns(grouped([change(Op.INSERT, "1")]), fixed) is not None
    assert merge_columns(grouped([change(Op.INSERT, "1")]), target("id", "a", key=())) is None


def test_keys_of_numbers_that_the_target_rounds_are_left_to_the_fold_of_rows() -> None:
    columns = {"k": TargetColumn("k", "int"), "a": TargetColumn("a", "text")}
    table = TargetTable(ID, columns, ("k",))
    for of_key, key, is_by_columns in (
        (Column("k", "decimal(10,2)"), "1.20", False),
        (Column("k", "int"), "1", True),
        (Column("k", "double", is_bound=True), "1", True),
        (Column("k", "double", is_bound=True), "1.2", False),
    ):
        of = Table(ID, (of_key, Column("a", "text")), ("k",))
        change = RowChange(of, Op.INSERT, None, {"k": key, "a": "x"})
        assert (merge_columns(grouped([change]), table) is not None) is is_by_columns


def test_zero_bytes_that_are_left_off_count_where_the_key_is_of_any_length() -> None:
    columns = {"k": TargetColumn("k", "binary", 4), "a": TargetColumn("a", "text")}
    table = TargetTable(ID, columns, ("k",))
    for of_key, is_by_columns in (
        (Column("k"), True),
        (Column("k", "binary(4)"), True),
        (Column("k", "varbinary(4)"), False),
        (Column("k", "longblob", is_bound=True), False),
    ):
        of = Table(ID, (of_key, Column("a", "text")), ("k",))
        change = RowChange(of, Op.INSERT, None, {"k": "ab", "a": "x"})
        assert (merge_columns(grouped([change]), table) is not None) is is_by_columns
        is_fresh = bool(merge([change], table, insert_on_update=True).fresh)
        assert is_fresh is not is_by_columns
