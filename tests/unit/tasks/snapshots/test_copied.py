"""Copies of snapshots, on a ZooKeeper in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest

from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.snapshot.progress import TableProgress, TableState, Wish, WishKind
from cdcbus.tasks.snapshots import copied
from cdcbus.tasks.snapshots.copied import create_snapshots, sent_without, snapshots_to_copy
from cdcbus.tasks.snapshots.direct import DirectLoad, direct_path, put_direct_load
from cdcbus.tasks.snapshots.store import ZooKeeperSnapshots, snapshot_path, wish, wishes_of
from cdcbus.tasks.zookeeper.znode import put_node
from tests.support.stand_ins.memory_zookeeper import SESSION, MemoryZooKeeper

ORDERS, ITEMS, ODD = TableId("shop", "orders"), TableId("shop", "items"), TableId("a/b", "c.d")
DONE = TableProgress(TableState.DONE, 9, is_keyless=True)
PART = TableProgress(TableState.DONE, 5, where="id > 3")
HALF = TableProgress(TableState.RUNNING, 5, after=("5",), until=("9",))
PAUSED = TableProgress(TableState.PAUSED, has_held_back=True)
WISHES = [Wish(WishKind.START, ("shop.items",)), Wish(WishKind.PAUSE)]


@pytest.fixture
def zookeeper() -> Any:
    return MemoryZooKeeper()


def copy(zookeeper: Any) -> ZooKeeperSnapshots:
    """Of task 7, as task 8."""
    transaction = zookeeper.transaction()
    create_snapshots(zookeeper, transaction, "8", snapshots_to_copy(zookeeper, "7"))
    for result in transaction.commit_async().get():
        assert not isinstance(result, Exception)
    return ZooKeeperSnapshots(zookeeper, "8", "lane")


def ask(zookeeper: Any, task_id: str, wishes: Iterable[Wish]) -> None:
    for each in wishes:
        wish(zookeeper, task_id, "lane", each, "ann@host")


@pytest.mark.parametrize("group_bytes", [1, copied.GROUP_BYTES])
def test_a_copy_has_all_that_is_known_of_the_snapshots(
    zookeeper: Any, monkeypatch: pytest.MonkeyPatch, group_bytes: int
) -> None:
    monkeypatch.setattr(copied, "GROUP_BYTES", group_bytes)
    tables = {ORDERS: DONE, ITEMS: HALF, ODD: PAUSED}
    original = ZooKeeperSnapshots(zookeeper, "7", "lane")
    original.save(tables)
    original.note_live(False)
    ask(zookeeper, "7", WISHES)
    of_copy = copy(zookeeper)
    assert (of_copy.load(), of_copy.is_live()) == (tables, False)
    # A later wish comes after those that were copied.
    zookeeper.put("/datas/task/8/snapshot/lane/wishes/0000000000", WISHES[0].to_fields())
    wishes = wishes_of(zookeeper, snapshot_path("8", "lane"))
    assert [wishes[name] for name in sorted(wishes)] == [*WISHES, WISHES[0]]


def test_a_copy_knows_which_progress_is_lost(zookeeper: Any) -> None:
    original = ZooKeeperSnapshots(zookeeper, "7", "lane")
    original.lost()
    original.save({ORDERS: DONE, ITEMS: DONE})
    del zookeeper.nodes["/datas/task/7/snapshot/lane/tables/shop.orders"]
    assert copy(zookeeper).lost() == {ORDERS}


def test_what_does_not_fit_into_one_request_is_written_before_the_text(
    zookeeper: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copied, "GROUP_BYTES", 1_000)
    tables = {TableId("shop", f"t{number}"): DONE for number in range(100)}
    ZooKeeperSnapshots(zookeeper, "7", "lane").save(tables)
    transaction = zookeeper.transaction()
    create_snapshots(zookeeper, transaction, "8", snapshots_to_copy(zookeeper, "7"))
    of_copy = ZooKeeperSnapshots(zookeeper, "8", "lane")
    written = len(of_copy.load())
    assert 90 < written < 100
    transaction.commit_async().get()
    assert of_copy.load() == tables


def test_a_task_without_snapshots_has_none_to_copy(zookeeper: Any) -> None:
    assert copy(zookeeper).load() == {}
    assert not zookeeper.exists("/datas/task/8")


def test_a_direct_load_is_not_copied(zookeeper: Any) -> None:
    put_direct_load(zookeeper, "7", DirectLoad({}, is_done=True))
    put_node(zookeeper, f"{direct_path('7')}/tables/shop.orders", {"state": "done"})
    assert snapshots_to_copy(zookeeper, "7") == {}


@pytest.mark.parametrize(
    ("tables", "wishes"), [({ORDERS: HALF}, []), ({ORDERS: PAUSED}, []), ({}, WISHES)]
)
def test_snapshots_that_are_not_done_are_copied_while_the_task_is_stopped(
    zookeeper: Any, tables: Mapping[TableId, TableProgress], wishes: Iterable[Wish]
) -> None:
    ZooKeeperSnapshots(zookeeper, "7", "lane").save({ITEMS: DONE, **tables})
    ask(zookeeper, "7", wishes)
    assert snapshots_to_copy(zookeeper, "7")
    zookeeper.put("/datas/task/7/lock/lane", {}, SESSION)
    for _ in range(2):
        with pytest.raises(ConfigError, match="task 7 runs, and its snapshots are not done"):
            snapshots_to_copy(zookeeper, "7")
        # Left of a former swimlane, this one tells nothing.
        zookeeper.put("/datas/task/7/lock/former", {}, 0)
    del zookeeper.nodes["/datas/task/7/lock/former"]
    zookeeper.put("/datas/task/7/lock/lane", {}, 0)
    with pytest.raises(ConfigError, match=r"^/datas/task/7/lock/lane .* in a persistent znode"):
        snapshots_to_copy(zookeeper, "7")


def test_snapshots_that_are_done_are_copied_while_the_task_runs(zookeeper: Any) -> None:
    ZooKeeperSnapshots(zookeeper, "7", "lane").save({ORDERS: DONE})
    zookeeper.put("/datas/task/7/lock/lane", {})
    assert copy(zookeeper).load() == {ORDERS: DONE}


@pytest.mark.parametrize(
    ("mode", "tables", "found"),
    [
        ("initial", {}, ["shop.items", "shop.orders"]),
        ("initial", {ORDERS: DONE, ITEMS: HALF}, []),
        ("initial", {ORDERS: TableProgress(), ITEMS: HALF}, ["shop.orders"]),
        ("never", {ORDERS: TableProgress()}, ["shop.orders"]),
        ("initial", {ORDERS: PART, ITEMS: HALF}, ["shop.orders"]),
        ("never", {ORDERS: PART, ITEMS: HALF}, []),
        ("never", {}, []),
        (None, {}, []),
    ],
)
def test_tables_that_another_task_would_send_again_are_named(
    zookeeper: Any, mode: str | None, tables: Mapping[TableId, TableProgress], found: list[str]
) -> None:
    ZooKeeperSnapshots(zookeeper, "7", "lane").save(
        {ORDERS: DONE, ITEMS: HALF, ODD: TableProgress()}
    )
    ZooKeeperSnapshots(zookeeper, "8", "lane").save(tables)
    zookeeper.put(
        "/datas/task/8/dist/lane",
        {"taskId": "8", "consumer": {"consumerName": "CanalFetch", "snapshot": mode}},
    )
    assert sorted(sent_without(zookeeper, "7", "8", ["lane"])) == found


def test_a_task_without_a_text_may_send_them_again(zookeeper: Any) -> None:
    ZooKeeperSnapshots(zookeeper, "7", "lane").save({ORDERS: DONE})
    assert sent_without(zookeeper, "7", "8", ["lane"]) == ["shop.orders"]
