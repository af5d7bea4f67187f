"""Columns hold exactly what `from_bytes` reads, record by record."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcbus.plugins.converters.arrow.cut import BLOCK_ROWS, LONG_TEXT_BYTES
from cdcbus.plugins.converters.arrow.read import MIN_ROWS
from cdcbus.plugins.converters.columnar import Columns, RowGroup, read_columns
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Column, Op, Origin, Row, RowChange, Table, TableId
from tests.support.processes.module_searches import module_searches
from tests.unit.plugins.converters.rows import CELLS, changes

FORMATS = ["canalRow", "oggJson"]
TABLE = Table(
    TableId("shop", "orders"), tuple(Column(name) for name in ("id", "note", "state")), ("id",)
)
CONVERTED = make_converter("canalRow")
ROW: Row = {"id": "1", "note": None, "state": "new"}


def insert(row: Row = ROW) -> RowChange:
    return RowChange(TABLE, Op.INSERT, None, row, Origin("f", 4, "0-1-2", 1, 1_700_000_000_123_000))


def update(before: Row, after: Row) -> RowChange:
    return RowChange(TABLE, Op.UPDATE, before, after, Origin(commit_us=1_700_000_000_000_000))


def read(records: list[bytes | None], converter: str, zone: str = "") -> Columns:
    return read_columns(pa.array(records, pa.binary()), make_converter(converter, zone))


def rows(group: RowGroup) -> list[tuple[int, Any]]:
    """Place and row change of each row of a group."""
    images: list[list[Any]] = []
    for image in (group.before, group.after):
        if image is None:
            images.append([None] * len(group.records))
        else:
            cells = [column.to_pylist() for column in image.values()]
            images.append(
                [dict(zip(image, row, strict=True)) for row in zip(*cells, strict=True)]
                if cells
                else [{}] * len(group.records)
            )
    told = zip(group.records.to_pylist(), *images, group.commit_us.to_pylist(), strict=True)
    return [
        (place, (group.table, group.op, before, after, commit))
        for place, before, after, commit in told
    ]


def check(records: list[bytes | None], converter: str, zone: str = "") -> Columns:
    """Each record is in one place, and those in groups say what `from_bytes` says."""
    found, reader = read(records, converter, zone), make_converter(converter, zone)
    seen = [row for group in found.groups for row in rows(group)]
    assert sorted([place for place, _ in seen] + found.rest) == list(range(len(records)))
    assert all(
        group.records.to_pylist() == sorted(group.records.to_pylist()) for group in found.groups
    )
    for place, row in seen:
        value = records[place]
        assert value is not None
        (change,) = reader.from_bytes(value)
        assert row == (
            change.table,
            change.op,
            change.before,
            change.after,
            change.origin.commit_us,
        )
    return found


def test_a_time_that_no_date_has_is_left_to_the_converter() -> None:
    known = [CONVERTED.to_bytes(insert()) for _ in range(MIN_ROWS + 3)]
    unknown = [value.replace(b'"es":1700000000123', b'"es":1700000000123456') for value in known]
    found = check([*known, *unknown], "canalRow")
    seen = [us for group in found.groups for us in group.commit_us.to_pylist()]
    assert set(seen) <= {0, 1_700_000_000_123_000}


@pytest.mark.parametrize("converter", FORMATS)
@given(data=st.data())
@settings(max_examples=30, deadline=None)
def test_columns_hold_what_the_converter_reads(converter: str, data: st.DataObject) -> None:
    """Of few kinds of row changes, each with many other cells, mixed."""
    writer, records = make_converter(converter), list[bytes | None]()
    for kind in data.draw(
        st.lists(
            changes(has_origin=converter == "canalRow", may_lack_columns=True),
            min_size=1,
            max_size=4,
        )
    ):
        for _ in range(MIN_ROWS + 3):
            before, after = (
                image and {name: data.draw(CELLS) for name in image}
                for image in (kind.before, kind.after)
            )
            records.append(
                writer.to_bytes(
                    RowChange(
                        kind.table, kind.op, before, after, kind.origin, kind.row, kind.is_last
                    )
                )
            )
    check(data.draw(st.permutations(records)), converter)


@pytest.mark.parametrize("converter", FORMATS)
@given(data=st.data())
@settings(max_examples=80, deadline=None)
def test_damaged_records_are_left_or_read_as_the_converter_reads_them(
    converter: str, data: st.DataObject
) -> None:
    good = make_converter(converter).to_bytes(
        data.draw(st.sampled_from([insert(), update(ROW, {**ROW, "state": 'a"b'})]))
    )
    records: list[bytes | None] = [good] * MIN_ROWS
    pieces = [
        b"",
        b'"',
        b"\\",
        b",",
        b":null",
        b" ",
        b"\n",
        b"\x01",
        b"\xff",
        b"0",
        b"7",
        b"null",
        b'"x":"y",',
        b"\\u0022",
        b"\\n",
        b"{}",
        b"1.5",
    ]
    for _ in range(data.draw(st.integers(1, 3))):
        start = data.draw(st.integers(0, len(good)))
        end = min(len(good), start + data.draw(st.integers(0, 12)))
        records.insert(
            data.draw(st.integers(0, len(records))),
            good[:start] + data.draw(st.sampled_from(pieces)) + good[end:],
        )
    check(records, converter)


@pytest.mark.parametrize("other", [b"", b'"', b"0", b"x", b",", b" ", b"}"])
@pytest.mark.parametrize("converter", FORMATS)
def test_records_that_differ_in_one_byte_are_left_or_read_as_the_converter_reads_them(
    converter: str, other: bytes
) -> None:
    """In more than one block; but not in `op_ts`, where a time in a form of its own leaves them
    all."""
    records: list[bytes | None] = []
    for value in (
        make_converter(converter).to_bytes(change)
        for change in (insert(), update(ROW, {**ROW, "state": "sent", "id": "77"}))
    ):
        op_ts = (
            range(value.index(b'"op_ts":"') + 9, value.index(b'","current_ts') + 1)
            if converter == "oggJson"
            else range(0)
        )
        places = [i for i in range(len(value)) if i not in op_ts]
        damaged = [value[:i] + other + value[i + kept :] for i in places for kept in (1, 0)]
        records += [*[value] * MIN_ROWS, *damaged, *[value] * BLOCK_ROWS]
    found = check(records, converter)
    assert sum(len(group.records) for group in found.groups) >= 2 * BLOCK_ROWS


def test_a_time_in_a_form_of_its_own_leaves_the_other_operations_of_its_table_alone() -> None:
    """A long name hides the operation from the quick look."""
    table = Table(
        TableId("a_shop_with_a_name", "and_orders_with_another"), TABLE.columns, TABLE.key
    )
    insert_there, update_there = (
        replace(change, table=table) for change in (insert(), update(ROW, ROW))
    )
    writer = make_converter("oggJson")
    records = [
        writer.to_bytes(change) for change in (insert_there, update_there) for _ in range(MIN_ROWS)
    ]
    records[1] = re.sub(rb'"op_ts":"[^"]*', b'"op_ts":"soon', records[1])
    assert check([*records], "oggJson").rest == list(range(MIN_ROWS))


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ('"txLast":false', '"txLast":true'),
        ('"file":"f"', '"file":"f2"'),
        ('"serverId":1', '"serverId":22'),
    ],
)
def test_what_differs_between_few_records_does_not_keep_them_from_columns(
    text: str, other: str
) -> None:
    records: list[bytes | None] = [
        make_converter("canalRow").to_bytes(insert({"id": str(i)})) for i in range(MIN_ROWS * 8)
    ]
    for i in range(0, len(records), 4):
        records[i] = (records[i] or b"").replace(text.encode(), other.encode())
    found = check(records, "canalRow")
    assert sorted(len(group.records) for group in found.groups) == [MIN_ROWS * 2, MIN_ROWS * 6]


@pytest.mark.parametrize("converter", FORMATS)
def test_each_table_operation_and_column_set_is_a_group_in_order(converter: str) -> None:
    writer = make_converter(converter)
    kinds = [
        insert(),
        update(ROW, {**ROW, "state": "sent"}),
        RowChange(TABLE, Op.DELETE, ROW, None, insert().origin),
    ]
    found = check([writer.to_bytes(kind) for kind in kinds * MIN_ROWS], converter)
    assert sorted(
        (group.op, group.records[0].as_py(), len(group.records)) for group in found.groups
    ) == [
        ("DELETE", 2, MIN_ROWS),
        ("INSERT", 0, MIN_ROWS),
        ("UPDATE", 1, MIN_ROWS),
    ]
    assert found.rest == []


@pytest.mark.parametrize("converter", FORMATS)
def test_records_of_a_snapshot_are_read_in_columns_beside_others(converter: str) -> None:
    writer, live = make_converter(converter), insert()
    snapped = replace(live, origin=replace(live.origin, is_snapshot=True))
    values = [writer.to_bytes(change) for change in (live, snapped)]
    assert b'"snapshot":true' in values[1]
    ((known,), (read,)) = map(writer.from_bytes, values)
    assert replace(read, origin=known.origin) == known
    found = check([*values] * MIN_ROWS, converter)
    assert [len(group.records) for group in found.groups] == [MIN_ROWS, MIN_ROWS]
    assert found.rest == []


@pytest.mark.parametrize("converter", FORMATS)
def test_every_text_is_read_in_columns(converter: str) -> None:
    texts = [
        "",
        "null",
        "a null",
        '"',
        "\\",
        '\\"',
        "\\n",
        "\n\t\0\x7f",
        "{}",
        '{"a":"b"}',
        "Ü漢😀",
        "\u2028",
        "'",
        ",",
        "a:1",
        "\x01",
        "\x02\x03",
    ]
    writer = make_converter(converter)
    found = check(
        [writer.to_bytes(insert({**ROW, "note": text})) for text in texts * MIN_ROWS], converter
    )
    assert (len(found.groups), found.rest) == (1, [])


@pytest.mark.parametrize("converter", FORMATS)
def test_tables_with_long_names_of_columns_are_read_in_columns(converter: str) -> None:
    """The same long text is in both images."""
    name = "n" * LONG_TEXT_BYTES
    row: Row = {"id": "1", name: "x", "state": "new"}
    change = RowChange(
        Table(TABLE.id, tuple(map(Column, row)), ("id",)),
        Op.UPDATE,
        row,
        {**row, name: "y"},
        insert().origin,
    )
    assert check([make_converter(converter).to_bytes(change)] * MIN_ROWS, converter).rest == []


def test_null_and_missing_stay_apart() -> None:
    writer = make_converter("oggJson")
    null, missing = writer.to_bytes(insert()), writer.to_bytes(insert({"id": "1", "state": "new"}))
    found = check([null, missing] * MIN_ROWS, "oggJson")
    assert [list(group.after or {}) for group in found.groups] == [
        ["id", "note", "state"],
        ["id", "state"],
    ]


def test_updates_of_different_columns_are_groups_of_their_own() -> None:
    writer = make_converter("canalRow")
    found = check(
        [
            writer.to_bytes(update(ROW, {**ROW, name: "2"}))
            for name in ("note", "state")
            for _ in range(MIN_ROWS)
        ],
        "canalRow",
    )
    assert [len(group.records) for group in found.groups] == [MIN_ROWS, MIN_ROWS]


def changed(converter: str, **members: Any) -> bytes:
    return orjson.dumps(orjson.loads(make_converter(converter).to_bytes(insert())) | members)


@pytest.mark.parametrize(
    ("converter", "record"),
    [
        ("canalRow", changed("canalRow", data=[{"id": 1}])),
        ("canalRow", changed("canalRow", data=[ROW, ROW])),
        ("canalRow", changed("canalRow", isDdl=True, type="ALTER")),
        ("canalRow", changed("canalRow", es="1")),
        ("canalRow", changed("canalRow").replace(b'"txLast":false,', b"")),
        ("canalRow", changed("canalRow").replace(b'"id":"1"', b'"id":"1","id":"2"')),
        ("oggJson", changed("oggJson", after={"id": {"a": 1}})),
        ("oggJson", changed("oggJson", after={"id": "1", "id_isMissing": "true"})),
        ("oggJson", changed("oggJson", op_ts="2024-01-01 10:00:00.000000+02:00")),
        ("oggJson", changed("oggJson", op_ts="0000-01-01 10:00:00")),
        ("oggJson", changed("oggJson").replace(b",", b", ")),
        ("oggJson", changed("oggJson").replace(b",", b",\n")),
        ("debeziumJson", b"{}"),
        ("auto", changed("oggJson")),
    ],
)
def test_what_needs_more_than_cutting_is_left(converter: str, record: bytes) -> None:
    assert len(check([record] * MIN_ROWS, converter).rest) == MIN_ROWS


def test_few_rows_and_records_without_a_value_are_left() -> None:
    few = [changed("oggJson")] * (MIN_ROWS - 1)
    assert len(check([*few, None], "oggJson").rest) == MIN_ROWS
    assert check([], "oggJson") == Columns([], [])


@pytest.mark.parametrize("converter", FORMATS)
def test_no_module_is_looked_for(converter: str) -> None:
    value = make_converter(converter).to_bytes(insert())
    read([value] * MIN_ROWS, converter)
    with module_searches() as names:
        assert read([value] * MIN_ROWS, converter).groups
    assert names == []


ZONES = ("Europe/Berlin", "Asia/Shanghai", "America/St_Johns", "-09:30", "UTC")
CLOCKS = st.one_of(
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
    # around the hours that are skipped and that come twice
    st.datetimes(datetime(2024, 3, 31, 0), datetime(2024, 3, 31, 6)),
    st.datetimes(datetime(2024, 10, 27, 0), datetime(2024, 10, 27, 6)),
).map(lambda clock: clock.isoformat(" "))
OP_TS = st.one_of(
    CLOCKS,
    CLOCKS.map(lambda text: text + "+05:30"),
    CLOCKS.map(lambda text: text[:19] + "Z"),
    st.sampled_from(["1970-01-01 00:00:00", "", "soon", None]),
)


@given(st.sampled_from(ZONES), st.lists(OP_TS, min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_times_of_a_zone_are_the_same_moments_in_columns(
    zone: str, times: list[str | None]
) -> None:
    """A time in a form of its own leaves all of its shape, so the others are read once more."""
    plain = [each for each in times if each and len(each) > 18 and each[-1] not in "0Z"]
    for some in (times, plain):
        records: list[bytes | None] = []
        for each in some * MIN_ROWS:
            records.append(changed("oggJson", op_ts=each))
        check(records, "oggJson", zone)


def test_a_zone_is_no_reason_to_leave_columns() -> None:
    found = check(
        [changed("oggJson", op_ts="2024-05-01 03:04:05.5")] * MIN_ROWS, "oggJson", "+08:00"
    )
    (group,) = found.groups
    assert group.commit_us[0].as_py() == 1_714_503_845_500_000


@pytest.mark.parametrize("zone", ZONES)
def test_cells_of_our_own_are_utc_whatever_zone_is_named(zone: str) -> None:
    table = Table(TABLE.id, (Column("at", "timestamp", 93),), ())
    change = RowChange(table, Op.INSERT, None, {"at": "2024-05-01 03:04:05"}, insert().origin)
    value = make_converter("canalRow").to_bytes(change)
    found = check([value] * MIN_ROWS, "canalRow", zone)
    assert (found.groups[0].after or {})["at"][0].as_py() == "2024-05-01 03:04:05"
