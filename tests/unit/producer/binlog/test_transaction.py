"""What GTID events say of the transaction that they begin."""

from __future__ import annotations

import struct

import pytest

from cdcbus.producer.binlog.transaction import Transaction


def test_a_gtid_of_mysql_names_the_server_of_the_transaction() -> None:
    transaction = Transaction("here")
    transaction.take_mysql_gtid(b"\0" + bytes(range(16)) + (5).to_bytes(8, "little"))
    uuid = "00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert (transaction.gtid, transaction.server_uuid) == (f"{uuid}:5", uuid)
    assert transaction.gtid_source == uuid
    assert transaction.is_open and not transaction.has_begun


@pytest.mark.parametrize(
    ("flags", "has_begun", "is_xa"), [(0, True, False), (1, False, False), (64, True, True)]
)
def test_a_gtid_of_mariadb_is_also_its_begin(flags: int, has_begun: bool, is_xa: bool) -> None:
    transaction = Transaction("here")
    transaction.take_mariadb_gtid(7, struct.pack("<QIB", 17, 3, flags))
    assert (transaction.gtid, transaction.gtid_source) == ("3-7-17", "3-7")
    assert (transaction.has_begun, transaction.is_xa) == (has_begun, is_xa)
    assert transaction.server_uuid == "here"


def test_none_is_open_before_its_first_event() -> None:
    assert not Transaction("here").is_open
