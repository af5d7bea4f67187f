"""Which tables have a snapshot, how far it is, and what operators make of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from cdcbus.plugins.errors import (
    SourceMisconfigured,
    UnreadableEvent,
)
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.config import (
    Elsewhere,
    FilterConfig,
    HeartbeatConfig,
    SnapshotMode,
)
from cdcbus.producer.snapshot.chunks import Bound
from cdcbus.producer.snapshot.progress import (
    TableProgress,
    TableState,
    Wish,
    WishKind,
)
from cdcbus.producer.source.row_events import Rows
from tests.unit.producer.snapshot.world import (
    BEATS,
    ITEMS,
    ORDERS,
    KeptWishes,
    Step,
    World,
)


def test_a_renamed_table_gets_a_snapshot_by_its_new_name(world: World) -> None:
    def renamed() -> None:
        world.rows[ITEMS] = world.rows.pop(ORDERS)
        world.alters("RENAME TABLE orders TO items")()

    world.run(world.acknowledge, renamed)
    assert world.ids(ITEMS) == [1, 2, 3, 4, 5]


SWAP = "RENAME TABLE orders TO orders_old, orders_new TO orders"


@pytest.mark.parametrize("mode", list(SnapshotMode))
@pytest.mark.parametrize("swap", [SWAP, "ALTER TABLE orders_new ADD n INT, RENAME TO orders"])
def test_a_table_that_takes_over_a_name_is_read_from_its_beginning(
    world: World, caplog: pytest.LogCaptureFixture, mode: SnapshotMode, swap: str
) -> None:
    caplog.set_level("INFO")

    def swapped() -> None:
        world.rows[ORDERS] = [1, 2, 3, 4, 5, 6]
        world.alters(swap)()
        world.wish(WishKind.START)()

    world.during = [lambda: None, swapped]
    world.begin(mode)
    world.store.wished.append(Wish(WishKind.START))
    world.run(mode=mode)
    assert world.ids() == [1, 2, 1, 2, 3, 4, 5, 6]
    assert world.progress().until == ("6",)
    assert "shop.orders is read anew, as its name stands for other rows now" in caplog.text
    assert "in progress, and continues: shop.orders" in caplog.text


def test_a_table_that_takes_over_a_name_while_it_is_described_is_read_from_its_beginning(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.store.tables[ORDERS] = TableProgress(
        TableState.RUNNING, 2, chunks=1, after=("2",), until=("5",), started_ms=1
    )
    estimate, swap = world.estimate, [world.alters(SWAP)]

    def estimated(table: TableId) -> tuple[int, int]:
        if swap:
            world.rows[ORDERS] = [1, 2, 3, 4, 5, 6]
            swap.pop()()
        return estimate(table)

    monkeypatch.setattr(world, "estimate", estimated)
    world.run()
    assert world.ids() == [1, 2, 3, 4, 5, 6]


def test_a_restart_after_a_table_took_over_a_name_does_not_continue_the_former(
    world: World,
) -> None:
    world.high = 200
    world.store.tables[ORDERS] = TableProgress(
        TableState.RUNNING, 2, chunks=1, after=("2",), until=("5",), where="id > 0"
    )
    world.run(world.alters(SWAP), lambda: setattr(world.snapshots._sender, "is_over", True))
    stored = world.progress()
    assert (stored.after, stored.until, stored.rows) == (None, None, 0)
    assert stored.where == "id > 0"


def test_a_paused_table_whose_name_another_takes_over_stays_paused_and_is_then_read_whole(
    world: World,
) -> None:
    world.store.tables[ORDERS] = TableProgress(
        TableState.PAUSED, 2, chunks=1, after=("2",), until=("4",)
    )
    seen: list[TableState] = []

    def look() -> None:
        seen.append(world.progress().state)

    world.run(world.alters(SWAP), world.acknowledge, look, world.wish(WishKind.RESUME))
    assert seen == [TableState.PAUSED]
    assert world.ids() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("state", [TableState.RUNNING, TableState.PAUSED, TableState.DONE])
@pytest.mark.parametrize(
    ("mode", "read"), [(SnapshotMode.INITIAL, [1, 2, 3, 4, 5]), (SnapshotMode.NEVER, [])]
)
def test_a_table_that_the_filter_left_out_for_a_while_is_not_continued(
    world: World,
    caplog: pytest.LogCaptureFixture,
    mode: SnapshotMode,
    read: list[int],
    state: TableState,
) -> None:
    """Nothing has brought the changes of its rows meanwhile, also of those that were read."""
    world.store.tables[ORDERS] = TableProgress(state, 2, chunks=1, after=("2",), until=("5",))
    world.begin(mode, tables=FilterConfig((r"shop\.items",)))
    world.run()
    assert world.progress().state is TableState.DROPPED
    assert "the task's filter leaves it out" in world.progress().reason
    world.begin(mode)
    world.run()
    assert world.ids() == read
    is_asked = "cdcbus snapshot start 1 --table shop.orders" in caplog.text
    assert is_asked is (mode is SnapshotMode.NEVER)


@pytest.mark.parametrize("state", [TableState.STOPPED, TableState.FAILED])
def test_a_table_that_waits_for_an_operator_still_does_after_the_filter_left_it_out(
    world: World, state: TableState
) -> None:
    world.store.tables[ORDERS] = TableProgress(state)
    world.begin(tables=FilterConfig((r"shop\.items",)))
    world.run()
    assert world.progress().state is state


def test_a_table_that_takes_over_the_name_of_a_dropped_one_is_read(world: World) -> None:
    new = TableId("shop", "orders_new")
    world.store.tables[new] = TableProgress(TableState.DONE)
    seen: list[TableState] = []

    def first() -> None:
        world.rows = {TableId("shop", "orders_old"): [1], new: [7, 8, 9]}
        world.alters("RENAME TABLE orders TO orders_old")()

    def second() -> None:
        seen.append(world.progress().state)
        world.rows[ORDERS] = world.rows.pop(new)
        world.alters("RENAME TABLE orders_new TO orders")()

    world.during = [first]
    world.run(world.acknowledge, second)
    assert seen == [TableState.DROPPED]
    assert world.ids() == [7, 8, 9]


def test_a_table_that_takes_over_the_name_of_a_done_one_is_left_alone(world: World) -> None:
    world.store.tables[ORDERS] = TableProgress(TableState.DONE, 5)
    world.run(world.alters(SWAP))
    assert world.ids() == []


@pytest.mark.parametrize("spelled", [BEATS, TableId(BEATS.schema, BEATS.table.upper())])
def test_only_tables_of_the_filter_are_read_and_heartbeats_never(
    world: World, spelled: TableId
) -> None:
    other = TableId("else", "t")
    world.rows |= {other: [1], BEATS: [1]}
    world.begin(heartbeat=HeartbeatConfig(spelled))
    world.run()
    assert set(world.store.tables) == {ORDERS}


def test_a_task_without_snapshots_reads_nothing_before_it_is_asked(world: World) -> None:
    world.run(mode=SnapshotMode.NEVER)
    assert (world.opened, world.targets) == (0, [])


def test_what_is_asked_of_a_task_without_snapshots_is_read_by_its_condition(world: World) -> None:
    world.begin(SnapshotMode.NEVER)
    world.wish(WishKind.START, "SHOP.orders", where="id > 0")()
    world.run()
    assert world.ids() == [1, 2, 3, 4, 5]
    assert {where for *_, where in world.asked} == {"id > 0"}
    assert world.progress().where == "id > 0"


def test_a_task_that_leaves_out_the_other_side_sends_no_rows_of_it_back(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.begin(SnapshotMode.NEVER, elsewhere=Elsewhere(marks=frozenset({"from_b"})))
    world.wish(WishKind.START)()
    world.run()
    assert world.asked == []
    assert "would send such rows back" in caplog.text


def test_a_wish_for_a_table_that_is_not_there_is_said_in_the_log(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.begin(SnapshotMode.NEVER)
    world.wish(WishKind.START, "shop.typo")()
    world.wish(WishKind.START, "shop.orders", "shop.other")()
    world.run()
    assert "no table of the task's filter is called shop.typo" in caplog.text
    assert "no table of the task's filter is called shop.other" in caplog.text
    assert world.store.tables.keys() == {ORDERS}


def test_a_done_table_is_read_again_by_a_wish_and_not_by_a_restart(world: World) -> None:
    world.store.tables[ORDERS] = TableProgress(TableState.DONE, 5)
    world.run(world.acknowledge, world.acknowledge, world.wish(WishKind.START))
    assert world.ids() == [1, 2, 3, 4, 5]
    assert world.progress().state is TableState.DONE


def test_a_restart_leaves_a_done_table_alone(world: World) -> None:
    world.store.tables[ORDERS] = TableProgress(TableState.DONE, 5)
    world.run()
    assert world.published == []


PART = TableProgress(TableState.DONE, 2, key=("id",), until=("5",), where="id > 3")


def test_a_table_of_which_a_part_was_read_is_read_whole_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    world.store.tables[ORDERS] = PART
    for _ in range(2):
        world.begin()
        world.run()
    assert world.ids() == [1, 2, 3, 4, 5]
    done = world.progress()
    assert (done.state, done.rows, done.where) == (TableState.DONE, 5, "")
    assert "of shop.orders only the rows of a condition were read: now all are" in caplog.text


def test_a_part_is_all_that_a_task_without_snapshots_reads(world: World) -> None:
    world.store.tables[ORDERS] = PART
    world.run(mode=SnapshotMode.NEVER)
    assert (world.ids(), world.progress()) == ([], PART)


@pytest.mark.parametrize("is_other_process", [True, False])
def test_each_process_asks_once_whether_a_part_left_the_table_whole(
    world: World, caplog: pytest.LogCaptureFixture, is_other_process: bool
) -> None:
    """Until its progress says so."""
    world.store.tables[ORDERS] = replace(PART, was_whole=None)
    for _ in range(2):
        world.begin()
        if is_other_process:
            world.reported = set()
    assert caplog.text.count('add "whole": true to its stored progress') == 1 + is_other_process
    caplog.clear()
    fields = world.store.tables[ORDERS].to_fields() | {"whole": True}
    world.store.tables[ORDERS] = TableProgress.from_fields(fields)
    world.reported = set()
    world.begin()
    world.run()
    assert (caplog.text, world.ids(), world.progress().is_whole) == ("", [], True)


def test_a_part_of_a_version_that_did_not_say_whether_the_table_was_read_whole_is_left_at_that(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.store.tables[ORDERS] = replace(PART, was_whole=None)
    world.begin()
    world.run()
    assert world.ids() == []
    assert "cdcbus snapshot start 1 --table shop.orders" in caplog.text
    world.begin()
    world.wish(WishKind.START, "shop.orders", where="id > 4")()
    world.run()
    assert {where for *_, where in world.asked} == {"id > 4"}
    assert world.progress().may_be_part
    world.begin()
    world.wish(WishKind.START, "shop.orders")()
    world.run()
    assert world.progress().is_whole


@pytest.mark.parametrize("state", [TableState.RUNNING, TableState.PAUSED])
def test_a_task_for_its_snapshot_only_ends_once_a_part_that_was_begun_is_read_whole(
    world: World, state: TableState
) -> None:
    world.store.tables[ORDERS] = replace(PART, state=state, rows=1, after=("4",), started_ms=1)
    snapshots = world.begin(SnapshotMode.ONLY)
    seen: list[tuple[list[int], bool]] = []

    def look() -> None:
        world.acknowledge()
        seen.append((world.ids(), snapshots.is_finished))

    world.run(look, world.wish(WishKind.RESUME), look)
    assert ([5], False) in seen
    assert world.ids() == [5, 1, 2, 3, 4, 5]
    assert snapshots.is_finished
    assert [where for *_, where in world.asked] == ["id > 3", "", ""]


def test_a_table_that_takes_over_the_name_of_one_that_was_read_in_part_is_read_whole(
    world: World,
) -> None:
    world.begin(SnapshotMode.NEVER)
    world.store.tables[ORDERS] = PART
    world.begin()
    world.alters(SWAP)()
    world.run()
    assert world.ids() == [1, 2, 3, 4, 5]


def test_a_part_that_is_read_once_more_leaves_the_table_read_whole(world: World) -> None:
    """Also where it was stopped and begun by another condition, and the key changed meanwhile."""
    world.store.tables[ORDERS] = TableProgress(TableState.DONE, 5)
    world.begin()
    world.wish(WishKind.START, "shop.orders", where="id > 2")()
    world.run(world.wish(WishKind.STOP), world.wish(WishKind.START, "shop.orders", where="id > 3"))
    assert world.progress().is_whole
    stored = world.store.tables[ORDERS]
    world.store.tables[ORDERS] = replace(
        stored, state=TableState.RUNNING, key=("v",), after=("5",), until=("9",)
    )
    for _ in range(2):
        world.begin()
        world.run()
    assert {where for *_, where in world.asked} == {"id > 2", "id > 3"}
    done = world.progress()
    assert (done.state, done.where, done.is_whole) == (TableState.DONE, "id > 3", True)


@pytest.mark.parametrize("state", [TableState.STOPPED, TableState.DROPPED, TableState.FAILED])
def test_a_part_of_a_table_that_was_not_read_whole_is_a_part(
    world: World, state: TableState
) -> None:
    world.store.tables[ORDERS] = TableProgress(state, 2, was_whole=state is TableState.DROPPED)
    world.begin(SnapshotMode.NEVER)
    world.wish(WishKind.START, "shop.orders", where="id > 3")()
    world.run()
    assert world.progress().is_part


def test_a_start_goes_on_where_kafka_has_the_rows_and_with_what_was_begun(world: World) -> None:
    world.rows[ITEMS] = [1]
    begun = TableProgress(TableState.RUNNING, 2, chunks=1, after=("2",), until=("4",), started_ms=1)
    world.store.tables[ORDERS] = begun
    world.run()
    assert world.published == [
        *(("shop.orders", 3), ("shop.orders", 4)),
        ("shop.items", 1),
    ]
    assert (world.progress().rows, world.progress().started_ms) == (4, 1)


def test_a_pause_forgets_what_was_not_sent_and_a_resume_goes_on(world: World) -> None:
    world.high = 200
    seen: list[tuple[TableState, list[int]]] = []

    def look() -> None:
        seen.append((world.progress().state, world.ids()))

    world.run(
        *(world.wish(WishKind.PAUSE), world.reaches(200), world.acknowledge, look),
        *(world.wish(WishKind.RESUME, "shop.orders"), world.acknowledge, world.acknowledge),
    )
    assert seen == [(TableState.PAUSED, [])]
    assert world.ids() == [1, 2, 3, 4, 5]
    assert world.progress().state is TableState.DONE


def test_a_pause_while_rows_are_on_their_way_stays_a_pause(world: World) -> None:
    def paused_before_kafka_has_any() -> None:
        world.store.wished.append(Wish(WishKind.PAUSE))
        with world.snapshots.turn():
            world.snapshots.acknowledged(0, world.stored)

    world.during = [lambda: None, paused_before_kafka_has_any]
    world.run()
    assert world.ids() == [1, 2]
    paused = world.progress()
    assert (paused.state, paused.rows, paused.after) == (TableState.PAUSED, 2, ("2",))


def test_a_table_that_fails_while_rows_are_on_their_way_keeps_its_reason(world: World) -> None:
    def fails() -> None:
        world.errors = {"chunk": [UnreadableEvent("a bad row")]}

    world.during = [fails]
    world.run()
    failed = world.progress()
    assert (failed.state, failed.reason, failed.rows) == (TableState.FAILED, "a bad row", 2)


def unacknowledged(world: World, *wishes: Wish) -> Step:
    """The stream finds these wishes before Kafka has acknowledged anything."""

    def found() -> None:
        world.store.wished += wishes
        with world.snapshots.turn():
            world.snapshots.acknowledged(0, world.stored)

    return found


@pytest.mark.parametrize("kind", [WishKind.PAUSE, WishKind.STOP])
def test_rows_without_a_key_that_are_on_their_way_are_not_sent_again_after_a_pause_or_stop(
    world: World, kind: WishKind
) -> None:
    world.without_key = {ORDERS}
    again = unacknowledged(world, Wish(WishKind.RESUME), Wish(WishKind.START))
    world.run(unacknowledged(world, Wish(kind)), again)
    assert world.ids() == [1, 2, 3, 4, 5]
    assert world.progress().state is TableState.DONE


def test_a_table_without_a_key_that_was_sent_is_not_read_anew_for_a_rename(world: World) -> None:
    """As one that is done."""
    world.without_key = {ORDERS}
    world.run(world.alters(SWAP))
    assert world.ids() == [1, 2, 3, 4, 5]
    assert world.progress().state is TableState.DONE


@pytest.mark.parametrize("is_later", [False, True])
def test_a_start_is_not_obeyed_again_after_a_kill_on_the_way_of_rows_without_a_key(
    world: World, monkeypatch: pytest.MonkeyPatch, is_later: bool
) -> None:
    """Nor is another one lost that came meanwhile."""
    world.without_key = {ORDERS}
    world.rows[ITEMS] = [1]
    kept = KeptWishes()
    monkeypatch.setattr(world, "store", kept)
    kept.wished.append(Wish(WishKind.START, ("shop.orders",), is_confirmed=True))
    later = Wish(WishKind.START, ("shop.items",))
    world.during = [unacknowledged(world, later) if is_later else lambda: None]
    send = world.send

    def sent_before_a_kill(parts: Iterable[Rows]) -> int:
        world.snapshots._sender.is_over = True
        return send(parts)

    with monkeypatch.context() as patched:
        patched.setattr(world, "send", sent_before_a_kill)
        world.run(mode=SnapshotMode.NEVER)
    assert world.progress().state is TableState.SENDING
    kept.given = 0
    world.begin(SnapshotMode.NEVER)
    world.run()
    assert (world.ids(), world.ids(ITEMS)) == ([1, 2, 3, 4, 5], [1] * is_later)
    assert world.progress().state is TableState.FAILED


def test_a_wish_for_another_table_changes_nothing(world: World) -> None:
    world.during = [world.wish(WishKind.STOP, "shop.items")]
    world.run()
    assert world.progress().state is TableState.DONE


def test_a_stop_ends_what_is_not_done_and_a_resume_does_not_bring_it_back(world: World) -> None:
    world.high = 200
    world.run(world.wish(WishKind.STOP), world.acknowledge, world.wish(WishKind.RESUME))
    assert world.progress().state is TableState.STOPPED
    assert world.ids() == []


@pytest.mark.parametrize(
    ("kind", "state"), [(WishKind.STOP, TableState.STOPPED), (WishKind.PAUSE, TableState.PAUSED)]
)
def test_what_is_asked_right_after_a_start_is_done_after_it(
    world: World, kind: WishKind, state: TableState
) -> None:
    """The task finds the table only later, and meanwhile has no snapshot of it to stop."""
    world.store.wished += [Wish(WishKind.START, ("shop.orders",)), Wish(kind, ("shop.orders",))]
    world.run(mode=SnapshotMode.NEVER)
    assert world.ids() == []
    assert world.progress().state is state


def test_a_pause_from_before_the_first_start_holds_for_the_tables_that_are_then_found(
    world: World,
) -> None:
    world.store.wished += [Wish(WishKind.PAUSE), Wish(WishKind.STOP, ("shop.items",))]
    world.rows[ITEMS] = [1]
    world.run()
    assert world.published == []
    assert world.progress().state is TableState.PAUSED
    assert world.progress(ITEMS).state is TableState.STOPPED


def test_a_start_after_a_stop_of_another_start_begins_anew(world: World) -> None:
    world.store.wished += [Wish(WishKind.START), Wish(WishKind.STOP)]
    world.store.wished.append(Wish(WishKind.START, ("shop.orders",)))
    world.rows[ITEMS] = [1]
    world.run(mode=SnapshotMode.NEVER)
    assert world.published == [("shop.orders", number) for number in (1, 2, 3, 4, 5)]
    assert world.progress(ITEMS).state is TableState.STOPPED


def test_nothing_counts_as_done_before_kafka_has_it(world: World) -> None:
    seen: list[Bound | None] = []

    def some() -> None:
        for records in (1, 2, 4):
            world.snapshots.acknowledged(records, world.stored)
            seen.append(world.progress().after)

    world.run(some)
    assert seen == [None, ("2",), ("2",)]
    assert world.progress().after == ("5",)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (TableState.RUNNING, TableState.STOPPED),
        (TableState.WAITING, TableState.STOPPED),
        (TableState.PAUSED, TableState.PAUSED),
        (TableState.DONE, TableState.DONE),
    ],
)
def test_what_was_begun_ends_where_rows_of_another_side_are_left_out_now(
    world: World, before: TableState, after: TableState
) -> None:
    world.store.tables[ORDERS] = TableProgress(before)
    elsewhere = Elsewhere(marks=frozenset(("a",)))
    snapshot = world.begin(SnapshotMode.NEVER, elsewhere=elsewhere)
    world.store.wished.append(Wish(WishKind.RESUME))
    world.run()
    assert (world.progress().state, world.ids()) == (after, [])
    assert snapshot.is_idle


def test_a_table_whose_rows_were_on_their_way_when_the_process_ended_waits_for_a_person(
    world: World,
) -> None:
    world.store.tables[ORDERS] = TableProgress(TableState.SENDING)
    world.run()
    assert world.ids() == []
    assert world.progress().state is TableState.FAILED
    with pytest.raises(
        SourceMisconfigured, match=r"snapshots have failed: shop\.orders: the process"
    ):
        world.snapshots.check()
