"""What is read of tables, and when it goes to Kafka, without a source, Kafka and ZooKeeper."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any, cast

import pymysql
import pytest

from cdcbus.plugins.errors import (
    PositionUnavailable,
    SourceMisconfigured,
    SourceUnavailable,
    UnreadableEvent,
)
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import NO_ORIGIN, TableId
from cdcbus.plugins.saved_aside import SavedAside
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.config import (
    Elsewhere,
    FetchTask,
    FilterConfig,
    HeartbeatConfig,
    SnapshotMode,
    SourceConfig,
)
from cdcbus.producer.ddl.table_schema import TableColumn, TableSchema, UniqueKey
from cdcbus.producer.schema.ddl_scanner import Statement
from cdcbus.producer.server.connection import Server
from cdcbus.producer.snapshot import snapshots
from cdcbus.producer.snapshot.chunks import Bound
from cdcbus.producer.snapshot.columns import SelectedTable, selected_table
from cdcbus.producer.snapshot.progress import (
    MemorySnapshots,
    TableProgress,
    TableState,
    Wish,
    WishKind,
)
from cdcbus.producer.snapshot.reader import CannotTell, Read
from cdcbus.producer.snapshot.rows import images, row_events
from cdcbus.producer.snapshot.snapshots import TRIES, Snapshots, is_snapshot_due
from cdcbus.producer.source.row_events import Batch, Rows
from tests.support.saved_at_once import SavedAtOnce

ORDERS, ITEMS, BEATS = TableId("shop", "orders"), TableId("shop", "items"), TableId("shop", "beats")
ID = TableColumn("id", "int", is_nullable=False)
START = BinlogPosition("bin.000001", 100, timestamp_ms=5_000)
SERVER = Server("8.4.0", "uuid", 7, True, True, {})
Step = Callable[[], None]
MOST_READS = 50


def task_of(mode: SnapshotMode, **settings: Any) -> FetchTask:
    return FetchTask(
        *("1", "lane", SourceConfig((("h", 1),), "u"), FilterConfig((r"shop\..*",))),
        PublishConfig("k", "t", "canalRow"),
        snapshot=mode,
        **settings,
    )


def selected(table: TableId, *, has_key: bool = True) -> SelectedTable:
    keys = (UniqueKey("PRIMARY", ("id",)),) if has_key else ()
    return selected_table(table, TableSchema((ID,), keys, "utf8mb4"), has_metadata=True)


def packets(ids: Iterable[int]) -> list[bytes]:
    texts = [str(each).encode() for each in ids]
    return [bytes((len(text),)) + text for text in texts]


def at(pos: int) -> BinlogPosition:
    return BinlogPosition("bin.000001", pos)


class Store(MemorySnapshots):
    """Remembers each state that a table was stored with. `error`: it cannot be reached."""

    def __init__(self) -> None:
        super().__init__()
        self.states: list[TableState] = []
        self.error: Exception | None = None
        self.heeds = 0
        self.answers = threading.Event()
        self.answers.set()

    def save(self, tables: Mapping[TableId, TableProgress]) -> None:
        assert self.answers.wait(60), "somebody waits for it"
        if self.error is not None:
            raise self.error
        self.states += [progress.state for progress in tables.values()]
        super().save(tables)

    def heeded(self) -> None:
        self.heeds += 1


class Waits(threading.Condition):
    """Waiting is where the stream's thread does its next thing; the run is over after the last."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world

    def wait(self, timeout: float | None = None) -> bool:
        self.world.next_step()
        return True

    def wait_for(self, predicate: Callable[[], Any], timeout: float | None = None) -> Any:
        self.world.pauses.append(timeout)
        if self.world.script:
            self.world.next_step()
        return predicate()


class World:
    """A source whose tables hold rows by number, a Kafka, and a stream that does `script` while
    the reading thread waits, and `during` while it reads, one by one. All is done by one thread.

    `high`: the end of the binlog after a chunk is read. `errors`: what the next calls raise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: dict[TableId, list[int]] = {ORDERS: [1, 2, 3, 4, 5]}
        self.without_key: set[TableId] = set()
        self.script: list[Step] = []
        self.during: list[Step] = []
        self.errors: dict[str, list[Exception]] = {}
        self.high = 100
        self.store = Store()
        self.sent = 0
        self.published: list[tuple[str, int]] = []
        self.origins: list[Any] = []
        self.asked: list[tuple[Bound | None, Bound | None, int, str]] = []
        self.settled: list[int] = []
        self.counted: list[int] = []
        self.edges: list[int] = []
        self.pauses: list[float | None] = []
        self.closed = self.interrupted = self.opened = 0
        self.targets: list[Step] = []
        self.row_bytes = self.reads = 0
        monkeypatch.setattr(snapshots, "ChunkReader", self.open)
        monkeypatch.setattr(snapshots, "Condition", lambda: Waits(self))
        monkeypatch.setattr(snapshots, "Thread", self.thread)
        monkeypatch.setattr(snapshots, "SavedAside", SavedAtOnce)
        monkeypatch.setattr(snapshots, "FIRST_ROWS", 2)

    def begin(self, mode: SnapshotMode = SnapshotMode.INITIAL, **settings: Any) -> Snapshots:
        task, me = task_of(mode, **settings), cast(Any, self)
        self.snapshots = Snapshots(
            *(task, SERVER, START, me, me, self.store, lambda: False, "9", self.counted.append)
        )
        return self.snapshots

    def run(self, *script: Step, mode: SnapshotMode = SnapshotMode.INITIAL) -> None:
        """Until the script, and then what is left to acknowledge, is done."""
        if not hasattr(self, "snapshots"):
            self.begin(mode)
        self.script += [*script, self.acknowledge, self.acknowledge]
        with self.snapshots:
            self.acknowledge()
            for target in self.targets:
                target()

    def next_step(self) -> None:
        if self.script:
            self.script.pop(0)()
        else:
            self.snapshots._is_over = True

    def progress(self, table: TableId = ORDERS) -> TableProgress:
        return self.store.tables[table]

    def ids(self, table: TableId = ORDERS) -> list[int]:
        return [number for name, number in self.published if name == str(table)]

    # What the stream does

    def acknowledge(self) -> None:
        with self.snapshots.turn():
            self.snapshots.acknowledged(self.sent)

    def wish(self, kind: WishKind, *tables: str, where: str = "") -> Step:
        def wished() -> None:
            self.store.wished.append(Wish(kind, tables, where))
            self.acknowledge()

        return wished

    def passes(self, batch: Batch) -> Step:
        def passed() -> None:
            with self.snapshots.turn():
                self.snapshots.passed(batch)

        return passed

    def reaches(self, pos: int) -> Step:
        return self.passes(Batch([], at(pos), []))

    def brings(self, pos: int, *ids: int) -> Step:
        return self.passes(Batch(list(inserts(*ids)), at(pos), []))

    def alters(self, sql: str) -> Step:
        end = BinlogCoordinates("bin.000001", 100)
        statement = Statement(end, 1, "shop", sql.encode())
        return self.passes(Batch([], at(100), [], ddl=(statement,)))

    # As a thread

    def thread(self, target: Step, **_: Any) -> World:
        self.targets.append(target)
        return self

    def start(self) -> None:
        pass

    def join(self) -> None:
        pass

    # As a publisher and its deliveries

    def send(self, parts: Iterable[Rows]) -> int:
        found = [change for part in parts for change in part.changes()]
        for change in found:
            assert change.after is not None
            self.published.append((str(change.table.id), int(change.after["id"] or "")))
            assert change.origin.is_snapshot
            self.origins.append(change.origin)
        self.sent += len(found)
        return len(found)

    def reached(self, edge: BinlogPosition, has_more: Callable[[], bool]) -> None:
        self.edges.append(edge.pos)

    # As a ChunkReader

    def open(self, *_: object) -> World:
        self.opened += 1
        self.meet("open")
        return self

    def meet(self, call: str) -> None:
        if self.errors.get(call):
            raise self.errors[call].pop(0)

    def close(self) -> None:
        self.closed += 1

    def interrupt(self) -> None:
        self.interrupted += 1

    def tables(self) -> list[TableId]:
        return list(self.rows)

    def describe(self, table: TableId) -> SelectedTable | None:
        self.meet("describe")
        if table not in self.rows:
            return None
        return selected(table, has_key=table not in self.without_key)

    def estimate(self, table: TableId) -> tuple[int, int]:
        return len(self.rows[table]), self.row_bytes

    def greatest(self, found: SelectedTable, where: str) -> Bound | None:
        rows = self.rows[found.table.table.id]
        return (str(max(rows)),) if rows else None

    def settle(self, begun: BinlogPosition, is_over: Callable[[], bool]) -> None:
        self.meet("settle")
        self.settled.append(begun.pos)

    def end(self) -> None:
        pass

    def chunk(
        self,
        found: SelectedTable,
        after: Bound | None,
        until: Bound | None,
        most: int,
        where: str,
    ) -> Read:
        self.meet("chunk")
        self.asked.append((after, until, most, where))
        low = int(after[0]) if after else 0
        high = int(until[0]) if until else 1 << 31
        ids = [each for each in self.rows[found.table.table.id] if low < each <= high][:most]
        last = (str(ids[-1]),) if ids else None
        return self.answer(found, ids, last)

    def table(self, found: SelectedTable, where: str) -> Read:
        self.meet("chunk")
        return self.answer(found, self.rows[found.table.table.id], None)

    def answer(self, found: SelectedTable, ids: list[int], last: Bound | None) -> Read:
        rows = images(packets(ids), found)
        self.reads += 1
        assert self.reads <= MOST_READS, "it is read for ever"
        if self.during:
            self.during.pop(0)()
        high = BinlogCoordinates("bin.000001", self.high)
        return Read(rows, len(rows), sum(map(len, rows)), last, high, 9_000_000)


def inserts(*ids: int, table: TableId = ORDERS) -> Iterable[Rows]:
    found = selected(table)
    return row_events(found.table, images(packets(ids), found), NO_ORIGIN)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


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


def test_rows_say_where_the_stream_was_and_who_sent_them_at_the_later_of_both_clocks(
    world: World,
) -> None:
    world.run()
    origin = world.origins[0]
    assert (origin.file, origin.pos, origin.server_id, origin.epoch) == ("bin.000001", 100, 7, "9")
    assert (origin.server_uuid, origin.commit_us) == ("uuid", 9_000_000)


def test_wide_rows_are_read_in_few_at_once(world: World) -> None:
    world.row_bytes = snapshots.CHUNK_BYTES
    world.run()
    assert world.asked[0][2] == 1
    assert world.ids() == [1, 2, 3, 4, 5]


def test_a_chunk_waits_until_the_stream_has_passed_what_it_has_seen(world: World) -> None:
    world.high = 200
    seen: list[list[int]] = []

    def look() -> None:
        seen.append(world.ids())

    world.run(look, world.reaches(199), look, world.reaches(200), look)
    assert seen == [[], [], [1, 2, 3, 4, 5]]
    assert world.edges == [200]


def test_the_head_of_a_file_is_passed_too_but_not_within_a_transaction(world: World) -> None:
    world.high = 200
    between = BinlogCoordinates("bin.000002", 4)
    seen: list[list[int]] = []

    def look() -> None:
        seen.append(world.ids())

    opened = Batch([], None, list(inserts(77)), between=between)
    world.run(
        *(world.passes(opened), look, world.reaches(150), look),
        *(world.passes(Batch([], None, [], between=between)), look),
    )
    assert seen == [[], [], [1, 2, 3, 4, 5]]
    assert world.edges == [150]


def test_a_row_that_the_stream_has_brought_since_is_not_sent_again(world: World) -> None:
    world.high = 200
    world.run(world.brings(200, 2, 4))
    assert world.ids() == [1, 3, 5]
    assert world.progress().rows == 5


def test_a_row_of_a_transaction_that_is_still_open_counts_as_brought(world: World) -> None:
    world.high = 200
    opened = Batch([], None, list(inserts(1)), between=None)
    world.run(world.passes(opened), world.reaches(200))
    assert world.ids() == [2, 3, 4, 5]


def test_changes_of_another_table_leave_a_chunk_as_it_is(world: World) -> None:
    world.high = 200
    world.run(world.passes(Batch(list(inserts(1, table=ITEMS)), at(200), [])))
    assert world.ids() == [1, 2, 3, 4, 5]


def test_reading_begins_at_a_boundary_of_the_stream(world: World) -> None:
    world.begin()
    world.passes(Batch([], None, list(inserts(9))))()
    world.high = 300
    world.run(world.reaches(300))
    assert set(world.settled) == {300}
    assert world.ids() == [1, 2, 3, 4, 5]


def test_a_table_that_was_altered_meanwhile_is_read_again_by_its_new_definition(
    world: World,
) -> None:
    world.during = [world.alters("ALTER TABLE orders ADD note TEXT")]
    world.run()
    assert world.ids() == [1, 2, 3, 4, 5]
    assert [after for after, *_ in world.asked][:2] == [None, None]


@pytest.mark.parametrize("sql", ["ALTER DATABASE shop CHARACTER SET utf8mb4", "DROP SCHEMA other"])
def test_a_statement_about_a_schema_may_have_altered_any_table(world: World, sql: str) -> None:
    world.during = [world.alters(sql)]
    world.run()
    assert [after for after, *_ in world.asked][:2] == [None, None]
    assert world.ids() == [1, 2, 3, 4, 5]


def test_another_tables_alteration_reads_nothing_again(world: World) -> None:
    world.during = [world.alters("ALTER TABLE items ADD note TEXT")]
    world.run()
    assert [after for after, *_ in world.asked][:2] == [None, ("2",)]


def test_a_temporary_tables_alteration_reads_nothing_again(world: World) -> None:
    world.during = [world.alters("CREATE TEMPORARY TABLE orders (id INT)")]
    world.run()
    assert [after for after, *_ in world.asked][:2] == [None, ("2",)]


def test_a_renamed_table_gets_a_snapshot_by_its_new_name(world: World) -> None:
    def renamed() -> None:
        world.rows[ITEMS] = world.rows.pop(ORDERS)
        world.alters("RENAME TABLE orders TO items")()

    world.run(world.acknowledge, renamed)
    assert world.ids(ITEMS) == [1, 2, 3, 4, 5]


def test_only_tables_of_the_filter_are_read_and_heartbeats_never(world: World) -> None:
    other = TableId("else", "t")
    world.rows |= {other: [1], BEATS: [1]}
    world.begin(heartbeat=HeartbeatConfig(BEATS))
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


def test_a_wish_is_kept_until_what_it_means_is_stored(world: World) -> None:
    world.begin(SnapshotMode.NEVER)
    world.wish(WishKind.START)()
    before = world.store.heeds
    world.acknowledge()
    assert world.store.heeds == before
    world.run()
    assert world.store.heeds > before
    assert world.ids() == [1, 2, 3, 4, 5]


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


@pytest.mark.parametrize("after", [("2", "3"), ("1 OR 1=1",)])
def test_a_stored_bound_of_another_key_begins_the_table_anew(world: World, after: Bound) -> None:
    world.store.tables[ORDERS] = TableProgress(
        TableState.RUNNING, 2, after=after, until=after, started_ms=1
    )
    world.run()
    assert world.ids() == [1, 2, 3, 4, 5]
    assert world.progress().until == ("5",)


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
            world.snapshots.acknowledged(0)

    world.during = [lambda: None, paused_before_kafka_has_any]
    world.run()
    assert world.ids() == [1, 2]
    paused = world.progress()
    assert (paused.state, paused.rows, paused.after) == (TableState.PAUSED, 2, ("2",))


def test_a_table_paused_while_it_is_described_is_read_whole_once_resumed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    describe, pause = world.describe, [world.wish(WishKind.PAUSE)]

    def described(table: TableId) -> SelectedTable | None:
        if pause:
            pause.pop()()
        return describe(table)

    monkeypatch.setattr(world, "describe", described)
    world.run(world.wish(WishKind.RESUME))
    done = world.progress()
    assert (done.state, done.until, done.estimated_rows) == (TableState.DONE, ("5",), 5)
    assert done.started_ms


def test_a_wish_for_another_table_changes_nothing(world: World) -> None:
    world.during = [world.wish(WishKind.STOP, "shop.items")]
    world.run()
    assert world.progress().state is TableState.DONE


def test_a_stop_ends_what_is_not_done_and_a_resume_does_not_bring_it_back(world: World) -> None:
    world.high = 200
    world.run(world.wish(WishKind.STOP), world.acknowledge, world.wish(WishKind.RESUME))
    assert world.progress().state is TableState.STOPPED
    assert world.ids() == []


def test_progress_that_cannot_be_stored_is_stored_later(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def gone() -> None:
        world.store.error = PositionUnavailable("away")
        world.acknowledge()
        stored.extend(world.store.states)
        world.store.error = None

    stored: list[TableState] = []
    world.run(gone)
    assert TableState.DONE not in stored
    assert "the progress of snapshots is stored later: away" in caplog.text
    assert world.progress().state is TableState.DONE


def test_a_silent_store_holds_up_neither_the_stream_nor_the_reading(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "SavedAside", SavedAside)

    def answers() -> None:
        seen.append((world.ids(), list(world.store.states)))
        world.store.answers.set()
        world.snapshots._settle()

    seen: list[tuple[list[int], list[TableState]]] = []
    world.store.answers.clear()
    world.run(world.acknowledge, world.reaches(150), world.acknowledge, answers)
    assert seen == [([1, 2, 3, 4, 5], [])]
    world.snapshots.acknowledged(world.sent, is_last=True)
    assert world.progress().state is TableState.DONE


def test_nothing_counts_as_done_before_kafka_has_it(world: World) -> None:
    seen: list[Bound | None] = []

    def some() -> None:
        for records in (1, 2, 4):
            world.snapshots.acknowledged(records)
            seen.append(world.progress().after)

    world.run(some)
    assert seen == [None, ("2",), ("2",)]
    assert world.progress().after == ("5",)


def test_a_task_for_its_snapshot_only_is_finished_once_all_of_it_is_stored(world: World) -> None:
    snapshot = world.begin(SnapshotMode.ONLY)
    seen = [snapshot.is_finished]
    world.run(lambda: seen.append(snapshot.is_finished))
    assert [*seen, snapshot.is_finished] == [False, False, True]


def test_a_task_that_follows_the_stream_is_idle_once_all_is_stored_and_never_finished(
    world: World,
) -> None:
    snapshot = world.begin()
    seen = [snapshot.is_idle]
    world.run(lambda: seen.append(snapshot.is_idle))
    assert [*seen, snapshot.is_idle] == [False, False, True]
    assert not snapshot.is_finished


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


# Tables without a key


def test_a_table_without_a_key_is_noted_before_its_rows_are_sent(world: World) -> None:
    world.without_key = {ORDERS}
    world.run()
    assert world.ids() == [1, 2, 3, 4, 5]
    assert world.store.states[-2:] == [TableState.SENDING, TableState.DONE]


def test_a_table_without_a_key_is_read_again_when_it_was_changed_meanwhile(world: World) -> None:
    world.without_key = {ORDERS}
    world.during = [world.brings(100, 6)]
    world.run()
    assert world.ids() == [1, 2, 3, 4, 5]


def test_a_table_without_a_key_that_never_rests_fails_and_sends_nothing(world: World) -> None:
    world.without_key = {ORDERS}
    world.during = [world.brings(100, number) for number in range(TRIES)]
    world.run()
    assert world.ids() == []
    assert world.progress().state is TableState.FAILED
    assert f"each of the {TRIES} times" in world.progress().reason


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


# What goes wrong


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


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (pymysql.ProgrammingError(1146, "x"), TableState.DROPPED, "no longer exists"),
        (pymysql.OperationalError(1142, "x"), TableState.FAILED, "may not read it (1142)"),
        (pymysql.ProgrammingError(1064, "x"), TableState.FAILED, "refuses to read it (1064)"),
        (pymysql.ProgrammingError(), TableState.FAILED, "refuses to read it (0)"),
        (
            pymysql.OperationalError(1054, "Unknown column 'x' in 'WHERE'"),
            TableState.FAILED,
            "refuses to read it (1054: Unknown column 'x' in 'WHERE')",
        ),
        (pymysql.OperationalError(1525, "secret"), TableState.FAILED, "refuses to read it (1525)"),
        (UnreadableEvent("odd"), TableState.FAILED, "odd"),
        (CannotTell("silent"), TableState.FAILED, "silent"),
    ],
)
def test_a_table_that_cannot_be_read_holds_up_no_other(
    world: World, error: Exception, state: TableState, reason: str
) -> None:
    world.rows = {ITEMS: [1], ORDERS: [2]}
    world.errors = {"chunk": [error]}
    world.run()
    assert (world.progress(ITEMS).state, world.ids(ORDERS)) == (state, [2])
    assert reason in world.progress(ITEMS).reason
    assert world.opened == 1


def test_a_condition_that_the_server_refuses_holds_up_no_other_table(world: World) -> None:
    world.rows = {ITEMS: [1], ORDERS: [2]}
    refused = pymysql.OperationalError(1054, "Unknown column 'nope' in 'WHERE'")
    world.errors = {"chunk": [refused]}
    world.begin(SnapshotMode.NEVER)
    world.wish(WishKind.START, "shop.items", where="nope > 1")()
    world.wish(WishKind.START, "shop.orders")()
    world.run()
    failed = world.progress(ITEMS)
    assert failed.state is TableState.FAILED
    assert "with the condition of its start (1054: Unknown column 'nope'" in failed.reason
    assert world.ids(ORDERS) == [2]


def test_a_table_that_has_lost_a_column_is_described_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = selected(ORDERS)
    described = [replace(before, expressions=("`gone`",)), before, before]
    monkeypatch.setattr(world, "describe", lambda _: described.pop(0))
    world.errors = {"chunk": [pymysql.OperationalError(1054, "Unknown column 'gone' in 'SELECT'")]}
    world.run()
    assert world.progress().state is TableState.DONE
    assert world.ids() == [1, 2, 3, 4, 5]
    assert (described, world.opened) == ([], 1)


def test_a_table_that_is_gone_when_its_turn_comes_counts_as_dropped(world: World) -> None:
    world.store.tables[ITEMS] = TableProgress()
    world.run()
    assert world.progress(ITEMS).state is TableState.DROPPED
    assert world.ids() == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    "error",
    [pymysql.OperationalError(2013, "x"), SourceUnavailable("x"), OSError("x"), EOFError("x")],
)
@pytest.mark.parametrize("call", ["open", "describe", "settle", "chunk"])
def test_a_source_that_went_away_is_asked_again_by_a_new_connection(
    world: World, call: str, error: Exception
) -> None:
    world.errors = {call: [error]}
    world.run()
    assert world.ids() == [1, 2, 3, 4, 5]
    assert (world.opened, world.closed) == (2, 1 if call == "open" else 2)
    assert not world.snapshots._windows


def test_the_pauses_grow_while_the_source_stays_away_and_begin_anew_after_it_was_there(
    world: World,
) -> None:
    away = [OSError("x") for _ in range(7)]
    world.errors = {"open": [*away], "chunk": [OSError("x")]}
    world.script = [lambda: None] * 8
    world.run()
    assert world.pauses == [0.5, 1.0, 2.0, 5.0, 10.0, 10.0, 10.0, 0.5]
    assert world.ids() == [1, 2, 3, 4, 5]


def test_what_nobody_expected_ends_the_task_by_the_streams_thread(world: World) -> None:
    world.errors = {"chunk": [ZeroDivisionError("odd")]}
    world.run()
    with pytest.raises(ZeroDivisionError, match="odd"), world.snapshots.turn():
        pytest.fail("the stream went on")


def test_leaving_interrupts_what_is_being_read_and_sends_none_of_it(world: World) -> None:
    world.during = [lambda: world.snapshots.__exit__()]
    world.begin()
    world.snapshots.acknowledged(0)
    world.high = 200
    world.targets[0]()
    assert (world.interrupted, world.closed) == (1, 1)
    assert world.ids() == []


def test_no_more_chunks_are_read_ahead_than_may_wait(world: World) -> None:
    world.row_bytes = snapshots.CHUNK_BYTES
    world.rows = {ORDERS: list(range(1, 1_000))}
    world.high = 200
    seen: list[int] = []
    world.run(lambda: seen.append(len(world.asked)), world.reaches(200), world.acknowledge)
    assert seen == [snapshots.CHUNKS_AHEAD]
    assert world.ids() == list(range(1, 1_000))
