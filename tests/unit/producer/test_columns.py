"""Column readers on known bytes: what real servers show of a type is in tests/golden/source; here is what they no longer write, and
what does not fit."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.producer.columns import BinlogColumn, fraction_text, reader, timestamp_text


def read(column: BinlogColumn, raw: bytes) -> str:
    """Reads a value with bytes before and after it, and checks that exactly its own are taken."""
    text, end = reader(column)(b"\xff\xff" + raw + b"\xff\xff\xff", 2)
    assert end == 2 + len(raw)
    return text


def column(kind: int, *meta: int, charset: str = "", labels: tuple[str, ...] = (), unsigned: bool = False) -> BinlogColumn:
    first, second = (*meta, 0, 0)[:2]
    return BinlogColumn("c", kind, (first, second), unsigned, charset, labels)


@pytest.mark.parametrize(
    ("kind", "raw", "text"),
    [
        (TYPE.TIME, 123456, "12:34:56"),
        (TYPE.TIME, 8385959, "838:59:59"),
        (TYPE.TIME, -8385959, "-838:59:59"),
        (TYPE.TIME, -1, "-00:00:01"),
        (TYPE.DATETIME, 20240229235959, "2024-02-29 23:59:59"),
        (TYPE.DATETIME, 0, "0000-00-00 00:00:00"),
        (TYPE.DATETIME, 10000101000000, "1000-01-01 00:00:00"),
        (TYPE.TIMESTAMP, 1709251199, "2024-02-29 23:59:59"),
        (TYPE.TIMESTAMP, 0, "0000-00-00 00:00:00"),
        (TYPE.NEWDATE, 2024 << 9 | 2 << 5 | 29, "2024-02-29"),
    ],
)
def test_temporal_types_of_old_servers(kind: int, raw: int, text: str) -> None:
    size = {TYPE.TIME: 3, TYPE.NEWDATE: 3, TYPE.TIMESTAMP: 4, TYPE.DATETIME: 8}[kind]
    assert read(column(kind), raw.to_bytes(size, "little", signed=raw < 0)) == text


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_a_float_is_the_shortest_text_that_reads_back(value: float) -> None:
    text = read(column(TYPE.FLOAT), struct.pack("<f", value))
    assert struct.pack("<f", float(text)) == struct.pack("<f", value)
    digits = len(text.lstrip("-").partition("e")[0].replace(".", "").strip("0"))
    assert digits <= 9
    if digits > 6:  # six digits and fewer are always what was stored
        with suppress(OverflowError):  # rounded up, it may be more than a float holds
            assert struct.pack("<f", float(f"{value:.{digits - 1}g}")) != struct.pack("<f", value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_reads_back(value: float) -> None:
    assert struct.pack("<d", float(read(column(TYPE.DOUBLE), struct.pack("<d", value)))) == struct.pack("<d", value)


@given(st.integers(0, 999_999), st.integers(0, 6))
def test_a_fraction_has_exactly_its_digits(micros: int, digits: int) -> None:
    stored_digits = (digits + 1) // 2 * 2
    wanted = f"{micros:06d}"[:digits]
    stored = int(f"{wanted:0<{stored_digits}}" or "0")
    assert fraction_text(stored, digits) == ("." + wanted if digits else "")


@pytest.mark.parametrize("seconds", [1, 86399, 86400, 2**31 - 1, 2**32 - 1])
def test_timestamps_are_utc(seconds: int) -> None:
    days, rest = divmod(seconds, 86400)
    from_server = {1: "1970-01-01", 86399: "1970-01-01", 86400: "1970-01-02", 2**31 - 1: "2038-01-19", 2**32 - 1: "2106-02-07"}
    assert timestamp_text(seconds, "") == f"{from_server[seconds]} {rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
    assert days == seconds // 86400


def test_binary_gets_back_the_zeros_that_the_row_leaves_out() -> None:
    assert read(column(TYPE.STRING, 4, charset="binary"), b"\x02\x01\x00") == "\x01\0\0\0"
    assert read(column(TYPE.STRING, 4, charset="binary"), b"\x00") == "\0\0\0\0"


def test_char_and_varbinary_are_not_padded() -> None:
    assert read(column(TYPE.STRING, 4, charset="utf8mb4"), b"\x01a") == "a"
    assert read(column(TYPE.VARCHAR, 4, charset="binary"), b"\x01a") == "a"


@pytest.mark.parametrize("kind", [TYPE.VARCHAR, TYPE.VAR_STRING, TYPE.STRING])
def test_text_of_256_bytes_and_more_has_two_length_bytes(kind: int) -> None:
    assert read(column(kind, 255, charset="latin1"), b"\x03abc") == "abc"
    assert read(column(kind, 256, charset="latin1"), b"\x03\x00abc") == "abc"
    assert read(column(kind, 1020, charset="latin1"), b"\x2c\x01" + b"x" * 300) == "x" * 300


def test_labels_are_found_by_number() -> None:
    assert read(column(TYPE.ENUM, 1, labels=("a", "b")), b"\x02") == "b"
    assert read(column(TYPE.ENUM, 1, labels=("a", "b")), b"\x00") == ""
    assert read(column(TYPE.ENUM, 2, labels=tuple(map(str, range(300)))), b"\x2c\x01") == "299"
    assert read(column(TYPE.SET, 1, labels=("a", "b", "c")), b"\x05") == "a,c"
    assert read(column(TYPE.SET, 1, labels=("a",)), b"\x00") == ""


@pytest.mark.parametrize("kind", [TYPE.ENUM, TYPE.SET])
def test_a_label_number_that_the_table_does_not_have_stops(kind: int) -> None:
    with pytest.raises(UnreadableEvent, match=r"column c has 2 labels, the row holds number 4"):
        read(column(kind, 1, labels=("a", "b")), b"\x04")


def test_a_type_without_a_reader_is_named() -> None:
    with pytest.raises(UnreadableEvent, match="column c has type 140"):
        reader(column(140))


@pytest.mark.parametrize(("kind", "size"), [(TYPE.TINY, 1), (TYPE.SHORT, 2), (TYPE.INT24, 3), (TYPE.LONG, 4), (TYPE.LONGLONG, 8)], ids=str)
@given(data=st.data())
def test_integers_of_every_size(kind: int, size: int, data: st.DataObject) -> None:
    raw = data.draw(st.binary(min_size=size, max_size=size))
    assert read(column(kind), raw) == str(int.from_bytes(raw, "little", signed=True))
    assert read(column(kind, unsigned=True), raw) == str(int.from_bytes(raw, "little"))
