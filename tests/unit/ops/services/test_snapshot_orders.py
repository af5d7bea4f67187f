"""What operators order of snapshots, and what they are told, on a ZooKeeper in memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cdcbus.ops.services.snapshots import lost_progress, order_snapshot, rows_twice, snapshots_of
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.snapshot.progress import TableProgress, TableState, Wish, WishKind
from cdcbus.tasks.snapshots.direct import (
    DirectLoad,
    direct_load,
    put_direct_load,
    void_direct_load,
)
from cdcbus.tasks.snapshots.store import ZooKeeperSnapshots, snapshot_path, wishes_of
from cdcbus.tasks.zookeeper.tasks import TaskNodes
from tests.support.stand_ins.memory_zookeeper import SESSION, MemoryZooKeeper

ORDERS = TableId("shop", "orders")
POSITION = "/datas/task/7/position/lane"
LOCK = "/datas/task/7/lock/lane"


@pytest.fixture
def zookeeper() -> Any:
    """With the position of fetch task 7."""
    found = MemoryZooKeeper()
    found.put(POSITION, {"journalName": "bin.000001", "position": 4})
    return found


def wished(zookeeper: Any) -> list[Wish]:
    return list(wishes_of(zookeeper, snapshot_path("7", "lane")).values())


def test_a_wish_goes_to_the_tasks_swimlane_and_says_when_it_is_seen(zookeeper: Any) -> None:
    what = Wish(WishKind.START, ("shop.orders",), "id > 5")
    ordered = order_snapshot(zookeeper, "7", what, "ann")
    assert wished(zookeeper) == [what]
    assert not ordered.is_running
    assert ordered.sentence.endswith("when it starts: it does not run now")
    # As a copy of the tree can hold it: nobody sees the wish.
    zookeeper.put(LOCK, {}, 0)
    assert not order_snapshot(zookeeper, "7", Wish(WishKind.PAUSE), "ann").is_running
    zookeeper.put(LOCK, {}, SESSION)
    ordered = order_snapshot(zookeeper, "7", Wish(WishKind.PAUSE), "ann")
    assert ordered.is_running
    assert "snapshot pause of all its tables is ordered" in ordered.sentence
    assert ordered.sentence.endswith("within seconds")


@pytest.mark.parametrize("is_imported", [True, False])
def test_what_a_former_swimlane_has_left_keeps_no_wish_from_the_task(
    zookeeper: Any, is_imported: bool
) -> None:
    """As where its source was renamed: a position, and the lock of a process of porter."""
    zookeeper.put("/datas/task/7/position/former", {"journalName": "bin.000001", "position": 4})
    zookeeper.put("/datas/task/7/lock/former", {}, 0)
    if is_imported:
        zookeeper.put("/datas/task/7/dist/lane", {})
    else:
        zookeeper.put(LOCK, {}, SESSION)
    what = Wish(WishKind.START, ("shop.orders",))
    assert order_snapshot(zookeeper, "7", what, "ann").is_running is not is_imported
    zookeeper.put(LOCK, {}, SESSION)
    assert order_snapshot(zookeeper, "7", what, "ann").is_running
    assert wished(zookeeper) == [what, what]
    assert snapshots_of(zookeeper, "7").wishes == [what, what]


@pytest.mark.parametrize("table", ["orders", "a.b.c", "", "shop.*", ".orders", "shop."])
def test_a_table_that_is_not_named_with_its_schema_is_refused(zookeeper: Any, table: str) -> None:
    with pytest.raises(ConfigError, match=r"expected SCHEMA\.TABLE"):
        order_snapshot(zookeeper, "7", Wish(WishKind.START, (table,)), "ann")
    assert wished(zookeeper) == []


@pytest.mark.parametrize(
    "what",
    [
        Wish(WishKind.START, (), "id > 5"),
        Wish(WishKind.STOP, ("shop.orders",), "id > 5"),
    ],
)
def test_a_condition_is_for_the_start_of_named_tables_only(zookeeper: Any, what: Wish) -> None:
    with pytest.raises(ConfigError, match="a condition is for the start of tables"):
        order_snapshot(zookeeper, "7", what, "ann")
    assert wished(zookeeper) == []


def test_a_condition_that_ends_the_statement_early_is_refused(zookeeper: Any) -> None:
    what = Wish(WishKind.START, ("shop.orders",), "1) OR (1")
    with pytest.raises(ConfigError, match="one expression in SQL"):
        order_snapshot(zookeeper, "7", what, "ann")
    assert wished(zookeeper) == []


@pytest.mark.parametrize("kind", [WishKind.PAUSE, WishKind.RESUME, WishKind.STOP])
def test_an_order_for_a_table_without_a_snapshot_is_refused(zookeeper: Any, kind: WishKind) -> None:
    """Nothing would come of it: it may be misspelt."""
    typo = Wish(kind, ("shop.order",))
    order_snapshot(zookeeper, "7", typo, "ann")  # before any snapshot has begun
    for seen in [path for path in zookeeper.nodes if "/wishes/" in path]:
        del zookeeper.nodes[seen]
    progress = {ORDERS: TableProgress(TableState.RUNNING, 5)}
    ZooKeeperSnapshots(zookeeper, "7", "lane").save(progress)
    with pytest.raises(ConfigError, match=rf"no snapshot of shop.order to {kind}; those"):
        order_snapshot(zookeeper, "7", typo, "ann")
    order_snapshot(zookeeper, "7", Wish(kind, ("Shop.Orders",)), "ann")
    order_snapshot(zookeeper, "7", Wish(WishKind.START, ("shop.order",)), "ann")
    order_snapshot(zookeeper, "7", typo, "ann")  # what is ordered first may begin


def test_a_task_that_is_not_known_is_refused(zookeeper: Any) -> None:
    with pytest.raises(ConfigError, match="task 8 is not known"):
        snapshots_of(zookeeper, "8")


def test_a_task_that_reads_topics_is_refused_however_that_is_known(zookeeper: Any) -> None:
    def refused() -> None:
        with pytest.raises(ConfigError, match="task 7 reads topics"):
            order_snapshot(zookeeper, "7", Wish(WishKind.START), "ann")

    locks = [LOCK, "/datas/task/7/lock/other"]
    for lock in locks:
        zookeeper.put(lock, {}, SESSION)
    refused()
    for lock in locks:
        del zookeeper.nodes[lock]
    order_snapshot(zookeeper, "7", Wish(WishKind.START), "ann")
    zookeeper.put(POSITION, [{"topic": "orders"}])
    refused()


def test_progress_and_what_is_not_seen_yet_are_found(zookeeper: Any) -> None:
    half = TableProgress(TableState.RUNNING, 5)
    ZooKeeperSnapshots(zookeeper, "7", "lane").save({ORDERS: half})
    order_snapshot(zookeeper, "7", Wish(WishKind.PAUSE), "ann")
    found = snapshots_of(zookeeper, "7")
    assert [(each.table, each.progress) for each in found.tables] == [(ORDERS, half)]
    assert (found.wishes, found.is_unfinished) == ([Wish(WishKind.PAUSE)], False)
    fields = found.tables[0].to_fields()
    assert (fields["schema"], fields["state"], fields["secondsLeft"]) == ("shop", "running", None)


def test_an_interrupted_direct_load_is_given_up_whole_and_only_while_it_does_not_run(
    zookeeper: Any,
) -> None:
    put_direct_load(zookeeper, "7", DirectLoad({}))
    ZooKeeperSnapshots(zookeeper, "7", "direct").save({ORDERS: TableProgress()})
    found = snapshots_of(zookeeper, "7")
    assert ([each.table for each in found.tables], found.is_unfinished) == ([ORDERS], True)
    with pytest.raises(ConfigError, match="given up whole: name no table"):
        order_snapshot(zookeeper, "7", Wish(WishKind.STOP, ("shop.orders",)), "ann")
    zookeeper.put(LOCK, {})
    with pytest.raises(ConfigError, match=f"{LOCK} is held by .*, in a persistent znode"):
        order_snapshot(zookeeper, "7", Wish(WishKind.STOP), "ann")
    zookeeper.put(LOCK, {}, SESSION + 1)
    with pytest.raises(ConfigError, match="end it by Ctrl-C first"):
        order_snapshot(zookeeper, "7", Wish(WishKind.STOP), "ann")
    assert direct_load(zookeeper, "7") is not None
    del zookeeper.nodes[LOCK]
    with pytest.raises(ConfigError, match="0 of 1 tables done, 0 rows"):
        order_snapshot(zookeeper, "7", Wish(WishKind.STOP), "ann")
    assert direct_load(zookeeper, "7") == DirectLoad({})
    ordered = order_snapshot(zookeeper, "7", Wish(WishKind.STOP, is_confirmed=True), "ann")
    assert ordered.gives_up
    assert "cdcbus offset reset 7" in ordered.sentence
    found = snapshots_of(zookeeper, "7")
    assert (found.tables, found.why) == ([], ordered.sentence)


def test_a_void_direct_load_shows_no_progress(zookeeper: Any) -> None:
    put_direct_load(zookeeper, "7", DirectLoad({}))
    ZooKeeperSnapshots(zookeeper, "7", "direct").save({ORDERS: TableProgress(TableState.DONE, 5)})
    assert "cdcbus snapshot run 7 --direct continues it" in snapshots_of(zookeeper, "7").why
    void_direct_load(zookeeper, "7", DirectLoad({}))
    found = snapshots_of(zookeeper, "7")
    assert (found.tables, found.is_unfinished) == ([], True)
    assert "it is void" in found.why


def test_a_direct_load_that_is_done_is_not_given_up(zookeeper: Any) -> None:
    put_direct_load(zookeeper, "7", DirectLoad({}, is_done=True))
    assert not order_snapshot(zookeeper, "7", Wish(WishKind.STOP), "ann").gives_up
    assert not snapshots_of(zookeeper, "7").why
    assert direct_load(zookeeper, "7") is not None


def test_a_direct_load_is_not_given_up_while_nodes_are_to_run_the_task(zookeeper: Any) -> None:
    put_direct_load(zookeeper, "7", DirectLoad({}))
    TaskNodes(zookeeper).want("7", is_working=True, by="ann")
    with pytest.raises(ConfigError, match="stop it first, cdcbus task stop 7"):
        order_snapshot(zookeeper, "7", Wish(WishKind.STOP), "ann")
    assert direct_load(zookeeper, "7") is not None
    with pytest.raises(ConfigError, match="stop it first, cdcbus task stop 7"):
        lost_progress(zookeeper, "7", Wish(WishKind.STOP))  # before the question
    TaskNodes(zookeeper).want("7", is_working=False, by="ann")
    assert order_snapshot(zookeeper, "7", Wish(WishKind.STOP, is_confirmed=True), "ann").gives_up


def test_what_is_lost_with_a_direct_load_is_named(zookeeper: Any) -> None:
    put_direct_load(zookeeper, "7", DirectLoad({}))
    store = ZooKeeperSnapshots(zookeeper, "7", "direct")
    store.save({ORDERS: TableProgress(TableState.RUNNING, 4_000)})
    store.save({TableId("shop", "log"): TableProgress()})
    lost = lost_progress(zookeeper, "7", Wish(WishKind.STOP))
    assert "0 of 2 tables done, 4,000 rows (shop.orders 4,000)." in lost
    many = {TableId("s", f"t{each}"): TableProgress(TableState.DONE, each) for each in range(9)}
    store.save(many)
    lost = lost_progress(zookeeper, "7", Wish(WishKind.STOP))
    assert "9 of 11 tables done, 4,036 rows (shop.orders 4,000, s.t8 8, s.t7 7" in lost
    assert "s.t5 5 and 4 more)" in lost
    for kind in (WishKind.START, WishKind.PAUSE):
        assert not lost_progress(zookeeper, "7", Wish(kind))


@pytest.mark.parametrize(
    "load", [DirectLoad({}, is_void=True), DirectLoad({}, is_void=True, is_given_up=True)]
)
def test_nothing_is_lost_with_a_load_that_is_void(zookeeper: Any, load: DirectLoad) -> None:
    put_direct_load(zookeeper, "7", load)
    ZooKeeperSnapshots(zookeeper, "7", "direct").save({ORDERS: TableProgress(rows=5)})
    assert not lost_progress(zookeeper, "7", Wish(WishKind.STOP))
    assert order_snapshot(zookeeper, "7", Wish(WishKind.STOP), "ann").gives_up


KEYLESS = TableProgress(TableState.DONE, 5, started_ms=1, is_keyless=True)


@pytest.mark.parametrize(
    ("progress", "is_refused"),
    [
        (KEYLESS, True),
        (replace(KEYLESS, state=TableState.FAILED), True),
        (replace(KEYLESS, state=TableState.DONE, rows=0), True),  # the stream has brought them
        (TableProgress(TableState.DONE, 5), True),  # of an older version
        (replace(KEYLESS, state=TableState.RUNNING), False),
        (replace(KEYLESS, state=TableState.PAUSED), False),
        (replace(KEYLESS, state=TableState.SENDING), False),
        (TableProgress(TableState.DONE, 5, key=("id",), until=("5",)), False),
        (TableProgress(TableState.DONE), False),
    ],
)
def test_a_start_that_makes_rows_without_a_key_come_twice_is_refused_unless_forced(
    zookeeper: Any, progress: TableProgress, is_refused: bool
) -> None:
    ZooKeeperSnapshots(zookeeper, "7", "lane").save({ORDERS: progress})
    for what in (Wish(WishKind.START), Wish(WishKind.START, ("SHOP.orders",))):
        assert bool(rows_twice(zookeeper, "7", what)) is is_refused
    if is_refused:
        with pytest.raises(ConfigError, match=r"Kafka may have rows of shop\.orders already"):
            order_snapshot(zookeeper, "7", what, "ann")
        assert wished(zookeeper) == []
    what = replace(what, is_confirmed=True)
    order_snapshot(zookeeper, "7", what, "ann")
    others = Wish(WishKind.START, ("shop.items",))
    order_snapshot(zookeeper, "7", others, "ann")
    order_snapshot(zookeeper, "7", Wish(WishKind.STOP), "ann")
    assert wished(zookeeper)[:2] == [what, others]
