"""What a row change becomes on its way to other topics."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.converters.ogg_json import OggJson
from cdcbus.plugins.errors import ConfigError, UnreadableEvent
from cdcbus.plugins.kafka.config import PublishConfig, TopicRule
from cdcbus.plugins.kafka.record_key import NEW_KEY, OLD_KEY
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Column, Op, Origin, Row, RowChange, Table, TableId
from cdcbus.plugins.transform.cells.expression import Expression, Reference, constant
from cdcbus.plugins.transform.cells.mask import Mask
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.record_transform import RecordTransform
from cdcbus.plugins.transform.rules import MapperRule

COLUMNS = (
    Column("id", "int(11)", 4),
    Column("name", "varchar(20)"),
    Column("region", "char(2)", 1),
)
ORDERS = Table(TableId("shop", "orders"), COLUMNS, ("id",))
ORIGIN = Origin("mysql-bin.000007", 120, "", 3, 1_700_000_000_123_000)
ROW = {"id": "7", "name": "Ada", "region": "eu"}


def config(converter: str = "canalRow", **more: Any) -> PublishConfig:
    return PublishConfig("", "out", converter, **more)


def change(
    op: Op = Op.INSERT, before: Row | None = None, after: Row | None = ROW, table: Table = ORDERS
) -> RowChange:
    return RowChange(table, op, before, after, ORIGIN, 2, True)


def written(transform: RecordTransform, one: RowChange) -> list[tuple[str, bytes, dict[str, Any]]]:
    """Topic, key and value of each record."""
    return [
        (way.topic, record["key"], json.loads(record["value"]))
        for way in transform.records(one)
        for record in way.records
    ]


def test_tables_and_columns_get_their_new_names_also_in_the_key() -> None:
    rule = MapperRule(
        ("SHOP", "store"),
        ("orders", "sales"),
        {"ID": "no", "NAME": "customer"},
        ignored=frozenset({"region"}),
    )
    [(topic, key, value)] = written(RecordTransform(Mapper([rule]), config()), change())
    assert (topic, key) == ("out", b"7_")
    assert (value["database"], value["table"], value["pkNames"], value["data"]) == (
        "store",
        "sales",
        ["no"],
        [{"no": "7", "customer": "Ada"}],
    )
    assert value["mysqlType"] == {"no": "int(11)", "customer": "varchar(20)"}


def test_computed_and_masked_columns_are_written() -> None:
    rule = MapperRule(computed={"origin": constant("EU")}, masks={"name": Mask("truncate", 1)})
    [(_, _, value)] = written(RecordTransform(Mapper([rule]), config()), change())
    assert value["data"] == [{**ROW, "name": "A", "origin": "EU"}]


@pytest.mark.parametrize("converter", ["oggJson", "porterCompat", "canalRow"])
def test_time_and_place_of_the_change_stay_the_source_s(converter: str) -> None:
    [(_, _, value)] = written(RecordTransform(Mapper([]), config(converter)), change())
    if converter == "canalRow":
        assert (value["es"], value["file"], value["pos"], value["row"], value["txLast"]) == (
            1_700_000_000_123,
            ORIGIN.file,
            120,
            2,
            True,
        )
        assert value["ts"] > value["es"]
    else:
        assert (value["op_ts"], value["pos"]) == (
            "2023-11-14 22:13:20.123000",
            "00000000070000000120",
        )
        assert value["current_ts"] > "2023-11-14T22:13:21"


def test_a_record_of_one_form_becomes_the_same_change_in_the_other() -> None:
    update = change(Op.UPDATE, ROW, {**ROW, "name": None})
    [read] = CanalRow().from_bytes(CanalRow().to_bytes(update))
    [(_, _, value)] = written(RecordTransform(Mapper([]), config("oggJson")), read)
    [again] = OggJson().from_bytes(json.dumps(value).encode())
    assert (again.op, again.before, again.after, again.table.key) == (
        Op.UPDATE,
        update.before,
        update.after,
        ("id",),
    )
    assert again.origin.commit_us == ORIGIN.commit_us


def test_the_key_is_made_of_the_columns_that_the_task_file_names_after_mapping() -> None:
    rule = MapperRule(table=("orders", "sales"), columns={"region": "area"})
    transform = RecordTransform(
        Mapper([rule]), config(partition_keys={"SHOP.SALES": ("AREA",), "SHOP.ORDERS": ("name",)})
    )
    assert [key for _, key, _ in written(transform, change())] == [b"eu_"]


def test_a_change_of_the_new_key_is_a_delete_and_an_insert_that_name_each_other() -> None:
    transform = RecordTransform(Mapper([]), config(partition_keys={"SHOP.ORDERS": ("region",)}))
    [moved] = transform.records(change(Op.UPDATE, ROW, {**ROW, "region": "us"}))
    delete, insert = moved.records
    assert [(json.loads(record["value"])["type"], record["key"]) for record in moved.records] == [
        ("DELETE", b"eu_"),
        ("INSERT", b"us_"),
    ]
    assert (delete["headers"], insert["headers"]) == ({NEW_KEY: b"us_"}, {OLD_KEY: b"eu_"})
    assert moved.op is Op.UPDATE


@pytest.mark.parametrize("converter", ["oggJson", "canalRow"])
def test_a_change_of_the_key_that_lacks_what_the_last_insert_had_stops(converter: str) -> None:
    """Of records that do not tell of all columns: the row would be sent without them."""

    def brought(*names: str) -> Table:
        columns = tuple(column for column in COLUMNS if column.name in names)
        return replace(ORDERS, columns=columns, is_described=False)

    transform = RecordTransform(Mapper([]), config(converter))
    written(transform, change(table=brought("id", "name", "region")))
    old, new = {"id": "7", "name": "Ada"}, {"id": "8", "name": "Ada"}
    update = change(Op.UPDATE, old, new, brought("id", "name"))
    with pytest.raises(UnreadableEvent, match="its images lack column region"):
        written(transform, update)
    # The source has no such column any more.
    written(transform, change(after=new, table=brought("id", "name")))
    assert len(written(transform, update)) == 2


def test_what_does_not_tell_of_all_columns_says_so_in_canal_rows_too() -> None:
    for is_described in (True, False):
        table = replace(ORDERS, is_described=is_described)
        update = change(Op.UPDATE, ROW, {**ROW, "name": None}, table)
        [(_, _, value)] = written(RecordTransform(Mapper([]), config()), update)
        [read] = CanalRow().from_bytes(json.dumps(value).encode())
        assert read.table == replace(table, has_old_rows=is_described)


@pytest.mark.parametrize("is_described", [True, False])
@pytest.mark.parametrize("before", [{}, {"id": "7"}, {"id": "7", "name": "Eve"}])
@pytest.mark.parametrize("converter", ["oggJson", "porterCompat", "canalRow"])
def test_an_old_cell_that_is_not_known_is_not_known_after_a_hop(
    converter: str, before: Row, is_described: bool
) -> None:
    """As of GoldenGate without GETUPDATEBEFORES, of canal's `old: null`."""
    table = replace(ORDERS, is_described=is_described)
    transform = RecordTransform(Mapper([]), config(converter))
    [(_, _, value)] = written(transform, change(Op.UPDATE, before, ROW, table))
    [read] = make_converter(converter).from_bytes(json.dumps(value).encode())
    assert read.before is not None
    found = {name.lower(): cell for name, cell in read.before.items()}
    assert found == before


def test_an_update_without_the_columns_of_the_key_stops() -> None:
    transform = RecordTransform(Mapper([]), config(partition_keys={"SHOP.ORDERS": ("region",)}))
    with pytest.raises(UnreadableEvent, match="the record key needs column region"):
        list(transform.records(change(Op.UPDATE, {"id": "7"}, {"id": "7", "name": "B"})))


@pytest.mark.parametrize(
    "rule",
    [
        MapperRule(columns={"region": "area"}),
        MapperRule(computed={"area": Expression((Reference("region", "upper"),))}),
        MapperRule(computed={"area": Expression((Reference("id", ""), Reference("region", "")))}),
    ],
)
def test_an_update_whose_former_key_was_not_logged_stops(rule: MapperRule) -> None:
    """Also where the key is another column than the source's, or is computed of some."""
    transform = RecordTransform(Mapper([rule]), config(partition_keys={"SHOP.ORDERS": ("AREA",)}))
    update = change(Op.UPDATE, {"id": "7"}, {"region": "us"})
    [forwarded] = CanalRow().from_bytes(CanalRow().to_bytes(update))
    for each in (update, forwarded):
        with pytest.raises(UnreadableEvent, match="the record key needs column area"):
            list(transform.records(each))
    assert len(written(transform, change(Op.UPDATE, ROW, {"region": "us"}))) == 2


def test_topics_follow_the_new_names() -> None:
    rules = [
        MapperRule(("shop", "store"), ("orders", "sales")),
        MapperRule(("shop", "store"), ("orders", "archive")),
    ]
    transform = RecordTransform(
        Mapper(rules),
        config(topic_rules=(TopicRule(r"store\.sales", True), TopicRule(r"shop\..*", True, "old"))),
    )
    assert [(topic, value["table"]) for topic, _, value in written(transform, change())] == [
        ("store_sales", "sales"),
        ("out", "archive"),
    ]


@pytest.mark.parametrize(
    "rule", [MapperRule(ignored=frozenset({"id"})), MapperRule(included=frozenset({"name"}))]
)
def test_a_key_column_must_not_be_left_out(rule: MapperRule) -> None:
    with pytest.raises(
        ConfigError, match=r"leaves out column id, which is part of the key of shop\.orders"
    ):
        list(RecordTransform(Mapper([rule]), config()).records(change()))


def test_a_key_column_must_not_lose_what_tells_rows_apart() -> None:
    with pytest.raises(ConfigError, match=r"rows of shop\.orders would become one"):
        list(
            RecordTransform(
                Mapper([MapperRule(masks={"id": Mask("truncate", 1)})]), config()
            ).records(change())
        )


@pytest.mark.parametrize("converter", [CanalRow(), OggJson()])
def test_a_truncate_has_no_key_whatever_the_task_file_names(converter: CanalRow | OggJson) -> None:
    [truncate] = converter.from_bytes(converter.to_bytes(change(Op.TRUNCATE, None, None)))
    [(_, key, value)] = written(
        RecordTransform(Mapper([]), config(partition_keys={"SHOP.ORDERS": ("region",)})), truncate
    )
    assert (key, value["type"]) == (b"", "TRUNCATE")


def test_tables_of_one_name_with_other_columns_are_told_apart() -> None:
    wider = Table(ORDERS.id, (*COLUMNS, Column("note")), ("id",))
    transform = RecordTransform(Mapper([]), config())
    rows = [
        written(transform, one)[0][2]["data"]
        for one in (change(), change(after={**ROW, "note": "x"}, table=wider), change())
    ]
    assert rows == [[ROW], [{**ROW, "note": "x"}], [ROW]]
