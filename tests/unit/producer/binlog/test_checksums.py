"""Checksums of binlog events; that those of real servers match is in
tests/integration/producer/binlog/test_checksum.py, as all tests read with them."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymysqlreplication.constants import BINLOG

from cdcbus.plugins.errors import PositionLost, UnreadableEvent
from cdcbus.producer.binlog.checksums import Checksums, damage_noticed
from cdcbus.producer.binlog.event_types import HEADER

NONE, CRC32 = b"\0", b"\1"


def event(kind: int, body: bytes, end: int = 900, *, has_checksum: bool = True) -> bytes:
    size = HEADER.size + len(body) + 4 * has_checksum
    data = HEADER.pack(1, kind, 1, size, end, 0) + body
    if has_checksum:
        data += struct.pack("<I", zlib.crc32(data))
    return data


def head(algorithm: bytes, end: int = 250) -> bytes:
    """A file's first event, which has a checksum in any case."""
    return event(BINLOG.FORMAT_DESCRIPTION_EVENT, b"\4\0" + bytes(90) + algorithm, end)


def flipped(data: bytes, bit: int) -> bytes:
    number = int.from_bytes(data, "little") ^ (1 << bit)
    return number.to_bytes(len(data), "little")


@given(st.binary(max_size=300), st.data())
def test_an_event_with_any_other_bit_is_refused(body: bytes, data: st.DataObject) -> None:
    good = event(BINLOG.WRITE_ROWS_EVENT_V2, body)
    assert Checksums(4).body(good) == body
    bit = data.draw(st.integers(0, 8 * len(good) - 1))
    # The type's bits may make it a file's head, which has its checksum in any case.
    with pytest.raises(UnreadableEvent, match="checksum"):
        Checksums(4).body(flipped(good, bit))


def test_a_damaged_head_of_a_file_is_refused() -> None:
    """Also where the bit says that the file has no checksums."""
    good = head(CRC32)
    for bit in range(8 * 19, 8 * len(good)):
        with pytest.raises(UnreadableEvent):
            Checksums(4).body(flipped(good, bit))


@pytest.mark.parametrize(("before", "algorithm"), [(0, CRC32), (4, NONE)])
def test_the_head_of_a_file_says_whether_the_others_have_one(before: int, algorithm: bytes) -> None:
    checksums = Checksums(before)
    checksums.body(head(algorithm))
    row = event(BINLOG.XID_EVENT, b"12345678", has_checksum=algorithm == CRC32)
    assert checksums.body(row) == b"12345678"


@pytest.mark.parametrize("end", [0, 250])
def test_a_head_that_a_server_has_changed_for_a_stream_needs_none(end: int) -> None:
    """MySQL 9.7 and MariaDB 11.4, in a file without checksums: without an offset from its middle,
    with one from its beginning, where both zero the time at which the server was started."""
    checksums = Checksums(4)
    checksums.body(head(NONE, end)[:-4] + b"\1\2\3\4")
    assert checksums.body(event(BINLOG.XID_EVENT, b"1", has_checksum=False)) == b"1"


@pytest.mark.parametrize(
    ("text", "is_of_damage"),
    [
        ("event read from binlog did not pass crc check; the first event 'a.1' at 4", True),
        ("bogus data in log event; the first event 'a.1' at 4", True),
        ("log event entry exceeded max_allowed_packet; Increase max_allowed_packet", True),
        ("binlog truncated in the middle of event; consider out of disk space", False),
        ("Could not find first log file name in binary log index file", False),
    ],
)
def test_what_a_server_says_of_a_damaged_event_is_known(text: str, is_of_damage: bool) -> None:
    damage = damage_noticed(PositionLost(f"it cannot send the binlog (1236 {text})"), "a.1:400")
    assert (damage is not None) is is_of_damage
    if damage:
        assert str(damage).startswith("a.1:400: the server does not send the event")
        assert text in str(damage)
