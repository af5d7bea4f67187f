"""GTIDs with a tag: bytes that a MySQL 9 has written, and what else the form allows."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.producer.binlog.tagged_gtid import Gtid, parse, varying_integer

UUID = "4ff0cae6-e5b0-11f1-8126-02fc00000001"
WRITTEN = bytes.fromhex(
    "0276000000029ec103290399039503c10222c50305024c04f103000000020404060a7461675f7808140a180c7fb87c5a6fc960061061041283120b"
)


def number(value: int) -> bytes:
    """An integer as the server writes it: as few bytes as it can."""
    size = min(9, 1 + max(0, value.bit_length() - 1) // 7)
    ones = (1 << size - 1) - 1
    return (
        (value << size | ones).to_bytes(size, "little")
        if size < 9
        else b"\xff" + value.to_bytes(8, "little")
    )


def body(*fields: bytes, version: int = 1, needed: int = 0) -> bytes:
    rest = number(needed) + b"".join(fields)
    return number(version) + number(2 + len(rest) if len(rest) < 60 else 3 + len(rest)) + rest


IDENTITY = (
    number(1)
    + b"".join(map(number, bytes.fromhex(UUID.replace("-", ""))))
    + number(2)
    + number(7 << 1)
)
COMMIT = number(6) + number(1_714_532_645_678_901)


@given(st.integers(0, 2**64 - 1))
def test_integers_of_all_sizes_are_read(value: int) -> None:
    assert varying_integer(b"x" + number(value) + b"y", 1) == (value, 1 + len(number(value)))


def test_what_a_server_has_written_is_read() -> None:
    assert parse(WRITTEN) == Gtid(f"{UUID}:tag_x:1", UUID, 1_795_268_133_158_072)


def test_the_time_is_that_of_the_first_server() -> None:
    assert parse(body(IDENTITY, COMMIT, number(7), number(99))).commit_us == 99


def test_without_a_tag_it_is_like_any_other() -> None:
    assert parse(body(IDENTITY, number(3), number(0), COMMIT)).text == f"{UUID}:7"


def test_fields_of_newer_servers_that_need_not_be_known_are_passed_over() -> None:
    assert parse(body(IDENTITY, COMMIT, number(12), b"whatever")).text == f"{UUID}:7"


@pytest.mark.parametrize(
    "written", [body(IDENTITY, COMMIT, version=2), body(IDENTITY, COMMIT, needed=12)]
)
def test_a_form_that_must_be_known_and_is_not_stops(written: bytes) -> None:
    with pytest.raises(UnreadableEvent, match="unknown to this release"):
        parse(written)


@pytest.mark.parametrize("end", range(len(WRITTEN) - 25))
def test_one_that_is_cut_off_stops(end: int) -> None:
    with pytest.raises(UnreadableEvent):
        parse(WRITTEN[:end])
