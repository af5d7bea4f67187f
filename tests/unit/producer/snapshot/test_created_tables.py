"""Tables whose rows the stream tells from their beginning, and names that get other rows while
a snapshot is under way."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdcbus.plugins.rowchange import NO_ORIGIN, TableId
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.config import FilterConfig, SnapshotMode
from cdcbus.producer.schema.ddl_scanner import Statement
from cdcbus.producer.snapshot.progress import TableProgress, TableState, WishKind
from cdcbus.producer.source.row_events import Batch, Rows
from tests.unit.producer.snapshot.world import ITEMS, ORDERS, SERVER, World, at

NEW = TableId("shop", "orders_new")
FOLDS = replace(SERVER, folds_names=True)


@pytest.mark.parametrize(
    ("sql", "is_keyless"),
    [
        ("CREATE TABLE orders (n INT)", True),
        ("CREATE OR REPLACE TABLE shop.orders (n INT)", True),
        ("CREATE TABLE orders (n INT PRIMARY KEY)", False),
        ("CREATE TABLE orders LIKE items", False),
        ("CREATE TABLE orders (n INT) START TRANSACTION", True),
    ],
)
def test_a_table_that_the_stream_has_seen_created_is_not_read(
    keyless: World, sql: str, is_keyless: bool
) -> None:
    keyless.begin()
    keyless.alters(sql)()
    keyless.brings(100, 5)()
    keyless.run()
    assert (keyless.live, keyless.ids()) == ([("shop.orders", 5)], [])
    keyless.begin()
    keyless.run(keyless.alters("RENAME TABLE items TO others"))
    done = keyless.progress()
    assert (done.state, done.is_keyless, keyless.ids()) == (TableState.DONE, is_keyless, [])
    assert "the stream has brought all its rows" in done.reason


@pytest.mark.parametrize("is_left_out", [True, False])
def test_a_copy_without_a_key_that_the_stream_has_brought_is_not_sent_again_without_a_yes(
    keyless: World, *, is_left_out: bool
) -> None:
    """Its CREATE does not say whether it has a key; an operator starts all tables."""
    keyless.store.note_live(False)
    keyless.begin()
    keyless.alters("CREATE TABLE orders LIKE items")()
    keyless.brings(100, 5)()
    keyless.run()
    if is_left_out:
        keyless.begin(tables=FilterConfig((r"shop\.items",)))
        keyless.run()
        keyless.begin()
    else:
        keyless.begin()
        keyless.wish(WishKind.START, is_confirmed=False)()
    keyless.run()
    assert (keyless.progress().state, keyless.ids()) == (TableState.FAILED, [])
    assert "since it was created" in keyless.progress().reason


def test_a_created_table_has_the_name_of_its_rows_where_the_server_folds_names(
    keyless: World,
) -> None:
    keyless.begin(server=FOLDS)
    keyless.alters("CREATE TABLE Shop.Orders (n INT)")()
    keyless.brings(100, 5)()
    keyless.run()
    keyless.begin(server=FOLDS)
    keyless.run()
    assert (keyless.live, keyless.ids()) == ([("shop.orders", 5)], [])
    assert keyless.store.tables.keys() == {ORDERS}


@pytest.mark.parametrize("is_also_read", [True, False])
def test_a_created_table_that_was_noted_as_typed_is_not_read_where_the_server_folds_names(
    keyless: World, *, is_also_read: bool
) -> None:
    """As older versions noted it, which read such a table at their next start."""
    created = TableProgress(TableState.DONE, is_keyless=True, reason="by the stream")
    read = TableProgress(TableState.FAILED, is_keyless=True, reason="why")
    keyless.store.note_live(False)
    keyless.store.tables = {ORDERS: read} if is_also_read else {}
    keyless.store.tables[TableId("shop", "Orders")] = created
    keyless.begin(server=FOLDS)
    keyless.run()
    found = {course.table: course.progress for course in keyless.snapshots._courses}
    assert (keyless.ids(), found) == ([], {ORDERS: read if is_also_read else created})


@pytest.mark.parametrize("state", [TableState.DONE, TableState.RUNNING])
def test_a_table_that_was_read_in_part_and_is_created_anew_is_whole(
    keyless: World, state: TableState
) -> None:
    keyless.store.note_live(False)
    keyless.store.tables[ORDERS] = TableProgress(state, 2, where="id > 3", is_keyless=True)
    for mode in (SnapshotMode.NEVER, SnapshotMode.INITIAL):
        keyless.begin(mode)
        keyless.alters("CREATE TABLE orders (n INT)")()
        keyless.run()
        done = keyless.progress()
        assert (done.state, done.is_whole, keyless.ids()) == (TableState.DONE, True, [])


def test_chunks_of_a_part_that_kafka_acknowledges_after_a_create_do_not_count(
    world: World,
) -> None:
    """The condition would come back with them, and the table be read whole once more."""
    part = TableProgress(where="id < 5")
    world.store.tables[ORDERS] = part
    created = world.alters("CREATE TABLE orders (id INT PRIMARY KEY)")
    world.during = [lambda: None, created]
    world.run()
    assert (world.progress().state, world.progress().where) == (TableState.DONE, "")
    assert world.ids() == [1, 2]


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE IF NOT EXISTS orders (n INT)",
        "CREATE TEMPORARY TABLE orders (n INT)",
        "CREATE TABLE other.orders (n INT)",
        "CREATE TABLE orders (n INT) SELECT 1 AS n",
        "CREATE SEQUENCE orders",
        "CREATE VIEW orders AS SELECT 1",
    ],
)
def test_other_statements_leave_a_table_to_be_read(keyless: World, sql: str) -> None:
    keyless.begin()
    keyless.alters(sql)()
    keyless.brings(100, 5)()
    keyless.run()
    assert (keyless.live, keyless.ids()) == ([], [1, 2, 3, 4, 5])


def test_a_table_that_was_not_there_is_created_also_if_it_did_not_have_to_be(
    keyless: World,
) -> None:
    """After the search for tables, which has not found it."""
    rows, keyless.rows = keyless.rows, {}

    def created() -> None:
        keyless.rows |= rows
        keyless.alters("CREATE TABLE IF NOT EXISTS orders (n INT)")()

    keyless.rows[ITEMS] = [1]
    keyless.run(keyless.acknowledge, created, keyless.brings(120, 5))
    assert (keyless.live, keyless.ids()) == ([("shop.orders", 5)], [])
    assert keyless.progress().state is TableState.DONE


@pytest.mark.parametrize("state", [TableState.PAUSED, TableState.RUNNING, TableState.DROPPED])
def test_a_table_that_is_created_again_while_its_snapshot_is_not_done_is_done(
    keyless: World, state: TableState
) -> None:
    keyless.store.tables[ORDERS] = TableProgress(state, 2, chunks=1, key=("id",), after=("2",))
    keyless.begin(SnapshotMode.NEVER)
    keyless.alters("CREATE TABLE orders (n INT)")()
    keyless.run()
    assert (keyless.progress().state, keyless.ids()) == (TableState.DONE, [])


@pytest.mark.parametrize("state", [TableState.FAILED, TableState.STOPPED])
def test_a_table_that_waits_for_a_person_still_does_after_it_was_created_again(
    keyless: World, state: TableState
) -> None:
    keyless.store.tables[ORDERS] = TableProgress(state, reason="why")
    keyless.begin()
    keyless.alters("CREATE TABLE orders (n INT)")()
    keyless.run()
    assert keyless.progress() == TableProgress(state, reason="why")


def test_a_task_without_snapshots_notes_nothing_of_created_tables(keyless: World) -> None:
    keyless.begin(SnapshotMode.NEVER)
    keyless.alters("CREATE TABLE orders (n INT)")()
    keyless.acknowledge()
    assert keyless.store.tables == {}


def test_rows_before_and_after_a_create_in_one_batch_are_told_apart(keyless: World) -> None:
    keyless.begin()
    [before], [after] = keyless.inserts(1), keyless.inserts(2)
    _place(before, 90)
    _place(after, 120)
    created = Statement(
        BinlogCoordinates("bin.000001", 100), 1, "shop", b"CREATE TABLE orders (n INT)"
    )
    keyless.passes(Batch([before, after], at(130), [], ddl=(created,)))()
    assert keyless.live == [("shop.orders", 2)]


def _place(rows: Rows, pos: int) -> None:
    rows.origin = replace(NO_ORIGIN, file="bin.000001", pos=pos)


def test_a_rename_of_another_table_has_no_third_one_read(keyless: World) -> None:
    """One that the task knows nothing of, as an older version has noted no CREATE."""
    rows, keyless.rows = keyless.rows, {ITEMS: [1]}

    def renamed() -> None:
        keyless.rows = {**rows, TableId("shop", "others"): [1]}
        keyless.brings(110, 5)()
        keyless.alters("RENAME TABLE items TO others")()

    keyless.run(keyless.acknowledge, renamed)
    assert (keyless.live, keyless.ids()) == ([("shop.orders", 5)], [])
    assert keyless.ids(TableId("shop", "others")) == [1]


def test_changes_under_a_new_name_wait_until_it_is_read(keyless: World) -> None:
    keyless.store.tables[ORDERS] = TableProgress(TableState.DONE, 5)
    keyless.without_key = {ORDERS, ITEMS}

    def renamed() -> None:
        keyless.rows = {ITEMS: [1, 2]}
        keyless.alters("RENAME TABLE orders TO items")()
        keyless.brings(110, 2, table=ITEMS)()

    keyless.high = 110
    keyless.run(keyless.acknowledge, renamed)
    assert (keyless.live, keyless.ids(ITEMS)) == ([], [1, 2])


# Other rows under a name


@pytest.mark.parametrize("mode", [SnapshotMode.INITIAL, SnapshotMode.NEVER])
def test_a_table_renamed_to_the_name_of_one_that_was_dropped_meanwhile_is_read(
    world: World, mode: SnapshotMode
) -> None:
    seen: list[TableState] = []

    def renamed() -> None:
        seen.append(world.progress().state)
        world.rows = {ORDERS: [7, 8, 9]}
        world.alters("DROP TABLE orders")()
        world.alters("RENAME TABLE orders_new TO orders")()

    world.rows = {NEW: [7, 8, 9]}
    world.store.tables[NEW] = TableProgress(TableState.DONE)
    world.store.tables[ORDERS] = TableProgress(TableState.RUNNING, 2, chunks=1, after=("2",))
    world.run(world.acknowledge, renamed, mode=mode)
    assert seen == [TableState.DROPPED]
    assert world.ids() == [7, 8, 9]
    assert world.progress().state is TableState.DONE


def test_a_table_that_is_swapped_before_it_is_told_as_gone_is_not_dropped(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = world.rows.pop(ORDERS)
    world.store.tables[ORDERS] = TableProgress(TableState.RUNNING)
    look = world.look

    def swapped(table: TableId) -> None:
        if not world.rows:
            world.rows[ORDERS] = rows
            world.alters("RENAME TABLE orders_new TO orders")()
        look(table)

    monkeypatch.setattr(world, "look", swapped)
    world.run(mode=SnapshotMode.NEVER)
    assert world.progress().state is TableState.DONE
    assert world.ids() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE orders EXCHANGE PARTITION p0 WITH TABLE items",
        "ALTER TABLE `shop`.orders EXCHANGE PARTITION `p 0` WITH TABLE shop.items WITHOUT VALIDATION",
        "ALTER TABLE items EXCHANGE PARTITION p0 WITH TABLE orders",
        "ALTER TABLE orders CONVERT TABLE items TO PARTITION p0 VALUES LESS THAN (9)",
        "ALTER TABLE items CONVERT PARTITION p0 TO TABLE orders",
        "ALTER TABLE orders IMPORT TABLESPACE",
        "ALTER TABLE orders IMPORT PARTITION p0, p1 TABLESPACE",
    ],
)
def test_a_table_that_gets_rows_of_another_while_it_is_read_is_read_from_its_beginning(
    world: World, sql: str
) -> None:
    def exchanged() -> None:
        world.rows[ORDERS] = [1, 2, 3, 4, 5, 6]
        world.alters(sql)()

    world.store.tables[ITEMS] = TableProgress(TableState.DONE)
    world.during = [lambda: None, exchanged]
    world.run()
    assert world.ids() == [1, 2, 1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("is_keyless", [False, True])
def test_a_created_table_that_gets_rows_of_another_is_read_or_told_of(
    keyless: World, caplog: pytest.LogCaptureFixture, is_keyless: bool
) -> None:
    """As an archive is made of a partition. Without a key its rows would come twice."""
    kind = "n INT" if is_keyless else "n INT PRIMARY KEY"
    keyless.begin()
    keyless.alters(f"CREATE TABLE orders ({kind})")()
    keyless.run()
    assert keyless.ids() == []
    keyless.begin()
    keyless.run(keyless.alters("ALTER TABLE items EXCHANGE PARTITION p0 WITH TABLE orders"))
    assert keyless.ids() == ([] if is_keyless else [1, 2, 3, 4, 5])
    assert ("orders has no key, and a statement gave it rows" in caplog.text) is is_keyless


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE orders REORGANIZE PARTITION p0 INTO (PARTITION p1 VALUES LESS THAN (9))",
        "ALTER TABLE orders CONVERT TO CHARACTER SET utf8mb4",
        "ALTER TABLE orders DISCARD TABLESPACE",
    ],
)
def test_a_table_that_gets_no_other_rows_goes_on_where_it_was(world: World, sql: str) -> None:
    world.during = [lambda: None, world.alters(sql)]
    world.run()
    assert world.ids() == [1, 2, 3, 4, 5]
