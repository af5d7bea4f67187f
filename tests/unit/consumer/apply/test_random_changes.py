"""Random histories of parents and children leave the source's rows, whatever keys forbid on the way."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from cdcbus.consumer.apply.applier import PartitionApplier, PartitionWaits
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Cell, Op, RowChange, TableId
from tests.support.stand_ins.memory_target import ForeignKey, MemoryTarget
from tests.unit.consumer.apply.applying import (
    ALONE,
    CHILD_TABLE,
    CHILDREN,
    PARENT_TABLE,
    PARENTS,
    PARTITION,
    TASK,
    Made,
    child,
    folding_target,
    parent,
    row,
    target,
)

# Three that some collations take for equal.
KEYS = ("a", "b", "A", "\u00e4")


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
    st.sampled_from([target, folding_target]),
)
def test_batches_of_any_size_leave_the_source_s_rows_whatever_its_keys_forbid_on_the_way(
    source: Source,
    cuts: list[int],
    weights: dict[str, int],
    merge: bool,
    is_deferred: bool,
    make_target: Callable[..., MemoryTarget],
) -> None:
    loader = make_target(foreign_keys=FOREIGN, is_deferred=is_deferred)
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
                KEYS.index((part.before or part.after or {})["id"])
                * (1 if part.table is PARENT_TABLE else 3)
                % count
            ].append(part)
    loader, made = (
        target(foreign_keys=FOREIGN, is_deferred=is_deferred),
        [Made(*changes, partition=number) for number, changes in enumerate(partitions)],
    )
    appliers = [PartitionApplier(TASK, each, loader, read_on=each.read_on) for each in made]
    names = [TopicPartition(PARTITION.topic, number) for number in range(count)]
    at = [0] * count

    def apply_some(partition: int, most: int) -> bool:
        applier, begin = appliers[partition], at[partition]
        applier.seen = dict(loader.offsets)
        end = min(begin + most, len(partitions[partition]))
        try:
            applier.apply(names[partition], made[partition].records[begin:end], end, 5)
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
