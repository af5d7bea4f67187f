"""canalProtobuf: what the golden cases do not say."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.converters.auto import Auto
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.converters.canal_values import rendered
from cdcbus.plugins.converters.protobuf import canal_schema
from cdcbus.plugins.converters.protobuf.canal_protobuf import CanalProtobuf
from cdcbus.plugins.errors import ConfigError, ConversionError
from cdcbus.plugins.registry import make_converter, takes_zone
from cdcbus.plugins.rowchange import Column, Op, Row, Table
from tests.support.topics.canal_packets import encoded, flat, packet
from tests.unit.plugins.converters.rows import CELLS, TIMES, tables

TIMESTAMP = ("timestamp(3)", 93, st.just("2024-05-01 08:00:00.500"))
# What canal renders otherwise than we do, and a TIMESTAMP.
TYPED = st.sampled_from(
    [
        ("enum('a','b''c')", 4, st.sampled_from(["a", "b'c"])),
        ("set('x','y')", -7, st.sampled_from(["", "x", "y", "x,y"])),
        ("binary(3)", 2004, st.text(st.characters(max_codepoint=255), min_size=3, max_size=3)),
        TIMESTAMP,
        ("blob", 2004, st.text(st.characters(max_codepoint=255), max_size=5)),
        ("varchar(20)", 12, CELLS.filter(lambda cell: cell is not None)),
    ]
)


def columns_of(table: Table, row: Row | None, before: Row | None = None) -> list[dict[str, Any]]:
    """An image as canal writes it, with the columns that differ from the one before marked."""
    columns: list[dict[str, Any]] = []
    for index, column in enumerate(table.columns):
        if row is None or column.name not in row:
            continue
        cell = row[column.name]
        columns.append(
            {
                "index": index,
                "sqlType": column.sql_type,
                "name": column.name,
                "isKey": column.name in table.key,
                "updated": before is not None and before.get(column.name) != cell,
                "isNull": cell is None,
                **({} if cell is None else {"value": cell}),
                "mysqlType": column.mysql_type,
            }
        )
    return columns


@st.composite
def entries(draw: st.DrawFn) -> dict[str, Any]:
    """One binlog event of rows with all their columns."""
    table = draw(tables())
    cells = {}
    columns = []
    for column in table.columns:
        mysql_type, sql_type, texts = draw(TYPED)
        columns.append(Column(column.name, mysql_type, sql_type))
        cells[column.name] = st.none() | texts
    table = replace(table, columns=tuple(columns))
    op = draw(st.sampled_from([Op.INSERT, Op.UPDATE, Op.DELETE]))

    def image() -> Row:
        return rendered(table, {name: draw(cell) for name, cell in cells.items()})

    datas = []
    for _ in range(draw(st.integers(1, 4))):
        before = None if op is Op.INSERT else image()
        after = None if op is Op.DELETE else image()
        datas.append(
            {
                "beforeColumns": columns_of(table, before),
                "afterColumns": columns_of(table, after, before),
            }
        )
    header = {
        "logfileName": "mysql-bin.000007",
        "logfileOffset": draw(st.integers(0, 2**40)),
        "serverId": 5,
        "executeTime": draw(TIMES),
        "schemaName": table.id.schema,
        "tableName": table.id.table,
        "gtid": draw(st.sampled_from(["", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-23"])),
    }
    return {
        "header": header,
        "entryType": "ROWDATA",
        "storeValue": {"eventType": op.value, "rowDatas": datas},
    }


def truncate(sql: str = "TRUNCATE t") -> dict[str, Any]:
    return {
        "header": {"executeTime": 5, "schemaName": "shop", "tableName": "t"},
        "entryType": "ROWDATA",
        "storeValue": {"eventType": "TRUNCATE", "isDdl": True, "sql": sql},
    }


def begin() -> dict[str, Any]:
    return {"header": {"executeTime": 5}, "entryType": "TRANSACTIONBEGIN", "begin": {"threadId": 9}}


@pytest.mark.parametrize("zone", ["", "Asia/Shanghai"])
@given(written=st.lists(entries() | st.builds(truncate) | st.builds(begin), max_size=4))
def test_a_change_reads_the_same_from_the_flat_form_and_from_this_one(
    zone: str, written: list[dict[str, Any]]
) -> None:
    """But for `old`: this form has the row before itself."""
    reader = make_converter("canalRow", zone)
    expected = [change for message in flat(written) for change in reader.from_bytes(message)]
    for name in ("canalProtobuf", "auto"):
        found = make_converter(name, zone).from_bytes(packet(written))
        for each in found:
            each.table = replace(each.table, has_old_rows=False)
        assert found == expected
        assert not any(each.table.is_described for each in found)


def row(cell: str, **members: Any) -> dict[str, Any]:
    column = {"name": "a", "isKey": True, "value": cell, "mysqlType": "int", "sqlType": 4}
    return {**column, **members}


def entry(op: str, *datas: dict[str, Any]) -> dict[str, Any]:
    return {
        "header": {"executeTime": 5000, "schemaName": "shop", "tableName": "t"},
        "entryType": "ROWDATA",
        "storeValue": {"eventType": op, "rowDatas": list(datas)},
    }


def test_a_table_is_one_object_through_all_records() -> None:
    """What is planned for a table is kept by it."""
    value = packet([entry("INSERT", {"afterColumns": [row("1")]})])
    [one], [other] = CanalProtobuf().from_bytes(value), CanalProtobuf().from_bytes(value)
    assert one.table is other.table


def test_columns_that_only_some_rows_have_are_all_of_the_table() -> None:
    wide = {"afterColumns": [row("1"), row("x", name="b", isKey=False, mysqlType="varchar(9)")]}
    first, second = CanalProtobuf().from_bytes(
        packet([entry("INSERT", wide, {"afterColumns": [row("2", sqlType=-5)]})])
    )
    assert first.after == {"a": "1", "b": "x"} and second.after == {"a": "2"}
    assert first.table.columns == (Column("a", "int", -5), Column("b", "varchar(9)", 4))
    assert second.table is first.table and first.table.key == ("a",)


def test_a_column_twice_in_an_image_is_refused() -> None:
    with pytest.raises(ConversionError, match=r"shop.t: a row has a column twice"):
        CanalProtobuf().from_bytes(
            packet([entry("INSERT", {"afterColumns": [row("1"), row("2")]})])
        )


def test_a_packet_may_begin_with_its_magic_number() -> None:
    """As a canal of before 1.1 wrote it, whose defaults were written out."""
    body = {"batch_id": 1, "messages": [entry("DELETE", {"beforeColumns": [row("1")]})]}
    members = {"magic_number": 17, "version": 1, "type": "MESSAGES", "compression": "NONE"}
    [change] = Auto().from_bytes(encoded("Packet", {**members, "body": body}))
    assert (change.op, change.before) == (Op.DELETE, {"a": "1"})


def test_text_that_is_no_utf_8_is_refused() -> None:
    value = packet([entry("INSERT", {"afterColumns": [row("xyz")]})]).replace(b"xyz", b"x\xffz")
    with pytest.raises(ConversionError, match="not a packet of canal's"):
        CanalProtobuf().from_bytes(value)


@pytest.mark.parametrize("size", range(1, 40, 3))
def test_a_packet_that_was_cut_is_refused(size: int) -> None:
    with pytest.raises(ConversionError):
        CanalProtobuf().from_bytes(packet([entry("INSERT", {"afterColumns": [row("1")]})])[:-size])


def test_a_timestamp_is_a_time_of_the_zone_in_both_images() -> None:
    cells = {"name": "at", "mysqlType": "timestamp(3)", "sqlType": 93}
    images = {
        "beforeColumns": [row("2024-05-01 08:00:00.500", **cells)],
        "afterColumns": [row("0000-00-00 00:00:00.000", **cells)],
    }
    value = packet([entry("UPDATE", images)])
    [change] = make_converter("canalProtobuf", "Asia/Shanghai").from_bytes(value)
    assert change.before == {"at": "2024-05-01 00:00:00.500"}
    assert change.after == {"at": "0000-00-00 00:00:00.000"}
    assert takes_zone("canalProtobuf")


def test_columns_without_types_are_refused_while_a_zone_is_named() -> None:
    value = packet([entry("INSERT", {"afterColumns": [row("1", mysqlType="")]})])
    with pytest.raises(ConversionError, match=r"shop\.t names no types"):
        make_converter("canalProtobuf", "Asia/Shanghai").from_bytes(value)
    assert [change.after for change in CanalProtobuf().from_bytes(value)] == [{"a": "1"}]


def test_it_is_never_written() -> None:
    [change] = CanalProtobuf().from_bytes(packet([entry("DELETE", {"beforeColumns": [row("1")]})]))
    with pytest.raises(ConversionError, match="canalProtobuf is only read"):
        CanalProtobuf().to_bytes(change)


@pytest.fixture
def not_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(canal_schema, "FILE", tmp_path / "canal.desc")
    canal_schema.canal_schema.cache_clear()
    yield
    canal_schema.canal_schema.cache_clear()


def test_a_machine_without_protobuf_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """As an executor of Spark, to which the code goes alone."""
    canal_schema.canal_schema.cache_clear()
    monkeypatch.setitem(sys.modules, "google.protobuf", None)
    with pytest.raises(ConfigError, match="package protobuf is not installed"):
        make_converter("canalProtobuf")


@pytest.mark.usefixtures("not_built")
def test_a_source_tree_that_was_not_built_says_what_to_do_and_reads_the_rest() -> None:
    value = packet([entry("DELETE", {"beforeColumns": [row("1")]})])
    with pytest.raises(ConfigError, match=r"made of canal\.proto .* make install"):
        make_converter("canalProtobuf")
    with pytest.raises(ConfigError, match="make install"):
        Auto().from_bytes(value)
    assert Auto().from_bytes(flat([truncate()])[0]) == CanalRow().from_bytes(flat([truncate()])[0])
