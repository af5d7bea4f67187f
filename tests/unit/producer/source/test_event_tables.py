"""Which tables of a stream are known by their names alone."""

from __future__ import annotations

from typing import Any

import pytest

from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.config import FilterConfig
from cdcbus.producer.server.connection import Server
from cdcbus.producer.source.event_tables import EventTables
from cdcbus.producer.table_filter import TableFilter

SERVER = Server("11.4.2-MariaDB", "", 1, has_checksum=True, has_gtids=True, charsets={})
NOT_ASKED: Any = None


def table_map(number: int, schema: str, table: str) -> bytes:
    """The beginning of a table map: all that is read of an own table."""
    names = b"".join(bytes([len(name)]) + name.encode() + b"\0" for name in (schema, table))
    return number.to_bytes(6, "little") + b"\0\0" + names


def place() -> BinlogCoordinates:
    return BinlogCoordinates("bin.000001", 100)


def test_a_mark_that_is_not_left_out_is_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    tables = EventTables(SERVER, TableFilter(FilterConfig()), NOT_ASKED, ["from_a"])
    for number in range(3):
        assert tables.take(table_map(number, "shop", "cdcbus_mark_from_a"), place)
        assert not tables.take(table_map(number, "shop", "cdcbus_mark_from_old_a"), place)
    [message] = caplog.messages
    assert message.startswith("bin.000001:100: transactions with the mark from_old_a are sent")
