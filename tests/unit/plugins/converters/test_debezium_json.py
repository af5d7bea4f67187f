"""debeziumJson: what the golden cases do not say: the short way for messages that begin with a
known schema."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.converters.debezium_json import DebeziumJson
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.rowchange import Op, RowChange, Table, TableId, Unclear

CONVERTER = DebeziumJson()


def message(row: dict[str, Any], *types: str, **payload: Any) -> dict[str, Any]:
    fields = [{"type": kind, "field": name} for name, kind in zip(row, types, strict=True)]
    source = {"db": "shop", "table": "orders", "ts_ms": 1}
    return {
        "schema": {
            "type": "struct",
            "fields": [{"type": "struct", "field": "after", "fields": fields}],
        },
        "payload": {"before": None, "after": row, "source": source, "op": "c", **payload},
    }


def read(text: str) -> list[RowChange]:
    return CONVERTER.from_bytes(text.encode())


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def test_spaces_and_order_make_no_difference() -> None:
    given = message({"id": 7, "n": "a"}, "int32", "string")
    changes = read(compact(given))
    assert [change.after for change in changes] == [{"id": "7", "n": "a"}]
    assert read(json.dumps(given, indent=1)) == changes
    assert read(compact(dict(reversed(given.items())))) == changes
    assert read(compact(given) + "\n") == changes
    assert read(compact({**given, "more": {}})) == changes


@given(st.text() | st.sampled_from([',"payload":', '","payload":{"op":"d"}}', '{"schema":', "}"]))
def test_no_text_is_taken_for_the_payload(text: str) -> None:
    # The key's name would give the key another cell.
    name = "x" if text in ("", "id") else text
    row = {"id": 7, "payload": text, name: "a"}
    types = ["int32", "string", "string"][: len(row)]
    (change,) = read(compact(message(row, *types)))
    assert change.after == {"id": "7", "payload": row["payload"], name: "a"}


def test_a_payload_inside_the_schema_is_not_the_row() -> None:
    given = message({"id": 7}, "int32")
    given["schema"]["default"] = {"x": 1, "payload": given["payload"] | {"op": "d"}}
    assert [change.op for change in read(compact(given))] == [Op.INSERT]


@pytest.mark.parametrize("end", ["", "x", "}}", ",", '"'])
def test_a_record_that_ends_wrongly_is_refused_also_when_its_schema_is_known(end: str) -> None:
    right = compact(message({"id": 7}, "int32"))
    assert len(read(right)) == 1
    with pytest.raises(ConversionError, match="not JSON"):
        read(right[:-1] + end)


def test_rows_of_a_table_share_their_table() -> None:
    first, second = (read(compact(message({"id": number}, "int32")))[0] for number in (7, 8))
    assert first.table is second.table


@pytest.mark.parametrize("text", ["BOI", "BO=I", "price=", "a=b=", "=", "BOI= ", "Ä=="])
def test_text_that_only_looks_like_base64_stays_text_without_a_schema(text: str) -> None:
    (change,) = read(compact(message({"t": text}, "string")["payload"]))
    assert change.after == {"t": text}


@pytest.mark.parametrize(
    ("row", "types"),
    [
        ({"a": "7"}, ["int32"]),
        ({"a": 7}, ["string"]),
        ({"a": 1.5}, ["int64"]),
        ({"a": "yes"}, ["boolean"]),
        ({"a": "*"}, ["bytes"]),
        ({"a": "7"}, ["double"]),
    ],
)
def test_a_value_of_another_type_is_named_without_being_shown(
    row: dict[str, Any], types: list[str]
) -> None:
    with pytest.raises(ConversionError, match=r"shop.orders: column a does not fit its schema$"):
        read(compact(message(row, *types)))


def test_a_column_without_a_schema_is_named() -> None:
    given = message({"id": 7}, "int32")
    given["payload"]["after"]["extra"] = 1
    with pytest.raises(ConversionError, match="column extra does not fit"):
        read(compact(given))


@pytest.mark.parametrize(
    "payload",
    [
        {"op": "u", "after": None},
        {"op": "c", "after": None},
        {"op": "d"},
        {"op": "x"},
        {"op": 1},
        {"source": {}},
    ],
)
def test_an_event_without_its_row_is_refused(payload: dict[str, Any]) -> None:
    with pytest.raises(ConversionError):
        read(compact(message({"id": 7}, "int32", **payload)))


def test_it_is_only_read() -> None:
    with pytest.raises(ConversionError, match="debeziumJson is only read"):
        CONVERTER.to_bytes(
            RowChange(Table(TableId("shop", "orders"), (), ()), Op.TRUNCATE, None, None)
        )


def test_columns_without_a_schema_are_marked_as_unclear() -> None:
    given = message({"id": 7, "day": 20101}, "int32", "int32")
    [typed], [untyped] = read(compact(given)), read(compact(given["payload"]))
    assert {column.unclear for column in typed.table.columns} == {Unclear.NOTHING}
    assert {column.unclear for column in untyped.table.columns} == {
        Unclear.TIMES | Unclear.BYTES | Unclear.BITS
    }
