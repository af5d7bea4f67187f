"""A partition that is applied by columns leaves the target as one that is applied record by
record."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcbus.consumer.apply import prepare
from cdcbus.consumer.apply.applier import PartitionApplier
from cdcbus.consumer.apply.decode import Decoder
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.merge import columnar
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.plugins.contracts import JdbcTarget, TargetColumn, TargetTable
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Column, Op, Origin, RowChange, Table, TableId
from cdcbus.plugins.transform.rules import MapperRule
from tests.support.stand_ins.memory_target import MemoryTarget
from tests.support.topics.records import records_of

PARTITION = TopicPartition("shop", 0)
NAMES = ("orders", "items", "notes")
SOURCES = {
    name: Table(
        TableId("shop", name),
        (Column("id", "int"), Column("a", "varchar(9)"), Column("b", "varchar(9)")),
        ("id",),
    )
    for name in NAMES
}
RULES = (
    MapperRule(table=("items", "lines"), columns={"a": "first"}),
    MapperRule(table=("notes", "notes"), columns={"b": "second"}),
)


def target(
    unique: tuple[tuple[str, ...], ...] = (), spelled: Callable[[str], str] = str
) -> MemoryTarget:
    """`spelled`: how the target writes the names of its tables."""
    columns = {
        "orders": ("id", "a", "b"),
        "lines": ("id", "first", "b"),
        "notes": ("second", "id", "a", "more"),
    }
    tables = {
        TableId("shop", spelled(name)): TargetTable(
            TableId("shop", spelled(name)),
            {column: TargetColumn(column, "text") for column in members},
            ("id",),
            unique if name == "orders" else (),
        )
        for name, members in columns.items()
    }
    return MemoryTarget(tables)


def task(converter: str) -> LoadTask:
    return LoadTask(
        "t", TopicConfig("", ("shop",)), converter, "JdbcBatch", JdbcTarget("", ""), rules=RULES
    )


def history(seed: int, size: int, odd: float) -> list[RowChange]:
    """Changes of few rows of three tables, one of which is rare; `odd` is how often one is a key
    change, a truncate or a partial update."""
    dice = random.Random(seed)
    changes = []
    for number in range(size):
        table = SOURCES[dice.choices(NAMES, (50, 50, 3))[0]]
        origin = Origin("mysql-bin.000001", number, "", 1, 1_700_000_000_000_000 + number)

        def row() -> dict[str, str | None]:
            return {
                "id": str(dice.randrange(40)),
                "a": dice.choice([None, "", "x", "é'\"\\"]),
                "b": str(dice.randrange(9)),
            }

        op = dice.choice([Op.INSERT, Op.UPDATE, Op.DELETE])
        before, after = row(), row()
        if op is Op.UPDATE and dice.random() >= odd:
            after["id"] = before["id"]
            if dice.random() < odd:
                # Only the key and what was changed were logged.
                del before["a"], after["a"]
        elif op is Op.DELETE and dice.random() < odd / 4:
            op = Op.TRUNCATE
        changes.append(
            RowChange(
                table,
                op,
                before if op in (Op.UPDATE, Op.DELETE) else None,
                after if op in (Op.INSERT, Op.UPDATE) else None,
                origin,
                is_last=dice.random() < 0.1,
            )
        )
    return changes


def applied(
    loader: MemoryTarget,
    changes: list[RowChange],
    converter: str,
    skipped: frozenset[Op] = frozenset(),
) -> BatchReport:
    wire = make_converter(converter)
    records = records_of([(number, wire.to_bytes(change)) for number, change in enumerate(changes)])
    skipping = replace(task(converter), skipped_operations=skipped)
    return PartitionApplier(skipping, wire, loader).apply(PARTITION, records, len(records), 5)


@pytest.mark.parametrize("converter", ["canalRow", "oggJson"])
@settings(max_examples=25, deadline=None)
@given(
    seed=st.integers(),
    size=st.integers(200, 600),
    odd=st.sampled_from([0.0, 0.0, 0.01]),
    is_unique=st.booleans(),
    skipped=st.sampled_from([[], [], [Op.DELETE, Op.TRUNCATE], [Op.UPDATE], list(Op)]),
    spelled=st.sampled_from([str, str.upper]),
)
def test_both_ways_leave_the_same_target_and_report(
    converter: str,
    seed: int,
    size: int,
    odd: float,
    is_unique: bool,
    skipped: list[Op],
    spelled: Callable[[str], str],
) -> None:
    changes = history(seed, size, odd)
    unique = (("a", "b"),) if is_unique else ()
    by_columns, one_by_one = target(unique, spelled), target(unique, spelled)
    results: list[object] = []
    for loader, least in ((by_columns, columnar.MIN_RECORDS), (one_by_one, size + 1)):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(prepare, "MIN_RECORDS", least)
            try:
                report = applied(loader, changes, converter, frozenset(skipped))
                results.append(
                    {
                        name: (t.rows, t.inserted, t.updated, t.deleted, t.truncated)
                        for name, t in report.tables.items()
                    }
                )
            except Exception as error:
                results.append(str(error))
    assert results[0] == results[1]
    assert by_columns.rows == one_by_one.rows


@pytest.mark.parametrize("size", [50, 300])
def test_a_truncate_of_a_table_that_the_target_spells_otherwise_empties_it(size: int) -> None:
    orders = SOURCES["orders"]
    origins = [Origin("mysql-bin.000001", number, "", 1, 1) for number in range(size)]
    old = {"id": "-1", "a": None, "b": None}
    changes = [
        RowChange(orders, Op.INSERT, None, old, origins[0]),
        RowChange(orders, Op.TRUNCATE, None, None, origins[1]),
    ]
    for origin in origins[2:]:
        row = {"id": str(origin.pos), "a": None, "b": None}
        changes.append(RowChange(orders, Op.INSERT, None, row, origin))
    loader = target(spelled=str.upper)
    applied(loader, changes, "canalRow")
    assert loader.rows[TableId("shop", "ORDERS")].keys() == {
        (str(number),) for number in range(2, size)
    }


@pytest.mark.parametrize("size", [5, 900])
def test_skipped_operations_leave_rows_where_they_are(size: int) -> None:
    changes = [change for change in history(1, size, 0.0) if change.table.id.table == "orders"]
    kept, loader = {}, target()
    report = applied(loader, changes, "canalRow", frozenset({Op.DELETE, Op.TRUNCATE}))
    for change in changes:
        if change.after is not None:
            kept[change.after["id"]] = change.after
    assert {row["id"]: row for row in loader.rows[TableId("shop", "orders")].values()} == kept
    assert report.tables[TableId("shop", "orders")].deleted == 0


@pytest.mark.parametrize("size", [50, 300])
def test_rows_that_are_left_out_need_no_target(size: int) -> None:
    gone = replace(SOURCES["orders"], id=TableId("shop", "gone"))
    changes = []
    for number in range(size):
        row = {"id": str(number), "a": None, "b": None}
        changes.append(RowChange(gone, Op.DELETE, row, None, Origin("mysql-bin.000001", number)))
    report = applied(target(), changes, "canalRow", frozenset({Op.DELETE}))
    assert report.records == size


def test_whole_tables_are_read_by_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Decoder, "_steps_of", lambda *_: pytest.fail("a record was read by itself"))
    changes = [change for change in history(1, 900, 0.0) if change.table.id.table == "orders"]
    loader = target()
    report = applied(loader, changes, "oggJson")
    assert report.tables[TableId("shop", "orders")].rows == len(changes)
    assert report.last_commit_ms == changes[-1].origin.commit_ms


def test_records_of_many_rows_are_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the few that show that they are such records."""
    decoded: list[bytes] = []

    class Counting(CanalRow):
        def from_bytes(self, value: bytes) -> list[RowChange]:
            decoded.append(value)
            return super().from_bytes(value)

    changes = [change for change in history(1, 4000, 0.0) if change.op is Op.INSERT]
    pairs = zip(changes[::2], changes[1::2], strict=False)
    same = [pair for pair in pairs if pair[0].table == pair[1].table]
    values = [CanalRow().joined([*map(CanalRow().to_bytes, pair)]) for pair in same]
    assert len(values) >= columnar.MIN_RECORDS
    loader = target()
    wire = Counting()
    monkeypatch.delattr(CanalRow, "read_columns")  # as formats that have none
    PartitionApplier(task("canalRow"), wire, loader).apply(
        PARTITION, records_of(list(enumerate(values))), len(values), 5
    )
    assert len(decoded) <= len(values) + columnar.MOST_PROBED
    assert sum(map(len, loader.rows.values())) > 0


@pytest.mark.parametrize("changes_of", ["orders", "notes"])  # taken as they are, and renamed
def test_a_column_that_records_do_not_describe_is_refused_in_many_records_too(
    changes_of: str,
) -> None:
    wire, dead_letters = make_converter("canalRow"), list[DeadLetter]()
    changes = [
        change
        for change in history(1, 3000, 0.0)
        if change.table.id.table == changes_of and change.op is Op.INSERT
    ][:300]
    values = [json.loads(wire.to_bytes(change)) for change in (changes * 30)[:300]]
    for value in values[40:290]:
        value["data"][0]["zz"] = "x"
    records = records_of(
        [
            (number, json.dumps(value, separators=(",", ":")).encode())
            for number, value in enumerate(values)
        ]
    )
    PartitionApplier(task("canalRow"), wire, target(), put_dead_letters=dead_letters.extend).apply(
        PARTITION, records, len(records), 5
    )
    assert [dead_letter.offset for dead_letter in dead_letters] == list(range(40, 290))
    assert all(
        "holds column zz, which its record does not describe" in dead_letter.reason
        for dead_letter in dead_letters
    )


@pytest.mark.parametrize("converter", ["canalRow", "oggJson"])
@pytest.mark.parametrize(
    "rule",
    [
        MapperRule(ignored=frozenset({"id"})),
        MapperRule(included=frozenset({"a"})),
    ],
)
def test_a_mapper_that_is_wrong_for_every_row_stops_the_task_and_makes_no_letters(
    converter: str, rule: MapperRule
) -> None:
    wire, dead_letters, loader = make_converter(converter), list[DeadLetter](), target()
    changes = [change for change in history(1, 900, 0.0) if change.table.id.table == "orders"]
    records = records_of([(number, wire.to_bytes(change)) for number, change in enumerate(changes)])
    applier = PartitionApplier(
        replace(task(converter), rules=(rule,)), wire, loader, put_dead_letters=dead_letters.extend
    )
    for count in (len(records), 50):
        with pytest.raises(ConfigError):
            applier.apply(PARTITION, records[:count], count, 5)
    assert (dead_letters, loader.rows[TableId("shop", "orders")]) == ([], {})


def test_a_few_changes_of_a_kind_do_not_hold_up_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Decoder,
        "_steps_of",
        lambda *_: pytest.fail("a record took the row-at-a-time path"),
    )
    orders = [change for change in history(1, 3000, 0.0) if change.table.id.table == "orders"]
    few = [change for change in orders if change.op is Op.DELETE][:3]
    changes = [change for change in orders if change.op is not Op.DELETE or change in few]
    report = applied(target(), changes, "canalRow").tables[TableId("shop", "orders")]
    assert (report.rows, report.deleted) == (len(changes), 3)
