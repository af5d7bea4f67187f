"""What a partition leaves in the target: on one in memory, with unique keys and foreign keys."""

from __future__ import annotations

import itertools
import logging
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcbus.consumer.apply import lookahead
from cdcbus.consumer.apply.applier import PartitionApplier, PartitionWaits
from cdcbus.consumer.config import LoadTask, SchemaChange, TopicConfig
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.consumer.records.records import Record
from cdcbus.plugins.contracts import AppliedOffset, JdbcTarget, TargetColumn, TargetTable
from cdcbus.plugins.errors import (
    BusUnavailable,
    ConversionError,
    DataError,
    OffsetConflict,
    RowConflict,
    TargetRejected,
    TargetUnavailable,
    UnmappedColumn,
)
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Cell, Column, Op, Origin, Row, RowChange, Table, TableId
from cdcbus.plugins.transform.processor import Processor
from cdcbus.plugins.transform.rules import MapperRule
from tests.support.memory_target import ForeignKey, MemoryTarget
from tests.support.records import records_of

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


class Made:
    """A converter whose records are numbers of changes that were made beforehand."""

    def __init__(self, *records: RowChange | list[RowChange] | Exception) -> None:
        self.made = records
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
        assert partition == PARTITION
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


# Unique keys and foreign keys, against the source itself

KEYS = ("1", "2", "3", "4")
VALUES = (None, "x", "y", "z")
KINDS = ("put", "move", "delete", "child", "child", "orphan", "truncate")


class Source:
    """Two tables of a source that keeps its unique key and its foreign key at every row, and the
    changes that it logs."""

    def __init__(self) -> None:
        self.parents: dict[str, dict[str, Cell]] = {}
        self.children: dict[str, dict[str, Cell]] = {}
        self.changes: list[RowChange] = []

    def step(self, draw: st.DrawFn, kinds: Sequence[str]) -> None:
        key, v = draw(st.sampled_from(KEYS)), draw(st.sampled_from(VALUES))
        kind = draw(st.sampled_from(kinds))
        held = {each["v"] for other, each in self.parents.items() if other != key}
        named = {each["parent"] for each in self.children.values()}
        if kind == "put" and (v is None or v not in held):
            self._log(
                parent(
                    Op.UPDATE if key in self.parents else Op.INSERT,
                    row(key, v),
                    self.parents.get(key),
                )
            )
            self.parents[key] = row(key, v)
        elif kind == "move" and key in self.parents and key not in named:
            free = draw(
                st.sampled_from([key, *(other for other in KEYS if other not in self.parents)])
            )
            moved = row(free, self.parents[key]["v"])
            self._log(parent(Op.UPDATE, moved, self.parents.pop(key)))
            self.parents[free] = moved
        elif kind == "delete" and key in self.parents and key not in named:
            self._log(parent(Op.DELETE, self.parents.pop(key)))
        elif kind == "child" and key in self.parents:
            number = draw(st.sampled_from(KEYS))
            new: dict[str, Cell] = {"id": number, "parent": key}
            old = self.children.get(number)
            self._log(RowChange(CHILD_TABLE, Op.UPDATE if old else Op.INSERT, old, new))
            self.children[number] = new
        elif kind == "orphan" and key in self.children:
            self._log(child(Op.DELETE, self.children.pop(key)))
        elif kind == "truncate" and not self.children:
            self._log(RowChange(PARENT_TABLE, Op.TRUNCATE, None, None))
            self.parents.clear()

    def _log(self, change: RowChange) -> None:
        self.changes.append(change)

    def rows(self) -> dict[TableId, object]:
        return {
            PARENTS: {(key,): each for key, each in self.parents.items()},
            CHILDREN: {(key,): each for key, each in self.children.items()},
        }


@st.composite
def histories(draw: st.DrawFn, kinds: Sequence[str] = KINDS) -> Source:
    source = Source()
    for _ in range(draw(st.integers(0, 25))):
        source.step(draw, kinds)
    return source


FOREIGN = (ForeignKey(CHILDREN, "parent", PARENTS),)


@settings(max_examples=300, deadline=None)
@given(
    histories(),
    st.lists(st.integers(1, 25), max_size=3),
    st.sampled_from([{}, {"PARENTS": 1, "SHOP.CHILDREN": 2}]),
    st.booleans(),
    st.booleans(),
)
def test_batches_of_any_size_leave_the_source_s_rows_whatever_its_keys_forbid_on_the_way(
    source: Source, cuts: list[int], weights: dict[str, int], merge: bool, is_deferred: bool
) -> None:
    loader = target(foreign_keys=FOREIGN, is_deferred=is_deferred)
    made = Made(*source.changes)
    applier = PartitionApplier(replace(TASK, weights=weights, merge=merge), made, loader)
    edges = [0, *sorted(cut for cut in cuts if cut < len(source.changes)), len(source.changes)]
    for start, end in itertools.pairwise(edges):
        applier.apply(PARTITION, made.records[start:end], end, 5)
    assert loader.rows == source.rows()


@settings(max_examples=200, deadline=None)
@given(histories(), st.data())
def test_changes_of_rows_with_unique_values_may_come_again(
    source: Source, data: st.DataObject
) -> None:
    changes = [change for change in source.changes if change.table is PARENT_TABLE]
    loader, made = target(), Made(*changes)
    applier = PartitionApplier(TASK, made, loader, read_on=made.read_on)
    applier.apply(
        PARTITION, made.records[: (end := data.draw(st.integers(0, len(changes))))], end, 5, ALONE
    )
    for begin in (0, data.draw(st.integers(0, len(changes)))):
        size = data.draw(st.integers(1, 9))
        for at in range(begin, len(changes), size):
            applier.apply(
                PARTITION, made.records[at : at + size], min(at + size, len(changes)), 5, ALONE
            )
    assert loader.rows[PARENTS] == source.rows()[PARENTS]


@settings(max_examples=200, deadline=None)
@given(
    st.booleans().flatmap(lambda has_children: histories(KINDS[: -1 if has_children else 3])),
    st.integers(1, 4),
    st.booleans(),
    st.data(),
)
def test_partitions_that_are_applied_in_any_order_and_come_again_wait_for_each_other(
    source: Source, count: int, is_deferred: bool, data: st.DataObject
) -> None:
    """Each row in its partition, as the key says; a change of the key in two."""
    partitions = [list[RowChange]() for _ in range(count)]
    for change in source.changes:
        for part in split(change):
            partitions[
                int((part.before or part.after or {})["id"] or 0)
                * (1 if part.table is PARENT_TABLE else 3)
                % count
            ].append(part)
    loader, made = (
        target(foreign_keys=FOREIGN, is_deferred=is_deferred),
        [Made(*changes) for changes in partitions],
    )
    appliers = [PartitionApplier(TASK, each, loader, read_on=each.read_on) for each in made]
    at = [0] * count

    def apply_some(partition: int, most: int) -> bool:
        applier, begin = appliers[partition], at[partition]
        applier.seen = dict(loader.offsets)
        end = min(begin + most, len(partitions[partition]))
        try:
            applier.apply(PARTITION, made[partition].records[begin:end], end, 5)
            at[partition] = end
        except PartitionWaits as waiting:
            assert begin <= waiting.end < end
            at[partition] = waiting.end
        return at[partition] > begin

    for partition, most in data.draw(
        st.lists(st.tuples(st.integers(0, count - 1), st.integers(1, 9)), max_size=9)
    ):
        apply_some(partition, most)
    at = [data.draw(st.integers(0, reached)) for reached in at]
    while any(reached < len(changes) for reached, changes in zip(at, partitions, strict=True)):
        most = data.draw(st.integers(1, 9))
        got_on = [
            apply_some(partition, most) for partition in data.draw(st.permutations(range(count)))
        ]
        assert any(got_on), "they wait for each other"
    assert loader.rows == source.rows()


def split(change: RowChange) -> list[RowChange]:
    """As a fetch task sends a change of the key."""
    before, after = change.before, change.after
    if before is None or after is None or before["id"] == after["id"]:
        return [change]
    return [
        RowChange(change.table, Op.DELETE, before, None),
        RowChange(change.table, Op.INSERT, None, after),
    ]


@settings(max_examples=100, deadline=None)
@given(histories(), st.sets(st.integers(0, 24), max_size=4))
def test_exactly_the_records_that_are_refused_become_dead_letters(
    source: Source, bad: set[int]
) -> None:
    """Refused rows are put between those of a history, under keys of their own; before a
    truncate they would not be written at all."""
    last_truncate = max(
        (number for number, change in enumerate(source.changes) if change.op is Op.TRUNCATE),
        default=-1,
    )
    records: list[RowChange] = []
    wrong = []
    for number, change in enumerate(source.changes):
        if number in bad and number > last_truncate:
            wrong.append(len(records))
            records.append(parent(Op.INSERT, row(f"bad{number}", "refused")))
        records.append(change)
    loader, made, dead_letters = (
        target(refused=frozenset({"refused"})),
        Made(*records),
        list[DeadLetter](),
    )
    report = PartitionApplier(TASK, made, loader, put_dead_letters=dead_letters.extend).apply(
        PARTITION, made.records, len(records), 5
    )
    assert sorted(dead_letter.offset for dead_letter in dead_letters) == wrong
    assert loader.rows == source.rows()
    assert sum(each.failed for each in report.tables.values()) == len(wrong)
    assert sum(each.rows for each in report.tables.values()) == len(records)


# Order


def test_light_tables_are_written_first_and_heavy_ones_deleted_from_first() -> None:
    changes = [
        child(Op.INSERT, {"id": "1", "parent": "1"}), parent(Op.INSERT, row("1")), parent(Op.DELETE, row("9")),
        child(Op.DELETE, {"id": "9", "parent": "9"}),
    ]  # fmt: skip
    loader = target()
    apply(loader, *changes, task=replace(TASK, weights={"SHOP.PARENTS": 1, "CHILDREN": 2}))
    assert loader.statements == ["-children", "-parents", "parents", "children"]


def test_without_merging_each_change_is_written_by_itself_in_order() -> None:
    loader = target()
    changes = [
        parent(Op.INSERT, row("1", "a")),
        child(Op.INSERT, {"id": "1", "parent": "1"}),
        parent(Op.UPDATE, row("1", "b"), row("1", "a")),
    ]
    apply(loader, *changes, task=replace(TASK, merge=False))
    assert loader.statements == ["parents", "children", "parents"]
    loader = target(is_merging=False)
    apply(loader, *changes)
    assert loader.statements == ["parents", "children", "parents"]


# What cannot be applied


def test_a_refused_row_stops_with_its_record_and_changes_nothing() -> None:
    loader = target(refused=frozenset({"refused"}))
    with pytest.raises(
        TargetRejected, match=r"^record shop\[0\]@1: table shop\.parents: a cell does not fit$"
    ):
        apply(loader, parent(Op.INSERT, row("1")), parent(Op.INSERT, row("2", "refused")))
    assert (loader.rows[PARENTS], loader.offsets) == ({}, {})


def test_a_record_that_cannot_be_read_is_named_or_becomes_a_dead_letter() -> None:
    loader, made, dead_letters = (
        target(),
        Made(ConversionError("no JSON"), parent(Op.INSERT, row("1"))),
        list[DeadLetter](),
    )
    with pytest.raises(ConversionError, match=r"^record shop\[0\]@0: no JSON$"):
        PartitionApplier(TASK, made, loader).apply(PARTITION, made.records, 2, 5)
    report = PartitionApplier(TASK, made, loader, put_dead_letters=dead_letters.extend).apply(
        PARTITION, made.records, 2, 5
    )
    assert dead_letters == [DeadLetter("shop", 0, 0, "no JSON")]
    assert (report.unread, list(loader.rows[PARENTS])) == (1, [("1",)])


def test_a_record_of_several_rows_is_applied_whole_or_not_at_all() -> None:
    loader, dead_letters = target(refused=frozenset({"refused"})), list[DeadLetter]()
    made = Made(
        [parent(Op.INSERT, row("1")), parent(Op.INSERT, row("2", "refused"))],
        parent(Op.INSERT, row("3")),
    )
    PartitionApplier(TASK, made, loader, put_dead_letters=dead_letters.extend).apply(
        PARTITION, made.records, 2, 5
    )
    assert [dead_letter.offset for dead_letter in dead_letters] == [0]
    assert list(loader.rows[PARENTS]) == [("3",)]


def test_nothing_is_committed_unless_the_dead_letters_are_put() -> None:
    def away(_: Sequence[DeadLetter]) -> None:
        raise BusUnavailable("no broker answers")

    loader, made = target(), Made(ConversionError("no JSON"), parent(Op.INSERT, row("1")))
    with pytest.raises(BusUnavailable):
        PartitionApplier(TASK, made, loader, put_dead_letters=away).apply(
            PARTITION, made.records, 2, 5
        )
    assert (loader.rows[PARENTS], loader.offsets) == ({}, {})


def test_a_dry_run_goes_on_past_what_would_become_a_dead_letter_and_puts_none(
    caplog: pytest.LogCaptureFixture,
) -> None:
    without_key = RowChange(PARENT_TABLE, Op.INSERT, None, {"v": "secret"})
    made = Made(
        ConversionError("no JSON"),
        parent(Op.INSERT, row("1")),
        without_key,
        parent(Op.INSERT, row("2")),
    )
    loader, dead_letters = target(is_dry_run=True), list[DeadLetter]()
    report = PartitionApplier(TASK, made, loader, put_dead_letters=dead_letters.extend).apply(
        PARTITION, made.records, 4, 5
    )
    assert (dead_letters, list(loader.rows[PARENTS])) == ([], [("1",), ("2",)])
    assert (report.unread, report.tables[PARENTS].failed) == (1, 1)
    unread, refused = (
        record.getMessage() for record in caplog.records if record.levelno == logging.WARNING
    )
    assert unread == "task 7: record shop/0/0 would become a dead letter: no JSON"
    assert refused.startswith("task 7: record shop/0/2 would become a dead letter: ")
    assert "secret" not in caplog.text


def test_a_dry_run_of_a_task_that_is_to_stop_stops() -> None:
    made = Made(parent(Op.INSERT, row("1")), ConversionError("no JSON"))
    with pytest.raises(ConversionError, match=r"^record shop\[0\]@1: no JSON$"):
        PartitionApplier(TASK, made, target(is_dry_run=True)).apply(PARTITION, made.records, 2, 5)


def test_what_another_row_blocks_and_no_later_change_replaces_is_refused_where_no_other_partition_can() -> (
    None
):
    loader = target()
    apply(loader, parent(Op.INSERT, row("1", "x")))
    with pytest.raises(RowConflict, match=r"^record shop\[0\]@0: "):
        apply(loader, parent(Op.INSERT, row("2", "x")))
    assert loader.rows[PARENTS] == {("1",): row("1", "x")}


NO_INSERT = replace(TASK, insert_on_update_error=False)


def test_an_insert_that_is_blocked_is_not_lost_where_updates_may_not_insert() -> None:
    loader = target()
    apply(loader, parent(Op.INSERT, row("8", "y")), parent(Op.INSERT, row("9", "x")))
    changes = [parent(Op.INSERT, row("1", "x")), parent(Op.UPDATE, row("1", "y"), row("1", "x"))]
    later = parent(Op.UPDATE, row("1", "z"), row("1", "y"))
    made = Made(*changes, later)
    applier = PartitionApplier(NO_INSERT, made, loader, read_on=made.read_on)
    applier.seen = dict(loader.offsets)
    report = applier.apply(PARTITION, made.records[:2], 2, 5, ALONE)
    assert (loader.rows[PARENTS]["1",], report.tables[PARENTS].superseded) == (row("1", "z"), 2)


@pytest.mark.parametrize("merge", [True, False])
def test_changes_of_a_row_within_a_record_stay_in_order_though_the_first_is_blocked(
    merge: bool,
) -> None:
    loader = target()
    apply(loader, parent(Op.INSERT, row("9", "x")))
    record = [parent(Op.INSERT, row("1", "x")), parent(Op.UPDATE, row("1", "y"), row("1", "x"))]
    made = Made(record)
    applier = PartitionApplier(replace(NO_INSERT, merge=merge), made, loader)
    applier.seen = dict(loader.offsets)
    applier.apply(PARTITION, made.records, 1, 5, ALONE)
    assert loader.rows[PARENTS] == {("1",): row("1", "y"), ("9",): row("9", "x")}


def test_a_record_is_refused_whole_with_one_letter_though_its_other_rows_were_applied_before_that_was_known() -> (
    None
):
    loader, dead_letters = target(), list[DeadLetter]()
    apply(loader, parent(Op.INSERT, row("9", "x")), parent(Op.INSERT, row("8", "y")))
    made = Made(
        [
            parent(Op.INSERT, row("1", "a")),
            parent(Op.INSERT, row("2", "x")),
            parent(Op.INSERT, row("3", "y")),
        ],
        parent(Op.INSERT, row("4")),
    )
    applier = PartitionApplier(TASK, made, loader, None, dead_letters.extend)
    applier.seen = dict(loader.offsets)
    report = applier.apply(PARTITION, made.records, 2, 5, ALONE).tables[PARENTS]
    assert ([dead_letter.offset for dead_letter in dead_letters], sorted(loader.rows[PARENTS])) == (
        [0],
        [("4",), ("8",), ("9",)],
    )
    assert (report.rows, report.failed, report.inserted) == (4, 3, 1)


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


def test_rows_that_exchange_values_need_no_third_one() -> None:
    """Their own third one was taken by a row of another partition, which is ahead."""
    loader, made = (
        filled(_1="u", _5="z", _9="y"),
        Made(update("1", "y", "u"), update("5", "u", "z"), update("1", "z", "y")),
    )
    partition_applier(loader, made).apply(PARTITION, made.records, 3, 5)
    assert {key: each["v"] for (key,), each in loader.rows[PARENTS].items()} == {
        "1": "z",
        "5": "u",
        "9": "y",
    }


def test_a_blocked_change_is_not_refused_for_the_fault_of_the_next_one_of_its_row() -> None:
    loader, dead_letters = filled(_9="x"), list[DeadLetter]()
    loader.refused = frozenset({"refused"})
    made = Made(
        parent(Op.INSERT, row("1", "x")),
        update("1", "refused", "x"),
        parent(Op.DELETE, row("9", "x")),
    )
    partition_applier(loader, made, dead_letters).apply(PARTITION, made.records, 3, 5, ALONE)
    assert ([dead_letter.offset for dead_letter in dead_letters], loader.rows[PARENTS]) == (
        [1],
        {("1",): row("1", "x")},
    )


def test_what_a_change_held_and_has_brought_does_not_keep_the_partition_from_its_place() -> None:
    loader = filled(_9="x", _8="w")
    changes = ("1", "x"), ("3", "y"), ("5", "t")
    made = Made(
        *(parent(Op.INSERT, row(*each)) for each in changes),
        update("1", "q", "x"),
        *(parent(Op.INSERT, row(*each)) for each in (("7", "s"), ("4", "w"))),
    )
    with pytest.raises(PartitionWaits) as waits:
        partition_applier(loader, made).apply(PARTITION, made.records, 6, 5)
    assert (waits.value.end, ("7",) in loader.rows[PARENTS]) == (5, True)


def test_a_look_ahead_knows_from_which_offset_on_it_has_looked() -> None:
    """The second batch is smaller than the first one, which waited."""
    loader = filled(_9="x", _8="y")
    made = Made(
        *(parent(Op.INSERT, row(*each)) for each in (("1", "x"), ("5", "e"))),
        update("1", "y", "x"),
        parent(Op.INSERT, row("6", "f")),
    )
    applier = partition_applier(loader, made)
    with pytest.raises(PartitionWaits):
        applier.apply(PARTITION, made.records, 4, 5)
    assert applier.apply(PARTITION, made.records[:2], 2, 5, ALONE).tables[PARENTS].superseded == 1


def test_a_later_change_is_found_however_far_it_is_and_whoever_else_asks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lookahead, "MOST_BYTES", 2)
    monkeypatch.setattr(lookahead, "LOOK_SECONDS", -1.0)
    loader = target()
    apply(loader, parent(Op.INSERT, row("8", "y")), parent(Op.INSERT, row("9", "x")))
    between = [parent(Op.INSERT, row(str(number))) for number in range(10, 30)]
    last = (
        parent(Op.UPDATE, row("1", "a"), row("1", "x")),
        parent(Op.UPDATE, row("2", "b"), row("2", "y")),
    )
    made = Made(
        parent(Op.INSERT, row("7")),
        parent(Op.INSERT, row("1", "x")),
        parent(Op.INSERT, row("2", "y")),
        *between,
        *last,
    )
    applier, end, waits = PartitionApplier(TASK, made, loader, read_on=made.read_on), 0, 0
    applier.seen = dict(loader.offsets)
    while end < 3:
        try:
            applier.apply(PARTITION, made.records[end:3], 3, 5, ALONE)
            end = 3
        except PartitionWaits as waiting:
            end, waits = waiting.end, waits + 1
            assert (end, waits) <= (1, 99)
    assert (sorted(loader.rows[PARENTS]), waits > 9) == (
        [("1",), ("2",), ("7",), ("8",), ("9",)],
        True,
    )


def test_a_refused_row_has_all_tables_of_its_batch_looked_at_again() -> None:
    loader, dead_letters = target(refused=frozenset({"bad"})), list[DeadLetter]()
    made = Made(parent(Op.INSERT, row("1", "bad")), child(Op.INSERT, {"id": "1", "parent": None}))
    applier = PartitionApplier(TASK, made, loader, None, dead_letters.extend)
    write = applier.prepare(PARTITION, made.records)
    before, loader.tables[CHILDREN] = (
        loader.tables[CHILDREN],
        table(CHILDREN, "id", "parent", "new"),
    )
    with pytest.raises(
        TargetUnavailable, match=r"^target table shop\.children has been altered meanwhile"
    ):
        write(2, 5, 0, False)
    assert (dead_letters, loader.rows[CHILDREN]) == ([], {})
    loader.tables[CHILDREN] = before
    write(2, 5, 0, False)
    assert ([dead_letter.offset for dead_letter in dead_letters], list(loader.rows[CHILDREN])) == (
        [0],
        [("1",)],
    )


def test_a_column_that_the_target_lacks_is_looked_for_again_next_time() -> None:
    wide = Table(PARENTS, (*PARENT_TABLE.columns, Column("new", "int")), ("id",))
    change = RowChange(wide, Op.INSERT, None, {**row("1"), "new": "5"})
    loader, made, dead_letters = target(), Made(change), list[DeadLetter]()
    applier = PartitionApplier(TASK, made, loader, put_dead_letters=dead_letters.extend)
    with pytest.raises(
        UnmappedColumn, match=r'ALTER TABLE "shop"\."parents" ADD COLUMN "new" integer'
    ):
        applier.apply(PARTITION, made.records, 1, 5)
    # no dead letter: the column may come
    assert (loader.refreshed, dead_letters) == ([PARENTS], [])
    loader.tables[PARENTS] = table(PARENTS, "id", "v", "new")
    applier.apply(PARTITION, made.records, 1, 5)
    assert loader.rows[PARENTS] == {("1",): {"id": "1", "v": None, "new": "5"}}


@pytest.mark.parametrize(
    "task",
    [
        replace(TASK, schema_change=SchemaChange.IGNORE),
        replace(TASK, rules=(MapperRule(force_matched=False),)),
    ],
)
def test_a_dropped_column_is_counted_and_told_once(
    task: LoadTask, caplog: pytest.LogCaptureFixture
) -> None:
    wide = Table(PARENTS, (*PARENT_TABLE.columns, Column("new", "int")), ("id",))
    changes = [RowChange(wide, Op.INSERT, None, {**row(key), "new": "5"}) for key in KEYS]
    with caplog.at_level(logging.WARNING):
        report = apply(target(), *changes, task=task)
    assert (report.tables[PARENTS].dropped, len(caplog.records)) == (4, 1)
    assert (
        caplog.messages[0] == "task 7: shop.parents lacks columns of shop.parents: new are dropped"
    )


# Ways


def test_one_source_table_may_go_to_several_targets() -> None:
    copy = TableId("shop", "copies")
    loader = target()
    loader.tables[copy] = table(copy, "id", "v")
    loader.rows[copy] = {}
    rules = (MapperRule(table=("parents", "parents")), MapperRule(table=("parents", "copies")))
    report = apply(loader, parent(Op.INSERT, row("1", "x")), task=replace(TASK, rules=rules))
    assert loader.rows[copy] == loader.rows[PARENTS] == {("1",): row("1", "x")}
    assert {name: each.rows for name, each in report.tables.items()} == {PARENTS: 1, copy: 1}


def shard(number: int) -> Table:
    return Table(TableId("shop", f"parents_{number}"), PARENT_TABLE.columns, ("id",))


def test_sharded_tables_are_merged_into_one() -> None:
    loader = target()
    rules = (MapperRule(table=("parents_[0-9]+", "parents")),)
    apply(
        loader,
        *(RowChange(shard(n), Op.INSERT, None, row(str(n))) for n in range(3)),
        task=replace(TASK, rules=rules),
    )
    assert list(loader.rows[PARENTS]) == [("0",), ("1",), ("2",)]


@pytest.mark.parametrize(
    ("name", "includes"),
    [
        ("parents_[0-9]+", frozenset[str]()),
        ("parents_1", frozenset({"SHOP.PARENTS", "SHOP.PARENTS_0", "SHOP.PARENTS_1"})),
    ],
)
def test_a_truncate_of_a_shard_does_not_empty_what_others_share(
    name: str, includes: frozenset[str]
) -> None:
    loader = target(rows={PARENTS: {("0",): row("0")}})
    task = replace(TASK, rules=(MapperRule(table=(name, "parents")),), includes=includes)
    with pytest.raises(
        DataError,
        match=r"TRUNCATE of shop\.parents_1: target table shop\.parents holds rows of other "
        r"source tables too",
    ):
        apply(loader, RowChange(shard(1), Op.TRUNCATE, None, None), task=task)
    assert list(loader.rows[PARENTS]) == [("0",)]


def test_an_event_processor_sees_wanted_rows_before_mapping_and_changes_adds_or_leaves_them_out() -> (
    None
):
    def process(change: RowChange) -> list[RowChange]:
        assert change.table.id == PARENTS
        if change.after is None or change.after["id"] == "2":
            return []
        made = RowChange(
            change.table, change.op, change.before, {**change.after, "v": "made"}, change.origin
        )
        return [made, child(Op.INSERT, {"id": "9", "parent": "1"})]

    loader = target()
    changes = [
        parent(Op.INSERT, row("1")),
        parent(Op.INSERT, row("2")),
        child(Op.INSERT, {"id": "1", "parent": "1"}),
    ]
    apply(
        loader, *changes, task=replace(TASK, excludes=frozenset({"SHOP.CHILDREN"})), process=process
    )
    assert loader.rows == {
        PARENTS: {("1",): row("1", "made")},
        CHILDREN: {("9",): {"id": "9", "parent": "1"}},
    }


# Counters


def test_a_report_counts_what_happened_at_the_source_and_what_the_target_missed() -> None:
    changes = [
        parent(Op.INSERT, row("1", "a")), parent(Op.UPDATE, row("1", "b"), row("1", "a")), parent(Op.DELETE, row("8")),
        parent(Op.UPDATE, row("9", "c"), row("9")), child(Op.INSERT, {"id": "1", "parent": "1"}),
    ]  # fmt: skip
    report = apply(target(), *changes, task=replace(TASK, insert_on_update_error=False))
    counted = report.tables[PARENTS]
    assert (counted.rows, counted.inserted, counted.updated, counted.deleted, counted.missed) == (
        4,
        1,
        2,
        1,
        2,
    )
    assert (report.records, report.tables[CHILDREN].inserted, report.last_commit_ms) == (5, 1, 9)
    total = BatchReport()
    for _ in range(2):
        total.add(report)
    assert (total.records, total.tables[PARENTS].updated) == (10, 4)
    assert str(report).startswith("5 records (decode ")
    assert "shop.parents 4 rows (1 inserted, 2 updated, 1 deleted, 2 missed, merge " in str(report)


@pytest.mark.parametrize("merge", [True, False])
def test_an_update_that_becomes_an_insert_is_missed(merge: bool) -> None:
    changes = [
        parent(Op.INSERT, row("1", "a")), parent(Op.UPDATE, row("1", "b"), row("1", "a")), parent(Op.UPDATE, row("8", "c"), row("8")),
        parent(Op.UPDATE, row("9", "d"), row("9")), parent(Op.UPDATE, row("7", "d"), row("9", "d")),
    ]  # fmt: skip
    loader = target(rows={PARENTS: {("8",): row("8")}})
    assert apply(loader, *changes, task=replace(TASK, merge=merge)).tables[PARENTS].missed == 1
    assert set(loader.rows[PARENTS]) == {("1",), ("8",), ("7",)}
    born = [
        parent(Op.TRUNCATE, None),
        parent(Op.INSERT, row("8", "a")),
        parent(Op.DELETE, row("8", "a")),
        parent(Op.INSERT, row("8", "b")),
    ]
    assert apply(target(), *born, task=replace(TASK, merge=merge)).tables[PARENTS].missed == 0


@pytest.mark.parametrize("merge", [True, False])
def test_an_update_of_a_row_that_the_batch_has_deleted_is_missed_where_it_may_not_insert(
    merge: bool,
) -> None:
    loader = target()
    changes = (
        parent(Op.INSERT, row("1")),
        parent(Op.DELETE, row("1")),
        parent(Op.UPDATE, row("1", "a"), row("1")),
    )
    counted = apply(
        loader, *changes, task=replace(TASK, insert_on_update_error=False, merge=merge)
    ).tables[PARENTS]
    assert (loader.rows[PARENTS], counted.updated, counted.missed) == ({}, 1, 1)


def test_a_row_that_comes_and_goes_within_a_batch_is_not_missed() -> None:
    came, gone = parent(Op.INSERT, row("1", "a")), parent(Op.DELETE, row("1"))
    assert apply(target(), came, gone).tables[PARENTS].missed == 0
    assert apply(target(), came, gone, parent(Op.DELETE, row("2"))).tables[PARENTS].missed == 1
    # it should have been there
    assert apply(target(), gone, came, gone).tables[PARENTS].missed == 1
    moved = parent(Op.UPDATE, row("3", "a"), row("1"))
    assert apply(target(), came, moved, parent(Op.DELETE, row("3"))).tables[PARENTS].missed == 0


OTHER = TopicPartition("shop", 1)


def taken_over(loader: MemoryTarget) -> tuple[PartitionApplier, Made]:
    """An applier that has taken two partitions over, and looked once."""
    made = Made(parent(Op.INSERT, row("1", "a")))
    applier = PartitionApplier(TASK, made, loader)
    applier.applied_offsets()
    if not loader.is_dry_run:
        applier.take_over([AppliedOffset(*PARTITION, 5, 7), AppliedOffset(*OTHER, 5, 7)])
    applier.compare_offsets()
    return applier, made


@pytest.mark.parametrize(("there", "shown"), [(4, "4"), (6, "6"), (None, "none")])
def test_a_quiet_partition_whose_offset_at_the_target_is_another_one_is_told(
    there: int | None, shown: str
) -> None:
    loader = target()
    applier, made = taken_over(loader)
    for end in (6, 7):
        applier.apply(PARTITION, made.records, end, 7)
        applier.compare_offsets()
    held = loader.offsets.pop(OTHER)
    if there is not None:
        loader.offsets[OTHER] = replace(held, next_offset=there)
    applier.apply(PARTITION, made.records, 8, 7)
    with pytest.raises(OffsetConflict, match=rf"offset 5 of shop\[1\], but {shown}: "):
        applier.compare_offsets()


def test_a_replica_may_lag_behind_a_commit_since_the_last_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    loader = target()
    applier, made = taken_over(loader)
    at_replica = loader.applied_offsets()
    monkeypatch.setattr(loader, "applied_offsets", lambda: at_replica)
    applier.apply(PARTITION, made.records, 6, 7)
    applier.compare_offsets()
    with pytest.raises(OffsetConflict):
        applier.compare_offsets()


def test_where_every_partition_has_commits_the_target_is_not_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    applier, made = taken_over(loader := target())
    monkeypatch.delattr(MemoryTarget, "applied_offsets")
    for end in (6, 7):
        for partition in (PARTITION, OTHER):
            applier.apply(partition, made.records, end, 7)
        applier.compare_offsets()
    assert loader.offsets[OTHER].next_offset == 7


@pytest.mark.parametrize("is_dry_run", [True, False])
def test_offsets_that_the_target_does_not_keep_are_not_missed(
    monkeypatch: pytest.MonkeyPatch, is_dry_run: bool
) -> None:
    loader = target(is_dry_run=is_dry_run)
    if not is_dry_run:
        monkeypatch.setattr(loader, "fence", lambda: None)
    applier, made = taken_over(loader)
    applier.apply(PARTITION, made.records, 6, 7)
    loader.offsets.clear()
    for _ in range(3):
        applier.compare_offsets()


def test_whoever_began_before_partitions_were_taken_over_writes_nothing_any_more() -> None:
    other = TopicPartition("shop", 1)
    loader = target(offsets={PARTITION: AppliedOffset(*PARTITION, 5, 7)})
    made = Made(parent(Op.INSERT, row("1", "a")))
    late, next_ = (PartitionApplier(TASK, made, loader) for _ in range(2))
    for applier in (late, next_):
        applier.applied_offsets()
    next_.take_over([AppliedOffset(*other, 0, 9), AppliedOffset(*PARTITION, 5, 8)])
    assert sorted(loader.offsets) == [PARTITION, other]
    for partition in (PARTITION, other):
        with pytest.raises(OffsetConflict):
            late.apply(partition, made.records, 6, 7)
        next_.apply(partition, made.records, 6, 8)
