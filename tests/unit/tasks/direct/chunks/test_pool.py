"""Chunks side by side, without Spark and source."""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Callable
from contextlib import nullcontext
from threading import Event, Lock, Timer
from typing import Any

import pytest

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import (
    CdcError,
    DataError,
    OffsetConflict,
    SourceUnavailable,
    SparkUnavailable,
    TargetUnavailable,
)
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.config import SourceConfig
from cdcbus.producer.ddl.table_schema import PRIMARY, TableColumn, TableSchema, UniqueKey
from cdcbus.producer.server.connection import Server
from cdcbus.producer.snapshot.chunks import CHUNK_BYTES, FIRST_ROWS, Bound
from cdcbus.producer.snapshot.columns import SelectedTable, selected_table
from cdcbus.producer.snapshot.progress import TableProgress, TableState
from cdcbus.tasks.direct.chunks import pool
from cdcbus.tasks.direct.chunks.course import Chunk, Course, Loaded, Reader
from cdcbus.tasks.direct.chunks.pool import Sourced, first_rows, load_all

ORDERS, PARTS = TableId("shop", "orders"), TableId("shop", "parts")
LOAD = LoadTask("7", TopicConfig("kafka:9092", ("shop",)), "canalRow", "JdbcBatch", JdbcTarget(""))
CONFIG = SourceConfig((("db", 3306),), "u")
ROW_BYTES = CHUNK_BYTES // 10


def at(key: int) -> Bound:
    return (f"{key:04}",)


def selected(a: str = "varchar(9)", charset: str = "latin1", key: str = "id") -> SelectedTable:
    columns = (
        TableColumn("id", "int", is_nullable=False),
        TableColumn("a", a, charset, is_nullable=False),
    )
    schema = TableSchema(columns, (UniqueKey(PRIMARY, (key,)),))
    return selected_table(ORDERS, schema, has_metadata=True)


SELECTED = selected()


class World:
    """Tables whose keys are 1 to 100, of which ten make a chunk; a Spark that loads at once.

    `meets`: what the chunk that ends at a key meets, one after the other; `down`: so many questions
    of the source fail; `loaded`: the chunks that came, by their ends."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stop, self.lock, self.was_away = Event(), Lock(), Event()
        self.interrupted, self.is_locked = Event(), False
        self.meets: dict[Bound, deque[Loaded | CdcError | Exception]] = {}
        self.loaded: list[tuple[TableId, Bound]] = []
        self.down = self.opened = self.closed = self.cancelled = 0
        self.found: dict[TableId, SelectedTable | None] = {}
        self.row_bytes = ROW_BYTES
        self.before: Callable[[Chunk], None] = lambda _: None
        self.counts: dict[int, int] = {}
        self.begun: list[Reader] = []
        self.sparkContext = self
        monkeypatch.setattr(pool, "ChunkReader", lambda *_: self._reader())
        monkeypatch.setattr(pool, "load_chunk", lambda _, given: self._load(*given))
        monkeypatch.setattr(pool, "FIRST_PAUSE", 0.001)
        monkeypatch.setattr(pool, "LONGEST_PAUSE", 0.001)
        monkeypatch.setattr(pool, "STORE_SECONDS", 0.001)

    def run(
        self, *courses: Course, readers: int = 2, report: Callable[[], None] = lambda: None
    ) -> None:
        spark: Any = self
        server = Server("11.4-MariaDB", "", 1, True, True, {})
        sourced = {course.table: Sourced(CONFIG, server, SELECTED, b"") for course in courses}
        deadline = Timer(60, self.stop.set)  # of a load that would not end
        deadline.start()
        try:
            load_all(LOAD, courses, sourced, spark, readers, self.stop, report, self.counts)
        finally:
            deadline.cancel()

    def _reader(self) -> World:
        self.opened += 1
        return self

    def _load(self, chunk: Chunk, by: Reader) -> Loaded | CdcError:
        self.before(chunk)
        self.begun.append(by)
        with self.lock:
            meets = self.meets.get(chunk.until)
            found = meets.popleft() if meets else Loaded(10, 10 * ROW_BYTES, by.committed + 1)
            if isinstance(found, Loaded):
                self.loaded.append((chunk.table, chunk.until))
        if isinstance(found, Exception) and not isinstance(found, CdcError):
            raise found
        return found

    # As a SparkBeside and its session

    @property
    def session(self) -> tuple[World, None]:
        return self, None

    def parallelize(self, chunks: list[tuple[Chunk, Reader]], slices: int) -> Job:
        assert len(chunks) == slices == 1
        return Job(chunks[0])

    def cancelAllJobs(self) -> None:
        self.cancelled += 1

    # As a ChunkReader

    def _asked(self) -> None:
        if self.is_locked:
            assert self.interrupted.wait(30)
            raise SourceUnavailable("the connection was ended")
        if self.down:
            self.down -= 1
            self.was_away.set()
            raise SourceUnavailable("the source is away")

    def estimate(self, _: TableId) -> tuple[int, int]:
        self._asked()
        return 100, self.row_bytes

    def nth_key(
        self, _: SelectedTable, after: Bound | None, until: Bound, rows: int
    ) -> Bound | None:
        self._asked()
        end = int(after[0] if after else "0") + rows
        return at(end) if end < int(until[0]) else None

    def describe(self, table: TableId) -> SelectedTable | None:
        return self.found.get(table, SELECTED)

    def close(self) -> None:
        self.closed += 1

    def interrupt(self) -> None:
        self.interrupted.set()


class Job:
    def __init__(self, given: tuple[Chunk, Reader]) -> None:
        self._given = given

    def map(self, load: Callable[[tuple[Chunk, Reader]], Loaded | CdcError]) -> Job:
        self._load = load
        return self

    def collect(self) -> list[Loaded | CdcError]:
        return [self._load(self._given)]


def course(table: TableId = ORDERS, **known: Any) -> Course:
    fields = {"state": TableState.RUNNING, "until": at(100), **known}
    return Course(table, TableProgress(**fields))


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(monkeypatch)


def test_each_reader_knows_how_much_it_has_committed(world: World) -> None:
    world.counts[1] = 7  # of an earlier run
    world.run(course())
    of_first = [by.committed for by in world.begun if by.number == 0]
    of_second = [by.committed for by in world.begun if by.number == 1]
    assert of_first == list(range(len(of_first)))
    assert of_second == list(range(7, 7 + len(of_second)))
    assert len(of_first) + len(of_second) == 10
    assert world.counts.get(0, 0) + world.counts[1] == 17


def test_all_tables_are_loaded_chunk_by_chunk_and_each_chunk_once(world: World) -> None:
    orders, parts = course(ORDERS), course(PARTS)
    world.run(orders, parts)
    assert Counter(world.loaded) == Counter(
        (table, at(key)) for table in (ORDERS, PARTS) for key in range(10, 101, 10)
    )
    for each in (orders, parts):
        assert (each.progress.state, each.progress.rows) == (TableState.DONE, 100)


def test_a_load_goes_on_behind_what_is_done(world: World) -> None:
    world.run(course(after=at(70)), course(PARTS, state=TableState.DONE))
    assert sorted(world.loaded) == [(ORDERS, at(key)) for key in (80, 90, 100)]


@pytest.mark.parametrize("known", [{"until": None}, {"after": at(100)}])
def test_a_table_without_rows_that_are_left_is_done_at_once(
    world: World, known: dict[str, Any]
) -> None:
    empty = course(**known)
    world.run(empty)
    assert (empty.progress.state, world.loaded) == (TableState.DONE, [])


def test_chunks_become_larger_where_rows_are_smaller_than_the_server_believed(
    world: World,
) -> None:
    world.meets[at(10)] = deque([Loaded(10, 10 * ROW_BYTES // 4)])
    world.run(course(), readers=1)
    assert [bound for _, bound in world.loaded][:2] == [at(10), at(50)]


def test_no_more_chunks_are_read_at_once_than_the_source_is_to_bear(world: World) -> None:
    at_work, most, together = set[Bound](), list[int](), Event()

    def before(chunk: Chunk) -> None:
        with world.lock:
            at_work.add(chunk.until)
            most.append(len(at_work))
            if len(at_work) == 3:
                together.set()
        assert together.wait(5)
        with world.lock:
            at_work.remove(chunk.until)

    world.before = before
    world.run(course(), readers=3)
    assert max(most) == 3


@pytest.mark.parametrize(
    "error", [TargetUnavailable("away"), SourceUnavailable("away"), SparkUnavailable("lost")]
)
def test_what_passes_by_itself_is_waited_for(world: World, error: CdcError) -> None:
    world.meets[at(30)] = deque([error, error])
    orders = course()
    world.run(orders)
    assert (orders.progress.state, orders.progress.rows) == (TableState.DONE, 100)


@pytest.mark.parametrize(
    "error", [DataError("no number"), OffsetConflict("another process has the task")]
)
def test_what_does_not_pass_ends_the_load_and_nothing_behind_it_counts(
    world: World, error: CdcError
) -> None:
    world.meets[at(30)] = deque([error])
    orders = course()
    with pytest.raises(type(error), match=str(error)):
        world.run(orders)
    assert orders.progress.after in (None, at(10), at(20))
    assert orders.progress.state is TableState.RUNNING
    assert world.cancelled == 1


def test_what_spark_raises_is_told_as_an_error_of_the_task(world: World) -> None:
    world.meets[at(30)] = deque([RuntimeError("SparkContext was shut down")])
    with pytest.raises(CdcError):
        world.run(course())


def test_a_stopped_load_returns_and_keeps_what_is_done(world: World) -> None:
    def before(chunk: Chunk) -> None:
        if chunk.until == at(30):
            world.stop.set()

    world.before = before
    orders = course()
    world.run(orders, readers=1)
    assert (orders.progress.after, orders.progress.rows) == (at(30), 30)
    assert orders.progress.state is TableState.RUNNING


@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_question_that_waits_for_a_lock_is_ended_with_the_load(
    world: World, is_stopped: bool
) -> None:
    def before(_: Chunk) -> None:
        world.is_locked = True
        if is_stopped:
            world.stop.set()

    world.before = before
    world.meets[at(10)] = deque([] if is_stopped else [DataError("no number")])
    with nullcontext() if is_stopped else pytest.raises(DataError, match="no number"):
        world.run(course())
    assert world.loaded == [(ORDERS, at(10))] * is_stopped


def test_a_report_that_fails_ends_the_load_with_its_error(world: World) -> None:
    def report() -> None:
        raise DataError("other rows")

    def before(_: Chunk) -> None:
        world.stop.wait(0.05)

    world.before = before
    with pytest.raises(DataError, match="other rows"):
        world.run(course(), report=report)
    assert world.cancelled == 1


def test_a_stop_while_an_error_is_waited_for_raises_nothing(world: World) -> None:
    world.meets[at(10)] = deque([TargetUnavailable("away")])
    world.before = lambda _: world.stop.set()
    orders = course()
    world.run(orders, readers=1)
    assert (orders.progress.after, world.loaded) == (None, [])


@pytest.mark.parametrize(
    "found", [None, selected("float"), selected(charset="utf8mb4"), selected(key="a")]
)
def test_a_table_that_was_altered_meanwhile_is_not_called_done(
    world: World, found: SelectedTable | None
) -> None:
    world.found[ORDERS] = found
    orders = course()
    with pytest.raises(CdcError, match=r"shop\.orders was altered while it was loaded"):
        world.run(orders)
    assert orders.progress.state is TableState.RUNNING


def test_a_source_that_is_away_is_asked_again_through_another_connection(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.down = 2
    orders = course()
    world.run(orders)
    assert orders.progress.state is TableState.DONE
    assert world.opened == world.closed == 3
    assert "asking again" in caplog.text


def test_while_the_source_is_away_progress_is_reported_and_a_stop_ends_the_wait(
    world: World,
) -> None:
    world.down = sys.maxsize
    reports = list[int]()

    def report() -> None:
        reports.append(len(reports))
        if len(reports) == 3:
            world.stop.set()

    world.run(course(), report=report)
    assert len(reports) >= 3
    assert world.loaded == []


def test_an_error_ends_the_load_while_the_source_is_away(world: World) -> None:
    def before(_: Chunk) -> None:
        world.down = sys.maxsize
        assert world.was_away.wait(5)  # for the other thread, which asks where to cut

    world.before = before
    world.meets[at(10)] = deque([DataError("no number")])
    with pytest.raises(DataError, match="no number"):
        world.run(course())


def test_the_first_chunks_are_as_large_as_rows_are_believed_to_be() -> None:
    assert first_rows(CHUNK_BYTES // 10) == 10
    assert first_rows(2 * CHUNK_BYTES) == 1
    assert first_rows(0) == FIRST_ROWS
