"""MariaDB's compressed events; what real servers send is in
tests/integration/producer/binlog/test_mariadb_compression.py."""

from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.producer.binlog.mariadb_compression import PLAIN_ROWS, plain_query, plain_rows


def compressed(data: bytes) -> bytes:
    size = max(1, (len(data).bit_length() + 7) // 8)
    return bytes((0x80 | size,)) + len(data).to_bytes(size, "big") + zlib.compress(data)


@given(st.binary(max_size=3) | st.integers(0, 1 << 18).map(bytes))
def test_a_statement_is_what_it_was(sql: bytes) -> None:
    head = bytes(8) + b"\x04" + bytes(2) + b"\x03\x00" + b"abc" + b"shop\0"
    assert plain_query(head + compressed(sql)) == head + sql


@pytest.mark.parametrize("kind", PLAIN_ROWS)
@pytest.mark.parametrize("columns", [1, 9, 300])
def test_rows_are_what_they_were(kind: int, columns: int) -> None:
    extra = b"\x05\x00abc" if kind >= 0xA9 else b""
    bitmaps = bytes((columns + 7) // 8) * (2 if kind in (0xA7, 0xAA) else 1)
    count = bytes((columns,)) if columns < 251 else b"\xfc" + columns.to_bytes(2, "little")
    head = b"\x85" * 8 + extra + count + bitmaps
    assert plain_rows(kind, head + compressed(b"row" * 1000)) == head + b"row" * 1000


HEAD = bytes(8) + b"\x01\x01"


@pytest.mark.parametrize(
    ("tail", "sentence"),
    [
        (b"\x91\x03" + zlib.compress(b"abc"), "compressed by method 1, unknown to this release"),
        (b"", "unknown to this release"),
        (b"\x81\x04" + zlib.compress(b"abc"), "not as long as it says"),
        (b"\x81\x03" + zlib.compress(b"abc")[:-1], "is damaged"),
    ],
)
def test_what_is_damaged_or_unknown_stops(tail: bytes, sentence: str) -> None:
    with pytest.raises(UnreadableEvent, match=sentence):
        plain_rows(0xA6, HEAD + tail)
    with pytest.raises(UnreadableEvent, match="ends before its first row"):
        plain_rows(0xA6, bytes(8) + b"\xff")
