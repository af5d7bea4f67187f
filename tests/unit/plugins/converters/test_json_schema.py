"""The JSON Schema of a table's records holds for every record that is written."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given

from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.converters.json_schema import json_schema
from cdcbus.plugins.epoch import epoch_text
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Column, Op, Origin, Row, RowChange, Table, TableDdl, TableId
from tests.unit.plugins.converters.rows import changes

VALIDATOR = import_module("jsonschema").Draft202012Validator
TABLE = Table(
    TableId("shop", "orders"), (Column("id", "int", 4), Column("note", "varchar(20)", 12)), ("id",)
)
UPDATE = RowChange(TABLE, Op.UPDATE, {"id": "1", "note": None}, {"id": "1", "note": "a"})
NAMES = pytest.mark.parametrize("name", ["canalRow", "oggJson"])


def written(name: str, change: RowChange) -> Any:
    return json.loads(make_converter(name).to_bytes(change))


@NAMES
@given(change=changes())
def test_every_record_is_valid(name: str, change: RowChange) -> None:
    cells = [
        image[key] for image in (change.before, change.after) if image for key in change.table.key
    ]
    if None not in cells and change.op is not Op.TRUNCATE:
        VALIDATOR(json_schema(change.table, name)).validate(written(name, change))


@pytest.mark.parametrize("before", [{"id": "1"}, {}], ids=["part", "nothing"])
def test_a_whole_row_whose_old_one_is_not_known_is_valid(before: Row) -> None:
    record = written("canalRow", replace(UPDATE, before=before))
    VALIDATOR(json_schema(TABLE, "canalRow")).validate(record)


@NAMES
@pytest.mark.parametrize("op", list(Op))
def test_every_operation_is_valid(name: str, op: Op) -> None:
    before = UPDATE.before if op in (Op.UPDATE, Op.DELETE) else None
    after = UPDATE.after if op in (Op.UPDATE, Op.INSERT) else None
    schema = json_schema(TABLE, name)
    VALIDATOR.check_schema(schema)
    VALIDATOR(schema).validate(written(name, RowChange(TABLE, op, before, after)))


@NAMES
def test_a_record_of_a_process_with_a_lock_and_of_a_snapshot_is_valid(name: str) -> None:
    origin = Origin("bin.000001", 4, epoch=epoch_text(7, "1", "shop"), is_snapshot=True)
    record = written(name, RowChange(TABLE, Op.INSERT, None, UPDATE.after, origin))
    assert record.keys() >= {"epoch", "snapshot"}
    VALIDATOR(json_schema(TABLE, name)).validate(record)


def test_ddl_is_valid() -> None:
    record = CanalRow().ddl_to_bytes(TableDdl(TABLE.id, "ALTER", "ALTER TABLE orders ADD c INT"))
    VALIDATOR(json_schema(TABLE, "canalRow")).validate(json.loads(record))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("canalRow", {"table": "other"}),
        ("canalRow", {"data": [{"id": "1"}]}),
        ("canalRow", {"data": [{"id": None, "note": "a"}]}),
        ("canalRow", {"data": [{"id": "1", "note": 7}]}),
        ("canalRow", {"type": "UPSERT"}),
        ("canalRow", {"more": 1}),
        ("oggJson", {"table": "shop.other"}),
        ("oggJson", {"after": {"id": "1", "note": "a", "more": "x"}}),
        ("oggJson", {"op_type": "X"}),
    ],
)
def test_a_record_of_another_shape_is_not_valid(name: str, wrong: dict[str, Any]) -> None:
    assert not VALIDATOR(json_schema(TABLE, name)).is_valid({**written(name, UPDATE), **wrong})


def test_an_update_without_its_image_is_not_valid() -> None:
    record = written("oggJson", UPDATE)
    del record["after"]
    assert not VALIDATOR(json_schema(TABLE, "oggJson")).is_valid(record)


def test_a_column_tells_its_type() -> None:
    row = json_schema(TABLE, "oggJson")["properties"]["after"]["properties"]
    assert row == {
        "id": {"type": "string", "description": "int"},
        "note": {"type": ["string", "null"], "description": "varchar(20)"},
    }


def test_a_format_that_is_only_read_has_no_schema() -> None:
    with pytest.raises(
        ConfigError,
        match="no JSON Schema for converter debeziumJson: there is one for canalRow and oggJson",
    ):
        json_schema(TABLE, "debeziumJson")
