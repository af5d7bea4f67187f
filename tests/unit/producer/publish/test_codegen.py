"""Writers of a table, generated and compiled: the same records as the row-at-a-time path, for any
table and any rows."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.kafka.record_key import ByTable, Record, key_text
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Op, RowChange, TableId
from cdcbus.producer.decoding import charsets
from cdcbus.producer.decoding.column_types import BinlogColumn, timestamp_text
from cdcbus.producer.decoding.decimals import decimal_size
from cdcbus.producer.decoding.table import decodable
from cdcbus.producer.decoding.table_map import TableMap
from cdcbus.producer.publish import codegen, native
from cdcbus.producer.publish.codegen import TableWriter
from cdcbus.producer.publish.native import MakePlan
from cdcbus.producer.source.row_events import Rows
from tests.unit.producer.publish.row_images import (
    BOTH,
    COMPILED,
    DELETE,
    FORMATS,
    ORIGIN,
    UPDATE,
    WAYS,
    WRITE,
    cases,
    event_body,
    null_bitmap,
    plain,
    written,
)

pytestmark = pytest.mark.usefixtures("stopped_clock")


@settings(max_examples=400)
@given(case=cases(), first_row=st.integers(0, 5))
def test_records_of_both_writers_are_the_plain_ones_in_each_format(
    case: tuple[Rows, tuple[str, ...]], first_row: int
) -> None:
    rows, key = case
    for name, make_plan in product(FORMATS, BOTH):
        wanted, found = written(rows, name, key, make_plan, first_row)
        assert found == wanted, (name, make_plan)


def orders(rows: list[tuple[int, str | None]], *, is_last: bool = False) -> Rows:
    """Inserts into a table of a number and a text."""
    columns = (
        BinlogColumn("id", TYPE.LONG),
        BinlogColumn("note", TYPE.VARCHAR, (255, 0), charset="utf8mb4"),
    )
    table = decodable(TableMap(TableId("shop", "orders"), columns, ("id",), is_complete=True))
    images = []
    for number, note in rows:
        text = b"" if note is None else bytes((len(note.encode()),)) + note.encode()
        images.append(null_bitmap([False, note is None]) + number.to_bytes(4, "little") + text)
    return Rows(table, WRITE, event_body(WRITE, 2, [[True, True]], images), ORIGIN, is_last=is_last)


def never(change: RowChange) -> list[Record]:
    raise AssertionError("the row-at-a-time path was taken")


def data(records: list[Record]) -> list[Any]:
    return [orjson.loads(record["value"])["data"][0] for record in records]


@WAYS
@pytest.mark.parametrize("name", FORMATS)
def test_ordinary_rows_do_not_take_the_plain_way(name: str, make_plan: MakePlan | None) -> None:
    rows = orders([(1, "a"), (2, None), (3, None), (4, "d")])
    records, count = TableWriter(
        rows.table, make_converter(name), ("id",), never, make_plan=make_plan
    ).records(rows, 0)
    assert count == len(records) == 4
    assert [record["key"] for record in records] == [b"1_", b"2_", b"3_", b"4_"]


@WAYS
def test_only_the_last_row_of_a_transaction_is_marked(make_plan: MakePlan | None) -> None:
    rows = orders([(1, "a"), (2, "b")], is_last=True)
    records, _ = TableWriter(
        rows.table, make_converter("canalRow"), ("id",), never, make_plan=make_plan
    ).records(rows, 0)
    assert [orjson.loads(record["value"])["txLast"] for record in records] == [False, True]


def test_patterns_beyond_the_limit_take_the_plain_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codegen, "PATTERNS", 1)
    rows = orders([(1, "a"), (2, None), (3, "c")])
    converter = make_converter("canalRow")
    taken: list[RowChange] = []

    def noted(change: RowChange) -> list[Record]:
        taken.append(change)
        return plain(converter, ("id",))(change)

    writer = TableWriter(rows.table, converter, ("id",), noted, make_plan=None)
    records, _ = writer.records(rows, 0)
    assert data(records) == [
        {"id": "1", "note": "a"},
        {"id": "2", "note": None},
        {"id": "3", "note": "c"},
    ]
    assert [change.row for change in taken] == [1]
    # Nothing grows with their number.
    (shape,) = writer._shapes.values()
    assert shape is not None
    assert len(shape.latest) == 1


@WAYS
@pytest.mark.parametrize("charset", sorted(charsets.NAMES))
def test_every_byte_of_every_charset_is_the_plain_one(
    charset: str, make_plan: MakePlan | None
) -> None:
    column = BinlogColumn("note", TYPE.BLOB, (2, 0), charset=charset)
    table = decodable(TableMap(TableId("shop", "orders"), (column,), ("note",), is_complete=True))
    texts = [bytes(range(256)), *(bytes((byte, byte)) for byte in range(256))]
    rows = Rows(
        table,
        WRITE,
        event_body(
            WRITE, 1, [[True]], [b"\0" + len(raw).to_bytes(2, "little") + raw for raw in texts]
        ),
        ORIGIN,
    )
    wanted, found = written(rows, "canalRow", ("note",), make_plan)
    assert found == wanted


def values(column: BinlogColumn, cells: list[bytes]) -> Rows:
    """Inserts into a table of one column."""
    table = decodable(
        TableMap(TableId("shop", "orders"), (column,), (column.name,), is_complete=True)
    )
    return Rows(
        table, WRITE, event_body(WRITE, 1, [[True]], [b"\0" + cell for cell in cells]), ORIGIN
    )


@pytest.mark.parametrize("make_plan", [COMPILED])
def test_what_is_utf8_is_what_python_says(make_plan: MakePlan) -> None:
    edges = bytes.fromhex("41 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 ff")
    texts = [bytes(text) for size in (1, 2, 3) for text in product(edges, repeat=size)]
    texts += [
        bytes(text)
        for text in product(
            b"\xf0\xf1\xf3\xf4\xf5",
            b"\x7f\x80\x8f\x90\xbf\xc0",
            b"\x7f\x80\xbf\xc0",
            b"\x7f\x80\xbf\xc0",
        )
    ]
    rows = values(
        BinlogColumn("note", TYPE.VARCHAR, (20, 0), charset="utf8mb4"),
        [bytes((len(text),)) + text for text in texts],
    )
    plainly: list[int] = []

    def noted(change: RowChange) -> list[Record]:
        plainly.append(change.row)
        return [{"key": key_text(change, ("note",)), "value": b""}]

    records, _ = TableWriter(
        rows.table, make_converter("canalRow"), ("note",), noted, make_plan=make_plan
    ).records(rows, 0)
    assert [record["key"] for record in records] == [
        f"{text.decode(errors='backslashreplace')}_".encode() for text in texts
    ]
    assert plainly == [
        row for row, text in enumerate(texts) if text.decode(errors="ignore").encode() != text
    ]


@WAYS
def test_every_day_of_a_timestamp_is_the_plain_one(make_plan: MakePlan | None) -> None:
    seconds = [
        (day * 86400 + second) % 2**32 for day in range(2**32 // 86400 + 1) for second in (0, 86399)
    ]
    rows = values(
        BinlogColumn("at", TYPE.TIMESTAMP2, (0, 0)),
        [second.to_bytes(4, "big") for second in seconds],
    )
    made, _ = TableWriter(
        rows.table, make_converter("canalRow"), ("at",), never, make_plan=make_plan
    ).records(rows, 0)
    assert [record["key"].decode()[:-1] for record in made] == [
        timestamp_text(second, "") for second in seconds
    ]


@pytest.mark.parametrize("make_plan", [COMPILED])
@pytest.mark.parametrize("meta", [(1, 0), (5, 5), (10, 2), (18, 9), (19, 0), (30, 10)])
def test_decimals_as_no_server_writes_them_are_the_plain_ones(
    meta: tuple[int, int], make_plan: MakePlan
) -> None:
    size = decimal_size(*meta)
    cells = [
        bytes((first,)) + bytes((rest,)) * (size - 1)
        for first in range(256)
        for rest in (0, 1, 0x3B, 0x7F, 0x80, 0xFF)
    ]
    wanted, found = written(
        values(BinlogColumn("n", TYPE.NEWDECIMAL, meta), cells), "canalRow", ("n",), make_plan
    )
    assert found == wanted


@WAYS
@pytest.mark.parametrize(
    ("column", "before", "after"),
    [
        (BinlogColumn("state", TYPE.ENUM, (1, 0), charset="utf8mb4", labels=("",)), b"\0", b"\1"),
        (BinlogColumn("state", TYPE.VARCHAR, (20, 0), charset="ascii"), b"\1\x81", b"\4\\x81"),
    ],
)
def test_another_value_with_the_same_text_is_no_change(
    column: BinlogColumn, before: bytes, after: bytes, make_plan: MakePlan | None
) -> None:
    table = decodable(TableMap(TableId("shop", "orders"), (column,), (), is_complete=True))
    rows = Rows(
        table,
        UPDATE,
        event_body(UPDATE, 1, [[True], [True]], [b"\0" + before, b"\0" + after]),
        ORIGIN,
    )
    wanted, found = written(rows, "canalRow", (), make_plan)
    assert found == wanted
    assert orjson.loads(found[0][0]["value"])["old"] == [{}]


@pytest.mark.parametrize("make_plan", [COMPILED])
def test_what_is_not_for_the_compiled_writer_goes_the_plain_way_in_its_place(
    make_plan: MakePlan,
) -> None:
    rows = orders([(1, "a"), (2, "b"), (3, "c")])
    rows = replace(rows, body=rows.body.replace(b"\1b", b"\1\xff"))
    taken: list[int] = []
    converter = make_converter("canalRow")

    def noted(change: RowChange) -> list[Record]:
        taken.append(change.row)
        return plain(converter, ("id",))(change)

    records, _ = TableWriter(rows.table, converter, ("id",), noted, make_plan=make_plan).records(
        rows, 0
    )
    assert [row["note"] for row in data(records)] == ["a", "\\xff", "c"]
    assert taken == [1]


@pytest.mark.parametrize("make_plan", [COMPILED])
@pytest.mark.parametrize(
    ("place", "wrong"),
    [(0, None), (1, (1,)), (1, (-1,)), (2, (7,)), (4, (1,)), (5, (7,)), (7, (5,))],
)
def test_a_plan_that_would_reach_beyond_its_bounds_is_refused(
    make_plan: MakePlan, place: int, wrong: Any
) -> None:
    column = native.CellPlan(1, 8)
    arguments: list[Any] = [(column,), (0,), (), False, (), (0,), b"", (), b""]
    plan = make_plan(*arguments)
    with pytest.raises(ValueError, match="the texts are one more than the placeholders"):
        plan.write(b"", 0, 0, False, (), [])
    with pytest.raises(ValueError, match="places are not negative"):
        plan.write(b"", -1, 0, False, ("",), [])
    arguments[place] = (column._replace(size=9),) if wrong is None else wrong
    with pytest.raises(ValueError, match=r"out of range|not one that can be read"):
        make_plan(*arguments)


@WAYS
def test_a_column_as_no_server_has_it_is_read_all_the_same(make_plan: MakePlan | None) -> None:
    column = BinlogColumn("n", TYPE.NEWDECIMAL, (81, 0))
    table = decodable(TableMap(TableId("shop", "orders"), (column,), (), is_complete=True))
    rows = Rows(
        table, WRITE, event_body(WRITE, 1, [[True]], [b"\0\x80" + bytes(34) + b"\7"]), ORIGIN
    )
    wanted, found = written(rows, "canalRow", (), make_plan)
    assert found == wanted
    assert data(found[0]) == [{"n": "7"}]


def test_rows_that_do_not_fit_their_table_say_so() -> None:
    rows = orders([(1, "abc"), (2, "def")])
    for size in range(len(rows.body) - 1, len(rows.body) - 6, -1):
        cut = replace(rows, body=rows.body[:size])
        with pytest.raises(
            UnreadableEvent,
            match=r"mysql-bin\.000042:4711: table shop\.orders: a row is longer than its event",
        ):
            TableWriter(
                rows.table,
                make_converter("canalRow"),
                ("id",),
                plain(make_converter("canalRow"), ("id",)),
            ).records(cut, 0)


@WAYS
@pytest.mark.parametrize("kind", [WRITE, UPDATE, DELETE])
def test_rows_without_columns_end(kind: int, make_plan: MakePlan | None) -> None:
    bitmaps = [[False, False]] * (2 if kind == UPDATE else 1)
    rows = replace(orders([]), kind=kind, body=event_body(kind, 2, bitmaps, [b"\0"]))
    wanted, found = written(rows, "canalRow", (), make_plan)
    assert found == wanted == "mysql-bin.000042:4711: table shop.orders: rows without columns"


def test_a_label_that_the_column_does_not_have_says_so() -> None:
    column = BinlogColumn("state", TYPE.ENUM, (1, 0), charset="utf8mb4", labels=("new",))
    table = decodable(TableMap(TableId("shop", "orders"), (column,), (), is_complete=True))
    rows = Rows(table, WRITE, event_body(WRITE, 1, [[True]], [b"\0\2"]), ORIGIN)
    with pytest.raises(
        UnreadableEvent, match="enum column state has 1 labels, the row holds number 2"
    ):
        TableWriter(table, make_converter("oggJson"), (), never).records(rows, 0)


def test_whatever_cannot_be_read_is_named_with_its_place() -> None:
    column = BinlogColumn("flags", TYPE.SET, (1, 0), charset="utf8mb4", labels=("a",))
    table = decodable(TableMap(TableId("shop", "orders"), (column,), (), is_complete=True))
    rows = Rows(table, WRITE, event_body(WRITE, 1, [[True]], [b"\0\2"]), ORIGIN)
    too_many = replace(rows, body=event_body(WRITE, 2, [[True, True]], [b"\0\1\1"]))
    for wrong, what in (
        (rows, "set column flags"),
        (too_many, "table shop.orders: the row event has 2 columns"),
    ):
        with pytest.raises(UnreadableEvent, match=rf"^mysql-bin\.000042:4711: {what}"):
            TableWriter(table, make_converter("canalRow"), (), never).records(wrong, 0)


def test_every_operation_has_the_right_word() -> None:
    rows = orders([(1, "a")])
    words = {}
    for kind, op in ((WRITE, Op.INSERT), (DELETE, Op.DELETE)):
        records, _ = TableWriter(rows.table, make_converter("canalRow"), ("id",), never).records(
            replace(rows, kind=kind), 0
        )
        words[op] = orjson.loads(records[0]["value"])["type"]
    assert words == {Op.INSERT: "INSERT", Op.DELETE: "DELETE"}


NOTE_ONLY = null_bitmap([False]) + b"\1a"


@pytest.mark.parametrize("kind", [WRITE, UPDATE, DELETE])
def test_a_partial_image_is_refused_by_name_unless_it_is_wanted(kind: int) -> None:
    sides = 2 if kind == UPDATE else 1
    rows = replace(
        orders([]),
        kind=kind,
        body=event_body(kind, 2, [[False, True]] * sides, [NOTE_ONLY] * sides),
    )
    converter = make_converter("canalRow")
    with pytest.raises(
        UnreadableEvent,
        match=r"mysql-bin\.000042:4711: table shop\.orders: [A-Z]+ without column id, "
        r".*rowImage=any",
    ):
        TableWriter(rows.table, converter, ("note",), plain(converter, ("note",))).records(rows, 0)
    records, _ = TableWriter(
        rows.table, converter, ("note",), plain(converter, ("note",)), takes_partial=True
    ).records(rows, 0)
    assert data(records)[-1] == {"note": "a"}


def test_a_record_key_that_the_images_lack_is_not_guessed() -> None:
    rows = replace(orders([]), body=event_body(WRITE, 2, [[False, True]], [NOTE_ONLY]))
    converter = make_converter("canalRow")
    with pytest.raises(
        UnreadableEvent, match="the record key needs column id, which the row image lacks"
    ):
        TableWriter(
            rows.table, converter, ("id",), plain(converter, ("id",)), takes_partial=True
        ).records(rows, 0)


ID_ONLY, WHOLE = null_bitmap([False]) + b"\7\0\0\0", null_bitmap([False, False]) + b"\7\0\0\0"


@WAYS
@pytest.mark.parametrize("name", FORMATS)
def test_an_update_that_sets_a_record_key_whose_former_one_was_not_logged_is_not_sent(
    name: str, make_plan: MakePlan | None
) -> None:
    images = [ID_ONLY, NOTE_ONLY]
    body = event_body(UPDATE, 2, [[True, False], [False, True]], images)
    rows = replace(orders([]), kind=UPDATE, body=body)
    wanted, found = written(rows, name, ("note",), make_plan)
    assert found == wanted
    assert found == (
        "mysql-bin.000042:4711: table shop.orders: the record key needs column note, which the "
        "row image lacks. Set binlog_row_image=FULL at the source"
    )


@WAYS
@pytest.mark.parametrize("name", FORMATS)
def test_an_update_that_sets_a_record_key_is_sent_in_two_where_the_image_before_is_whole(
    name: str, make_plan: MakePlan | None
) -> None:
    """As MariaDB logs it with FULL_NODUP."""
    images = [WHOLE + b"\1b", NOTE_ONLY, WHOLE + b"\1a", NOTE_ONLY]
    body = event_body(UPDATE, 2, [[True, True], [False, True]], images)
    rows = replace(orders([]), kind=UPDATE, body=body)
    wanted, found = written(rows, name, ("note",), make_plan)
    assert found == wanted
    assert [record["key"] for record in found[0]] == [b"b_", b"a_", b"a_"]


@WAYS
@settings(max_examples=30)
@given(case=cases(), name=st.sampled_from(FORMATS))
def test_a_key_of_the_table_alone_is_that_of_each_record(
    make_plan: MakePlan | None, case: tuple[Rows, tuple[str, ...]], name: str
) -> None:
    wanted, found = written(case[0], name, ByTable("orders"), make_plan)
    assert found == wanted
    assert isinstance(found, str) or {record["key"] for record in found[0]} <= {b"orders"}
