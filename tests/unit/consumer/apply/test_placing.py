"""Which records are in the partition that their row's key says."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from cdcbus.consumer.apply.placing import Placing
from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.rowchange import Column, Op, RowChange, Table, TableId
from cdcbus.plugins.transform.mapper import Mapper
from cdcbus.plugins.transform.plan import Plan

ORDERS = Table(TableId("shop", "Orders"), (Column("id", "int"), Column("a", "int")), ("id",))


def plan() -> Plan:
    [route] = Mapper(()).routes(ORDERS.id)
    columns = {name: TargetColumn(name, "int4") for name in ("id", "a")}
    return route.plan(ORDERS, TargetTable(ORDERS.id, columns, ("id",)))


@pytest.mark.parametrize(
    ("key", "is_by_key"),
    [
        (b"7_", True),
        (b"", True),
        (b"Orders", True),  # all rows of the table in one partition, by its name
        (b"orders", False),
        (b"8_", False),
        (b"9_", False),
    ],
)
def test_rows_are_where_their_key_says_or_all_in_one_partition(key: bytes, is_by_key: bool) -> None:
    change = RowChange(ORDERS, Op.INSERT, None, {"id": "7", "a": "9"})
    assert Placing().is_row_by_key(plan(), key, change) is is_by_key
    image = {"id": pa.array(["7", "7"]), "a": pa.array(["9", "9"])}
    assert Placing().is_by_key(plan(), pa.array([key, key]), image) is is_by_key


def test_a_table_s_name_as_porter_s_readers_get_it_places_all_rows() -> None:
    upper = replace(ORDERS, id=TableId("SHOP", "ORDERS"))
    [route] = Mapper(()).routes(upper.id)
    columns = {name: TargetColumn(name, "int4") for name in ("id", "a")}
    made = route.plan(upper, TargetTable(ORDERS.id, columns, ("id",)))
    change = RowChange(upper, Op.INSERT, None, {"id": "7", "a": "9"})
    assert Placing().is_row_by_key(made, b"orders", change)
    image = {"id": pa.array(["7", "8"]), "a": pa.array(["9", "9"])}
    assert Placing().is_by_key(made, pa.array([b"orders", b"orders"]), image)
    assert not Placing().is_by_key(made, pa.array([b"orders", b"Orders"]), image)


@pytest.mark.parametrize("key", [b"7_", b'{"database":"shop","table":"Orders","pk.id":7}'])
@pytest.mark.parametrize("old", ["7", "6"])
def test_a_row_whose_key_changes_was_in_another_partition(key: bytes, old: str) -> None:
    """Of writers that do not make a delete and an insert of it."""
    change = RowChange(ORDERS, Op.UPDATE, {"id": old}, {"id": "7", "a": "9"})
    assert Placing().is_row_by_key(plan(), key, change) is (old == "7")
    assert Placing().is_row_by_key(plan(), b"Orders", change)


def plan_of(source_type: str, target_type: str) -> Plan:
    [route] = Mapper(()).routes(ORDERS.id)
    source = replace(ORDERS, columns=(Column("id", source_type), Column("a", "int")))
    columns = {"id": TargetColumn("id", target_type), "a": TargetColumn("a", "integer")}
    return route.plan(source, TargetTable(ORDERS.id, columns, ("id",)))


@pytest.mark.parametrize(
    ("source", "target", "is_by_key"),
    [
        ("char(36)", "uuid", False),
        ("", "uuid", False),  # of a form without types
        ("", "bigint", True),
        ("uuid", "uuid", True),  # a source that spells them in one way
        ("varchar(9)", "bigint", False),
        ("int", "bigint", True),
        ("varchar(40)", "inet", False),
        ("varchar(40)", "character varying", True),
    ],
)
def test_rows_whose_key_can_be_spelled_in_several_ways_are_in_several_partitions(
    source: str, target: str, is_by_key: bool
) -> None:
    change = RowChange(ORDERS, Op.INSERT, None, {"id": "17", "a": "9"})
    made = plan_of(source, target)
    assert Placing().is_row_by_key(made, b"17_", change) is is_by_key
    image = {"id": pa.array(["17"]), "a": pa.array(["9"])}
    assert Placing().is_by_key(made, pa.array([b"17_"]), image) is is_by_key
