"""What a consumer task does with its batches: rows into a database, or records into other
topics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from threading import Event
from typing import Protocol

from cdcbus.consumer.apply.applier import PartitionApplier
from cdcbus.consumer.apply.watermark import read_on
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.forward.forwarder import Forwarder
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.consumer.records.records import Records
from cdcbus.plugins.contracts import AppliedOffset, JdbcTarget
from cdcbus.plugins.loaders import make_loader
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.transform.processor import make_processor


class Applier(Protocol):
    """Applies partitions, several side by side.

    `seen`: what the target is known to hold of each partition; whatever is applied to a partition
    of which it holds something else is undone.
    """

    seen: dict[TopicPartition, AppliedOffset]
    keeps_offsets: bool
    """Whether the target has an offset of each partition that was ever taken over, as far as
    `applied_offsets` has told."""

    @property
    def is_dry_run(self) -> bool:
        """Whether it changes nothing: then no stored position may move."""
        ...

    @property
    def partitions_at_once(self) -> int:
        """How many partitions at most make sense side by side."""
        ...

    def check_targets(self) -> None:
        """Raises what is wrong with the target as far as the task file names it."""
        ...

    def applied_offsets(self) -> list[AppliedOffset]:
        """How far each partition has been applied, as the target knows it. Before that, whoever has
        run the task until now is fenced: what it is about to commit is waited for or undone.
        Called before the stored positions are read."""
        ...

    def begin(self, partition: TopicPartition, seen: AppliedOffset | None) -> None:
        """On an executor, of a partition of which the driver has `seen` this: makes `seen` what the
        target holds by now."""
        ...

    def let_go(self) -> None:
        """Before executors apply partitions, and on an executor behind each: keeps nothing that
        another process needs for them."""
        ...

    def take_over(self, offsets: Sequence[AppliedOffset]) -> None:
        """Partitions go on from there, which the target knows from now on. Raises OffsetConflict
        when somebody has taken them over since `applied_offsets` was called."""
        ...

    def scatter(self, reason: str) -> None:
        """Records of any row may be in several partitions from now on, for this reason. Raises
        TargetError."""
        ...

    def forget_versions(self, before_ms: int) -> None:
        """All records that came into Kafka before that time have been applied."""
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
        part and the rest is to wait for other partitions, but never for a record before
        `low_watermark`. `is_hasty`: it waits at once, as partitions that wait are to be applied
        together."""
        ...

    def apply_together(
        self, partitions: Sequence[tuple[TopicPartition, Records, int, int]]
    ) -> dict[TopicPartition, tuple[int, BatchReport]]:
        """Partitions that wait for each other, each with its records, end and position_version, in
        one transaction; how far each came, or nothing where that does not help."""
        ...

    def prepare(
        self, partition: TopicPartition, records: Records
    ) -> Callable[[int, int, int, bool], BatchReport]:
        """The same in two halves: what can be done before the records before these are applied,
        and, as its result, the rest."""
        ...

    def close(self) -> None:
        """Gives back all connections. May be called twice."""
        ...


def make_applier(
    task: LoadTask,
    stop: Event,
    put_dead_letters: Callable[[Sequence[DeadLetter]], None] | None = None,
) -> Applier:
    """A task's applier, made of the task alone; it connects at first use. `put_dead_letters`:
    see there. Raises ConfigError."""
    converter, process = task.reader, make_processor(task.processor)
    if isinstance(task.target, JdbcTarget):
        loader, partitions_at_once = make_loader(task.loader, task.target), task.target.pool_size
        return PartitionApplier(
            task,
            converter,
            loader,
            process,
            put_dead_letters,
            partitions_at_once,
            partial(read_on, task),
        )
    return Forwarder(task, task.target, converter, process, put_dead_letters, stop)
