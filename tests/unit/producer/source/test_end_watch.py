"""When the server's end is asked for; what it then says is in
tests/integration/producer/server/test_failover.py."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from cdcbus.plugins.errors import SourceRefused, SourceUnavailable
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.producer.config import DdlConfig, FilterConfig, SourceConfig
from cdcbus.producer.server import connection as servers
from cdcbus.producer.source import end_watch
from cdcbus.producer.source.ddl_events import DdlReader
from cdcbus.producer.source.end_watch import EndWatch, Sent
from cdcbus.producer.source.event_reader import Reading
from cdcbus.producer.table_filter import TableFilter
from tests.unit.producer.source.test_event_reader import SERVER, Binlog, NoHistory


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Sent]:
    """The places of which it was asked whether they are the end; each silence is long enough."""
    found: list[Sent] = []

    def look(_: EndWatch, sent: Sent) -> bool:
        found.append(sent)
        return True

    monkeypatch.setattr(end_watch, "QUIET_SECONDS", 0)
    monkeypatch.setattr(end_watch, "AGAIN_SECONDS", 0)
    monkeypatch.setattr(EndWatch, "_stands_elsewhere", look)
    return found


def watched(binlog: Binlog) -> Iterator[Sent | None]:
    """How far the server has sent, after each event."""
    tables = TableFilter(FilterConfig(regexes=(r"elsewhere\..*",)))
    ddl = DdlReader(tables, DdlConfig())
    reading = Reading(BinlogPosition("bin.1", 4), SERVER, tables, cast(Any, NoHistory()), ddl)
    watch = EndWatch(SourceConfig((("source", 3306),), "cdc", ""), SERVER)
    for batch in reading.batches([event] for event in binlog.events):
        watch.see(batch, reading.sent)
        yield reading.sent


def test_a_long_transaction_of_a_table_that_is_not_read_is_no_silence(looks: list[Sent]) -> None:
    binlog = Binlog()
    binlog.heartbeat()  # MySQL sends one before the first event that is not left out by GTIDs
    binlog.begin()
    for number in range(20):
        binlog.row(number)
    sent = list(watched(binlog))
    assert sent[0] == Sent("bin.1", 4, 0)
    assert set(sent[1:]) == {None}
    assert looks == sent[:1]


def test_heartbeats_with_nothing_between_them_are_one(looks: list[Sent]) -> None:
    binlog = Binlog()
    binlog.transaction(1)
    for _ in range(3):
        binlog.heartbeat()
    end = Sent("bin.1", binlog.pos, 0)
    assert list(watched(binlog))[-3:] == [end] * 3
    assert looks == [end] * 3


class WithoutBinlog:
    """Stands for the connection to another server, which has `skip-log-bin`."""

    def close(self) -> None: ...


def test_another_server_behind_the_address_is_noticed_also_where_it_has_no_binlog(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(servers, "connect", lambda _: WithoutBinlog())
    monkeypatch.setattr(servers, "identity", lambda _: "server-id-9")
    monkeypatch.setattr(servers, "query", lambda *_: ())
    watch = EndWatch(SourceConfig((("source", 3306),), "cdc", ""), SERVER)
    with pytest.raises(SourceUnavailable, match="is another server now: server-id-9, not"):
        watch._stands_elsewhere(Sent("bin.1", 4, 0))
    with pytest.raises(SourceRefused, match="it has no binlog"):
        servers.latest_position(cast(Any, WithoutBinlog()))
