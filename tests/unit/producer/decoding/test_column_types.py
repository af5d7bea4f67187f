"""Column readers on known bytes: what real servers show of a type is in tests/golden/source;
here is what they no longer write, and what does not fit."""

from __future__ import annotations

import struct
import uuid
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymysqlreplication.constants import FIELD_TYPE as TYPE

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.producer.decoding.column_types import (
    BLOB_COMPRESSED,
    VARCHAR_COMPRESSED,
    VECTOR,
    BinlogColumn,
    fraction_text,
    is_open,
    reader,
    timestamp_text,
)


def read(column: BinlogColumn, raw: bytes) -> str:
    """Reads a value with bytes before and after it, and checks that exactly its own are taken."""
    text, end = reader(column)(b"\xff\xff" + raw + b"\xff\xff\xff", 2)
    assert end == 2 + len(raw)
    return text


def column(
    kind: int, *meta: int, charset: str = "", labels: tuple[str, ...] = (), unsigned: bool = False
) -> BinlogColumn:
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
    if digits > 1:
        with suppress(OverflowError):  # rounded up, it may be more than a float holds
            assert struct.pack("<f", float(f"{value:.{digits - 1}g}")) != struct.pack("<f", value)


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_reads_back(value: float) -> None:
    assert struct.pack(
        "<d", float(read(column(TYPE.DOUBLE), struct.pack("<d", value)))
    ) == struct.pack("<d", value)


@given(st.integers(0, 999_999), st.integers(0, 6))
def test_a_fraction_has_exactly_its_digits(micros: int, digits: int) -> None:
    stored_digits = (digits + 1) // 2 * 2
    wanted = f"{micros:06d}"[:digits]
    stored = int(f"{wanted:0<{stored_digits}}" or "0")
    assert fraction_text(stored, digits) == ("." + wanted if digits else "")


@pytest.mark.parametrize("seconds", [1, 86399, 86400, 2**31 - 1, 2**32 - 1])
def test_timestamps_are_utc(seconds: int) -> None:
    days, rest = divmod(seconds, 86400)
    from_server = {
        1: "1970-01-01",
        86399: "1970-01-01",
        86400: "1970-01-02",
        2**31 - 1: "2038-01-19",
        2**32 - 1: "2106-02-07",
    }
    assert (
        timestamp_text(seconds, "")
        == f"{from_server[seconds]} {rest // 3600:02d}:{rest % 3600 // 60:02d}:{rest % 60:02d}"
    )
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


@pytest.mark.parametrize(
    ("kind", "meta", "unsigned", "raw", "text"),
    [
        (TYPE.TINY, 0, False, "80", "-128"),
        (TYPE.TINY, 0, True, "ff", "255"),
        (TYPE.SHORT, 0, False, "0080", "-32768"),
        (TYPE.INT24, 0, False, "000080", "-8388608"),
        (TYPE.INT24, 0, True, "ffffff", "16777215"),
        (TYPE.LONG, 0, False, "00000080", "-2147483648"),
        (TYPE.LONG, 0, True, "ffffffff", "4294967295"),
        (TYPE.LONGLONG, 0, False, "0000000000000080", "-9223372036854775808"),
        (TYPE.LONGLONG, 0, True, "ffffffffffffffff", "18446744073709551615"),
        (TYPE.FLOAT, 4, False, "ffff7fff", "-3.4028235e+38"),
        (TYPE.FLOAT, 4, False, "01000000", "1e-45"),
        (TYPE.DOUBLE, 8, False, "ffffffffffffefff", "-1.7976931348623157e+308"),
        (TYPE.DOUBLE, 8, False, "0100000000000000", "5e-324"),
        (TYPE.DOUBLE, 8, False, "0000000000000080", "-0.0"),
        (TYPE.BIT, 1, False, "01", "1"),
        (TYPE.BIT, 9, False, "01ff", "511"),
        (TYPE.BIT, 64, False, "ffffffffffffffff", "18446744073709551615"),
        (TYPE.YEAR, 0, False, "00", "0000"),
        (TYPE.YEAR, 0, False, "01", "1901"),
        (TYPE.YEAR, 0, False, "ff", "2155"),
        (TYPE.DATE, 0, False, "000000", "0000-00-00"),
        (TYPE.DATE, 0, False, "00d00f", "2024-00-00"),
        (TYPE.DATE, 0, False, "9f1f4e", "9999-12-31"),
        (TYPE.TIME2, 0, False, "800000", "00:00:00"),
        (TYPE.TIME2, 0, False, "b46efb", "838:59:59"),
        (TYPE.TIME2, 0, False, "4b9105", "-838:59:59"),
        (TYPE.TIME2, 1, False, "7fffffce", "-00:00:00.5"),
        (TYPE.TIME2, 6, False, "7fffffffffff", "-00:00:00.000001"),
        (TYPE.TIME2, 6, False, "4b9105000000", "-838:59:59.000000"),
        (TYPE.TIME2, 3, False, "8000000001", "00:00:00.000"),
        (TYPE.DATETIME2, 0, False, "8000000000", "0000-00-00 00:00:00"),
        (TYPE.DATETIME2, 6, False, "fef3ff7efb0f423f", "9999-12-31 23:59:59.999999"),
        (TYPE.TIMESTAMP2, 0, False, "00000000", "0000-00-00 00:00:00"),
        (TYPE.TIMESTAMP2, 6, False, "000000000f423f", "0000-00-00 00:00:00.999999"),
        (TYPE.TIMESTAMP2, 6, False, "000000010f423f", "1970-01-01 00:00:01.999999"),
        (TYPE.TIMESTAMP2, 6, False, "7fffffff0f423f", "2038-01-19 03:14:07.999999"),
        (TYPE.TIMESTAMP2, 0, False, "ffffffff", "2106-02-07 06:28:15"),
    ],
)
def test_the_extremes_of_each_type(
    kind: int, meta: int, unsigned: bool, raw: str, text: str
) -> None:
    assert read(column(kind, meta, unsigned=unsigned), bytes.fromhex(raw)) == text


@pytest.mark.parametrize(
    ("kind", "meta"),
    [(TYPE.STRING, 255), (TYPE.VARCHAR, 255), (TYPE.BLOB, 1), (TYPE.BLOB, 4), (VECTOR, 4)],
)
def test_bytes_are_one_character_each(kind: int, meta: int) -> None:
    raw = bytes(range(1, 256))
    size = meta if kind in (TYPE.BLOB, VECTOR) else 1
    assert read(
        column(kind, meta, charset="binary"), len(raw).to_bytes(size, "little") + raw
    ) == raw.decode("latin-1")


def compressed(value: bytes, wrapped: bool) -> bytes:
    """As MariaDB stores it."""
    size = (len(value).bit_length() + 7) // 8
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS if wrapped else -zlib.MAX_WBITS)
    return (
        bytes((0x80 | size | 8 * (not wrapped),))
        + len(value).to_bytes(size, "big")
        + packer.compress(value)
        + packer.flush()
    )


@given(st.binary(max_size=2000), st.booleans())
def test_compressed_columns_are_unpacked(value: bytes, wrapped: bool) -> None:
    for stored in (compressed(value, wrapped), b"\0" + value, *([b""] if not value else [])):
        raw = len(stored).to_bytes(2, "little") + stored
        assert read(column(BLOB_COMPRESSED, 2, charset="binary"), raw).encode("latin-1") == value
        assert (
            read(column(VARCHAR_COMPRESSED, 5000, charset="binary"), raw).encode("latin-1") == value
        )


def test_compressed_text_has_a_character_set() -> None:
    stored = compressed("汉字".encode("gbk") * 10, wrapped=False)
    assert (
        read(column(VARCHAR_COMPRESSED, 101, charset="gbk"), bytes((len(stored),)) + stored)
        == "汉字" * 10
    )


@pytest.mark.parametrize(
    ("stored", "says"), [(b"\x91\x01x", "by method 9"), (b"\x81\x01x", "not as it says")]
)
def test_what_cannot_be_unpacked_stops(stored: bytes, says: str) -> None:
    with pytest.raises(UnreadableEvent, match=rf"column c is compressed.*{says}"):
        read(column(BLOB_COMPRESSED, 1, charset="binary"), bytes((len(stored),)) + stored)


def own(data_type: str, raw: bytes) -> str:
    kept = raw.rstrip(b"\0")
    size = len(raw)
    return read(
        BinlogColumn("c", TYPE.STRING, (size, 0), charset="binary", data_type=data_type),
        bytes((len(kept),)) + kept,
    )


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("0000" * 8, "::"),
        ("0000" * 7 + "0001", "::1"),
        ("0001" + "0000" * 7, "1::"),
        ("20010db8" + "0000" * 5 + "0001", "2001:db8::1"),
        ("0000" * 5 + "ffff01020304", "::ffff:1.2.3.4"),
        ("0000" * 6 + "01020304", "::1.2.3.4"),
        ("0000" * 6 + "00010000", "::0.1.0.0"),
        ("02e10000ffff8d5800000001ec190000", "2e1::ffff:8d58:0:1:ec19:0"),
        ("0001ffff0001521fffff0001ffff0000", "1:ffff:1:521f:ffff:1:ffff::"),
        ("0001" * 8, "1:1:1:1:1:1:1:1"),
    ],
)
def test_inet6_is_spelled_as_mariadb_does(raw: str, text: str) -> None:
    assert own("inet6", bytes.fromhex(raw)) == text


def test_uuid_and_inet4_are_spelled_as_mariadb_does() -> None:
    assert own("inet4", bytes((192, 168, 0, 0))) == "192.168.0.0"
    number = uuid.UUID("123e4567-e89b-12d3-a456-426655440000")
    assert own("uuid", number.bytes) == str(number)
    assert own("binary", number.bytes) == number.bytes.decode("latin-1")


@pytest.mark.parametrize(
    ("kind", "size", "charset", "may_be"),
    [
        (TYPE.STRING, 16, "binary", True),
        (TYPE.STRING, 4, "binary", True),
        (TYPE.STRING, 8, "binary", False),
        (TYPE.STRING, 16, "ascii", False),
        (TYPE.VARCHAR, 16, "binary", False),
        (TYPE.TIMESTAMP, 0, "", True),
        (TYPE.TIME, 0, "", True),
        (TYPE.DATETIME, 0, "", True),
        (TYPE.TIMESTAMP2, 0, "", False),
    ],
)
def test_mariadbs_own_types_look_like_binary_and_its_old_times_have_no_digits(
    kind: int, size: int, charset: str, may_be: bool
) -> None:
    assert is_open(column(kind, size, charset=charset)) is may_be


@pytest.mark.parametrize("kind", [TYPE.TIME, TYPE.DATETIME, TYPE.TIMESTAMP])
def test_fractions_of_a_second_in_the_old_format_stop(kind: int) -> None:
    with pytest.raises(
        UnreadableEvent,
        match=r"column c has fractions of a second in MariaDB's old "
        r"format.*mysql56_temporal_format",
    ):
        reader(column(kind, 3))


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
    with pytest.raises(UnreadableEvent, match="column c has type 20,"):
        reader(column(20))


@pytest.mark.parametrize(
    ("kind", "size"),
    [(TYPE.TINY, 1), (TYPE.SHORT, 2), (TYPE.INT24, 3), (TYPE.LONG, 4), (TYPE.LONGLONG, 8)],
    ids=str,
)
@given(data=st.data())
def test_integers_of_every_size(kind: int, size: int, data: st.DataObject) -> None:
    raw = data.draw(st.binary(min_size=size, max_size=size))
    assert read(column(kind), raw) == str(int.from_bytes(raw, "little", signed=True))
    assert read(column(kind, unsigned=True), raw) == str(int.from_bytes(raw, "little"))
