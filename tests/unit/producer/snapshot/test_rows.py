"""A server's answer becomes row images that the decoding of the binlog reads."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdcbus.plugins.rowchange import NO_ORIGIN, Op, TableId
from cdcbus.producer.binlog import dump_stream
from cdcbus.producer.ddl.table_schema import TableColumn, TableSchema, UniqueKey
from cdcbus.producer.snapshot.chunks import Key, KeyColumn, KeyKind
from cdcbus.producer.snapshot.columns import CellForm, selected_table
from cdcbus.producer.snapshot.rows import (
    EVENT_BYTES,
    cell_columns,
    compiled,
    compiled_columns,
    compiled_cut,
    images,
    key_texts,
    plain_columns,
    plain_images,
    row_events,
)

SCHEMA = TableSchema(
    (
        TableColumn("id", "int(10) unsigned zerofill", is_nullable=False),
        TableColumn("name", "varchar(20)", "gbk", is_nullable=False),
        TableColumn("f", "float unsigned"),
        TableColumn("d", "double"),
        TableColumn("kind", "enum('a','it''s')", "latin1", is_nullable=False),
        TableColumn("note", "longtext", "utf8mb4"),
    ),
    (UniqueKey("by_kind", ("kind", "id")),),
    "utf8mb4",
)
SELECTED = selected_table(TableId("s", "t"), SCHEMA, has_metadata=True)


def packet(*cells: bytes | None) -> bytes:
    """A row as the protocol has it."""
    found = b""
    for cell in cells:
        if cell is None:
            found += b"\xfb"
        elif len(cell) < 251:
            found += bytes((len(cell),)) + cell
        elif len(cell) < 1 << 16:
            found += b"\xfc" + struct.pack("<H", len(cell)) + cell
        else:
            found += b"\xfd" + struct.pack("<I", len(cell))[:3] + cell
    return found


def test_what_is_selected_is_what_the_binlog_would_hold() -> None:
    assert SELECTED.expressions == (
        *("`id` + 0", "`name`", "`f` * 1e0", "`d` * 1e0", "`kind`", "`note`"),
        "`kind` + 0",
    )
    kind = KeyColumn("kind", KeyKind.NUMBER, order="enum('a','it''s')")
    assert SELECTED.key == Key("by_kind", (kind, KeyColumn("id", KeyKind.NUMBER)))
    assert SELECTED.key_order == ("kind enum('a','it''s')", "id")
    assert [column.mysql_type for column in SELECTED.table.table.columns] == [
        *("int unsigned", "varchar(20)", "float unsigned", "double", "enum('a','it''s')"),
        "longtext",
    ]


def test_labels_are_selected_as_they_are_whatever_they_say() -> None:
    columns = (
        TableColumn("pad", "enum('zerofill','none')", "latin1"),
        TableColumn("pads", "set('int zerofill')", "latin1"),
    )
    selected = selected_table(TableId("s", "t"), TableSchema(columns), has_metadata=True)
    assert selected.expressions == ("`pad`", "`pads`")


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2**32 - 1),
            st.text(st.sampled_from("a汉 '\\"), max_size=20),
            st.none() | st.floats(width=32, allow_nan=False, allow_infinity=False),
            st.none() | st.floats(allow_nan=False, allow_infinity=False),
            st.none() | st.text(max_size=5) | st.sampled_from([300, 70_000]).map("x".__mul__),
        ),
        min_size=1,
        max_size=5,
    )
)
def test_rows_come_through_whatever_is_in_them(
    rows: list[tuple[int, str, float | None, float | None, str | None]],
) -> None:
    answer = [
        packet(
            str(id_).encode(),
            name.encode("gbk"),
            None if one is None else repr(one).encode(),
            None if two is None else repr(two).encode(),
            b"it's",
            None if note is None else note.encode(),
            b"2",
        )
        for id_, name, one, two, note in rows
    ]
    found = images(answer, SELECTED)
    assert found == plain_images(answer, SELECTED.forms)
    assert cell_columns(found, SELECTED) == plain_columns(found, SELECTED.forms)
    changes = [
        change
        for event in row_events(SELECTED.table, found, NO_ORIGIN)
        for change in event.changes()
    ]
    assert [change.op for change in changes] == [Op.INSERT] * len(rows)
    assert [change.is_last for change in changes] == [False] * (len(rows) - 1) + [True]
    for change, image, (id_, name, one, two, note) in zip(changes, found, rows, strict=True):
        after = change.after
        assert after is not None
        assert list(after.values())[:2] + list(after.values())[3:] == [
            *(str(id_), name),
            *(None if two is None else repr(two), "it's", note),
        ]
        assert (after["f"] and struct.pack("<f", float(after["f"]))) == (
            None if one is None else struct.pack("<f", one)
        )
        assert key_texts(image, SELECTED.table, SELECTED.key_columns) == ("it's", str(id_))
    assert SELECTED.bound(answer[-1]) == ("2", str(rows[-1][0]))


def received(pieces: list[bytes], *, is_compiled: bool) -> list[bytes]:
    """The packets in what a connection brings before it is lost."""
    rest, found = iter(pieces), list[bytes]()
    with suppress(EOFError):
        cut = compiled_cut if is_compiled else None
        for some in dump_stream.packets(lambda _: next(rest, b""), 1, cut):
            found += some
    return found


@pytest.mark.skipif(compiled_cut is None, reason="it is not built")
@given(st.lists(st.binary(max_size=300), max_size=20), st.lists(st.integers(0, 2000)))
def test_packets_are_cut_as_in_python_wherever_the_connection_cuts_them(
    bodies: list[bytes], places: list[int]
) -> None:
    answer = b"".join(struct.pack("<I", len(body)) + body for body in bodies)
    ends = [*sorted(places), len(answer)]
    pieces = [answer[at:end] for at, end in zip([0, *ends], ends, strict=False) if at < end]
    assert received(pieces, is_compiled=True) == received(pieces, is_compiled=False) == bodies


@pytest.mark.skipif(compiled_cut is None, reason="it is not built")
def test_packets_of_several_parts_stand_among_others() -> None:
    longest = (1 << 24) - 1
    head = struct.Struct("<I").pack
    large = bytes(longest) + b"end"
    answer = head(1) + b"a" + head(longest) + large[:longest] + head(3) + b"end" + head(1) + b"z"
    assert received([answer], is_compiled=True) == [b"a", large, b"z"]
    assert received([answer[:-9], answer[-9:]], is_compiled=True) == [b"a", large, b"z"]


@pytest.mark.skipif(compiled is None, reason="it is not built")
@given(st.binary(max_size=40), st.lists(st.sampled_from(CellForm), max_size=20))
def test_what_is_no_row_is_refused_and_nothing_beyond_it_is_read(
    garbled: bytes, forms: list[CellForm]
) -> None:
    assert compiled is not None
    try:
        found = plain_images([garbled], forms)
    except (IndexError, ValueError, KeyError, OverflowError):
        found = None
    try:
        assert compiled([garbled], bytes(forms)) == found or found is None
    except ValueError:
        """Python cuts a cell that is too short; the compiled part refuses it."""


@pytest.mark.skipif(compiled_columns is None, reason="it is not built")
@given(
    st.lists(st.binary(max_size=40), max_size=3), st.lists(st.sampled_from(CellForm), max_size=20)
)
def test_what_is_no_row_image_is_refused_by_both(
    garbled: list[bytes], forms: list[CellForm]
) -> None:
    assert compiled_columns is not None
    try:
        wanted = plain_columns(garbled, forms)
    except ValueError:
        with pytest.raises(ValueError, match=r"not as long as its cells|more than 2 GB"):
            compiled_columns(garbled, bytes(forms))
    else:
        assert compiled_columns(garbled, bytes(forms)) == wanted


def test_columns_of_row_images_have_a_bit_an_end_and_the_bytes_of_each_cell() -> None:
    forms = (CellForm.TEXT, CellForm.FLOAT)
    rows = [b"\0\3\0\0\0abcFLOA", b"\3", b"\2\1\0\0\0d"]
    assert plain_columns(rows, forms) == [
        (b"\5", struct.pack("<4I", 0, 3, 3, 4), b"abcd"),
        (b"\1", struct.pack("<4I", 0, 4, 4, 4), b"FLOA"),
    ]


@pytest.mark.parametrize(("labels", "is_paged"), [(53, True), (54, False)])
def test_a_set_of_more_labels_than_a_double_tells_apart_is_no_paging_key(
    labels: int, is_paged: bool
) -> None:
    kind = f"set({','.join(map(repr, map(str, range(labels))))})"
    column = TableColumn("k", kind, "latin1", is_nullable=False)
    schema = TableSchema((column,), (UniqueKey("PRIMARY", ("k",)),))
    selected = selected_table(TableId("s", "t"), schema, has_metadata=True)
    assert (selected.key is not None) is is_paged


@given(st.lists(st.tuples(st.integers(0, 3 * EVENT_BYTES), st.integers(0, 3000)), min_size=1))
@settings(max_examples=30, deadline=None)
def test_events_have_all_rows_in_order_whether_these_are_in_memory_or_come(
    some: list[tuple[int, int]],
) -> None:
    """`some`: the size of a row, and how many of 40 bytes follow it."""
    sizes = [size for large, count in some for size in (large, *[40] * count)]
    rows = [number.to_bytes(4, "little") + bytes(size) for number, size in enumerate(sizes)]
    [empty] = row_events(SELECTED.table, [b""], NO_ORIGIN)
    head = empty.body
    for given_rows in (rows, iter(rows)):
        events = list(row_events(SELECTED.table, given_rows, NO_ORIGIN))
        assert b"".join(event.body.removeprefix(head) for event in events) == b"".join(rows)
        assert [event.is_first for event in events] == [True, *[False] * (len(events) - 1)]
        assert [event.is_last for event in events] == [*[False] * (len(events) - 1), True]
        largest = 4 + max(sizes)
        assert max(len(event.body) for event in events) <= len(head) + 2 * EVENT_BYTES + largest


def test_rows_of_one_size_fill_their_events() -> None:
    rows = [bytes(100)] * 100_000
    for given_rows in (rows, iter(rows)):
        events = list(row_events(SELECTED.table, given_rows, NO_ORIGIN))
        assert len(events) == pytest.approx(100 * len(rows) / EVENT_BYTES, abs=2)


def test_no_rows_are_no_events() -> None:
    assert not [*row_events(SELECTED.table, [], NO_ORIGIN)]
    assert not [*row_events(SELECTED.table, iter([]), NO_ORIGIN)]
