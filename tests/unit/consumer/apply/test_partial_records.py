"""Records as the tools write them where the source logs rows in part (binlog_row_image MINIMAL or
NOBLOB): what they do not bring stays as the target has it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from cdcbus.consumer.apply.applier import PartitionApplier
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.records.dead_letters import DeadLetter
from cdcbus.consumer.records.records import Records
from cdcbus.plugins.contracts import JdbcTarget, TargetColumn, TargetTable
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Cell, TableId
from tests.support.stand_ins.memory_target import MemoryTarget
from tests.support.topics.canal_packets import encoded
from tests.support.topics.records import records_of

PARTITION = TopicPartition("shop", 0)
NAME = TableId("shop", "t")
COLUMNS = ("id", "a", "b", "c")
ROW: dict[str, Cell] = {"id": "1", "a": "kept", "b": "old", "c": "kept"}
Image = dict[str, str]


def canal(before: Image, after: Image) -> bytes:
    """`data` has what was logged after the change, `old` what of that was logged before."""
    return json.dumps(
        {
            "database": "shop",
            "table": "t",
            "type": "UPDATE",
            "isDdl": False,
            "id": 3,
            "data": [after],
            "old": [{name: cell for name, cell in before.items() if name in after}],
            "pkNames": ["id"] if "id" in after else None,
            "mysqlType": dict.fromkeys(after, "varchar(9)"),
            "sqlType": dict.fromkeys(after, 12),
        }
    ).encode()


def protobuf(before: Image, after: Image) -> bytes:
    def fields(image: Image) -> list[dict[str, Any]]:
        return [
            {"name": name, "value": cell, "isKey": name == "id", "mysqlType": "varchar(9)"}
            for name, cell in image.items()
        ]

    rows = [{"beforeColumns": fields(before), "afterColumns": fields(after)}]
    entry = {
        "header": {"schemaName": "shop", "tableName": "t"},
        "entryType": "ROWDATA",
        "storeValue": {"eventType": "UPDATE", "rowDatas": rows},
    }
    return encoded("Packet", {"type": "MESSAGES", "body": {"messages": [entry]}})


def maxwell(before: Image, after: Image) -> bytes:
    """`data` has what was logged before as well, where it was not after."""
    old = {name: cell for name, cell in before.items() if after.get(name, cell) != cell}
    return json.dumps(
        {
            "database": "shop",
            "table": "t",
            "type": "update",
            "ts": 1,
            "data": {**before, **after},
            **({"old": old} if old else {}),
        }
    ).encode()


def porter(before: Image, after: Image) -> bytes:
    columns = [
        {
            "name": name,
            "before": before.get(name, ""),
            "after": after.get(name, ""),
            "beforeMissing": name not in before,
            "afterMissing": name not in after,
        }
        for name in {**before, **after}
    ]
    return json.dumps(
        {"schema": "shop", "table": "t", "opType": "UPDATE", "keys": ["id"], "columns": columns}
    ).encode()


def ogg(before: Image, after: Image) -> bytes:
    return json.dumps(
        {"table": "shop.t", "op_type": "U", "before": before, "after": after}
    ).encode()


def debezium(before: Image, after: Image) -> bytes:
    """With its word for what was not logged."""
    everything = dict.fromkeys(COLUMNS, "__debezium_unavailable_value")
    return json.dumps(
        {
            "op": "u",
            "source": {"db": "shop", "table": "t"},
            "before": {**everything, **before},
            "after": {**everything, **after},
        }
    ).encode()


FORMATS: dict[str, Callable[[Image, Image], bytes]] = {
    "canalRow": canal,
    "canalProtobuf": protobuf,
    "maxwellJson": maxwell,
    "porterJson": porter,
    "oggJson": ogg,
    "debeziumJson": debezium,
}


def target(*key: str) -> MemoryTarget:
    columns = {name: TargetColumn(name, "text") for name in COLUMNS}
    held = MemoryTarget({NAME: TargetTable(NAME, columns, key, can_move=True)})
    held.rows[NAME][("1",)] = dict(ROW)
    return held


def apply(loader: MemoryTarget, converter: str, *values: bytes) -> list[DeadLetter]:
    task = LoadTask("t", TopicConfig("", ("shop",)), converter, "JdbcBatch", JdbcTarget(""))
    letters: list[DeadLetter] = []
    applier = PartitionApplier(task, make_converter(converter), loader, None, letters.extend)
    records = records_of(list(enumerate(values)))
    applier.apply(PARTITION, records, len(records), 5)
    return letters


@pytest.mark.parametrize("converter", FORMATS)
@pytest.mark.parametrize("count", [1, 300], ids=["small", "large"])
@pytest.mark.parametrize("after", [{"id": "1", "b": "new"}, {"id": "2"}, {"id": "2", "b": "new"}])
def test_an_update_leaves_what_it_does_not_bring(converter: str, count: int, after: Image) -> None:
    loader = target("id")
    update = FORMATS[converter]({"id": "1"}, after)
    assert apply(loader, converter, *[update] * count) == []
    expected: dict[str, Cell] = {**ROW, **after}
    assert loader.rows[NAME] == {(expected["id"],): expected}


@pytest.mark.parametrize("converter", FORMATS)
def test_a_key_wanders_with_its_row_through_a_batch(converter: str) -> None:
    loader = target("id")
    write = FORMATS[converter]
    steps = [
        write({"id": "1"}, {"id": "1", "b": "new"}),
        write({"id": "1"}, {"id": "2"}),
        write({"id": "2"}, {"id": "2", "c": "new"}),
        write({"id": "2"}, {"id": "3", "b": "newer"}),
    ]
    assert apply(loader, converter, *steps) == []
    expected = {**ROW, "id": "3", "b": "newer", "c": "new"}
    assert loader.rows[NAME] == {("3",): expected}


def test_an_update_of_canal_s_without_its_key_is_a_dead_letter() -> None:
    loader = target("id")
    [letter] = apply(loader, "canalRow", canal({"id": "1"}, {"b": "new"}))
    assert letter.reason == "table shop.t: UPDATE without its primary key column id"
    assert loader.rows[NAME] == {("1",): ROW}


@pytest.mark.parametrize("converter", ["canalRow", "maxwellJson"])
@pytest.mark.parametrize("before", [{"b": "old"}, {"id": "1", "b": "old"}])
def test_no_row_without_a_key_is_taken_for_another_one(converter: str, before: Image) -> None:
    """What was not logged is in no image: by the rest, any row with it would be found."""
    loader = target()
    after = dict.fromkeys(before, "new")
    [letter] = apply(loader, converter, FORMATS[converter](before, after))
    assert letter.reason.startswith("table shop.t: it has no key, and UPDATE comes without column")
    assert loader.rows[NAME] == {("1",): ROW}


def applier_of(
    loader: MemoryTarget, letters: list[DeadLetter], *values: bytes, merge: bool = True
) -> tuple[PartitionApplier, Records]:
    """One that can read all the records ahead."""
    records = records_of(list(enumerate(values)))
    task = LoadTask(
        "t", TopicConfig("", ("shop",)), "oggJson", "JdbcBatch", JdbcTarget(""), merge=merge
    )
    return PartitionApplier(
        task,
        make_converter("oggJson"),
        loader,
        None,
        letters.extend,
        read_on=lambda _, offset: iter(records[offset:]),
    ), records


def emptied() -> MemoryTarget:
    """A target whose row is deleted; it takes no row without column c."""
    held = target("id")
    held.rows[NAME].clear()
    columns = {**held.tables[NAME].columns, "c": TargetColumn("c", "text", is_required=True)}
    held.tables[NAME] = replace(held.tables[NAME], columns=columns)
    return held


UPDATE = ogg({"id": "1"}, {"id": "1", "b": "new"})
DELETE = json.dumps({"table": "shop.t", "op_type": "D", "before": ROW}).encode()
OTHER = json.dumps(
    {"table": "shop.t", "op_type": "I", "after": {**ROW, "id": "2", "b": "other"}}
).encode()


@pytest.mark.parametrize("low_watermark", [0, 9])
@pytest.mark.parametrize("before", [[], [OTHER]], ids=["first", "behind another"])
def test_an_update_that_comes_again_is_left_out_where_its_row_is_deleted_later(
    before: list[bytes], low_watermark: int
) -> None:
    loader, letters = emptied(), list[DeadLetter]()
    applier, records = applier_of(loader, letters, *before, UPDATE, OTHER, DELETE)
    end = len(before) + 1
    report = applier.apply(PARTITION, records[:end], end, 5, low_watermark)
    assert report.tables[NAME].superseded == 1
    applier.apply(PARTITION, records[end:], len(records), 5, low_watermark)
    assert (letters, [*loader.rows[NAME]]) == ([], [("2",)])


def test_an_update_that_comes_again_is_left_out_where_changes_are_applied_one_by_one() -> None:
    loader, letters = emptied(), list[DeadLetter]()
    applier, records = applier_of(loader, letters, UPDATE, OTHER, DELETE, merge=False)
    applier.apply(PARTITION, records, 3, 5, 9)
    assert (letters, [*loader.rows[NAME]]) == ([], [("2",)])


def test_an_update_of_a_missing_row_is_refused_where_no_change_of_it_follows() -> None:
    loader, letters = emptied(), list[DeadLetter]()
    applier, records = applier_of(loader, letters, OTHER, UPDATE, OTHER)
    applier.apply(PARTITION, records, 3, 5, 0)
    [letter] = letters
    assert (letter.offset, letter.reason) == (1, "table shop.t: column c has no default")
    assert [*loader.rows[NAME]] == [("2",)]


def test_an_update_of_a_missing_row_becomes_the_row_that_a_later_change_brings_whole() -> None:
    loader, letters = emptied(), list[DeadLetter]()
    old = {name: cell or "" for name, cell in ROW.items()}
    applier, records = applier_of(loader, letters, UPDATE, OTHER, ogg(old, {**old, "b": "newer"}))
    applier.apply(PARTITION, records[:1], 1, 5, 9)
    assert (letters, loader.rows[NAME]) == ([], {("1",): {**ROW, "b": "newer"}})
