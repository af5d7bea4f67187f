"""Compressed transactions, put together here byte by byte; what real servers send is in the
integration test of `mariadb_compression`."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from zstandard import ZstdCompressor

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.producer.binlog.transaction_payload import PIECE_BYTES, inner_events

BODIES = st.lists(st.binary(max_size=200) | st.integers(0, 3 * PIECE_BYTES).map(bytes), max_size=8)


def event(body: bytes) -> bytes:
    return struct.pack("<IBIIIH", 0, 2, 1, 19 + len(body), 0, 0) + body


def field(kind: int, value: int) -> bytes:
    return bytes((kind, 9, 254)) + value.to_bytes(8, "little")


def compressed(data: bytes, *, frames: int = 1) -> bytes:
    """A TRANSACTION_PAYLOAD's body."""
    middle = len(data) // frames
    payload = ZstdCompressor().compress(data[:middle]) + (
        ZstdCompressor().compress(data[middle:]) if frames > 1 else b""
    )
    return field(2, 0) + field(3, len(data)) + field(1, len(payload)) + b"\0" + payload


def read(body: bytes) -> list[bytes]:
    return [event for piece in inner_events(body) for event in piece]


@given(BODIES, st.integers(1, 2))
def test_the_events_come_out_as_they_went_in(bodies: list[bytes], frames: int) -> None:
    events = [event(body) for body in bodies]
    assert read(compressed(b"".join(events), frames=frames)) == events


@given(BODIES)
def test_a_payload_may_also_not_be_compressed(bodies: list[bytes]) -> None:
    events = [event(body) for body in bodies]
    data = b"".join(events)
    assert read(field(2, 255) + field(1, len(data)) + b"\0" + data) == events
    assert read(b"\0" + data) == events


def test_a_large_payload_comes_in_pieces() -> None:
    pieces = list(inner_events(compressed(event(bytes(1000)) * 2000)))
    assert sum(map(len, pieces)) == 2000
    assert max(sum(map(len, piece)) for piece in pieces) <= PIECE_BYTES + 1019


WHOLE = compressed(event(b"abc") * 3)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (field(4, 1) + WHOLE, "field number 4, unknown to this release"),
        (field(2, 7) + b"\0", "compression type 7, unknown to this release"),
        (WHOLE[:20], "ends within its header"),
        (WHOLE[:-3], "but has"),
        (field(1, 3) + b"\0" + event(b""), "says 3 bytes, but has 19"),
        (b"\0" + event(b"abc")[:-1], "does not fit into it"),
        (b"\0" + event(b"abc") + b"abc", "not as long as it says"),
        (b"\0" + event(b"").replace(b"\x13", b"\x12"), "does not fit into it"),
        (field(2, 0) + field(3, 30) + b"\0" + b"no frame", "is damaged"),
        (
            field(2, 0) + field(3, 500) + b"\0" + ZstdCompressor().compress(event(b"abc")),
            "not as long as it says",
        ),
    ],
)
def test_what_is_damaged_or_unknown_stops(body: bytes, sentence: str) -> None:
    with pytest.raises(UnreadableEvent, match=sentence):
        read(body)
