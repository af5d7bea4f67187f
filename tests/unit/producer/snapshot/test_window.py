"""What of a chunk holds: no row that the stream has brought since it was read."""

from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.positions import BinlogPosition, Published
from cdcbus.plugins.rowchange import Column, Op, Row, RowChange, Table, TableId
from cdcbus.producer.snapshot.window import MOST_KEYS, Window, reached

TABLE = Table(TableId("s", "t"), (Column("id"), Column("n")), ("id",))
ids = st.integers(0, 5)


def changed(before: Row | None, after: Row | None) -> RowChange:
    op = Op.INSERT if before is None else Op.DELETE if after is None else Op.UPDATE
    return RowChange(TABLE, op, before, after)


def row(number: int) -> Row:
    return {"id": str(number), "n": "0"}


def left(window: Window, *numbers: int) -> list[int] | None:
    rows = window.left([bytes((number,)) for number in numbers], lambda each: (str(each[0]),))
    return None if rows is None else [each[0] for each in rows]


def window(*changes: RowChange, key: tuple[str, ...] = ("id",)) -> Window:
    made = Window(TABLE.id, key)
    made.see(changes)
    return made


@given(st.sets(ids), st.lists(st.tuples(ids | st.none(), ids | st.none())))
def test_rows_that_were_inserted_changed_or_deleted_are_left_out_under_either_key(
    there: set[int], moves: list[tuple[int | None, int | None]]
) -> None:
    changes = [
        changed(*(None if number is None else row(number) for number in move))
        for move in moves
        if move != (None, None)
    ]
    touched = {number for move in moves for number in move}
    assert left(window(*changes), *sorted(there)) == sorted(there - touched)


def test_keys_are_the_same_by_their_bytes_alone() -> None:
    seen = Window(TABLE.id, ("id",))
    seen.see([changed(None, {"id": "a", "n": "0"}), changed({"id": "B ", "n": "0"}, None)])
    rows = [b"A", b"a", b"B", b"B "]
    assert seen.left(rows, lambda each: (each.decode(),)) == [b"A", b"B"]


def test_a_row_of_which_only_some_columns_came_makes_its_chunk_void_and_no_other() -> None:
    cut = window(changed({"id": "1"}, {"n": "5"}))
    assert left(cut, 2, 3) == [2, 3]
    assert left(cut, 1, 2) is None
    assert left(window(changed({"id": "1"}, None)), 1, 2) == [2]


def test_any_change_makes_rows_without_a_key_void() -> None:
    assert left(window(key=()), 1, 1) == [1, 1]
    assert left(window(changed(None, row(3)), key=()), 1, 1) is None


def test_all_is_out_up_to_where_it_is_published() -> None:
    plain = BinlogPosition("bin.000001", 4, gtid="g")
    assert reached(plain) == plain
    held = BinlogPosition("bin.000001", 4, published=Published("bin.000002", 9, "h"))
    assert (reached(held).file, reached(held).pos, reached(held).gtid) == ("bin.000002", 9, "h")


def test_changes_that_are_too_many_to_be_remembered_make_a_chunk_void() -> None:
    seen = Window(TABLE.id, ("id",))
    for number in range(MOST_KEYS + 1):
        seen.see([changed(None, row(number))])
    assert left(seen, 1) == []
    seen.see([changed(None, row(0))])
    assert left(seen, 1) is None
    assert not seen.touched


def test_a_change_that_does_not_say_which_row_it_was_makes_the_chunk_void() -> None:
    assert left(window(changed({"n": "0"}, None)), 5) is None
    assert left(window(changed({"n": "0"}, row(1))), 5) is None
    assert left(window(changed(None, {"n": "0"})), 5) is None
    assert left(window(changed({"id": "1"}, {"n": "0"})), 5) == [5]
