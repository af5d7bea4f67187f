"""What is known to have arrived, and from which server."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss

from cdcbus.plugins.errors import ConfigError, PositionUnavailable
from cdcbus.plugins.positions import BinlogPosition, Published
from cdcbus.producer.binlog.coordinates import BinlogCoordinates
from cdcbus.producer.server import connection as servers
from cdcbus.tasks.verify import lag as lag_module
from cdcbus.tasks.verify import lag as module
from cdcbus.tasks.verify.lag import Lag, Moment, fetch_position
from tests.support.stand_ins.memory_zookeeper import MemoryZooKeeper
from tests.unit.tasks.verify.two_sides import PLACE, feed, load

STORED = "/datas/task/1/position/orders"
END = Moment({PLACE: BinlogCoordinates("bin.1", 9)})


def stored(server: str, pos: int = 9, gtid: str = "") -> bytes:
    return BinlogPosition("bin.1", pos, gtid=gtid, server_uuid=server).to_json().encode()


@pytest.fixture
def zookeeper() -> MemoryZooKeeper:
    return MemoryZooKeeper()


@pytest.fixture
def lag(zookeeper: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch) -> Lag:
    monkeypatch.setattr(servers, "identity", lambda _: "a")
    monkeypatch.setattr(module, "is_nothing_between", lambda *_: False)
    monkeypatch.setattr("cdcbus.plugins.loaders.offset_table.find_table", lambda _: None)
    connections: Any = {PLACE: None}
    others: Any = zookeeper
    return Lag(load(), [feed()], connections, others, others, others)


@pytest.mark.parametrize(("pos", "is_there"), [(8, False), (9, True), (10, True)])
@pytest.mark.parametrize("server", ["a", ""])
def test_places_of_one_server_are_compared(
    lag: Lag, zookeeper: MemoryZooKeeper, server: str, pos: int, is_there: bool
) -> None:
    zookeeper.put(STORED, stored(server, pos))
    assert lag.is_published(END) == is_there


def test_a_prepared_xa_transaction_holds_up_the_position_but_not_what_is_published(
    lag: Lag, zookeeper: MemoryZooKeeper
) -> None:
    for published, is_there in ((8, False), (9, True)):
        position = BinlogPosition(
            "bin.1", 4, server_uuid="a", published=Published("bin.1", published)
        )
        zookeeper.put(STORED, position.to_json().encode())
        assert lag.is_published(END) == is_there


def test_a_fetch_task_without_a_position_has_published_nothing(lag: Lag) -> None:
    assert not lag.is_published(END)


@pytest.mark.parametrize("is_silent", [True, False], ids=["silent", "lost"])
def test_a_zookeeper_that_does_not_answer_is_not_waited_for(
    lag: Lag, zookeeper: MemoryZooKeeper, is_silent: bool
) -> None:
    """A repair holds locks meanwhile."""
    zookeeper.put(STORED, stored("a"))
    zookeeper.is_silent = is_silent
    zookeeper.refusal = ConnectionLoss()
    with pytest.raises(PositionUnavailable, match="does not answer for"):
        lag.is_published(END)


class Logs:
    """Two empty partitions of each topic."""

    def partitions(self, _: str) -> list[int]:
        return [0, 1]

    def bounds(self, _: object) -> tuple[int, int]:
        return 0, 0


@pytest.mark.parametrize(
    ("partitions", "is_partial"), [((), False), ((0, 1), False), ((0,), True), ((1,), True)]
)
def test_what_comes_in_partitions_that_the_task_does_not_read_is_not_known_to_have_arrived(
    monkeypatch: pytest.MonkeyPatch,
    zookeeper: MemoryZooKeeper,
    lag: Lag,
    partitions: tuple[int, ...],
    is_partial: bool,
) -> None:
    monkeypatch.setattr(lag_module, "bounds_of", lambda _, asked, __: dict.fromkeys(asked, (0, 0)))
    zookeeper.put(STORED, stored("a"))
    connections: Any = {PLACE: None}
    others: Any = zookeeper
    logs: Any = Logs()
    task = replace(load(), source=replace(load().source, partitions=partitions))
    found = Lag(task, [feed()], connections, others, logs, others)
    moment = Moment(END.source_ends)
    assert (found.is_partial, found.has_passed(moment)) == (is_partial, not is_partial)


def test_another_server_is_refused_whatever_it_has_executed(
    lag: Lag, zookeeper: MemoryZooKeeper
) -> None:
    """The source's rows were read from the former one, where nothing changes any more."""
    gtid = "00000000-0000-0000-0000-000000000001:1-500"
    zookeeper.put(STORED, stored("b", 10, gtid))
    with pytest.raises(ConfigError, match="fetch task 1 now reads server b"):
        lag.is_published(END)


def test_the_server_that_a_fetch_task_reads_is_the_stored_one(zookeeper: MemoryZooKeeper) -> None:
    client: Any = zookeeper
    assert fetch_position(client, feed()) is None
    zookeeper.put(STORED, stored("b"))
    position = fetch_position(client, feed())
    assert position is not None and position.server_uuid == "b"
