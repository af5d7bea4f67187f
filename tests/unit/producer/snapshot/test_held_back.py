"""Changes of tables without a key that are held back until their rows are read."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdcbus.plugins.errors import PositionUnavailable
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.config import FilterConfig, HeartbeatConfig, SnapshotMode
from cdcbus.producer.snapshot.chunk_thread import TRIES
from cdcbus.producer.snapshot.progress import TableProgress, TableState, WishKind
from cdcbus.producer.snapshot.snapshots import has_sent_live
from cdcbus.producer.source.row_events import Batch
from tests.unit.producer.snapshot.world import BEATS, ITEMS, ORDERS, SERVER, World, at, task_of

HELD_BACK = "were held back since its snapshot was started, and are not in Kafka"


def is_over(world: World) -> None:
    world.snapshots._sender.is_over = True


def test_changes_before_the_read_are_in_it_and_are_not_sent(keyless: World) -> None:
    keyless.begin()
    keyless.brings(100, 5)()
    keyless.run()
    assert (keyless.live, keyless.ids()) == ([], [1, 2, 3, 4, 5])
    done = keyless.progress()
    assert (done.state, done.is_keyless, done.has_held_back) == (TableState.DONE, True, False)


def test_changes_after_the_read_was_sent_are_sent_as_ever(keyless: World) -> None:
    keyless.run(keyless.brings(100, 7), keyless.brings(120, 8))
    assert keyless.ids() == [1, 2, 3, 4, 5]
    assert keyless.live == [("shop.orders", 7), ("shop.orders", 8)]


def test_changes_of_a_table_with_a_key_are_sent_at_once(keyless: World) -> None:
    keyless.begin()
    keyless.brings(100, 7, table=ITEMS)()
    assert keyless.live == [("shop.items", 7)]
    assert keyless.store.tables == {}


def test_a_read_that_was_changed_meanwhile_is_void_and_repeated_and_sends_no_change_twice(
    keyless: World,
) -> None:
    keyless.during = [keyless.is_changed(5), keyless.is_changed(5)]
    keyless.run(keyless.brings(200, 6))
    assert (keyless.ids(), keyless.live) == ([1, 2, 3, 4, 5], [("shop.orders", 6)])
    assert keyless.reads == 3


def test_a_table_whose_changes_wait_is_read_before_others(keyless: World) -> None:
    keyless.without_key = {ORDERS}
    keyless.rows[ITEMS] = list(range(1, 50))
    keyless.during = [keyless.brings(100, 5)]
    keyless.run()
    first = keyless.published.index(("shop.orders", 1))
    assert first == 2, "after one chunk of the other table"


@pytest.mark.parametrize("state", [TableState.WAITING, TableState.RUNNING, TableState.PAUSED])
def test_after_a_restart_changes_are_held_back_from_the_first_on(
    keyless: World, state: TableState
) -> None:
    keyless.store.tables[ORDERS] = TableProgress(state, has_held_back=True)
    keyless.begin(SnapshotMode.NEVER)
    keyless.brings(100, 5)()
    assert keyless.live == []
    keyless.wish(WishKind.RESUME)()
    keyless.run()
    assert keyless.ids() == [1, 2, 3, 4, 5]
    keyless.begin(SnapshotMode.NEVER)
    keyless.brings(120, 6)()
    assert keyless.live == [("shop.orders", 6)]


def test_that_changes_are_held_back_is_stored_before_the_position_passes_them(
    keyless: World,
) -> None:
    keyless.begin()
    keyless.brings(100, 5)()
    assert keyless.progress().has_held_back
    keyless.store.error = PositionUnavailable("away")
    keyless.without_key.add(ITEMS)
    with pytest.raises(PositionUnavailable, match="away"):
        keyless.brings(100, 5, table=ITEMS)()


def test_changes_wait_from_the_wish_on_and_a_table_that_is_done_is_no_exception(
    keyless: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    keyless.store.tables[ORDERS] = TableProgress(TableState.DONE, 5)
    keyless.begin(SnapshotMode.NEVER)
    keyless.brings(100, 4)()
    keyless.wish(WishKind.START, "shop.orders")()
    keyless.brings(100, 5)()
    assert keyless.live == [("shop.orders", 4)]
    keyless.run()
    assert (keyless.ids(), keyless.progress().state) == ([1, 2, 3, 4, 5], TableState.DONE)
    assert "in progress, and continues" not in caplog.text


def test_another_tables_wish_holds_nothing_back(keyless: World) -> None:
    keyless.begin(SnapshotMode.NEVER)
    keyless.wish(WishKind.START, "shop.items")()
    keyless.brings(100, 5)()
    assert keyless.live == [("shop.orders", 5)]


def test_heartbeats_are_never_held_back(world: World) -> None:
    world.without_key = {BEATS}
    world.begin(heartbeat=HeartbeatConfig(BEATS))
    world.brings(100, 5, table=BEATS)()
    assert world.live == [("shop.beats", 5)]


def test_a_transaction_keeps_its_first_mark_when_its_first_rows_are_held_back(
    keyless: World,
) -> None:
    keyless.begin()
    [held], [other] = keyless.inserts(5), keyless.inserts(7, table=ITEMS)
    held.is_first, other.is_last = True, True
    keyless.passes(Batch([], None, [held]))()
    batch = Batch([other], at(100), [])
    keyless.passes(batch)()
    assert batch.closed == [other]
    assert other.is_first


def test_nothing_is_sent_within_a_transaction_whose_rows_so_far_are_held_back(
    keyless: World,
) -> None:
    keyless.high = 150
    opened = Batch([], None, list(keyless.inserts(6)))
    seen: list[list[int]] = []

    def look() -> None:
        seen.append(keyless.ids())

    def committed() -> None:
        keyless.rows[ORDERS] = [1, 2, 3, 4, 5, 6]
        keyless.reaches(200)()

    keyless.run(keyless.passes(opened), look, committed, keyless.reaches(300))
    assert seen == [[]]
    assert (keyless.ids(), keyless.live) == ([1, 2, 3, 4, 5, 6], [])


# A task that has sent live rows


@pytest.mark.parametrize("brings", [True, False])
@pytest.mark.parametrize("restarts", [True, False])
def test_a_start_without_a_yes_is_refused_where_live_rows_were_sent(
    keyless: World, brings: bool, restarts: bool
) -> None:
    keyless.begin(SnapshotMode.NEVER)
    keyless.wish(WishKind.START, is_confirmed=False)()
    if restarts:
        keyless.run(keyless.wish(WishKind.PAUSE), mode=SnapshotMode.NEVER)
        keyless.begin(SnapshotMode.NEVER)
        keyless.wish(WishKind.RESUME)()
    if brings:
        keyless.brings(120, 9)()
    keyless.run()
    failed = keyless.progress()
    assert failed.state is TableState.FAILED
    assert "cdcbus snapshot start 1 --table shop.orders --yes" in failed.reason
    assert HELD_BACK not in failed.reason
    assert keyless.ids() == []
    assert keyless.live == ([("shop.orders", 9)] if brings else [])


@pytest.mark.parametrize(
    ("mode", "is_confirmed", "has_key"),
    [
        (SnapshotMode.INITIAL, False, False),
        (SnapshotMode.NEVER, True, False),
        (SnapshotMode.NEVER, False, True),
    ],
)
def test_other_starts_need_no_yes(
    world: World, mode: SnapshotMode, is_confirmed: bool, has_key: bool
) -> None:
    world.without_key = set() if has_key else {ORDERS}
    world.begin(mode)
    world.wish(WishKind.START, is_confirmed=is_confirmed)()
    world.run()
    assert world.ids() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("has_run", [True, False])
@pytest.mark.parametrize("is_live", [True, False, None])
@pytest.mark.parametrize("has_key", [True, False])
def test_a_task_that_has_run_without_a_snapshot_does_not_read_what_could_come_twice(
    world: World, has_run: bool, is_live: bool | None, has_key: bool
) -> None:
    """As one whose file says `initial` later. Older versions noted nothing."""
    world.without_key = set() if has_key else {ORDERS}
    if is_live is not None:
        world.store.note_live(is_live)
    world.begin(has_run=has_run)
    world.run()
    is_refused = not has_key and (is_live or (is_live is None and has_run))
    assert world.ids() == ([] if is_refused else [1, 2, 3, 4, 5])
    assert (world.progress().state is TableState.FAILED) is is_refused
    assert ("when it had no snapshot" in world.progress().reason) is is_refused


@pytest.mark.parametrize("has_run", [True, False])
@pytest.mark.parametrize("has_progress", [True, False])
def test_a_task_notes_whether_it_has_ever_run_without_a_snapshot(
    world: World, has_run: bool, has_progress: bool
) -> None:
    """Progress is of one table, as of one that an operator has asked for."""
    if has_progress:
        world.store.tables[ITEMS] = TableProgress(TableState.DONE)
    initial, never = task_of(SnapshotMode.INITIAL), task_of(SnapshotMode.NEVER)
    is_live = has_run and not has_progress
    assert has_sent_live(initial, world.store, has_run=has_run) is is_live
    assert world.store.is_live() is is_live
    world.store.tables.clear()
    assert has_sent_live(initial, world.store, has_run=True) is is_live
    assert has_sent_live(never, world.store, has_run=True)
    assert has_sent_live(initial, world.store, has_run=True)


def test_a_task_that_has_run_sends_no_table_twice_at_its_second_attempt(keyless: World) -> None:
    """The first one has stored progress of a table before it has found the others."""
    keyless.begin(has_run=True)
    keyless.brings(100, 9)()
    keyless.snapshots.__exit__(None, None, None)
    assert keyless.progress().state is TableState.FAILED
    keyless.rows[ITEMS] = [7]
    keyless.without_key = {ORDERS, ITEMS}
    keyless.begin(has_run=True)
    keyless.run()
    assert keyless.published == []


@pytest.mark.parametrize("has_key", [True, False])
def test_a_table_whose_progress_is_lost_is_not_sent_twice(world: World, has_key: bool) -> None:
    world.without_key = set() if has_key else {ORDERS}
    world.run()
    world.store.tables.clear()
    world.store.lost_tables = {ORDERS}
    world.begin(has_run=True)
    world.run()
    assert world.ids() == [1, 2, 3, 4, 5] * (2 if has_key else 1)
    assert world.progress().state is (TableState.DONE if has_key else TableState.FAILED)
    assert ("whose progress is lost" in world.progress().reason) is not has_key


@pytest.mark.parametrize("is_confirmed", [True, False])
def test_a_table_whose_progress_is_lost_is_sent_once_an_operator_says_so(
    keyless: World, is_confirmed: bool
) -> None:
    """Knowing that its rows come twice, which the command asks only where progress tells."""
    keyless.store.note_live(False)
    keyless.store.lost_tables = {ORDERS}
    keyless.begin(has_run=True)
    keyless.run(keyless.acknowledge, keyless.wish(WishKind.START, is_confirmed=is_confirmed))
    assert keyless.ids() == ([1, 2, 3, 4, 5] if is_confirmed else [])


@pytest.mark.parametrize("brings", [True, False])
@pytest.mark.parametrize("is_lost", [True, False])
def test_a_table_that_was_refused_is_refused_again_until_an_operator_says_so(
    keyless: World, is_lost: bool, brings: bool
) -> None:
    """Progress of a refused table is no longer lost: only what it says tells of it."""
    keyless.store.note_live(False)
    keyless.store.lost_tables = {ORDERS} if is_lost else set()
    if not is_lost:
        part = TableProgress(TableState.DONE, 2, where="id > 3", is_keyless=True)
        keyless.store.tables[ORDERS] = part
    keyless.begin(has_run=True)
    if brings:
        keyless.brings(100, 9)()
    keyless.run()
    assert keyless.progress().state is TableState.FAILED
    for _ in range(2):
        assert keyless.progress().would_come_twice  # the command asks
        keyless.begin(has_run=True)
        keyless.wish(WishKind.START, is_confirmed=False)()
        keyless.run()
        assert (keyless.progress().state, keyless.ids()) == (TableState.FAILED, [])
    keyless.begin(has_run=True)
    keyless.wish(WishKind.START)()
    keyless.run()
    assert (keyless.progress().state, keyless.ids()) == (TableState.DONE, [1, 2, 3, 4, 5])


@pytest.mark.parametrize(
    "was",
    [
        TableProgress(TableState.DONE, 5, key=("id",), until=("5",)),
        TableProgress(TableState.STOPPED, 2, key=("id",), after=("2",), until=("5",)),
        TableProgress(TableState.DONE),  # of an empty table, or by the stream
        TableProgress(TableState.SENDING, is_keyless=True),
    ],
)
@pytest.mark.parametrize("has_key", [True, False])
@pytest.mark.parametrize("is_filtered", [True, False])
def test_a_table_whose_rows_may_have_come_with_a_key_is_not_sent_without_one(
    world: World, was: TableProgress, has_key: bool, is_filtered: bool
) -> None:
    """The command sees no table without a key, or one whose rows are on their way."""
    world.store.note_live(False)
    world.store.tables[ORDERS] = was
    if is_filtered:
        world.begin(tables=FilterConfig((r"shop\.items",)))
        world.run()
    world.without_key = set() if has_key else {ORDERS}
    world.begin()
    world.wish(WishKind.START, is_confirmed=False)()
    world.run()
    assert world.ids() == ([1, 2, 3, 4, 5] if has_key else [])
    failed = world.progress()
    assert (failed.state is TableState.FAILED) is not has_key
    assert ("cdcbus snapshot start 1 --table shop.orders --yes" in failed.reason) is not has_key


@pytest.mark.parametrize("folds", [True, False])
def test_a_lost_table_does_not_keep_another_one_from_being_read(
    keyless: World, folds: bool
) -> None:
    """Nor does progress of another one hide the loss, while the table is not found."""
    keyless.store.note_live(False)
    keyless.store.lost_tables = {TableId("shop", "Orders") if folds else ORDERS}
    rows, keyless.rows = keyless.rows, {ITEMS: [7]}
    keyless.without_key = {ORDERS, ITEMS}
    server = replace(SERVER, folds_names=folds)
    keyless.begin(has_run=True, server=server)
    keyless.run()
    assert keyless.published == [("shop.items", 7)]
    keyless.rows |= rows
    keyless.begin(has_run=True, server=server)
    keyless.run()
    assert keyless.published == [("shop.items", 7)]
    assert keyless.progress().state is TableState.FAILED


def test_a_table_that_is_created_after_progress_was_lost_comes_with_the_stream(
    keyless: World,
) -> None:
    keyless.store.note_live(False)
    keyless.store.lost_tables = {ORDERS}
    rows, keyless.rows = keyless.rows, {}

    def created() -> None:
        keyless.rows = rows
        keyless.alters("CREATE TABLE orders (n INT)")()

    keyless.run(keyless.acknowledge, created, keyless.brings(120, 5))
    assert (keyless.live, keyless.ids()) == ([("shop.orders", 5)], [])
    assert keyless.progress().state is TableState.DONE


@pytest.mark.parametrize("has_key", [True, False])
def test_a_table_that_the_filter_lets_in_again_is_not_sent_twice(
    world: World, has_key: bool
) -> None:
    world.without_key = set() if has_key else {ORDERS}
    world.run()
    world.begin(tables=FilterConfig((r"shop\.items",)))
    world.run()
    world.begin()
    world.run()
    assert world.ids() == [1, 2, 3, 4, 5] * (2 if has_key else 1)
    assert world.progress().state is (TableState.DONE if has_key else TableState.FAILED)


# When the read does not come about


def test_a_table_that_never_rests_fails_and_says_what_was_held_back(
    keyless: World, caplog: pytest.LogCaptureFixture
) -> None:
    keyless.during = [keyless.is_changed(number) for number in range(TRIES)]
    keyless.run(keyless.acknowledge, keyless.brings(200, 9))
    failed = keyless.progress()
    assert failed.state is TableState.FAILED
    assert f"each of the {TRIES} times" in failed.reason
    assert HELD_BACK in failed.reason
    assert "cdcbus snapshot start 1 --table shop.orders --yes" in failed.reason
    assert HELD_BACK in caplog.text
    assert (keyless.ids(), keyless.live) == ([], [("shop.orders", 9)])


@pytest.mark.parametrize("has_changes", [True, False])
def test_a_stop_says_what_was_held_back_only_if_something_was(
    keyless: World, has_changes: bool
) -> None:
    keyless.high = 200
    steps = [keyless.brings(100, 5)] if has_changes else []
    keyless.run(*steps, keyless.wish(WishKind.STOP), keyless.brings(120, 9))
    stopped = keyless.progress()
    assert stopped.state is TableState.STOPPED
    assert (HELD_BACK in stopped.reason) is has_changes
    assert not stopped.has_held_back
    assert keyless.live == [("shop.orders", 9)]


def test_a_table_that_is_gone_says_what_was_held_back(keyless: World) -> None:
    keyless.begin()
    keyless.brings(100, 5)()
    keyless.rows = {}
    keyless.run()
    dropped = keyless.progress()
    assert dropped.state is TableState.DROPPED
    assert "the table no longer exists; changes of this table" in dropped.reason


def test_a_table_that_the_filter_leaves_out_says_what_was_held_back_and_is_read_later(
    keyless: World,
) -> None:
    keyless.store.tables[ORDERS] = TableProgress(TableState.RUNNING, has_held_back=True)
    keyless.begin(tables=FilterConfig((r"shop\.items",)))
    keyless.run()
    assert HELD_BACK in keyless.progress().reason
    keyless.begin()
    keyless.run()
    assert keyless.ids() == [1, 2, 3, 4, 5]


def test_a_process_that_ended_on_the_way_says_what_was_held_back(keyless: World) -> None:
    keyless.store.tables[ORDERS] = TableProgress(TableState.SENDING, has_held_back=True)
    keyless.run()
    failed = keyless.progress()
    assert failed.state is TableState.FAILED
    assert "were on their way" in failed.reason
    assert HELD_BACK in failed.reason


def test_a_read_counts_only_once_the_position_has_passed_it(keyless: World) -> None:
    """A restart from before would send the changes that are in it."""
    seen: list[TableState] = []

    def look() -> None:
        keyless.acknowledge()
        seen.append(keyless.progress().state)

    keyless.begin()
    keyless.stored = at(99)
    keyless.run(
        look, lambda: setattr(keyless, "stored", replace(at(100), server_uuid="other")), look
    )
    assert seen == [TableState.SENDING] * 2
    assert keyless.progress().state is TableState.SENDING
    keyless.stored = at(100)
    keyless.acknowledge()
    assert keyless.progress().state is TableState.DONE


def test_a_table_with_a_condition_fails_when_it_is_changed_and_loses_no_change(
    keyless: World,
) -> None:
    keyless.begin(SnapshotMode.NEVER)
    keyless.wish(WishKind.START, "shop.orders", where="id > 3")()
    keyless.brings(100, 2)()
    keyless.run()
    assert (keyless.live, keyless.ids()) == ([("shop.orders", 2)], [])
    failed = keyless.progress()
    assert failed.state is TableState.FAILED
    assert "held back only without a condition" in failed.reason


@pytest.mark.parametrize("brings", [True, False])
@pytest.mark.parametrize("is_known", [True, False])
def test_a_table_of_which_a_part_was_sent_is_not_sent_whole_without_a_yes(
    keyless: World, brings: bool, is_known: bool
) -> None:
    """Older versions did not note that it has no key."""
    keyless.store.note_live(False)
    part = TableProgress(TableState.DONE, 2, where="id > 3", is_keyless=is_known)
    keyless.store.tables[ORDERS] = part
    keyless.begin()
    if brings:
        keyless.brings(120, 9)()
    keyless.run()
    failed = keyless.progress()
    assert failed.state is TableState.FAILED
    assert "cdcbus snapshot start 1 --table shop.orders --yes" in failed.reason
    assert HELD_BACK not in failed.reason
    assert keyless.ids() == []
    assert keyless.live == ([("shop.orders", 9)] if brings else [])
    keyless.begin()
    keyless.wish(WishKind.START, "shop.orders")()
    keyless.high = 200
    keyless.run(keyless.reaches(200))
    assert keyless.ids() == [1, 2, 3, 4, 5]


def test_a_paused_table_with_changes_that_is_started_with_a_condition_says_what_is_lost(
    keyless: World,
) -> None:
    keyless.store.tables[ORDERS] = TableProgress(TableState.PAUSED, has_held_back=True)
    keyless.begin(SnapshotMode.NEVER)
    keyless.wish(WishKind.START, "shop.orders", where="id > 3")()
    keyless.run()
    failed = keyless.progress()
    assert (failed.state, keyless.ids()) == (TableState.FAILED, [])
    assert HELD_BACK in failed.reason


def test_a_paused_table_that_is_started_again_still_knows_of_its_changes(keyless: World) -> None:
    keyless.store.tables[ORDERS] = TableProgress(TableState.PAUSED, has_held_back=True)
    keyless.begin(SnapshotMode.NEVER)
    keyless.wish(WishKind.START)()
    keyless.high = 200
    keyless.run(keyless.wish(WishKind.STOP))
    assert HELD_BACK in keyless.progress().reason
