"""What is read of tables, and when a run has done its part."""

from __future__ import annotations

import pytest

from cdcbus.plugins.errors import (
    SourceMisconfigured,
)
from cdcbus.producer.config import (
    SnapshotMode,
)
from cdcbus.producer.snapshot.progress import (
    MemorySnapshots,
    TableProgress,
    TableState,
    Wish,
    WishKind,
)
from cdcbus.producer.snapshot.snapshots import is_snapshot_due
from tests.unit.producer.snapshot.world import ITEMS, ORDERS, World, task_of


def test_all_rows_go_to_kafka_once_in_chunks_up_to_the_greatest_key(world: World) -> None:
    world.run()
    assert world.ids() == [1, 2, 3, 4, 5]
    assert world.asked[:2] == [(None, ("5",), 2, ""), (("2",), ("5",), 8, "")]
    done = world.progress()
    assert (done.state, done.rows, done.after, done.until) == (TableState.DONE, 5, ("5",), ("5",))
    assert (done.chunks, done.estimated_rows) == (2, 5)
    assert sum(world.counted) == 5


def test_a_table_without_rows_is_done(world: World) -> None:
    world.rows = {ORDERS: []}
    world.run()
    assert (world.progress().state, world.progress().rows) == (TableState.DONE, 0)


def test_a_task_for_its_snapshot_only_is_finished_once_all_of_it_is_stored(world: World) -> None:
    snapshot = world.begin(SnapshotMode.ONLY)
    seen = [snapshot.is_finished]
    world.run(lambda: seen.append(snapshot.is_finished))
    assert [*seen, snapshot.is_finished] == [False, False, True]


def test_a_task_for_its_snapshot_only_is_sent_until_kafka_has_its_last_rows(world: World) -> None:
    snapshot = world.begin(SnapshotMode.ONLY)
    seen = [snapshot.is_sent]

    def some() -> None:
        for records in (2, 4, 5):
            snapshot.acknowledged(records, world.stored)
            seen.append(snapshot.is_sent)

    world.run(some)
    assert seen == [False, True, True, False]


def test_a_task_that_follows_the_stream_is_never_said_to_be_sent(world: World) -> None:
    snapshot = world.begin()
    seen: list[bool] = []
    world.run(lambda: seen.append(snapshot.is_sent))
    assert seen == [False]


def test_a_task_that_follows_the_stream_is_idle_once_all_is_stored_and_never_finished(
    world: World,
) -> None:
    snapshot = world.begin()
    seen = [snapshot.is_idle]
    world.run(lambda: seen.append(snapshot.is_idle))
    assert [*seen, snapshot.is_idle] == [False, False, True]
    assert not snapshot.is_finished


@pytest.mark.parametrize("mode", [SnapshotMode.ONLY, SnapshotMode.INITIAL])
def test_a_task_for_its_snapshot_waits_while_a_table_is_paused_also_after_a_restart(
    world: World, mode: SnapshotMode
) -> None:
    world.high = 200
    world.run(world.wish(WishKind.PAUSE), world.acknowledge, mode=mode)
    assert not world.snapshots.is_idle
    again = world.begin(mode)
    seen: list[bool] = []

    def look() -> None:
        seen.append(again.is_idle)

    world.high = 100
    world.store.wished.append(Wish(WishKind.RESUME))
    world.run(look)
    assert [*seen, again.is_idle] == [False, True]
    assert again.is_finished is (mode is SnapshotMode.ONLY)
    assert world.ids() == [1, 2, 3, 4, 5]


def test_a_task_for_its_snapshot_only_ends_once_a_paused_table_is_stopped(world: World) -> None:
    world.store.tables[ORDERS] = TableProgress(TableState.PAUSED)
    world.run(world.wish(WishKind.STOP), mode=SnapshotMode.ONLY)
    assert world.snapshots.is_finished


@pytest.mark.parametrize(
    ("mode", "state", "is_due"),
    [
        (SnapshotMode.INITIAL, None, True),
        (SnapshotMode.ONLY, TableState.DONE, True),
        (SnapshotMode.NEVER, None, False),
        (SnapshotMode.NEVER, TableState.RUNNING, True),
        (SnapshotMode.NEVER, TableState.PAUSED, False),
        (SnapshotMode.NEVER, TableState.FAILED, False),
    ],
)
def test_a_run_that_ends_first_reads_what_the_task_is_for_or_has_begun(
    mode: SnapshotMode, state: TableState | None, is_due: bool
) -> None:
    store = MemorySnapshots()
    if state is not None:
        store.tables[ORDERS] = TableProgress(state)
    assert is_snapshot_due(task_of(mode), store) is is_due


def test_tables_that_have_not_failed_pass_the_check(world: World) -> None:
    world.run()
    world.snapshots.check()


def test_all_failed_tables_are_named(world: World) -> None:
    for table in (ORDERS, ITEMS):
        world.store.tables[table] = TableProgress(TableState.FAILED, reason="why")
    with pytest.raises(
        SourceMisconfigured, match=r"snapshots have failed: shop\.orders: why; shop\.i"
    ):
        world.begin().check()


def test_what_nobody_expected_ends_the_task_by_the_streams_thread(world: World) -> None:
    world.errors = {"chunk": [ZeroDivisionError("odd")]}
    world.run()
    with pytest.raises(ZeroDivisionError, match="odd"), world.snapshots.turn():
        pytest.fail("the stream went on")


def test_leaving_interrupts_what_is_being_read_and_sends_none_of_it(world: World) -> None:
    world.during = [lambda: world.snapshots.__exit__()]
    world.begin()
    world.snapshots.acknowledged(0, world.stored)
    world.high = 200
    world.targets[0]()
    assert (world.interrupted, world.closed) == (1, 1)
    assert world.ids() == []
