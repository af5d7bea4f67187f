from __future__ import annotations

import pytest

from cdcbus.consumer.config import MapperRule
from cdcbus.consumer.transform.mapper import Mapper
from cdcbus.plugins.contracts import TargetColumn, TargetTable
from cdcbus.plugins.rowchange import Table, TableId
from cdcbus.producer.ddl.table_schema import TableColumn, TableSchema, UniqueKey
from cdcbus.tasks.control.source_of import MappedTable
from cdcbus.tasks.direct.checks import tells_rows_apart

SOURCE = TableId("shop", "orders")


def mapped(rule: MapperRule, *uniques: UniqueKey) -> MappedTable:
    names = ("id", "part", "code")
    columns = tuple(TableColumn(name, "int", is_nullable=name == "code") for name in names)
    [route] = Mapper((rule,)).routes(SOURCE)
    copied = {name: found for name in names if (found := route.wanted(name)) is not None}
    return MappedTable(Table(SOURCE, (), ()), TableSchema(columns, uniques), "shop", route, copied)


def target(*key: str) -> TargetTable:
    columns = {name: TargetColumn(name, "int4") for name in ("number", "id", "part", "code")}
    return TargetTable(SOURCE, columns, key)


PRIMARY = UniqueKey("PRIMARY", ("id", "part"))


@pytest.mark.parametrize(
    ("rule", "uniques", "key", "tells"),
    [
        (MapperRule(), [PRIMARY], ("id", "part"), True),
        (MapperRule(), [PRIMARY], ("part", "id", "code"), True),
        (MapperRule(), [PRIMARY], ("id",), False),
        (MapperRule(columns={"id": "number"}), [PRIMARY], ("number", "part"), True),
        (MapperRule(columns={"id": "number"}), [PRIMARY], ("id", "part"), False),
        (MapperRule(), [UniqueKey("code", ("code",))], ("code",), False),
        (MapperRule(), [UniqueKey("part", ("part",), is_whole=False)], ("part",), False),
        (MapperRule(), [PRIMARY, UniqueKey("part", ("part",))], ("part",), True),
    ],
)
def test_the_target_tells_rows_apart_where_its_key_holds_one_of_the_source(
    rule: MapperRule, uniques: list[UniqueKey], key: tuple[str, ...], tells: bool
) -> None:
    assert tells_rows_apart(mapped(rule, *uniques), target(*key)) is tells
