"""What ends a direct load before rows are lost, without servers."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import CdcError, ConfigError, PositionLost
from cdcbus.plugins.positions import BinlogPosition, Published, TopicPartition
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.server import connection
from cdcbus.producer.server.connection import Server
from cdcbus.producer.snapshot.progress import TableProgress, TableState
from cdcbus.tasks.control.source_of import Mapped
from cdcbus.tasks.direct import beginning, run
from cdcbus.tasks.direct.given import given
from cdcbus.tasks.snapshots.direct import DirectLoad

ONE = TopicPartition("shop", 0)
ORDERS = TableId("shop", "orders")
LOAD = LoadTask("7", TopicConfig("k:9092", ("shop",)), "canalRow", "JdbcBatch", JdbcTarget(""))


class Logs:
    """A partition that holds the offsets 100 to 200."""

    def __init__(self, _: LoadTask) -> None:
        pass

    def __enter__(self) -> Logs:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def partitions(self, _: str) -> list[int]:
        return [0, 1]

    def bounds(self, _: TopicPartition) -> tuple[int, int]:
        return 100, 200


@pytest.fixture(autouse=True)
def kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "TopicLogs", Logs)
    monkeypatch.setattr(run, "topic_ids", lambda _: {"shop": "new"})


@pytest.mark.parametrize("offset", [100, 150, 200])
def test_a_load_whose_offsets_kafka_still_holds_goes_on(offset: int) -> None:
    run._check_held(LOAD, DirectLoad({ONE: offset}, {"shop": "new"}, {}))
    run._check_held(LOAD, DirectLoad({ONE: offset}, {}, {}))  # of a Kafka without ids


@pytest.mark.parametrize("offset", [99, 201])
def test_a_load_whose_offsets_are_gone_is_given_up(offset: int) -> None:
    with pytest.raises(PositionLost, match="what was written meanwhile is lost"):
        run._check_held(LOAD, DirectLoad({ONE: offset}, {"shop": "new"}, {}))


def test_an_id_that_kafka_leaves_out_once_is_no_other_topic() -> None:
    run._check_held(LOAD, DirectLoad({ONE: 150}, {"shop": "new", "orders": "its"}, {}))


def test_a_load_whose_topic_was_made_anew_is_given_up() -> None:
    with pytest.raises(PositionLost, match="were recreated while it was loaded"):
        run._check_held(LOAD, DirectLoad({ONE: 150}, {"shop": "old"}, {}))


def test_a_task_that_reads_some_partitions_of_its_topics_is_not_loaded() -> None:
    run._check_partitions(LOAD)
    for partitions, is_refused in (((0, 1), False), ((1,), True)):
        load = replace(LOAD, source=replace(LOAD.source, partitions=partitions))
        with pytest.raises(ConfigError, match="partition 0 of") if is_refused else nullcontext():
            run._check_partitions(load)


def settle_again(
    monkeypatch: pytest.MonkeyPatch, server: Server, seen: dict[str, BinlogPosition]
) -> list[BinlogPosition]:
    """Those that were waited for."""
    waited: list[BinlogPosition] = []
    monkeypatch.setattr(
        beginning, "_wait_until_seen", lambda _, __, position: waited.append(position)
    )
    feed = SimpleNamespace(fetch=SimpleNamespace(task_id="fetch"), place="fetch.properties")
    opened: Any = SimpleNamespace(
        load=LOAD, stop=Event(), sources=[SimpleNamespace(feed=feed, server=server)]
    )
    beginning.settle_again(opened, DirectLoad({}, {}, seen))
    return waited


def place(server: str, gtid: str = "") -> BinlogPosition:
    return BinlogPosition("bin.000003", 4, gtid=gtid, server_uuid=server)


MYSQL = Server("9.7.0", "a", 1, True, True, {})


@pytest.mark.parametrize("seen", [place("a"), place("b", "u:1-3")])
def test_a_load_goes_on_once_the_server_shows_what_it_showed(
    monkeypatch: pytest.MonkeyPatch, seen: BinlogPosition
) -> None:
    assert settle_again(monkeypatch, MYSQL, {"fetch": seen}) == [seen]


@pytest.mark.parametrize(
    ("server", "seen"),
    [
        (MYSQL, place("b")),
        (Server("9.7.0", "a", 1, True, False, {}), place("b", "u:1-3")),
        (Server("11.4-MariaDB", "", 1, True, True, {}), place("b", "0-1-3")),
    ],
)
def test_a_load_does_not_go_on_at_a_server_that_may_have_less(
    monkeypatch: pytest.MonkeyPatch, server: Server, seen: BinlogPosition
) -> None:
    with pytest.raises(ConfigError, match="does not tell whether it has as much"):
        settle_again(monkeypatch, server, {"fetch": seen})


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


def check_shapes(progress: TableProgress) -> None:
    """Of a table whose key is `v`, and whose columns have the digest `c`."""
    selected = SimpleNamespace(key_order=("v",), shape_digest="c")
    source: Any = SimpleNamespace(tables={ORDERS: selected})
    run._check_shapes([source], {ORDERS: progress})


@pytest.mark.parametrize(
    "progress",
    [
        TableProgress(TableState.RUNNING, key=("v",), shape="c", after=("2",)),
        TableProgress(TableState.DONE, key=("id",), shape="b", after=("2",)),
        # As stored before the key and the shape were.
        TableProgress(TableState.RUNNING, after=("2",)),
    ],
)
def test_a_load_goes_on_by_the_key_by_which_it_was_begun(progress: TableProgress) -> None:
    check_shapes(progress)


@pytest.mark.parametrize("key", [("id",), ("v", "id")])
def test_a_load_does_not_go_on_by_another_key(key: tuple[str, ...]) -> None:
    with pytest.raises(CdcError, match=r"shop\.orders was altered while it was loaded"):
        check_shapes(TableProgress(TableState.RUNNING, key=key, after=("2",)))


def test_a_load_does_not_go_on_with_other_columns() -> None:
    """For example after CONVERT TO CHARACTER SET, of which no row changes in the binlog."""
    with pytest.raises(CdcError, match=r"shop\.orders was altered while it was loaded"):
        check_shapes(TableProgress(TableState.RUNNING, key=("v",), shape="b", after=("2",)))


def test_a_load_does_not_go_on_once_the_progress_of_a_table_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """That table would be left out, silently."""
    found = DirectLoad({ONE: 150}, given=given(LOAD), tables=2)
    monkeypatch.setattr(run, "direct_load", lambda *_: found)
    opened: Any = SimpleNamespace(
        load=LOAD,
        client=None,
        applier=SimpleNamespace(applied_offsets=list, keeps_offsets=False),
        store=SimpleNamespace(load=lambda: {ORDERS: TableProgress(TableState.DONE)}),
    )
    with pytest.raises(ConfigError, match="was begun with 2 tables"):
        run._run(opened, (), 1, is_anew=False, told=lambda _: None)


class Reader:
    """Describes any table."""

    def __init__(self, *_: object) -> None:
        pass

    def describe(self, table: TableId) -> object:
        return object()

    def close(self) -> None:
        pass


def checked_tables(
    monkeypatch: pytest.MonkeyPatch,
    shown: dict[str, list[TableId]],
    *names: str,
    unreadable: Sequence[TableId] = (),
    load: LoadTask = LOAD,
) -> dict[str, list[TableId]]:
    """The chosen tables of each fetch task. `shown`: those that it feeds; `unreadable`: those that
    cannot be read of each."""
    monkeypatch.setattr(run, "ChunkReader", Reader)
    monkeypatch.setattr(run, "check_table", lambda *_: None)
    monkeypatch.setattr("cdcbus.producer.server.connection.reported", lambda _: nullcontext())

    def mapped_tables(feed: Any, _: object) -> Mapped:
        tables: list[Any] = []
        for each in shown[feed.place]:
            tables.append(SimpleNamespace(source=SimpleNamespace(id=each), target=each))
        return Mapped(tables, {each: [each] for each in unreadable})

    monkeypatch.setattr(run, "mapped_tables", mapped_tables)
    sources = []
    for place in shown:
        feed = SimpleNamespace(place=place, fetch=SimpleNamespace(source=None))
        sources.append(SimpleNamespace(feed=feed, server=None, connection=None, tables={}))
    loader = SimpleNamespace(table=lambda table: SimpleNamespace(id=table), is_one_table=bool)
    opened: Any = SimpleNamespace(load=load, sources=sources, loader=loader, further=[])
    run._checked_tables(opened, names, {})
    return {source.feed.place: list(source.tables) for source in sources}


PARTS = TableId("shop", "parts")


def test_tables_of_two_fetch_tasks_are_loaded_each_from_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert checked_tables(monkeypatch, {"a": [ORDERS], "b": [PARTS]}) == {
        "a": [ORDERS],
        "b": [PARTS],
    }


def test_a_table_that_two_fetch_tasks_feed_is_not_loaded_from_one_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = {"a": [ORDERS], "b": [ORDERS, PARTS]}
    with pytest.raises(ConfigError, match=r"shop\.orders comes from a and from b.* --table"):
        checked_tables(monkeypatch, shown)
    assert checked_tables(monkeypatch, shown, "parts") == {"a": [], "b": [PARTS]}


def test_a_table_that_cannot_be_read_is_not_left_out_silently(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = {"a": [ORDERS]}
    with pytest.raises(ConfigError, match=r"shop\.parts is there .* GRANT SELECT on it"):
        checked_tables(monkeypatch, shown, unreadable=[PARTS])
    with pytest.raises(ConfigError, match=r"shop\.parts is there"):
        checked_tables(monkeypatch, shown, "parts", unreadable=[PARTS])
    assert checked_tables(monkeypatch, shown, "orders", unreadable=[PARTS]) == {"a": [ORDERS]}


def test_neither_is_one_that_the_task_names_and_the_source_does_not_show(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = {"a": [ORDERS]}
    load = replace(LOAD, includes=frozenset({"SHOP.ORDERS", "SHOP.PARTS"}))
    with pytest.raises(ConfigError, match=r"SHOP\.PARTS is in consumer.includes, but"):
        checked_tables(monkeypatch, shown, load=load)
    assert checked_tables(monkeypatch, shown, "orders", load=load) == {"a": [ORDERS]}
