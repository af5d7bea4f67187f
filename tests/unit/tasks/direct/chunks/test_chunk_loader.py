"""A chunk on its way to the target, without source and target; between them all is real."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import Mock

import pymysql
import pytest

from cdcbus.consumer.apply.applier import PartitionWaits
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.consumer.records.records import Records
from cdcbus.plugins.contracts import AppliedOffset, JdbcTarget
from cdcbus.plugins.error_policy import Action, policy_of
from cdcbus.plugins.errors import (
    CdcError,
    ConfigError,
    DataError,
    OffsetConflict,
    RowConflict,
    SourceMisconfigured,
    SourceUnavailable,
    TargetRejected,
    TargetUnavailable,
    UnmappedColumn,
    UnreadableEvent,
)
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.loaders.offset_table import COUNTS
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Op, RowChange, TableId
from cdcbus.producer.config import FetchTask, FilterConfig, SourceConfig
from cdcbus.producer.ddl.table_schema import PRIMARY, TableColumn, TableSchema, UniqueKey
from cdcbus.producer.server.connection import Server
from cdcbus.producer.snapshot.chunks import Bound
from cdcbus.producer.snapshot.columns import SelectedTable, selected_table
from cdcbus.producer.snapshot.reader import OtherServer
from cdcbus.producer.snapshot.rows import images
from cdcbus.tasks.direct.chunks import chunk_loader
from cdcbus.tasks.direct.chunks.chunk_loader import Work, load_chunk, reading
from cdcbus.tasks.direct.chunks.course import Chunk, Loaded, Reader

ORDERS = TableId("shop", "orders")
GUARD = AppliedOffset("shop", 0, 7, 0, epoch=3)


def table(*columns: str, type_: str = "int", key: str = "id") -> SelectedTable:
    others = [TableColumn(name, type_, is_nullable=False) for name in columns]
    id_ = TableColumn("id", "int", is_nullable=False)
    schema = TableSchema((id_, *others), (UniqueKey(PRIMARY, (key,)),))
    return selected_table(ORDERS, schema, has_metadata=True)


TABLE = table("a")


def chunk(number: int = 1, of: SelectedTable = TABLE) -> Chunk:
    return Chunk(ORDERS, number, None, ("9",), of.shape)


class World:
    """A source that has pages of rows, and an applier that keeps what comes.

    `error`: what the applier raises; `down`: what the source raises."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pages = [[(1, 10), (2, 20)], [(3, 30)]]
        self.table: SelectedTable | None = TABLE
        self.applied: list[list[RowChange]] = []
        self.values: list[bytes] = []
        self.converter: Any = None
        self.places: list[TopicPartition] = []
        self.error: Exception | None = None
        self.down: Exception | None = None
        self.opened = self.closed = self.described = 0
        self.offsets: list[tuple[AppliedOffset, AppliedOffset | None]] = []
        self.kept: dict[int, AppliedOffset] = {}  # counts at the target
        self.conflict = ""
        self.loader: Any = None
        monkeypatch.setattr(chunk_loader, "ChunkReader", self._reader)
        monkeypatch.setattr(chunk_loader, "make_loader", self._loader)
        monkeypatch.setattr(chunk_loader, "PartitionApplier", self._applier)
        chunk_loader._worker.cache_clear()

    def load(
        self,
        of: Chunk | None = None,
        guard: AppliedOffset | None = GUARD,
        converter: str = "canalRow",
        committed: int = 0,
    ) -> Any:
        load = LoadTask(
            "7", TopicConfig("k:9092", ("shop",)), converter, "JdbcBatch", JdbcTarget("")
        )
        publish = PublishConfig("k:9092", "shop", converter)
        source = SourceConfig((("db", 3306),), "u")
        fetch = FetchTask("8", "lane", source, FilterConfig(), publish)
        work = Work(load, fetch, Server("9.7.0", "uuid", 5, True, True, {}), guard)
        return load_chunk(pickle.dumps(work), (of or chunk(), Reader(2, committed)))

    def _reader(self, *_: object) -> World:
        self.opened += 1
        return self

    def _loader(self, _: str, target: JdbcTarget) -> World:
        self.target = target
        return self

    def _applier(self, *given: Any) -> World:
        _, self.converter, self.loader, *_ = given
        return self

    # As a ChunkReader

    def describe(self, _: TableId) -> SelectedTable | None:
        self.described += 1
        return self.table

    def between(self, selected: SelectedTable, _: Bound | None, __: Bound) -> Iterator[list[bytes]]:
        for page in self.pages:
            if self.down:
                raise self.down
            yield images([packet(*row) for row in page], selected)

    # As a PartitionApplier

    def apply(self, place: TopicPartition, records: Records, *_: int) -> None:
        if self.error:
            raise self.error
        self.places.append(place)
        self.values = records.values.to_pylist()
        self.applied.append(
            [change for value in self.values for change in self.converter.from_bytes(value)]
        )

    def close(self) -> None:
        self.closed += 1

    # As a loader, and as its transaction

    def counts(self) -> dict[int, AppliedOffset]:
        return self.kept

    @contextmanager
    def transaction(self) -> Iterator[World]:
        yield self

    def store_offset(self, offset: AppliedOffset, seen: AppliedOffset | None) -> None:
        if offset.topic == self.conflict:
            raise OffsetConflict(offset.topic)
        self.offsets.append((offset, seen))

    def write(self, batch: str) -> str:
        return batch

    @property
    def rows(self) -> list[tuple[str, str]]:
        return [
            (change.after["id"] or "", change.after["a"] or "")
            for changes in self.applied
            for change in changes
            if change.after is not None
        ]


def packet(*cells: int) -> bytes:
    """A row as the protocol has it; behind it the values for literals, which are numbers, too."""
    texts = [str(cell).encode() for cell in cells]
    return b"".join(bytes((len(text),)) + text for text in texts)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    yield World(monkeypatch)
    chunk_loader._worker.cache_clear()


@pytest.mark.parametrize(
    ("converter", "is_by_records"),
    [("canalRow", False), ("oggJson", False), ("canalCompat", True)],
)
def test_rows_are_what_the_consumer_task_reads_of_the_fetch_task_s_records(
    world: World, converter: str, is_by_records: bool
) -> None:
    """By records only where cells may stand in them in another form."""
    loaded = world.load(converter=converter)
    assert isinstance(loaded, Loaded), loaded
    assert (loaded.rows, loaded.bytes > 0) == (3, True)
    assert world.rows == [("1", "10"), ("2", "20"), ("3", "30")]
    assert {change.op for changes in world.applied for change in changes} == {Op.INSERT}
    assert {value[:1] for value in world.values} == (
        {b"{"} if is_by_records else {b"\0", b"\1", b"\2"}
    )


def test_a_row_that_no_record_can_be_made_of_is_told_as_without_columns(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The way by columns gives way."""
    monkeypatch.setattr(chunk_loader, "row_events", Mock(side_effect=UnreadableEvent("no text")))
    assert str(world.load()) == "no text"


def test_a_chunk_is_one_transaction_unless_its_rows_are_large(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = world.load()
    assert len(world.applied) == 1
    world.applied.clear()
    monkeypatch.setattr(chunk_loader, "SLICE_BYTES", 1)
    assert world.load(chunk(2)) == whole
    assert [len(world.rows), len(world.applied)] == [3, 2]
    assert world.places[-1] == TopicPartition("shop.orders", 2)


def test_a_chunk_without_rows_writes_nothing(world: World) -> None:
    world.pages = []
    assert world.load() == Loaded(0, 0)
    assert world.applied == []


def test_connections_and_what_is_known_of_a_table_are_kept_from_chunk_to_chunk(
    world: World,
) -> None:
    for number in (1, 2, 3):
        world.load(chunk(number))
    assert (world.opened, world.described, world.closed) == (1, 1, 0)


ALTERED = [None, table("b"), table("a", type_="bigint"), table("a", key="a")]


@pytest.mark.parametrize("found", ALTERED)
def test_a_table_that_is_not_as_it_was_cut_is_not_loaded(
    world: World, found: SelectedTable | None
) -> None:
    world.table = found
    error = world.load()
    assert isinstance(error, CdcError)
    assert "table shop.orders was altered while it was loaded" in str(error)
    assert world.applied == []


@pytest.mark.parametrize("kind", [DataError, TargetRejected])
def test_what_the_target_refuses_is_returned_with_table_key_and_chunk(
    world: World, kind: type[CdcError]
) -> None:
    world.error = kind("too long")
    error = world.load(chunk(4))
    assert type(error) is kind
    assert str(error) == "table shop.orders (key id), chunk 4: too long"


@pytest.mark.parametrize(
    "error", [RowConflict("duplicate"), PartitionWaits("duplicate", 0, BatchReport())]
)
def test_a_row_that_binds_to_another_moment_is_told_with_the_remedy(
    world: World, error: Exception
) -> None:
    world.error = error
    found = world.load()
    assert type(found) is RowConflict
    assert "chunk 1: " in str(found)
    assert "drop that key at the target until the load is done" in str(found)


def test_a_column_that_the_target_lacks_stays_an_error_that_is_waited_for(world: World) -> None:
    world.error = UnmappedColumn("no column a")
    assert world.load() is world.error


def test_what_is_not_foreseen_is_told_without_its_text_which_may_hold_cells(world: World) -> None:
    world.error = ValueError("secret cell")
    error = world.load()
    assert type(error) is CdcError
    assert "chunk 1 of shop.orders failed: ValueError at " in str(error)
    assert "secret" not in str(error)


@pytest.mark.parametrize("error", [ConnectionResetError("gone"), EOFError()])
def test_a_source_that_goes_away_is_told_so_that_the_chunk_comes_again(
    world: World, error: Exception
) -> None:
    world.down = error
    assert type(world.load()) is SourceUnavailable


def test_after_an_error_nothing_is_kept(world: World) -> None:
    world.down = EOFError()
    world.load()
    assert world.closed == 2  # the reader, and the applier
    world.down = None
    assert isinstance(world.load(), Loaded)
    assert (world.opened, world.described) == (2, 2)


def commit(world: World) -> None:
    with world.loader.transaction() as transaction:
        assert transaction.write("rows") == "rows"
        transaction.store_offset(AppliedOffset("shop.orders", 1, 3, 0), None)


def count(number: int, epoch: int = 3) -> AppliedOffset:
    return AppliedOffset(COUNTS, 2, number, 0, epoch)


def test_a_commit_holds_the_guard_as_it_was_and_counts_for_its_reader(world: World) -> None:
    world.load()
    commit(world)
    commit(world)
    guard = (GUARD, GUARD)
    assert world.offsets == [guard, (count(1), None), guard, (count(2), count(1))]
    # An answer was lost: the target has more than is known, in the epoch of a later process.
    world.kept = {1: AppliedOffset(COUNTS, 1, 1, 0), 2: count(7, epoch=4)}
    world.offsets.clear()
    assert world.load(committed=6).committed == 7
    commit(world)
    assert world.offsets == [guard, (count(8, epoch=4), count(7, epoch=4))]


@pytest.mark.parametrize("guard", [GUARD, None])
def test_an_executor_must_find_the_guard_s_table_where_the_driver_keeps_offsets(
    world: World, guard: AppliedOffset | None
) -> None:
    world.load(guard=guard)
    assert world.target.needs_offsets is (guard is not None)


def test_a_transaction_that_is_undone_does_not_count(world: World) -> None:
    world.load()
    with pytest.raises(OffsetConflict), world.loader.transaction() as transaction:
        transaction.store_offset(AppliedOffset("shop.orders", 1, 3, 0), None)
        raise OffsetConflict("at its commit")
    world.offsets.clear()
    commit(world)
    assert world.offsets == [(GUARD, GUARD), (count(1), None)]


def test_an_earlier_attempt_that_commits_late_is_waited_for_and_another_process_is_not(
    world: World,
) -> None:
    """The count is another one; the guard is not."""

    def conflict(of: str) -> type[BaseException]:
        world.load()
        world.conflict = of
        with pytest.raises((OffsetConflict, TargetUnavailable)) as raised:
            commit(world)
        return raised.type

    assert conflict(COUNTS) is TargetUnavailable
    assert conflict(GUARD.topic) is OffsetConflict


def test_without_offsets_at_the_target_nothing_is_counted(world: World) -> None:
    world.load(guard=None)
    commit(world)
    assert world.offsets == []


@pytest.mark.parametrize("kept", [{}, {2: count(5)}, {1: AppliedOffset(COUNTS, 1, 9, 0)}])
def test_a_target_that_lacks_commits_gets_no_further_chunk(
    world: World, kept: dict[int, AppliedOffset]
) -> None:
    world.kept = kept
    error = world.load(committed=6)
    assert isinstance(error, ConfigError)
    assert "lacks rows that its direct load had committed" in str(error)
    assert world.applied == []


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (1146, "has other rows or none: it was dropped or renamed while it was loaded"),
        (1049, "has other rows or none: it was dropped or renamed while it was loaded"),
        (1054, "was altered while it was loaded"),
    ],
)
def test_a_table_that_is_gone_while_it_is_read_must_be_loaded_anew(code: int, told: str) -> None:
    source = SourceConfig((("db", 3306),), "u")
    told = f"^table shop.orders {told}.* --anew$"
    with pytest.raises(CdcError, match=told), reading(ORDERS, source):
        raise pymysql.ProgrammingError(code, "no such thing")
    with pytest.raises(SourceMisconfigured, match="1064"), reading(ORDERS, source):
        raise pymysql.ProgrammingError(1064, "syntax")


def test_an_address_that_leads_to_another_server_is_no_outage() -> None:
    source = SourceConfig((("db", 3306),), "u")
    told = r"the same command goes on.* --anew$"
    with pytest.raises(CdcError, match=told) as raised, reading(ORDERS, source):
        raise OtherServer("read from server a, the binlog from b")
    assert policy_of(raised.value).action is not Action.RETRY
