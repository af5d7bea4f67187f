"""TIMESTAMP cells become local times by columns as they do record by record."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcbus.consumer.apply import prepare
from cdcbus.consumer.apply.applier import PartitionApplier
from cdcbus.consumer.apply.decode import Decoder
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.merge import columnar
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.plugins.contracts import JdbcTarget, TargetColumn, TargetTable
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import Column, Op, Origin, RowChange, Table, TableId
from tests.support.stand_ins.memory_target import MemoryTarget
from tests.support.topics.records import records_of

PARTITION = TopicPartition("shop", 0)
ORDERS = TableId("shop", "orders")
SOURCE = Table(
    ORDERS,
    (Column("id", "int"), Column("made", "timestamp"), Column("sent", "timestamp(3)")),
    ("id",),
)
TASK = LoadTask(
    "t",
    TopicConfig("", ("shop",)),
    "canalRow",
    "JdbcBatch",
    JdbcTarget("", ""),
    target_zone="Europe/Berlin",
)
AROUND = [datetime(2024, 10, 26, 23), datetime(2024, 3, 31, 0), datetime(2024, 7, 1)]


def target(key: tuple[str, ...] = ("id",)) -> MemoryTarget:
    types = {"id": "int", "made": "datetime", "sent": "timestamp"}
    columns = {name: TargetColumn(name, type_) for name, type_ in types.items()}
    return MemoryTarget({ORDERS: TargetTable(ORDERS, columns, key, dialect="mysql")})


def history(seed: int, size: int, odd: float, around: datetime) -> list[RowChange]:
    """Changes of few rows within some hours; `odd` is how often a cell is no time."""
    dice = random.Random(seed)

    def moment() -> str | None:
        if dice.random() < odd:
            return "soon"
        if dice.random() < 0.1:
            return dice.choice([None, "0000-00-00 00:00:00"])
        return (around + timedelta(minutes=dice.randrange(300))).isoformat(" ")

    rows: dict[str, dict[str, str | None]] = {}
    changes = []
    for number in range(size):
        key = str(dice.randrange(60))
        before = rows.pop(key, None)
        after = None
        if before is None or dice.random() < 0.7:
            # of a key it does not change
            made = before["made"] if before else moment() or "2024-07-01 00:00:00"
            after = rows[key] = {"id": key, "made": made, "sent": moment()}
        op = Op.INSERT if before is None else Op.DELETE if after is None else Op.UPDATE
        changes.append(RowChange(SOURCE, op, before, after, Origin("bin.1", number)))
    return changes


def applied(
    loader: MemoryTarget, changes: list[RowChange], zone: str = "Europe/Berlin"
) -> list[tuple[int, str]]:
    """The dead letters: offset and reason."""
    task = replace(TASK, target_zone=zone)
    wire = task.reader
    letters: list[DeadLetter] = []
    values = [(number, wire.to_bytes(change)) for number, change in enumerate(changes)]
    records = records_of(values)
    applier = PartitionApplier(task, wire, loader, put_dead_letters=letters.extend)
    applier.apply(PARTITION, records, len(records), 5)
    return [(letter.offset, letter.reason) for letter in letters]


@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(),
    size=st.integers(200, 500),
    odd=st.sampled_from([0.0, 0.0, 0.01]),
    around=st.sampled_from(AROUND),
    key=st.sampled_from([("id",), ("id", "made")]),
)
def test_both_ways_leave_the_same_target_and_dead_letters(
    seed: int, size: int, odd: float, around: datetime, key: tuple[str, ...]
) -> None:
    changes = history(seed, size, odd, around)
    by_columns, one_by_one = target(key), target(key)
    letters = []
    for loader, least in ((by_columns, columnar.MIN_RECORDS), (one_by_one, size + 1)):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(prepare, "MIN_RECORDS", least)
            letters.append(applied(loader, changes))
    assert letters[0] == letters[1]
    assert by_columns.rows == one_by_one.rows


def test_columns_stay_columns_and_only_those_without_a_zone_are_brought_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Decoder, "_steps_of", lambda *_: pytest.fail("a record was read by itself"))
    changes = history(1, 600, 0.0, AROUND[2])
    local, moments = target(), target()
    assert applied(local, changes) == applied(moments, changes, "") == []
    for name, row in moments.rows[ORDERS].items():
        shown = local.rows[ORDERS][name]
        assert shown["sent"] == row["sent"]
        made = row["made"] or ""
        if made.startswith("2024"):
            made = (datetime.fromisoformat(made) + timedelta(hours=2)).isoformat(" ")
        assert shown["made"] == made
