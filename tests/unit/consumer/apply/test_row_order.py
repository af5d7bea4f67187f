from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial

import pytest

from cdcbus.consumer.apply.placing import Placing, choices_of
from cdcbus.consumer.apply.row_order import NEAR_MS, is_older, newest, version_of
from cdcbus.consumer.merge.mapped_change import MappedChange
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.plugins.contracts import (
    Counts,
    KnownRow,
    RowVersion,
    TableBatch,
    TargetColumn,
    TargetTable,
)
from cdcbus.plugins.errors import RowConflict, TargetUnavailable
from cdcbus.plugins.rowchange import Column, Op, Origin, RowChange, Table, TableId
from cdcbus.plugins.transform.mapper import Mapper

MOVES = Table(
    TableId("shop", "moves"), (Column("id"), Column("Part"), Column("grp")), ("id", "Part")
)
TARGET = TargetTable(
    TableId("shop", "moves"),
    {name: TargetColumn(name, "int") for name in ("id", "Part", "grp")},
    ("id", "Part"),
)
[ROUTE] = Mapper(()).routes(MOVES.id)
PLAN = ROUTE.plan(MOVES, TARGET)


def change(op: Op = Op.INSERT, row: int = 0, **cells: str) -> RowChange:
    image = {"id": "1", "Part": "2", "grp": "g", **cells}
    return RowChange(
        MOVES,
        op,
        image if op is Op.DELETE else None,
        None if op is Op.DELETE else image,
        Origin("b.000002", 4),
        row,
    )


def version(file: str, pos: int, second: int, came_ms: int, op: Op = Op.INSERT) -> RowVersion:
    image = {"id": "1"}
    origin = Origin(file, pos, commit_us=second * 1_000_000)
    made = RowChange(
        MOVES, op, image if op is Op.DELETE else None, None if op is Op.DELETE else image, origin
    )
    return version_of(MappedChange(0, PLAN, made, (), came_ms))


FIRST = version("b.000009", 900, 5, 1000)


@pytest.mark.parametrize(
    ("later", "why"),
    [
        (version("b.000009", 901, 5, 0), "the place, when clocks agree, whatever came first"),
        (version("b.000010", 4, 6, 0), "the file's number"),
        (
            version("b.000009", 901, 4, 1000 + NEAR_MS),
            "the place, when the source's clock tells when a statement began",
        ),
        (
            version("b.000001", 4, 9, 1001 + NEAR_MS),
            "when it came, after another server has taken over",
        ),
        (version("", 0, 9, 1001), "when it came, where the place is not known"),
    ],
)
def test_a_change_is_older_than_what_came_after_it(later: RowVersion, why: str) -> None:
    assert is_older(FIRST, later), why
    assert not is_older(later, FIRST), why


def test_a_change_is_not_older_than_itself_and_a_delete_comes_before_its_insert() -> None:
    assert not is_older(FIRST, FIRST)
    assert is_older(version("b.000009", 900, 5, 1000, Op.DELETE), FIRST)
    assert is_older(RowVersion(), FIRST)


@pytest.mark.parametrize(
    ("key", "is_by_key"),
    [
        (b"1_2_", True),
        (b"2_", True),
        (b"1_", True),
        (b"", True),
        (b"2_1_", False),
        (b"g_", False),
        (None, False),
        (b'{"id":1,"Part":2}', True),
        (b'{"payload":{"Part":2}}', True),
        (b'{"database":"shop","table":"moves","pk.id":1}', True),
        (b'{"grp":"g"}', False),
        (b"{", False),
    ],
)
def test_a_row_stays_in_its_partition_where_the_record_key_is_of_its_key_alone(
    key: bytes | None, is_by_key: bool
) -> None:
    assert Placing().is_row_by_key(PLAN, key, change()) == is_by_key


def test_a_key_that_is_of_one_part_and_then_of_another_is_none() -> None:
    placing = Placing()
    assert placing.is_row_by_key(PLAN, b"1_", change())
    assert not placing.is_row_by_key(PLAN, b"2_", change())


def test_the_names_of_key_columns_are_sorted_as_porter_does() -> None:
    assert choices_of(("id", "Part")) == [("id", "Part"), ("id",), ("Part",), ()]


@dataclass
class Racing:
    """A transaction at an Oracle, whose MERGE refuses a key that another transaction has just
    inserted: so often, for these keys. All versions there are `newer`, of the year 2100."""

    refusals: dict[tuple[str | None, ...], int]
    newer: RowVersion = field(default_factory=partial(RowVersion, 4_102_444_800_000))
    written: list[TableBatch] = field(default_factory=list)

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        yield

    def may_be_freed(self, tables: Collection[TableId]) -> None:
        pass

    def row_versions(
        self, versions: TargetTable, keys: Sequence[tuple[str | None, ...]]
    ) -> list[KnownRow]:
        for key in keys:
            if self.refusals.get(key):
                self.refusals[key] -= 1
                raise RowConflict("ORA-00001: unique constraint (SHOP.SYS_C1) violated")
        return [KnownRow(repr(key), self.newer) for key in keys]

    def write(self, batch: TableBatch) -> Counts:
        self.written.append(batch)
        return Counts()


def left_of(transaction: Racing, *steps: MappedChange) -> tuple[int, int]:
    """How many steps are not too old, and how many are counted as superseded."""
    report = BatchReport()
    versions = {TARGET.id: TARGET}
    kept, _ = newest(transaction, [*steps], versions, report, lambda *_: False)  # type: ignore[arg-type]
    return len(kept), report.table(TARGET.id).superseded


def step(number: int) -> MappedChange:
    return MappedChange(number, PLAN, change(id=str(number)), (), 1000)


@pytest.mark.parametrize("count", [1, 3])
def test_a_version_that_another_transaction_has_just_inserted_is_found(count: int) -> None:
    steps = [step(number) for number in range(count)]
    transaction = Racing({("0", "2"): 1})
    assert left_of(transaction, *steps) == (0, count)
    assert not transaction.written


def test_a_row_whose_version_is_not_found_is_not_written_without_one() -> None:
    with pytest.raises(TargetUnavailable, match="adds the same row"):
        left_of(Racing({("1", "2"): 99}), step(0), step(1))


def test_the_steps_of_a_record_stay_in_order_whatever_tables_have_versions() -> None:
    transaction = Racing({}, newer=RowVersion())
    plans = []
    versions = {}
    for name in ("z", "plain", "a"):
        other = replace(TARGET, id=TableId("shop", name))
        plans.append(replace(PLAN, target=other))
        if name != "plain":
            versions[other.id] = other
    steps = [step(0)._replace(plan=plan, offset=7) for plan in (*plans, plans[0])]
    kept, _ = newest(transaction, steps, versions, BatchReport(), lambda *_: False)  # type: ignore[arg-type]
    assert [each.plan.target.id.table for each in kept] == ["z", "plain", "a", "z"]
    assert [each.stands_for_row for each in kept] == [True, False, True, True]
