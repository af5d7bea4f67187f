"""canalRow: what we write is read back; what canal and others write is read."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcbus.plugins.converters.canal_row import CanalCompat, CanalRow
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.rowchange import Column, Op, Origin, Row, RowChange, Table, TableDdl, TableId
from tests.unit.plugins.converters.rows import changes

CONVERTER = CanalRow()
TABLE = Table(
    TableId("shop", "orders"), (Column("id", "int", 4), Column("note", "varchar(20)", 12)), ("id",)
)
ORIGIN = Origin("mysql-bin.000501", 1234, "0-1-42", 1, 1_714_532_645_678_901)

# What canal itself publishes: many rows, no keys of ours, and `old` with the changed columns only.
FROM_CANAL: dict[str, Any] = {
    "data": [{"id": "1", "note": "a"}, {"id": "2", "note": None}],
    "database": "shop",
    "es": 1_714_532_645_000,
    "gtid": "",
    "id": 17,
    "isDdl": False,
    "mysqlType": {"id": "int", "note": "varchar(20)"},
    "old": None,
    "pkNames": ["id"],
    "sql": "",
    "sqlType": {"id": 4, "note": 12},
    "table": "orders",
    "ts": 1_714_532_645_700,
    "type": "INSERT",
}


def read(**members: Any) -> list[RowChange]:
    return CONVERTER.from_bytes(orjson.dumps({**FROM_CANAL, **members}))


@given(changes())
def test_every_row_change_is_read_back(change: RowChange) -> None:
    assert CONVERTER.from_bytes(CONVERTER.to_bytes(change)) == [change]


LOGGED = Table(
    TableId("shop", "orders"),
    (Column("id", "int", 4), Column("code", "varchar(9)", 12), Column("pic", "longblob", 2004)),
    ("id",),
)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"id": "1"}, {"code": "B"}),
        ({"id": "1"}, {"id": "1", "code": "B"}),
        ({"id": "1"}, {"id": "2", "pic": "x"}),
        ({"id": "1"}, {"code": "B", "pic": "x"}),
        ({"id": "1", "code": "A"}, {"id": "1", "code": "B"}),
        ({"id": "1"}, {"id": "1", "code": "B", "pic": "x"}),
        ({"id": "1"}, {"id": "2", "code": "B"}),
        ({"id": "1", "code": "A"}, {"id": "1", "code": "A", "pic": "x"}),
        ({"code": "A"}, {"id": "1", "code": "A"}),
        ({}, {"id": "1", "code": "B", "pic": "x"}),
        ({"id": "1", "code": "A", "pic": "x"}, {"code": "B", "pic": "x"}),
    ],
    ids=[
        *("MINIMAL", "key set, too", "key changed", "large one set", "NOBLOB"),
        *("REPLACE", "all but large ones set", "NOBLOB, large one set", "key set only", "nothing"),
        "MINIMAL without a key",
    ],
)
@pytest.mark.parametrize("key", [("id",), ()])
def test_an_old_row_in_part_is_read_as_it_was_logged(
    key: tuple[str, ...], before: dict[str, str | None], after: dict[str, str | None]
) -> None:
    change = RowChange(replace(LOGGED, key=key), Op.UPDATE, before, after, ORIGIN)
    [found] = CONVERTER.from_bytes(CONVERTER.to_bytes(change))
    assert (found.before, found.after) == (before, after)


@given(changes(may_lack_columns=True), st.booleans(), st.data())
def test_no_old_cell_is_made_up_or_lost(
    change: RowChange, is_described: bool, data: st.DataObject
) -> None:
    """Whatever the images lack, and whatever the record tells of the table."""
    if change.before and change.after:
        lacking = st.sets(st.sampled_from(sorted(change.after)))
        before = _without(change.before, data.draw(lacking))
        after = _without(change.after, data.draw(lacking))
        change = replace(change, before=before, after=after)
    change = replace(change, table=replace(change.table, is_described=is_described))
    [found] = CONVERTER.from_bytes(CONVERTER.to_bytes(change))
    assert found.after == change.after
    assert found.before == change.before


def _without(row: Row, names: set[str]) -> Row:
    return {name: cell for name, cell in row.items() if name not in names}


@pytest.mark.parametrize("before", [{"id": "1"}, {}], ids=["part", "nothing"])
def test_old_rows_in_part_are_joined(before: Row) -> None:
    of_one = RowChange(TABLE, Op.UPDATE, before, {"id": "1", "note": "a"})
    both = [of_one, replace(of_one, row=1, is_last=True)]
    assert CONVERTER.from_bytes(CONVERTER.joined(list(map(CONVERTER.to_bytes, both)))) == both


def test_what_is_unknown_is_a_list_of_names() -> None:
    with pytest.raises(ConversionError, match=r"shop\.orders: unknown is not a list of names"):
        read(type="UPDATE", old=[{}, {}], unknown="note")


def test_an_update_is_written_with_all_of_canal_s_members_and_ours() -> None:
    before, after = {"id": "1", "note": None}, {"id": "1", "note": "new"}
    message = json.loads(
        CONVERTER.to_bytes(RowChange(TABLE, Op.UPDATE, before, after, ORIGIN, row=3, is_last=True))
    )
    assert isinstance(message.pop("ts"), int)
    assert message == {
        "data": [{"id": "1", "note": "new"}],
        "database": "shop",
        "es": 1_714_532_645_678,
        "file": "mysql-bin.000501",
        "gtid": "0-1-42",
        "id": 0,
        "isDdl": False,
        "mysqlType": {"id": "int", "note": "varchar(20)"},
        "old": [{"note": None}],
        "pkNames": ["id"],
        "pos": 1234,
        "row": 3,
        "serverId": 1,
        "sql": "",
        "sqlType": {"id": 4, "note": 12},
        "table": "orders",
        "txLast": True,
        "type": "UPDATE",
    }


@pytest.mark.parametrize(("op", "data"), [(Op.INSERT, [{"id": "2"}]), (Op.DELETE, [{"id": "1"}])])
def test_insert_and_delete_have_no_old(op: Op, data: list[dict[str, str]]) -> None:
    before, after = (None, {"id": "2"}) if op is Op.INSERT else ({"id": "1"}, None)
    message = json.loads(CONVERTER.to_bytes(RowChange(TABLE, op, before, after)))
    assert (message["type"], message["data"], message["old"]) == (op.value, data, None)


def test_an_update_that_changes_nothing_has_an_empty_old() -> None:
    row = {"id": "1", "note": None}
    assert json.loads(CONVERTER.to_bytes(RowChange(TABLE, Op.UPDATE, row, row)))["old"] == [{}]


def test_a_truncate_is_written_as_canal_does() -> None:
    message = json.loads(CONVERTER.to_bytes(RowChange(TABLE, Op.TRUNCATE, None, None)))
    assert {
        key: message[key]
        for key in ("type", "isDdl", "sql", "data", "old", "sqlType", "mysqlType", "pkNames")
    } == {
        "type": "TRUNCATE",
        "isDdl": True,
        "sql": "TRUNCATE TABLE `orders`",
        "data": None,
        "old": None,
        "sqlType": None,
        "mysqlType": None,
        "pkNames": None,
    }


@pytest.mark.parametrize("converter", [CanalRow(), CanalCompat()])
def test_ddl_is_written_as_canal_does_and_passed_over(converter: CanalRow) -> None:
    value = converter.ddl_to_bytes(
        TableDdl(TABLE.id, "ALTER", "ALTER TABLE orders ADD `größe` INT", ORIGIN)
    )
    assert {
        key: member
        for key, member in json.loads(value).items()
        if key in FROM_CANAL and key != "ts"
    } == {
        "data": None,
        "database": "shop",
        "es": ORIGIN.commit_ms - (ORIGIN.commit_ms % 1000 if type(converter) is CanalCompat else 0),
        "gtid": "0-1-42",
        "id": 0,
        "isDdl": True,
        "mysqlType": None,
        "old": None,
        "pkNames": None,
        "sql": "ALTER TABLE orders ADD `größe` INT",
        "sqlType": None,
        "table": "orders",
        "type": "ALTER",
    }
    assert converter.from_bytes(value) == []


@pytest.mark.parametrize(
    "kind", ["CREATE", "ALTER", "ERASE", "QUERY", "RENAME", "CINDEX", "DINDEX"]
)
def test_ddl_of_canal_holds_no_row_also_where_it_names_no_table(kind: str) -> None:
    nothing = dict.fromkeys(("data", "mysqlType", "old", "pkNames", "sqlType"))
    assert (
        read(**nothing, type=kind, isDdl=True, database=None, table="", sql="DROP DATABASE shop")
        == []
    )


def test_a_table_without_key_has_null_pk_names() -> None:
    message = json.loads(
        CONVERTER.to_bytes(
            RowChange(Table(TABLE.id, TABLE.columns, ()), Op.INSERT, None, {"id": "1"})
        )
    )
    assert message["pkNames"] is None
    assert CONVERTER.from_bytes(orjson.dumps(message))[0].table.key == ()


def test_the_rows_of_one_message_are_read_in_order() -> None:
    first, second = read()
    assert (first.op, first.before, first.after) == (Op.INSERT, None, {"id": "1", "note": "a"})
    assert second.after == {"id": "2", "note": None}
    assert first.table is second.table
    assert first.table == replace(TABLE, is_described=False, has_old_rows=False)
    assert (first.row, second.row) == (0, 1)
    assert first.origin == Origin(commit_us=1_714_532_645_000_000)


def test_our_own_members_count_on_through_a_message() -> None:
    assert [(change.row, change.is_last) for change in read(row=5, txLast=True)] == [
        (5, False),
        (6, True),
    ]


def test_old_gives_back_the_whole_row_before() -> None:
    first, second = read(type="UPDATE", old=[{"note": None}, {}])
    assert (first.before, first.after) == ({"id": "1", "note": None}, {"id": "1", "note": "a"})
    assert second.before == second.after == {"id": "2", "note": None}


def test_null_in_place_of_one_row_s_old_is_an_update_without_change() -> None:
    assert read(type="UPDATE", old=[None, None])[0].before == {"id": "1", "note": "a"}


@pytest.mark.parametrize("old", [{"old": None}, {}], ids=["null", "absent"])
def test_an_update_without_old_knows_nothing_of_the_row_before(old: dict[str, None]) -> None:
    message = (
        {key: value for key, value in FROM_CANAL.items() if key != "old"} | {"type": "UPDATE"} | old
    )
    assert [change.before for change in CONVERTER.from_bytes(orjson.dumps(message))] == [{}, {}]


def test_a_delete_has_its_rows_before() -> None:
    assert [(change.op, change.before, change.after) for change in read(type="DELETE")] == [
        (Op.DELETE, {"id": "1", "note": "a"}, None),
        (Op.DELETE, {"id": "2", "note": None}, None),
    ]


def test_numbers_keep_every_digit() -> None:
    numbers = (
        b"12345678901234567890123456789012345.678901234567890123456789012345, -0.10, 1e5, "
        b"18446744073709551616, 7, true"
    )
    value = orjson.dumps({**FROM_CANAL, "data": "?"}).replace(
        b'"?"', b'[{"n":' + numbers.replace(b", ", b'},{"n":') + b"}]"
    )
    texts = [
        "12345678901234567890123456789012345.678901234567890123456789012345",
        "-0.10",
        "1e5",
        "18446744073709551616",
        "7",
        "1",
    ]
    assert [change.after for change in CONVERTER.from_bytes(value)] == [
        {"n": text} for text in texts
    ]


def test_numbers_of_old_keep_every_digit() -> None:
    value = orjson.dumps(
        {**FROM_CANAL, "type": "UPDATE", "data": [{"n": "1"}], "old": "?"}
    ).replace(b'"?"', b'[{"n":0.1000}]')
    assert CONVERTER.from_bytes(value)[0].before == {"n": "0.1000"}


def test_a_json_value_in_place_of_its_text_is_a_cell_as_well() -> None:
    value = orjson.dumps({**FROM_CANAL, "data": "?"}).replace(
        b'"?"', '[{"j":{"a":[1.50,null,true,"ü\\""],"b":12}}]'.encode()
    )
    assert CONVERTER.from_bytes(value)[0].after == {"j": '{"a":[1.50,null,true,"ü\\""],"b":12}'}


@pytest.mark.parametrize(
    "nothing", [{"pkNames": None}, {"mysqlType": None, "sqlType": None}, {"gtid": None, "es": None}]
)
def test_members_may_be_null(nothing: dict[str, None]) -> None:
    assert [change.after for change in read(**nothing)] == [
        {"id": "1", "note": "a"},
        {"id": "2", "note": None},
    ]


@pytest.mark.parametrize(
    "kind",
    [
        "CREATE",
        "ALTER",
        "ERASE",
        "QUERY",
        "RENAME",
        "CINDEX",
        "DINDEX",
        "GTID",
        "XACOMMIT",
        "XAROLLBACK",
        "MHEARTBEAT",
    ],
)
def test_types_without_rows_give_none(kind: str) -> None:
    assert (
        read(
            type=kind,
            isDdl=kind in ("CREATE", "ALTER"),
            data=None,
            sql="ALTER TABLE orders ADD x INT",
        )
        == []
    )


def test_canal_s_truncate_is_an_operation() -> None:
    (change,) = read(
        type="TRUNCATE",
        isDdl=True,
        data=None,
        sqlType=None,
        mysqlType=None,
        pkNames=None,
        sql="truncate table orders",
    )
    assert (change.op, change.table.id, change.before, change.after) == (
        Op.TRUNCATE,
        TableId("shop", "orders"),
        None,
        None,
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"", "not JSON"),
        (b"\xff", "not JSON"),
        (b'{"type": "INSERT"', "not JSON"),
        (b"[]", "an object with the keys"),
        (b"7", "an object with the keys"),
        (b"{}", "an object with the keys"),
        (b'{"type": 1}', "an object with the keys"),
        (b'{"type": "UPSERT"}', "unknown type 'UPSERT'"),
        (b'{"type": "INSERT", "table": "t", "data": []}', "without database and table"),
        (
            b'{"type": "INSERT", "database": "s", "table": "", "data": []}',
            "without database and table",
        ),
        (b'{"type": "INSERT", "database": "s", "table": "t"}', "s.t: data is not a list of rows"),
        (
            b'{"type": "INSERT", "database": "s", "table": "t", "data": {"a": "1"}}',
            "s.t: data is not a list of rows",
        ),
        (
            b'{"type": "DELETE", "database": "s", "table": "t", "data": [null]}',
            "s.t: data is not a list of rows",
        ),
        (
            b'{"type": "UPDATE", "database": "s", "table": "t", "data": [{"a": "1"}], "old": []}',
            "s.t: old does not pair with data",
        ),
        (
            b'{"type": "UPDATE", "database": "s", "table": "t", "data": [{"a": "1"}], "old": '
            b'{"a": "1"}}',
            "s.t: old does not pair with data",
        ),
        (
            b'{"type": "UPDATE", "database": "s", "table": "t", "data": [{"a": "1"}], "old": '
            b'["a"]}',
            "s.t: old does not pair with data",
        ),
        (
            b'{"type": "INSERT", "database": "s", "table": "t", "data": [], "mysqlType": ["int"]}',
            "s.t: mysqlType, sqlType and pkNames",
        ),
        (
            b'{"type": "INSERT", "database": "s", "table": "t", "data": [], "pkNames": 3}',
            "s.t: mysqlType, sqlType and pkNames",
        ),
        (
            b'{"type": "INSERT", "database": "s", "table": "t", "data": [], "pkNames": "id"}',
            "s.t: mysqlType, sqlType and pkNames",
        ),
    ],
)
def test_what_is_no_canal_row_is_named_never_skipped(value: bytes, words: str) -> None:
    with pytest.raises(ConversionError, match=words):
        CONVERTER.from_bytes(value)


@pytest.mark.parametrize("es", [1_714_532_645_678_901, 1_714_532_645_678_901_234, -(10**15)])
def test_a_time_in_another_unit_is_unknown_and_costs_no_row(es: int) -> None:
    for converter in (CONVERTER, CanalCompat()):
        value = orjson.dumps({**FROM_CANAL, "es": es})
        (first, _) = converter.from_bytes(value)
        assert (first.after, first.origin.commit_us) == ({"id": "1", "note": "a"}, 0)


AWKWARD = '"old":[{"a":"],\\"pkNames\\":"txLast":false,"type":"UPDATE"}'


@pytest.mark.parametrize("converter", [CanalRow(), CanalCompat()])
@settings(max_examples=60)
@given(
    st.sampled_from([Op.INSERT, Op.UPDATE, Op.DELETE]),
    st.lists(st.tuples(*[st.none() | st.text() | st.just(AWKWARD)] * 2), min_size=1),
)
def test_joined_records_have_all_rows_in_order(
    converter: CanalRow, op: Op, cells: list[tuple[str | None, str | None]]
) -> None:
    """Also where names and cells look like the parts of a message."""
    table = Table(
        TableId("shop", '],"pkNames":'),
        (Column("id", "int", 4), Column('"old":[', "varchar(20)", 12)),
        ("id",),
    )
    rows = [{"id": str(number), '"old":[': cell} for number, (cell, _) in enumerate(cells)]
    olds = [{"id": str(number), '"old":[': cell} for number, (_, cell) in enumerate(cells)]
    changes = [
        RowChange(
            table,
            op,
            None if op is Op.INSERT else old,
            None if op is Op.DELETE else row,
            ORIGIN,
            5 + number,
            number == len(rows) - 1,
        )
        for number, (old, row) in enumerate(zip(olds, rows, strict=True))
    ]
    value = converter.joined([converter.to_bytes(change) for change in changes])
    assert converter.from_bytes(value) == each_read(converter, changes)
    assert list(json.loads(value)) == list(json.loads(converter.to_bytes(changes[0])))


def each_read(converter: CanalRow, changes: list[RowChange]) -> list[RowChange]:
    """Each by itself; a format without row numbers counts from 0 in each record."""
    found = [converter.from_bytes(converter.to_bytes(change))[0] for change in changes]
    return (
        [replace(change, row=number) for number, change in enumerate(found)]
        if type(converter) is CanalCompat
        else found
    )
