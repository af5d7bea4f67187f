"""The xids of XA transactions, and how many rows of theirs are kept."""

from __future__ import annotations

import struct

import pytest

from cdcbus.plugins.errors import UnreadableEvent
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.producer.source import xa
from cdcbus.producer.source.xa import FINISH, Open, Prepared, prepared_xid


def prepare(first: bytes, second: bytes, form: int, *, is_one_phase: bool = False) -> bytes:
    """An XA_PREPARE event's body."""
    return struct.pack("<BIII", is_one_phase, form, len(first), len(second)) + first + second


def opened(xid: bytes) -> Open:
    return Open(xid, [], BinlogPosition("f", 4), 0)


@pytest.mark.parametrize(
    ("sql", "body"),
    [
        (b"XA COMMIT X'78',X'',1", prepare(b"x", b"", 1)),
        (b"XA ROLLBACK X'0aff',X'79',4294967295", prepare(b"\x0a\xff", b"y", 2**32 - 1)),
    ],
)
def test_the_xid_is_what_the_server_writes_where_the_transaction_ends(
    sql: bytes, body: bytes
) -> None:
    found = FINISH.fullmatch(sql)
    assert found
    assert found[2] == prepared_xid(body)


def test_one_phase_has_no_end_elsewhere() -> None:
    assert prepared_xid(prepare(b"x", b"", 1, is_one_phase=True)) is None


def test_a_transaction_is_kept_until_it_ends() -> None:
    prepared, first, second = Prepared(), opened(b"a"), opened(b"b")
    assert prepared.oldest is None
    prepared.hold(first)
    prepared.hold(second)
    assert prepared.oldest is first
    assert prepared.take(b"a") == []
    assert prepared.oldest is second
    prepared.drop(b"b")
    assert prepared.oldest is None
    prepared.drop(b"b")


def test_the_commit_of_an_unknown_transaction_stops() -> None:
    with pytest.raises(UnreadableEvent, match="set the position to a place before its XA PREPARE"):
        Prepared().take(b"a")


def test_no_more_rows_are_kept_than_there_is_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xa, "MAX_BYTES", -1)
    with pytest.raises(UnreadableEvent, match="too many to keep"):
        Prepared().hold(opened(b"a"))
