"""Which source a direct load begins with, or continues with, without servers."""

from __future__ import annotations

from dataclasses import replace
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.positions import BinlogPosition, Published
from cdcbus.producer.server import connection
from cdcbus.producer.server.connection import Server
from cdcbus.tasks.direct import beginning
from cdcbus.tasks.direct.opened import Interrupted
from cdcbus.tasks.snapshots.direct import DirectLoad
from cdcbus.tasks.zookeeper.lock import lock_path
from tests.support.stand_ins.memory_zookeeper import SESSION, MemoryZooKeeper
from tests.unit.tasks.direct.stand_ins import LOAD


def settle_again(
    monkeypatch: pytest.MonkeyPatch, server: Server, seen: dict[str, BinlogPosition]
) -> list[BinlogPosition]:
    """Those that were waited for."""
    waited: list[BinlogPosition] = []
    monkeypatch.setattr(
        beginning, "_wait_until_seen", lambda _, __, position: waited.append(position)
    )
    feed = SimpleNamespace(fetch=SimpleNamespace(task_id="fetch"), place="fetch.properties")
    sources = [SimpleNamespace(feed=feed, server=server)]
    opened: Any = SimpleNamespace(load=LOAD, client=None, stop=Event(), sources=sources)
    beginning.settle_again(opened, DirectLoad({}, {}, seen))
    return waited


def place(server: str, gtid: str = "") -> BinlogPosition:
    return BinlogPosition("bin.000003", 4, gtid=gtid, server_uuid=server)


MYSQL = Server("9.7.0", "a", 1, True, True, {})


def source_at(server: Server) -> Any:
    fetch = SimpleNamespace(task_id="fetch", swimlane="shop")
    feed = SimpleNamespace(fetch=fetch, place="fetch.properties")
    return SimpleNamespace(feed=feed, server=server)


def test_a_load_goes_on_once_the_server_shows_what_it_showed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert settle_again(monkeypatch, MYSQL, {"fetch": place("a")}) == [place("a")]


@pytest.mark.parametrize(
    ("server", "seen"),
    [
        (MYSQL, place("b", "u:1-3")),
        (Server("9.7.0", "a", 1, True, False, {}), place("b")),
        (Server("11.4-MariaDB", "", 1, True, True, {}), place("b", "0-1-3")),
    ],
)
def test_a_load_does_not_go_on_at_another_server(
    monkeypatch: pytest.MonkeyPatch, server: Server, seen: BinlogPosition
) -> None:
    """That it has all that was seen at the beginning says nothing of what chunks had later."""
    identity = server.identity
    for stored, why in (
        (None, f"its address leads to {identity}: once it leads to the former one again"),
        (place(""), f"its address leads to {identity}: once it leads to the former one again"),
        (place(identity), f"the fetch task reads {identity} by now"),
    ):
        monkeypatch.setattr(beginning, "fetch_position", lambda *_, it=stored: it)
        with pytest.raises(ConfigError, match=rf"{why}.*If it is lost: .* --anew"):
            settle_again(monkeypatch, server, {"fetch": seen})


@pytest.mark.parametrize("stored", [None, place("a"), place("")])
def test_a_load_goes_on_while_its_fetch_task_reads_the_same_server(
    monkeypatch: pytest.MonkeyPatch, stored: BinlogPosition | None
) -> None:
    monkeypatch.setattr(beginning, "fetch_position", lambda *_: stored)
    opened: Any = SimpleNamespace(client=None)
    beginning.check_server(opened, source_at(MYSQL))


def test_a_load_ends_when_its_fetch_task_has_gone_to_another_server(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(beginning, "fetch_position", lambda *_: place("b"))
    opened: Any = SimpleNamespace(client=None)
    with pytest.raises(ConfigError, match="has read from server a, and the fetch task"):
        beginning.check_server(opened, source_at(MYSQL))


def test_a_load_does_not_go_on_with_another_fetch_task(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="begun with another fetch task than fetch"):
        settle_again(monkeypatch, MYSQL, {"other": place("a")})


def test_a_fetch_task_that_has_gone_to_another_server_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its position there never tells that it has passed the end of this one's binlog."""
    monkeypatch.setattr(beginning, "_fetched", lambda *_: place("b"))
    monkeypatch.setattr(connection, "latest_position", lambda _: place("a"))
    feed = SimpleNamespace(fetch=SimpleNamespace(task_id="fetch"), place="fetch.properties")
    source: Any = SimpleNamespace(feed=feed, server=MYSQL, connection=None)
    opened: Any = SimpleNamespace(load=LOAD, client=None, stop=Event())
    with pytest.raises(ConfigError, match="fetch task fetch reads server b by now"):
        beginning._settled(opened, source)


def test_a_prepared_xa_transaction_does_not_keep_a_load_from_beginning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the fetch task would resume stays before it, what it has published does not."""
    stored = replace(place("a", "u:1-3"), published=Published("bin.000003", 9, "u:1-5"))
    end = BinlogPosition("bin.000003", 9, server_uuid="a")
    waited: list[BinlogPosition] = []
    monkeypatch.setattr(beginning, "_fetched", lambda *_: stored)
    monkeypatch.setattr(connection, "latest_position", lambda _: end)
    monkeypatch.setattr(
        beginning, "_wait_until_seen", lambda _, __, position: waited.append(position)
    )
    feed = SimpleNamespace(fetch=SimpleNamespace(task_id="fetch"), place="fetch.properties")
    source: Any = SimpleNamespace(feed=feed, server=MYSQL, connection=None)
    opened: Any = SimpleNamespace(load=LOAD, client=None, stop=Event())
    assert beginning._settled(opened, source) == replace(end, gtid="u:1-5")
    assert waited == [replace(end, gtid="u:1-5")]


class Waited(Event):
    """Set once it is waited for."""

    def wait(self, timeout: float | None = None) -> bool:
        self.set()
        return True


@pytest.mark.parametrize("has_former", [False, True])
@pytest.mark.parametrize(
    ("owner", "error", "told"),
    [
        (SESSION + 1, Interrupted, "is not finished"),
        (
            0,
            ConfigError,
            rf"has not reached the end .*\(bin.000003:9\): {lock_path('fetch')}/shop is held by "
            "process 2 on h, in a persistent znode, .* delete it .*, and start the task",
        ),
        (None, ConfigError, "is not running"),
    ],
)
def test_only_a_fetch_task_that_a_session_runs_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
    owner: int | None,
    error: type[Exception],
    told: str,
    has_former: bool,
) -> None:
    """Nobody moves the position of one whose lock was left by a copy of the tree. One that was left
    of a former swimlane tells nothing."""
    monkeypatch.setattr(beginning, "_fetched", lambda *_: place("a"))
    end = BinlogPosition("bin.000003", 9, server_uuid="a")
    monkeypatch.setattr(connection, "latest_position", lambda _: end)
    monkeypatch.setattr(beginning, "is_nothing_between", lambda *_: False)
    zookeeper = MemoryZooKeeper()
    lock = {"processId": 2, "hostName": "h"}
    if has_former:
        zookeeper.put(f"{lock_path('fetch')}/former", lock, 0)
    if owner is not None:
        zookeeper.put(f"{lock_path('fetch')}/shop", lock, owner)
    source: Any = source_at(MYSQL)
    source.connection = None
    opened: Any = SimpleNamespace(load=LOAD, client=zookeeper, stop=Waited())
    with pytest.raises(error, match=told):
        beginning._settled(opened, source)
