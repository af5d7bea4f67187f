"""What of a chunk holds: no row that the stream has brought since it was read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.rowchange import Column, Op, Origin, Row, RowChange, Table, TableId
from cdcbus.producer.binlog.gtid import MysqlGtids
from cdcbus.producer.snapshot import window as windows
from cdcbus.producer.snapshot.chunk_thread import TRIES, VIEWS
from cdcbus.producer.snapshot.progress import TableState
from cdcbus.producer.snapshot.window import MOST_KEYS, View, Window
from tests.unit.producer.snapshot.world import ORDERS, START, World, at, inserts, place

TABLE = Table(TableId("s", "t"), (Column("id"), Column("n")), ("id",))
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
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


def test_held_changes_are_marked_as_whole_transactions() -> None:
    seen = Window(ORDERS, (), begun=at(100))
    for pos, number in ((110, 1), (110, 2), (110, 3), (120, 4)):
        for rows in inserts(number, has_key=False, pos=pos):
            rows.is_first = rows.is_last = number == 2
            seen.hold(rows)
    seen.set_view(View(place(100), place(100)))
    marks = [(rows.is_first, rows.is_last) for rows in seen.later()]
    assert marks == [(True, False), (False, False), (False, True), (True, True)]


@pytest.mark.parametrize(
    ("pos", "number", "is_contained"),
    [(99, 9, True), (100, 5, True), (100, 6, None), (149, 5, True), (150, 6, False)],
)
def test_a_view_contains_what_was_executed_and_not_what_is_behind_its_end(
    pos: int, number: int, is_contained: bool | None
) -> None:
    view = View(place(100), place(150), MysqlGtids.parse(f"{UUID}:1-5"))
    (rows,) = inserts(1, has_key=False)
    rows.origin = Origin(START.file, pos, f"{UUID}:{number}")
    assert view.contains(rows) is is_contained


@pytest.mark.parametrize(("is_exact", "is_xa"), [(True, False), (True, True), (False, False)])
def test_an_exact_view_contains_all_before_its_end_but_perhaps_an_xa_commit(
    is_exact: bool, is_xa: bool
) -> None:
    view = View(place(100), place(150), is_exact=is_exact)
    found = []
    for pos in (100, 121, 151):
        (rows,) = inserts(1, has_key=False, pos=pos)
        rows.is_xa = is_xa
        found.append(view.contains(rows))
    assert found == [True, True if is_exact and not is_xa else None, False]


def test_changes_before_the_window_begins_are_not_held() -> None:
    seen = Window(ORDERS, ())
    for rows in inserts(1, has_key=False):
        seen.hold(rows)
    assert not seen.later()


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


# In a snapshot: changes after what the read sees


@pytest.fixture
def keyless(world: World) -> World:
    world.without_key = {ORDERS}
    return world


@pytest.mark.parametrize("comes_first", [False, True])
def test_changes_after_the_view_are_sent_after_its_rows(keyless: World, comes_first: bool) -> None:
    """The stream may bring one before it is known where the view is."""
    keyless.views, keyless.low = [], place(100)
    early, late = keyless.brings(120, 6), keyless.brings(140, 7)
    if comes_first:
        keyless.views, keyless.during = [early], [late]
    else:
        keyless.during = [lambda: (early(), late())[0]]
    keyless.run(keyless.brings(160, 8))
    assert keyless.reads == 1
    assert (keyless.ids(), keyless.live) == ([1, 2, 3, 4, 5, 6, 7], [("shop.orders", 8)])
    assert keyless.progress().rows == 5
    assert TableState.SENDING in keyless.store.states


def test_changes_after_the_view_of_an_empty_table_are_sent(keyless: World) -> None:
    keyless.rows[ORDERS] = []
    keyless.views, keyless.during = [], [keyless.brings(120, 6)]
    keyless.run(keyless.brings(140, 7))
    assert (keyless.ids(), keyless.live) == ([6], [("shop.orders", 7)])
    assert TableState.SENDING in keyless.store.states
    assert keyless.progress().state is TableState.DONE


def test_changes_before_an_exact_view_are_in_it(keyless: World) -> None:
    keyless.low = place(110)
    keyless.views = [keyless.is_changed(5)]
    keyless.run()
    assert (keyless.reads, keyless.ids(), keyless.live) == (1, [1, 2, 3, 4, 5], [])


def test_a_view_with_a_change_of_which_nothing_tells_whether_it_is_in_it_is_not_read(
    keyless: World,
) -> None:
    keyless.views = [keyless.is_changed(5), keyless.is_changed(5)]
    keyless.run()
    assert (keyless.reads, keyless.ids(), keyless.live) == (1, [1, 2, 3, 4, 5], [])
    assert keyless.ended == 1 + 2, "once after it was described"


def test_a_table_of_which_no_view_is_certain_fails(keyless: World) -> None:
    keyless.views = [keyless.is_changed(5) for _ in range(TRIES * VIEWS)]
    keyless.run(keyless.brings(5_000, 9))
    assert (keyless.reads, keyless.ids()) == (0, [])
    assert (keyless.progress().state, keyless.views) == (TableState.FAILED, [])
    assert keyless.live == [("shop.orders", 9)]


def test_too_many_changes_after_the_view_make_it_void(
    keyless: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "MOST_HELD_BYTES", 20)
    keyless.views, keyless.during = [], [keyless.brings(140, *range(10, 20))]
    keyless.run(keyless.reaches(160))
    assert (keyless.reads, keyless.ids(), keyless.live) == (2, [1, 2, 3, 4, 5], [])


def test_changes_after_the_view_are_read_again_with_a_table_that_was_altered(
    keyless: World,
) -> None:
    def changed() -> None:
        keyless.brings(120, 6)()
        keyless.alters("ALTER TABLE orders ADD KEY (id)", 140)()
        keyless.high = 140
        keyless.rows[ORDERS] = [1, 2, 3, 4, 5, 6]

    keyless.views, keyless.during = [], [changed]
    keyless.run()
    assert (keyless.reads, keyless.ids(), keyless.live) == (2, [1, 2, 3, 4, 5, 6], [])


@pytest.mark.parametrize("has_views", [True, False])
def test_changes_of_an_empty_table_are_sent_before_kafka_has_acknowledged_anything(
    keyless: World, has_views: bool
) -> None:
    keyless.rows[ORDERS] = []
    keyless.views = [] if has_views else None
    keyless.run(keyless.brings(120, 6), keyless.acknowledge, keyless.brings(140, 7))
    assert (keyless.ids(), keyless.live) == ([], [("shop.orders", 6), ("shop.orders", 7)])
    assert keyless.progress().state is TableState.DONE
