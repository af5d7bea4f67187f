"""When positions are written, and that a row is applied once whatever happens in between: two
partitions, a table without a key in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcbus.consumer.apply.applier import PartitionWaits
from cdcbus.consumer.batch import batch_applier
from cdcbus.consumer.batch.batch_applier import BatchApplier
from cdcbus.consumer.batch.outcome import Outcome
from cdcbus.consumer.batch.progress import Progress
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.offsets import checkpoint
from cdcbus.consumer.offsets.checkpoint import StoredPositions
from cdcbus.consumer.offsets.start_offsets import starting_offsets
from cdcbus.consumer.records.arrival_clock import ArrivalClock
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.consumer.records.late import KnownEpochs
from cdcbus.consumer.records.records import Records
from cdcbus.plugins.contracts import NO_MARK, AppliedOffset, JdbcTarget, Mark
from cdcbus.plugins.epoch import epoch_text
from cdcbus.plugins.errors import (
    BusUnavailable,
    OffsetConflict,
    PositionConflict,
    PositionUnavailable,
    TargetUnavailable,
)
from cdcbus.plugins.positions import (
    KafkaPosition,
    TopicPartition,
    kafka_positions_from_json,
    kafka_positions_to_json,
)
from cdcbus.plugins.start import Edge
from cdcbus.tasks.local.memory import MemoryNode, MemoryPositions

PARTITIONS: tuple[TopicPartition, ...] = (
    TopicPartition("orders", 0),
    TopicPartition("orders", 1),
    TopicPartition("places", 0),
)
TASK = LoadTask(
    "7",
    TopicConfig("kafka:9092", ("orders", "places")),
    "canalRow",
    "JdbcBatch",
    JdbcTarget(""),
    first_consume_from=Edge.EARLIEST,
)


class Logs:
    """What TopicLogs tells of three partitions that hold a thousand records each."""

    def partitions(self, topic: str) -> list[int]:
        return [partition for name, partition in PARTITIONS if name == topic]

    def bounds(self, _: TopicPartition) -> tuple[int, int]:
        return 0, 1000


@dataclass
class Table:
    """A table without a key, and the target's applied offsets: an Applier that writes a partition's rows
    and its offset, or raises before.

    `taken`: partitions that somebody else has applied; `away`: partitions whose transactions fail."""

    is_dry_run: bool = False
    rows: list[tuple[TopicPartition, int]] = field(default_factory=list)
    seen: dict[TopicPartition, AppliedOffset] = field(default_factory=dict)
    taken: frozenset[TopicPartition] = frozenset()
    away: frozenset[TopicPartition] = frozenset()
    partitions_at_once: int = 1
    compared: int = 0
    looked: int = 0
    arrivals: ArrivalClock = field(default_factory=ArrivalClock)
    epochs: KnownEpochs = field(default_factory=KnownEpochs)

    def compare_offsets(self) -> None:
        self.compared += 1
        if self.taken:
            raise OffsetConflict("the target was restored")

    def forget_versions(self, before_ms: Callable[[], int]) -> None:
        before_ms()
        raise TargetUnavailable("the transaction is too large")

    def lost_tables(self) -> list[str]:
        self.looked += 1
        return [f"table {self.looked} was emptied"]

    def apply(
        self,
        partition: TopicPartition,
        records: Records,
        end_offset: int,
        position_version: int,
        _low_watermark: int = 0,
        _is_hasty: bool = False,
    ) -> BatchReport:
        if partition in self.taken:
            raise OffsetConflict("somebody else has applied it")
        if partition in self.away:
            raise TargetUnavailable("the target is away")
        self.rows += [(partition, offset) for offset, _ in records]
        self.seen[partition] = AppliedOffset(*partition, end_offset, position_version)
        return BatchReport(records=len(records))


@dataclass
class World:
    """What outlives a process: ZooKeeper's nodes and the target."""

    nodes: Mapping[str, MemoryNode] = field(
        default_factory=lambda: {topic: MemoryNode() for topic in TASK.source.topics}
    )
    table: Table = field(default_factory=Table)

    def stored(self) -> dict[TopicPartition, int]:
        """The next offsets that the nodes name."""
        found = [
            position
            for node in self.nodes.values()
            for position in kafka_positions_from_json(node.node.data)
        ]
        return {
            TopicPartition(position.topic, position.partition): position.next_offset
            for position in found
        }

    def versions(self) -> list[int]:
        return [node.node.version for node in self.nodes.values()]

    def edit(self, partition: TopicPartition, next_offset: int) -> None:
        """An operator's hand."""
        others = [
            KafkaPosition(*other, offset - 1)
            for other, offset in self.stored().items()
            if other[0] == partition.topic and other != partition
        ]
        self.nodes[partition.topic].set(
            kafka_positions_to_json([*others, KafkaPosition(*partition, next_offset - 1)]).encode()
        )


class Run:
    """A task that has begun to read, as `cdcbus.consumer.run` begins it."""

    def __init__(self, world: World, store: Callable[[MemoryNode], Any] = MemoryPositions) -> None:
        self.world = world
        self.stores = {topic: store(node) for topic, node in world.nodes.items()}
        self.progress = Progress()
        table, logs = world.table, Logs()
        starts = starting_offsets(TASK, logs, self.stores, list(table.seen.values()))  # type: ignore[arg-type]
        self.progress.next_offsets = starts.offsets
        positions = StoredPositions(self.stores, is_dry_run=table.is_dry_run)
        if not table.is_dry_run:
            positions.begin(self.progress.next_offsets)
            table.seen = {
                partition: AppliedOffset(*partition, end, positions.position_version(partition))
                for partition, end in self.progress.next_offsets.items()
            }
        self.batches = BatchApplier(
            TASK,
            table,  # type: ignore[arg-type]
            positions,
            self.progress,
            lambda _: None,
        )
        self.error: Exception | None = None
        self.is_all = True
        """Whether all of the last batch was applied."""

    def batch(self, counts: Sequence[int], away: frozenset[TopicPartition] = frozenset()) -> None:
        """So many more records of each partition."""
        self.world.table.away = away
        begins = self.progress.next_offsets
        ends = {
            partition: min(begins[partition] + count, 1000)
            for partition, count in zip(PARTITIONS, counts, strict=True)
        }

        def apply() -> None:
            self.is_all = self.batches.apply_records(self.records(ends), ends)

        self.do(apply)

    def records(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, Records]:
        """Those from where the task is."""
        found = {}
        for partition in PARTITIONS:
            offsets = range(self.progress.next_offsets[partition], ends[partition])
            if offsets:
                values = pa.array([b"x"] * len(offsets), pa.binary())
                times = pa.array([1000] * len(offsets), pa.int64())
                found[partition] = Records(pa.array(offsets, pa.int64()), values, times=times)
        return found

    def do(self, what: Callable[[], object]) -> None:
        """Unless something has failed before."""
        if not self.error:
            try:
                what()
            except Exception as error:
                self.error = error

    def look_around(self) -> None:
        self.do(self.batches.look_around)

    def end(self) -> None:
        try:
            with self.batches.saved_in_the_end():
                if self.error:
                    raise self.error
        except Exception as error:
            self.error = error
        self.batches.close()


@pytest.fixture
def due(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Whether positions are due; at first they are not."""

    def set_due(is_due: bool) -> None:
        monkeypatch.setattr(checkpoint, "SAVE_SECONDS", 0.0 if is_due else math.inf)

    set_due(False)
    return set_due


def ends(*offsets: int) -> dict[TopicPartition, int]:
    return dict(zip(PARTITIONS, offsets, strict=True))


def test_nothing_can_be_received_during_a_long_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    run, first = Run(World()), PARTITIONS[0]
    for long_seconds, received in ((1000.0, {first}), (-1.0, {*PARTITIONS})):
        monkeypatch.setattr(batch_applier, "LONG_SECONDS", long_seconds)
        run.progress.received.clear()
        ends = {first: run.progress.next_offsets[first] + 1}
        records = run.records({**run.progress.next_offsets, **ends})
        assert run.batches.apply_records(records, ends)
        assert run.progress.received == received
        # Only that one is read by the batch.
        assert run.progress.goals == ends


def test_what_a_batch_shows_of_epochs_is_known_to_whoever_looks_ahead() -> None:
    run, first = Run(World()), PARTITIONS[0]
    value = b'{"epoch":"%s","x":1}' % epoch_text(7, "1", "shop").encode()
    records = Records(pa.array([0, 1], pa.int64()), pa.array([None, value], pa.binary()))
    assert not run.world.table.epochs.is_followed(first)
    assert run.batches.apply_records({first: records}, {first: 2})
    assert run.world.table.epochs.is_followed(first)
    [began] = run.world.table.epochs.of(first).values()
    assert list(began.values()) == [1]


def test_positions_are_written_once_for_many_batches_and_only_those_that_have_moved(
    due: Callable[[bool], None],
) -> None:
    world = World()
    run = Run(world)
    assert (world.versions(), world.stored()) == ([0, 0], ends(0, 0, 0))
    for _ in range(5):
        run.batch((1, 2, 0))
        run.look_around()
    assert world.versions() == [0, 0]
    due(True)
    run.batch((1, 0, 0))
    assert (world.versions(), world.stored()) == ([1, 0], ends(6, 10, 0))
    run.look_around()
    assert world.versions() == [1, 0]


def test_what_is_due_when_no_batch_comes_is_written_all_the_same(
    due: Callable[[bool], None],
) -> None:
    world = World()
    run = Run(world)
    run.batch((3, 0, 1))
    due(True)
    run.look_around()
    assert world.stored() == ends(3, 0, 1)


def test_the_end_writes_all_that_was_applied(due: Callable[[bool], None]) -> None:
    world = World()
    run = Run(world)
    run.batch((3, 2, 1))
    run.end()
    assert (run.error, world.stored()) == (None, ends(3, 2, 1))


def test_offsets_are_compared_now_and_then_before_a_batch_and_between_batches(
    due: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    run = Run(world)
    run.batch((3, 2, 1))
    run.look_around()
    assert world.table.compared == 0
    monkeypatch.setattr(batch_applier, "COMPARE_SECONDS", 0.0)
    run.look_around()
    run.batch((1, 0, 0))
    assert world.table.compared == 2
    monkeypatch.setattr(batch_applier, "COMPARE_SECONDS", 1000.0)
    run.look_around()
    assert world.table.compared == 2


def test_tables_are_looked_at_before_the_first_batch_now_and_then_and_at_the_end(
    due: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    run = Run(world)
    run.batch((3, 2, 1))
    run.look_around()
    assert world.table.looked == 1
    monkeypatch.setattr(batch_applier, "LOOK_SECONDS", 0.0)
    run.look_around()
    run.batch((1, 0, 0))
    assert world.table.looked == 3
    monkeypatch.setattr(batch_applier, "LOOK_SECONDS", 1000.0)
    run.end()
    assert [sentence.split(";")[0] for _, sentence in run.progress.lost_tables] == [
        f"table {number} was emptied" for number in (1, 2, 3, 4)
    ]


@pytest.mark.parametrize("is_before_batch", [True, False])
def test_positions_are_written_before_an_attempt_ends_as_the_target_has_lost_commits(
    due: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch, is_before_batch: bool
) -> None:
    """By them the next attempt sees that commits were lost."""
    world = World()
    run = Run(world)
    run.batch((3, 2, 1))
    monkeypatch.setattr(batch_applier, "COMPARE_SECONDS", 0.0)
    world.table.taken = frozenset([TopicPartition("orders", 1)])
    if is_before_batch:
        run.batch((1, 0, 0))
    else:
        run.look_around()
    assert isinstance(run.error, OffsetConflict)
    run.end()
    assert world.stored() == ends(3, 2, 1)


def test_what_fails_between_batches_writes_all_that_was_applied(
    due: Callable[[bool], None],
) -> None:
    world = World()
    run = Run(world)
    run.batch((3, 2, 1))
    run.error = TargetUnavailable("away")
    run.end()
    assert isinstance(run.error, TargetUnavailable)
    assert world.stored() == ends(3, 2, 1)


def test_of_a_batch_that_has_nothing_but_what_a_bounded_replay_leaves_out_nothing_is_asked(
    due: Callable[[bool], None],
) -> None:
    run = Run(World())
    run.batches._limit = 3
    run.batch((3, 2, 0))
    asked: list[Mapping[TopicPartition, int]] = []

    def apply(goals: dict[TopicPartition, int]) -> list[Outcome]:
        asked.append(goals)
        return []

    assert run.batches.apply(apply, ends(900, 2, 0), is_held=False)
    assert asked == []
    assert run.progress.next_offsets == ends(3, 2, 0)


def test_after_a_batch_of_which_one_partition_was_applied_the_next_start_goes_on_behind_that_partition(
    due: Callable[[bool], None],
) -> None:
    world = World()
    run = Run(world)
    run.batch((3, 2, 1))
    world.table.taken = frozenset([TopicPartition("orders", 1)])
    run.batch((3, 2, 1))
    assert isinstance(run.error, OffsetConflict)
    due(True)
    run.look_around()
    run.end()
    assert world.stored() == ends(0, 0, 0)
    assert Run(world).progress.next_offsets == ends(6, 2, 2)


def test_a_partition_that_others_were_in_the_way_of_is_applied_once_they_are_and_else_the_batch_fails(
    due: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    run = Run(world)
    tried = list[TopicPartition]()

    def apply(
        partition: TopicPartition,
        records: Records,
        end_offset: int,
        position_version: int,
        low_watermark: int = 0,
        _is_hasty: bool = False,
    ) -> BatchReport:
        tried.append(partition)
        world.table.away = frozenset(
            [TopicPartition("orders", 0)] if tried.count(TopicPartition("orders", 0)) < 2 else []
        )
        return Table.apply(
            world.table, partition, records, end_offset, position_version, low_watermark
        )

    monkeypatch.setattr(world.table, "apply", apply)
    run.batches._applier = world.table  # type: ignore[assignment]
    run.batch((3, 2, 1))
    assert (run.progress.next_offsets, tried) == (ends(3, 2, 1), [*PARTITIONS, ("orders", 0)])
    monkeypatch.undo()
    run.batch((3, 2, 1), away=frozenset([TopicPartition("orders", 1)]))
    assert isinstance(run.error, TargetUnavailable)
    assert Run(world).progress.next_offsets == ends(6, 2, 2)


class TestPartitionsThatWaitForEachOther:
    """Both partitions of a topic wait, one at its second record, the other at its first."""

    @pytest.fixture
    def world(self) -> World:
        return World()

    @pytest.fixture
    def run(
        self, world: World, due: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
    ) -> Run:
        run = Run(world)
        waits = {PARTITIONS[0]: 1, PARTITIONS[1]: 0}
        self.together: list[list[tuple[TopicPartition, list[int], int]]] = []
        self.applied: dict[TopicPartition, int] | Exception = {}

        def apply(
            partition: TopicPartition,
            records: Records,
            end: int,
            position_version: int,
            low_watermark: int = 0,
            is_hasty: bool = False,
        ) -> BatchReport:
            if partition in waits:
                at = waits[partition]
                raise PartitionWaits(
                    "another row",
                    at,
                    Table.apply(world.table, partition, records.before(at), at, position_version),
                )
            return Table.apply(
                world.table, partition, records, end, position_version, low_watermark
            )

        def apply_together(
            partitions: Sequence[tuple[TopicPartition, Records, int, int]],
        ) -> dict[TopicPartition, tuple[int, BatchReport]]:
            self.together.append(
                [
                    (partition, records.offsets.to_pylist(), end)
                    for partition, records, end, _ in partitions
                ]
            )
            if isinstance(self.applied, Exception):
                raise self.applied
            found = {}
            for partition, records, _, position_version in partitions:
                if partition in self.applied:
                    end = self.applied[partition]
                    found[partition] = (
                        end,
                        Table.apply(
                            world.table, partition, records.before(end), end, position_version
                        ),
                    )
            return found

        # Kafka is not there.
        monkeypatch.setattr(
            batch_applier, "low_watermarks_of", lambda _, waiting, *__: dict.fromkeys(waiting, 0)
        )
        monkeypatch.setattr(world.table, "apply", apply)
        monkeypatch.setattr(world.table, "apply_together", apply_together, raising=False)
        run.batches._applier = world.table  # type: ignore[assignment]
        return run

    def test_what_is_left_of_them_is_applied_together(self, run: Run, world: World) -> None:
        self.applied = {PARTITIONS[0]: 3, PARTITIONS[1]: 2}
        run.batch((3, 2, 1))
        assert self.together == [[(PARTITIONS[0], [1, 2], 3), (PARTITIONS[1], [0, 1], 2)]]
        assert (run.progress.next_offsets, run.error, run.is_all) == (
            ends(3, 2, 1),
            None,
            True,
        )
        assert sorted(world.table.rows) == [
            (partition, offset) for partition, end in ends(3, 2, 1).items() for offset in range(end)
        ]

    def test_where_one_gets_on_in_part_the_rest_is_read_again(self, run: Run) -> None:
        self.applied = {PARTITIONS[0]: 2}
        run.batch((3, 2, 1))
        assert len(self.together) == 1
        assert (run.progress.next_offsets, run.error, run.is_all) == (
            ends(2, 0, 1),
            None,
            False,
        )

    @pytest.mark.parametrize(
        "refusal", [{}, TargetUnavailable("the target is away")], ids=["not taken", "away"]
    )
    def test_where_that_does_not_help_they_wait(
        self, run: Run, refusal: dict[TopicPartition, int] | Exception
    ) -> None:
        self.applied = refusal
        run.batch((3, 2, 1))
        assert (len(self.together), run.progress.next_offsets, run.is_all) == (
            1,
            ends(1, 0, 1),
            False,
        )

    def test_what_comes_too_late_is_left_out_there_as_well_and_counted(
        self, run: Run, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Else the row of a process that had lost its lock would win by waiting for another row."""

        def without_late(
            partition: TopicPartition, records: Records, *_: object
        ) -> tuple[Records, Any]:
            is_late = pc.equal(records.offsets, 2)
            return records.take(
                [i for i, late in enumerate(is_late.to_pylist()) if not late]
            ), records.offsets.filter(is_late)

        monkeypatch.setattr(batch_applier, "without_late", without_late)
        self.applied = {PARTITIONS[0]: 4, PARTITIONS[1]: 2}
        run.batch((4, 2, 1))
        assert self.together == [[(PARTITIONS[0], [1, 3], 4), (PARTITIONS[1], [0, 1], 2)]]
        assert (run.progress.next_offsets, run.progress.total.late) == (ends(4, 2, 1), 1)


def test_a_process_that_is_killed_behind_unwritten_batches_goes_on_where_the_target_is(
    due: Callable[[bool], None],
) -> None:
    world = World()
    run = Run(world)
    run.batch((3, 2, 1))
    run.batch((0, 2, 0))
    again = Run(world)
    assert again.progress.next_offsets == ends(3, 4, 1)
    assert world.stored() == ends(3, 4, 1)
    again.batch((1, 0, 0))
    assert len(world.table.rows) == len(set(world.table.rows)) == 9


@pytest.mark.parametrize("is_batch_after", [False, True])
def test_an_operators_edit_wins_over_unwritten_progress(
    due: Callable[[bool], None], is_batch_after: bool
) -> None:
    world = World()
    run = Run(world)
    run.batch((9, 9, 9))
    world.edit(TopicPartition("orders", 1), 4)
    if is_batch_after:
        run.batch((1, 1, 1))
    else:
        run.look_around()
    run.end()
    assert isinstance(run.error, PositionConflict)
    moved = 10 if is_batch_after else 9  # the partition beside it keeps its place, too
    assert Run(world).progress.next_offsets == ends(moved, 4, moved)


def test_an_edit_that_nobody_has_noticed_before_the_end_wins(due: Callable[[bool], None]) -> None:
    world = World()
    run = Run(world)
    run.batch((9, 9, 9))
    world.edit(TopicPartition("orders", 0), 4)
    run.end()
    assert isinstance(run.error, PositionConflict)
    assert world.stored()[TopicPartition("orders", 0)] == 4


def test_a_dry_run_writes_no_position(due: Callable[[bool], None]) -> None:
    world = World(table=Table(is_dry_run=True))
    run = Run(world)
    due(True)
    run.batch((3, 2, 1))
    run.look_around()
    run.end()
    assert world.versions() == [-1, -1]


class Silent(MemoryPositions):
    """ZooKeeper goes away after so many saves."""

    left = 1

    def save(self, text: str, mark: Mark = NO_MARK) -> None:
        if not self.left:
            raise PositionUnavailable("ZooKeeper does not answer")
        self.left -= 1
        super().save(text, mark)


def test_zookeeper_away_holds_up_no_batch_and_the_next_start_goes_on_where_the_target_is(
    due: Callable[[bool], None],
) -> None:
    world = World()
    run = Run(world, Silent)
    run.batch((3, 2, 1))
    due(True)
    run.look_around()
    run.batch((1, 1, 1))
    run.end()
    assert isinstance(run.error, PositionUnavailable)
    assert Run(world).progress.next_offsets == ends(4, 3, 2)


# What can happen to a task, in any order

COUNTS = st.tuples(*[st.integers(0, 3)] * len(PARTITIONS))
STEPS = st.one_of(
    st.tuples(st.just("batch"), COUNTS, st.just(frozenset[TopicPartition]())),
    st.tuples(st.just("batch"), COUNTS, st.frozensets(st.sampled_from(PARTITIONS), min_size=1)),
    st.tuples(st.sampled_from(["due", "not due", "look", "restart", "crash"])),
)


@settings(max_examples=40, deadline=None)
@given(st.lists(STEPS, max_size=12))
def test_each_record_is_applied_once_and_the_position_is_exact_in_the_end(
    steps: list[tuple[Any, ...]],
) -> None:
    world = World()
    run = Run(world)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checkpoint, "SAVE_SECONDS", math.inf)
        for what, *with_what in steps:
            if what == "batch":
                run.batch(*with_what)
            elif what == "look":
                run.look_around()
            elif what in ("due", "not due"):
                patch.setattr(checkpoint, "SAVE_SECONDS", 0.0 if what == "due" else math.inf)
            if what == "restart" or run.error:
                run.end()
            if what in ("restart", "crash") or run.error:
                run = Run(world)
    run.batch((1, 1, 1))
    run.end()
    assert sorted(world.table.rows) == [
        (partition, offset)
        for partition in PARTITIONS
        for offset in range(run.progress.next_offsets[partition])
    ]
    assert world.stored() == run.progress.next_offsets


@pytest.mark.parametrize("silent", ["target", "Kafka"])
def test_versions_that_cannot_be_forgotten_now_end_no_attempt(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, silent: str
) -> None:
    def before_ms(*_: object) -> int:
        if silent == "Kafka":
            raise BusUnavailable("a record does not come")
        return 77

    monkeypatch.setattr(batch_applier, "FORGET_SECONDS", -1.0)
    monkeypatch.setattr(batch_applier, "read_before_ms", before_ms)
    run = Run(World())
    run.batch((1, 1, 0))
    assert run.error is None
    assert "keeps versions of rows that are no longer needed" in caplog.text
