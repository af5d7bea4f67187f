"""The contract of what applies a consumer task's batches: rows to a database, or records to other
topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from threading import Event
from typing import Protocol

from cdcbus.consumer.apply.applier import PartitionApplier
from cdcbus.consumer.apply.watermark import read_beside, read_on
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.forward.forwarder import Forwarder
from cdcbus.consumer.offsets.moves import read_first
from cdcbus.consumer.records.arrival_clock import ArrivalClock
from cdcbus.consumer.records.batch_report import BatchReport, WritePrepared
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.consumer.records.late import KnownEpochs
from cdcbus.consumer.records.records import PartitionPart, Records
from cdcbus.plugins.contracts import AppliedOffset, JdbcTarget
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import TableId
from cdcbus.plugins.task_status import TaskStatus
from cdcbus.plugins.transform.processor import make_processor


class Applier(Protocol):
    """Applies partitions, several side by side.

    `seen`: the offset that the target is known to hold for each partition. A transaction is undone
    if the target turns out to hold another one for its partition.
    `arrivals`: the clock by which it is known what can still come to Kafka.
    `epochs`: where epochs of fetch tasks began; whoever reads partitions for it adds to them.
    """

    seen: dict[TopicPartition, AppliedOffset]
    arrivals: ArrivalClock
    epochs: KnownEpochs
    keeps_offsets: bool
    """Whether the target has an offset of each partition that was ever taken over, as of the last
    `applied_offsets`."""

    @property
    def commits_offsets(self) -> bool:
        """Whether offsets are committed with the rows, as of the last `applied_offsets`."""
        ...

    @property
    def is_dry_run(self) -> bool:
        """Whether it changes nothing; then no stored position may move."""
        ...

    @property
    def partitions_at_once(self) -> int:
        """The largest number of partitions worth applying side by side."""
        ...

    def check_targets(self) -> None:
        """Checks the parts of the target that the task file names, and raises what is wrong."""
        ...

    def applied_offsets(self) -> list[AppliedOffset]:
        """Fences the process that has run the task until now, and returns how far each partition
        has been applied, as the target knows it. A commit of that process in progress is waited for
        or undone. Called before the stored positions are read."""
        ...

    def begin(
        self, partition: TopicPartition, seen: Mapping[TopicPartition, AppliedOffset]
    ) -> None:
        """On an executor: sets `seen` to what the target holds for the partition by now. The driver
        has last seen `seen` there, of all partitions."""
        ...

    @property
    def scattered(self) -> frozenset[TableId | None]:
        """The target tables whose rows are known to have changes in several partitions; None stands
        for all."""
        ...

    def add_scattered(self, known: Iterable[TableId | None]) -> None:
        """Adds what another process of the task knows as `scattered`. On an executor after each
        `begin`: a server can hide from it that the target keeps versions of rows, and an older
        change would replace a newer one."""
        ...

    def let_go(self) -> None:
        """Releases everything that another process needs to apply partitions. Called before
        executors apply any, and on an executor after each."""
        ...

    def take_over(self, offsets: Sequence[AppliedOffset]) -> None:
        """Stores at the target the offsets at which partitions resume. Raises OffsetConflict when
        another process has taken them over since `applied_offsets` was called."""
        ...

    def compare_offsets(self) -> None:
        """Reads the target's offsets, fences nobody, and raises OffsetConflict where the target no
        longer holds what it is known to hold of a partition, as after a restore. Does nothing where
        the target keeps no offsets. Not while partitions are applied, here or on executors."""
        ...

    def lost_tables(self) -> list[str]:
        """Returns a sentence about each target table that somebody has made anew or emptied since
        the task wrote to it, once; looks at some of them at each call. Not while partitions are
        applied."""
        ...

    def add_partitions(self, offsets: Sequence[AppliedOffset], reason: str) -> None:
        """Stores at the target the offsets at which partitions begin that were added while reading,
        and expects records of any row in several partitions from now on, for this reason. Raises
        TargetError, OffsetConflict."""
        ...

    def forget_versions(self, before_ms: Callable[[], int]) -> None:
        """Forgets versions of rows, if any are kept: all records that arrived in Kafka before the
        time that `before_ms` returns have been applied. Raises what that raises."""
        ...

    def apply(
        self,
        partition: TopicPartition,
        records: Records,
        end_offset: int,
        position_version: int,
        low_watermark: int = 0,
        is_hasty: bool = False,
    ) -> BatchReport:
        """Applies a partition's part of a batch, which began while the stored position was at
        `position_version`; returns once it is durable. Raises PartitionWaits when it has applied a
        part and the rest must wait for other partitions, but never for a record before
        `low_watermark`. `is_hasty`: it waits immediately, as partitions that wait are then applied
        together."""
        ...

    def apply_together(
        self, partitions: Sequence[PartitionPart]
    ) -> dict[TopicPartition, tuple[int, BatchReport]]:
        """Applies partitions that wait for each other, each with its records, end and
        position_version, in one transaction. Returns the end that each reached with its report, or
        nothing where that does not help."""
        ...

    def prepare(self, partition: TopicPartition, records: Records) -> WritePrepared:
        """Does `apply` in two halves: prepares these records while the ones before them are being
        applied, and returns a function that does the rest."""
        ...

    def close(self) -> None:
        """Releases all connections. Can be called twice."""
        ...


def make_applier(
    task: LoadTask,
    stop: Event,
    put_dead_letters: Callable[[Sequence[DeadLetter]], None] | None = None,
    status: TaskStatus | None = None,
) -> Applier:
    """Makes a task's applier, from the task alone; it connects at first use. `put_dead_letters`:
    see `DeadLetterTopic.put`. `status` is told while a Kafka that is the target acknowledges
    nothing. Raises ConfigError."""
    converter = task.reader
    process = make_processor(task.processor)
    if isinstance(task.target, JdbcTarget):
        epochs = KnownEpochs()
        return PartitionApplier(
            task,
            converter,
            make_loader(task.loader, task.target),
            process,
            put_dead_letters,
            task.target.pool_size,
            partial(read_on, task, stop, epochs),
            partial(read_first, task),
            partial(read_beside, task),
            epochs,
        )
    return Forwarder(
        task,
        task.target,
        converter,
        process,
        put_dead_letters,
        stop,
        status,
        partial(read_first, task),
    )
