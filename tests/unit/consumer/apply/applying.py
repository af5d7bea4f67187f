"""Parents and children at a target in memory, and records of them that are applied to it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

from cdcbus.consumer.apply.applier import PartitionApplier
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.consumer.records.records import Record
from cdcbus.plugins.contracts import JdbcTarget, TargetColumn, TargetTable
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Cell, Column, Op, Origin, Row, RowChange, Table, TableId
from cdcbus.plugins.transform.processor import Processor
from tests.support.stand_ins.memory_target import MemoryTarget
from tests.support.topics.records import records_of

PARTITION = TopicPartition("shop", 0)


ALONE = sys.maxsize


TASK = LoadTask("7", TopicConfig("kafka:9092", ("shop",)), "canalRow", "JdbcBatch", JdbcTarget(""))


PARENTS, CHILDREN = TableId("shop", "parents"), TableId("shop", "children")


PARENT_TABLE = Table(PARENTS, (Column("id"), Column("v")), ("id",))


CHILD_TABLE = Table(CHILDREN, (Column("id"), Column("parent")), ("id",))


def table(name: TableId, *columns: str, unique: tuple[tuple[str, ...], ...] = ()) -> TargetTable:
    return TargetTable(
        name,
        {column: TargetColumn(column, "text") for column in columns},
        ("id",),
        unique,
        "postgresql",
    )


def target(**options: object) -> MemoryTarget:
    tables = {
        PARENTS: table(PARENTS, "id", "v", unique=(("v",),)),
        CHILDREN: table(CHILDREN, "id", "parent"),
    }
    return MemoryTarget(tables, **options)  # type: ignore[arg-type]


def folding_target(**options: object) -> MemoryTarget:
    """One whose catalog says that different texts can be equal in the parents' key."""
    made = target(**options)
    parents = made.tables[PARENTS]
    columns = {**parents.columns, "id": replace(parents.columns["id"], is_folding=True)}
    made.tables[PARENTS] = replace(parents, columns=columns)
    return made


class Made:
    """A converter whose records are numbers of changes that were made beforehand."""

    def __init__(
        self, *records: RowChange | list[RowChange] | Exception, partition: int = 0
    ) -> None:
        self.made = records
        self.partition = TopicPartition(PARTITION.topic, partition)
        self.records = records_of(
            [(number, str(number).encode()) for number in range(len(records))]
        )

    def from_bytes(self, value: bytes) -> list[RowChange]:
        made = self.made[int(value)]
        if isinstance(made, Exception):
            raise made
        return made if isinstance(made, list) else [made]

    def to_bytes(self, change: RowChange) -> bytes:
        raise NotImplementedError

    def read_on(self, partition: TopicPartition, offset: int) -> Iterator[Record]:
        assert partition == self.partition
        yield from self.records[offset:]


def apply(
    loader: MemoryTarget,
    *records: RowChange | list[RowChange] | Exception,
    task: LoadTask = TASK,
    process: Processor | None = None,
) -> BatchReport:
    made = Made(*records)
    return PartitionApplier(task, made, loader, process, read_on=made.read_on).apply(
        PARTITION, made.records, len(made.records), 5, ALONE
    )


def parent(op: Op, row: Row | None, before: Row | None = None) -> RowChange:
    return RowChange(
        PARENT_TABLE,
        op,
        before or (row if op is Op.DELETE else None),
        None if op is Op.DELETE else row,
        Origin(commit_us=9_000),
    )


def child(op: Op, row: Row) -> RowChange:
    return RowChange(
        CHILD_TABLE, op, row if op is Op.DELETE else None, None if op is Op.DELETE else row
    )


def row(key: str, v: Cell = None) -> dict[str, Cell]:
    return {"id": key, "v": v}


def partition_applier(
    loader: MemoryTarget, made: Made, dead_letters: list[DeadLetter] | None = None
) -> PartitionApplier:
    """One that knows what the target holds."""
    applier = PartitionApplier(
        TASK,
        made,
        loader,
        None,
        None if dead_letters is None else dead_letters.extend,
        read_on=made.read_on,
    )
    applier.seen = dict(loader.offsets)
    return applier


def update(key: str, v: Cell, before: Cell) -> RowChange:
    return parent(Op.UPDATE, row(key, v), row(key, before))


def filled(**held: str) -> MemoryTarget:
    loader = target()
    apply(loader, *(parent(Op.INSERT, row(key[1:], v)) for key, v in held.items()))
    return loader
