"""Where the progress of snapshots, and what operators wish, is kept, on a ZooKeeper in memory."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss, NoAuthError

from cdcbus.plugins.errors import BusUnavailable, ConfigError, PositionError, PositionUnavailable
from cdcbus.plugins.positions import BinlogPosition, KafkaPosition, TopicPartition
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.snapshot.progress import TableProgress, TableState, Wish, WishKind
from cdcbus.tasks.snapshots import store
from cdcbus.tasks.snapshots.direct import (
    DirectLoad,
    begin_direct_load,
    direct_load,
    direct_path,
    give_up_direct_load,
    put_direct_load,
    refuse_unfinished,
    void_direct_load,
)
from cdcbus.tasks.snapshots.store import ZooKeeperSnapshots, snapshot_path, tables_of, wish
from tests.support.stand_ins.memory_zookeeper import MemoryZooKeeper, Request

PATH = "/datas/task/7/snapshot/lane"
ORDERS, ODD = TableId("shop", "orders"), TableId("a/b", "c.d")
HALF = TableProgress(TableState.RUNNING, 5, after=("5",), until=("9",), where="id > 0")
PAUSE, STOP = Wish(WishKind.PAUSE), Wish(WishKind.STOP, ("shop.orders",))


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(store, "time", found)
    return found


@pytest.fixture
def zookeeper() -> Any:
    return MemoryZooKeeper()


@pytest.fixture
def snapshots(zookeeper: Any, clock: Clock) -> ZooKeeperSnapshots:
    return ZooKeeperSnapshots(zookeeper, "7", "lane")


def ask(zookeeper: Any, what: Wish) -> None:
    wish(zookeeper, "7", "lane", what, "ann@host")


def test_whether_live_changes_were_sent_is_noted(
    zookeeper: Any, snapshots: ZooKeeperSnapshots
) -> None:
    found = [snapshots.is_live()]
    for is_live in (False, True):
        snapshots.note_live(is_live)
        found.append(ZooKeeperSnapshots(zookeeper, "7", "lane").is_live())
    assert found == [None, False, True]
    assert ZooKeeperSnapshots(zookeeper, "7", "other").is_live() is None
    assert snapshots.load() == {}


def test_what_was_stored_is_found_again_whatever_a_table_is_called(
    snapshots: ZooKeeperSnapshots,
) -> None:
    assert snapshots.load() == {}
    snapshots.save({ORDERS: HALF, ODD: TableProgress()})
    snapshots.save({ORDERS: TableProgress(TableState.DONE, 9)})
    assert snapshots.load() == {ORDERS: TableProgress(TableState.DONE, 9), ODD: TableProgress()}


def test_tasks_and_swimlanes_have_snapshots_of_their_own(
    zookeeper: Any, snapshots: ZooKeeperSnapshots
) -> None:
    snapshots.save({ORDERS: HALF})
    assert tables_of(zookeeper, snapshot_path("7", "other")) == {}
    assert tables_of(zookeeper, snapshot_path("8", "lane")) == {}
    assert snapshot_path("7") == "/datas/task/7/snapshot"


def test_nothing_is_written_when_another_process_may_have_the_lock(zookeeper: Any) -> None:
    snapshots = ZooKeeperSnapshots(zookeeper, "7", "lane", lambda: True)
    with pytest.raises(PositionUnavailable, match=f"{PATH} is not written: another process"):
        snapshots.save({ORDERS: HALF})
    assert zookeeper.nodes == {}


@pytest.mark.parametrize("damaged", [b"", b"no json", b'{"state":""}', b'{"rows":3}', b"[1]"])
def test_progress_that_cannot_be_read_counts_as_not_begun_and_is_said(
    zookeeper: Any,
    snapshots: ZooKeeperSnapshots,
    damaged: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    snapshots.save({ORDERS: HALF})
    zookeeper.put(f"{PATH}/tables/x", damaged)
    assert snapshots.load() == {ORDERS: HALF}
    assert f"{PATH}/tables/x" in caplog.text
    assert "counts as not begun" in caplog.text


def test_progress_in_a_state_of_a_newer_cdcbus_is_refused_and_stays(
    zookeeper: Any, snapshots: ZooKeeperSnapshots
) -> None:
    snapshots.save({ORDERS: HALF})
    zookeeper.put(f"{PATH}/tables/x", {"state": "verifying", "schema": "s", "table": "t"})
    with pytest.raises(PositionError, match=r"tables/x has a state .* newer cdcbus: run that one"):
        snapshots.load()
    with pytest.raises(PositionError, match="run that one"):
        snapshots.lost()


def hurt(zookeeper: Any, path: str, damage: bytes | None) -> None:
    if damage is None:
        del zookeeper.nodes[path]
    else:
        zookeeper.put(path, damage)


@pytest.mark.parametrize("damage", [None, b"", b"no json", b'{"state":"done","rows":null}'])
def test_progress_that_is_gone_or_cannot_be_read_is_lost_until_it_is_saved_again(
    zookeeper: Any,
    snapshots: ZooKeeperSnapshots,
    damage: bytes | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def next_one() -> ZooKeeperSnapshots:
        return ZooKeeperSnapshots(zookeeper, "7", "lane")

    assert snapshots.lost() == set()
    snapshots.note_live(False)
    snapshots.save({ORDERS: HALF})
    snapshots.save({ORDERS: HALF, ODD: HALF})
    assert next_one().lost() == set()
    hurt(zookeeper, f"{PATH}/tables/shop.orders", damage)
    assert next_one().lost() == {ORDERS}
    later = next_one()
    caplog.clear()
    assert [later.lost(), later.lost()] == [{ORDERS}] * 2
    told = f"{PATH}/tables: the progress of 1 tables is gone, or cannot be read: shop.orders. One"
    assert caplog.text.count(told) == 1
    assert later.is_live() is False
    later.save({TableId("shop", "new"): HALF})
    assert next_one().lost() == {ORDERS}
    later.save({ORDERS: TableProgress()})
    assert next_one().lost() == set()


def test_the_loss_of_all_progress_is_noticed(zookeeper: Any, snapshots: ZooKeeperSnapshots) -> None:
    snapshots.save({ORDERS: HALF})  # by an older version, which noted nothing
    assert snapshots.lost() == set()
    snapshots.save({ODD: HALF})
    for name in ("shop.orders", "a%2Fb.c%2Ed"):
        del zookeeper.nodes[f"{PATH}/tables/{name}"]
    assert snapshots.lost() == {ORDERS, ODD}
    assert snapshots.is_live() is None


def test_a_lost_table_is_forgotten_when_an_operator_says_so(
    zookeeper: Any, snapshots: ZooKeeperSnapshots
) -> None:
    snapshots.lost()
    snapshots.save({ORDERS: HALF})
    for folder in ("tables", "known"):
        del zookeeper.nodes[f"{PATH}/{folder}/shop.orders"]
    assert snapshots.lost() == set()


def test_progress_of_direct_loads_is_not_noted(
    zookeeper: Any, snapshots: ZooKeeperSnapshots
) -> None:
    """They have a number of their own."""
    snapshots.save({ORDERS: HALF})
    assert not [path for path in zookeeper.nodes if "/known" in path]


def test_a_silent_zookeeper_is_told_from_one_that_refuses(
    zookeeper: Any, snapshots: ZooKeeperSnapshots
) -> None:
    zookeeper.refusal = NoAuthError()
    with pytest.raises(PositionError, match="does not let this user use"):
        snapshots.save({ORDERS: HALF})
    zookeeper.is_silent = True
    with pytest.raises(PositionUnavailable, match=f"does not answer for {PATH}"):
        snapshots.load()


def test_wishes_that_may_not_be_read_are_said(
    zookeeper: Any, snapshots: ZooKeeperSnapshots
) -> None:
    zookeeper.refusal = NoAuthError()
    with pytest.raises(PositionError, match=r"does not let this user use .*/wishes"):
        snapshots.has_wishes()


# Wishes


def test_wishes_come_once_in_order_and_again_to_the_next_process(
    zookeeper: Any, snapshots: ZooKeeperSnapshots
) -> None:
    ask(zookeeper, PAUSE)
    ask(zookeeper, STOP)
    assert snapshots.wishes() == [PAUSE, STOP]
    assert snapshots.wishes() == []
    assert ZooKeeperSnapshots(zookeeper, "7", "lane").wishes() == [PAUSE, STOP]


def test_what_is_heeded_does_not_come_again_and_what_is_not_yet_seen_stays(
    zookeeper: Any, snapshots: ZooKeeperSnapshots
) -> None:
    ask(zookeeper, PAUSE)
    snapshots.wishes()
    ask(zookeeper, STOP)
    snapshots.heeded()
    assert ZooKeeperSnapshots(zookeeper, "7", "lane").wishes() == [STOP]


def test_wishes_that_still_wait_stay_when_those_before_them_are_heeded(
    zookeeper: Any, snapshots: ZooKeeperSnapshots
) -> None:
    ask(zookeeper, PAUSE)
    ask(zookeeper, STOP)
    snapshots.wishes()
    snapshots.heeded(but_last=1)
    assert ZooKeeperSnapshots(zookeeper, "7", "lane").wishes() == [STOP]
    snapshots.heeded()
    assert ZooKeeperSnapshots(zookeeper, "7", "lane").wishes() == []


def test_wishes_come_again_to_the_next_attempt_of_a_process(
    zookeeper: Any, snapshots: ZooKeeperSnapshots
) -> None:
    ask(zookeeper, PAUSE)
    assert snapshots.wishes() == [PAUSE]
    snapshots.load()
    snapshots.heeded()
    assert snapshots.wishes() == [PAUSE]
    snapshots.heeded()
    snapshots.load()
    assert snapshots.wishes() == []


def test_a_wish_that_was_taken_out_by_hand_is_heeded_all_the_same(
    zookeeper: Any, snapshots: ZooKeeperSnapshots
) -> None:
    ask(zookeeper, PAUSE)
    snapshots.wishes()
    zookeeper.nodes.clear()
    snapshots.heeded()
    asked = len(zookeeper.asked)
    snapshots.heeded()
    assert len(zookeeper.asked) == asked


def test_wishes_that_could_not_be_taken_out_are_taken_out_later(
    zookeeper: Any, snapshots: ZooKeeperSnapshots
) -> None:
    ask(zookeeper, PAUSE)
    ask(zookeeper, STOP)
    snapshots.wishes()
    zookeeper.refusal = ConnectionLoss()
    with pytest.raises(PositionUnavailable):
        snapshots.heeded()
    zookeeper.refusal = None
    snapshots.heeded()
    assert zookeeper.names(f"{PATH}/wishes") == []


def test_a_wish_that_comes_while_the_task_runs_is_there_at_its_next_look(
    zookeeper: Any, snapshots: ZooKeeperSnapshots
) -> None:
    ask(zookeeper, PAUSE)
    assert snapshots.wishes() == [PAUSE]
    ask(zookeeper, STOP)
    assert snapshots.has_wishes()
    assert snapshots.wishes() == [STOP]


def test_the_wishes_are_asked_for_when_they_change_and_not_when_the_task_looks(
    zookeeper: Any, snapshots: ZooKeeperSnapshots
) -> None:
    """An idle task looks once a second, and an answer must not wait for its next look."""
    ask(zookeeper, PAUSE)
    snapshots.wishes()
    snapshots.heeded()
    assert not snapshots.has_wishes()
    zookeeper.is_silent = True
    zookeeper.changed(f"{PATH}/wishes")
    zookeeper.put(f"{PATH}/wishes/9", STOP.to_fields())
    assert not snapshots.has_wishes()
    zookeeper.speak()
    assert snapshots.has_wishes()


def test_a_wish_that_comes_while_others_are_read_is_not_forgotten(
    zookeeper: Any, snapshots: ZooKeeperSnapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(zookeeper, PAUSE)
    read = store.wishes_of

    def read_slowly(*where: Any) -> dict[str, Wish]:
        found = read(*where)
        ask(zookeeper, STOP)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(store, "wishes_of", read_slowly)
        assert snapshots.wishes() == [PAUSE]
    assert snapshots.wishes() == [STOP]


def test_the_first_wish_ever_is_seen_though_its_folder_was_not_there(
    zookeeper: Any, snapshots: ZooKeeperSnapshots
) -> None:
    assert snapshots.wishes() == []
    assert snapshots.wishes() == []
    ask(zookeeper, PAUSE)
    zookeeper.changed(f"{PATH}/wishes")  # as its folder is made with it
    assert snapshots.wishes() == [PAUSE]


def test_a_folder_that_is_made_between_two_questions_is_looked_into(
    zookeeper: Any, snapshots: ZooKeeperSnapshots
) -> None:
    zookeeper.is_silent = True
    snapshots.wishes()
    zookeeper.speak()
    assert snapshots.wishes() == []  # it is asked whether it is there meanwhile
    ask(zookeeper, PAUSE)
    snapshots._asked = zookeeper.exists_async(f"{PATH}/wishes")
    assert snapshots.wishes() == []
    assert snapshots.wishes() == [PAUSE]


def test_while_nobody_wishes_anything_zookeeper_is_asked_once(
    zookeeper: Any, snapshots: ZooKeeperSnapshots, clock: Clock
) -> None:
    ask(zookeeper, PAUSE)
    snapshots.wishes()
    asked = len(zookeeper.asked)
    for _ in range(5):
        clock.now += 10
        assert snapshots.wishes() == []
    assert len(zookeeper.asked) == asked


def test_a_silent_zookeeper_holds_nobody_up_and_its_answer_is_taken_when_it_comes(
    zookeeper: Any, snapshots: ZooKeeperSnapshots, clock: Clock
) -> None:
    ask(zookeeper, PAUSE)
    zookeeper.is_silent = True
    assert snapshots.wishes() == []
    clock.now += 60
    assert snapshots.wishes() == []
    zookeeper.speak()
    assert snapshots.wishes() == [PAUSE]


def test_a_wish_of_which_the_text_could_not_be_read_is_not_forgotten(
    zookeeper: Any, snapshots: ZooKeeperSnapshots, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing has changed since, so nothing else would have it looked at again."""
    ask(zookeeper, PAUSE)
    with monkeypatch.context() as patch:
        patch.setattr(zookeeper, "get_async", lambda *_, **__: Request(str, is_ready=False))
        with pytest.raises(PositionUnavailable):
            snapshots.wishes()
    assert snapshots.wishes() == [PAUSE]


def test_after_a_lost_connection_wishes_are_asked_for_again_a_second_later(
    zookeeper: Any, snapshots: ZooKeeperSnapshots, clock: Clock
) -> None:
    ask(zookeeper, PAUSE)
    zookeeper.refusal = ConnectionLoss()
    assert snapshots.wishes() == []
    zookeeper.refusal = None
    assert snapshots.wishes() == []
    clock.now += store.LOOK_SECONDS
    assert snapshots.wishes() == [PAUSE]


@pytest.mark.parametrize(
    "damaged", [b"x", b"{}", b'{"kind":"","tables":[],"where":""}', b'{"kind":"stop"}']
)
def test_a_wish_that_cannot_be_read_is_dropped_and_holds_up_no_other(
    zookeeper: Any,
    snapshots: ZooKeeperSnapshots,
    damaged: bytes,
    caplog: pytest.LogCaptureFixture,
) -> None:
    zookeeper.put(f"{PATH}/wishes/0", damaged)
    ask(zookeeper, STOP)
    assert snapshots.wishes() == [STOP]
    assert f"{PATH}/wishes/0 is dropped" in caplog.text
    assert "0" not in zookeeper.names(f"{PATH}/wishes")


def test_a_wish_of_a_kind_that_only_a_newer_cdcbus_knows_waits_for_that_one(
    zookeeper: Any, snapshots: ZooKeeperSnapshots, caplog: pytest.LogCaptureFixture
) -> None:
    zookeeper.put(f"{PATH}/wishes/0", {"kind": "compare", "tables": [], "where": ""})
    ask(zookeeper, STOP)
    assert snapshots.wishes() == [STOP]
    snapshots.heeded()
    assert snapshots.wishes() == []
    assert not snapshots.has_wishes()
    assert zookeeper.names(f"{PATH}/wishes") == ["0"]
    assert f"{PATH}/wishes/0 asks for something that this cdcbus does not know" in caplog.text


def test_a_wish_is_in_the_audit_also_when_it_could_not_be_made(
    zookeeper: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(zookeeper, STOP)
    (name,) = zookeeper.names("/datas/audit")
    noted = zookeeper.fields(f"/datas/audit/{name}")
    assert (noted["by"], noted["what"], noted["on"], noted["failed"]) == (
        *("ann@host", "snapshot stop", "task 7"),
        "",
    )
    real = zookeeper.create_async

    def refuse(path: str, data: bytes, **how: bool) -> Any:
        zookeeper.refusal = NoAuthError() if PATH in path else None
        made = real(path, data, **how)
        zookeeper.refusal = None
        return made

    monkeypatch.setattr(zookeeper, "create_async", refuse)
    with pytest.raises(PositionError, match="does not let this user use"):
        ask(zookeeper, STOP)
    last = sorted(zookeeper.names("/datas/audit"))[-1]
    assert "does not let this user" in zookeeper.fields(f"/datas/audit/{last}")["failed"]


# Direct loads

LOAD = DirectLoad(
    {TopicPartition("orders", 0): 7},
    {"orders": "id"},
    {"1": BinlogPosition("bin.000001", 4)},
)


def test_a_direct_load_is_found_as_it_was_stored_until_it_is_forgotten_whole(
    zookeeper: Any,
) -> None:
    assert direct_load(zookeeper, "7") is None
    put_direct_load(zookeeper, "7", LOAD)
    ZooKeeperSnapshots(zookeeper, "7", "direct").save({ORDERS: HALF})
    assert direct_load(zookeeper, "7") == LOAD
    given_up = replace(LOAD, is_void=True, is_given_up=True)
    give_up_direct_load(zookeeper, "7", LOAD)
    assert direct_load(zookeeper, "7") == given_up
    assert tables_of(zookeeper, direct_path("7")) == {}
    topics = ["orders", "items"]
    for topic in topics:
        with pytest.raises(ConfigError, match=r"was given up, .* some of the rows: empty them"):
            refuse_unfinished(zookeeper, "7", topics)
        zookeeper.put(f"/datas/task/7/position/{topic}", [KafkaPosition(topic, 1, 1).as_fields()])
    # of another partition than the load's
    with pytest.raises(ConfigError, match="was given up"):
        refuse_unfinished(zookeeper, "7", topics)
    zookeeper.put("/datas/task/7/position/orders", [KafkaPosition("orders", 0, 1).as_fields()])
    refuse_unfinished(zookeeper, "7", topics)
    assert direct_load(zookeeper, "7") is None


def test_a_load_that_was_given_up_needs_no_position_of_a_partition_that_is_not_read(
    zookeeper: Any,
) -> None:
    """As after its topic was made anew with fewer."""
    loaded = [TopicPartition("orders", number) for number in range(3)]
    give_up_direct_load(zookeeper, "7", DirectLoad(dict.fromkeys(loaded, 7)))
    zookeeper.put("/datas/task/7/position/orders", [KafkaPosition("orders", 0, 1).as_fields()])

    def silent() -> list[TopicPartition]:
        raise BusUnavailable("Kafka does not answer")

    for read in (None, lambda: loaded[:2]):
        with pytest.raises(ConfigError, match="was given up"):
            refuse_unfinished(zookeeper, "7", ["orders"], read)
    # A node tries again then.
    with pytest.raises(BusUnavailable):
        refuse_unfinished(zookeeper, "7", ["orders"], silent)
    refuse_unfinished(zookeeper, "7", ["orders"], lambda: loaded[:1])
    assert direct_load(zookeeper, "7") is None


@pytest.mark.parametrize("deletes", range(2))
def test_a_load_that_is_given_up_by_half_is_not_continued(
    monkeypatch: pytest.MonkeyPatch, deletes: int
) -> None:
    """The process is killed after so many deletions, and the call is repeated."""
    client: Any = MemoryZooKeeper()
    put_direct_load(client, "7", LOAD)
    ZooKeeperSnapshots(client, "7", "direct").save({ORDERS: HALF, ODD: HALF})
    left, delete = deletes, client.delete_async

    def killed(path: str) -> Any:
        nonlocal left
        if not left:
            raise ConnectionLoss
        left -= 1
        return delete(path)

    monkeypatch.setattr(client, "delete_async", killed)
    with pytest.raises((ConnectionLoss, PositionUnavailable)):
        give_up_direct_load(client, "7", LOAD)
    given_up = replace(LOAD, is_void=True, is_given_up=True)
    assert direct_load(client, "7") == given_up
    left = 9
    give_up_direct_load(client, "7", given_up)
    assert direct_load(client, "7") == given_up
    assert tables_of(client, direct_path("7")) == {}


@pytest.mark.parametrize("writes", range(4))
def test_a_task_does_not_start_while_a_direct_load_is_begun_anew(
    monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    """The process is killed after so many writes; a table of the old load is left out."""
    client: Any = MemoryZooKeeper()
    snapshots = ZooKeeperSnapshots(client, "7", "direct")
    put_direct_load(client, "7", LOAD)
    snapshots.save({ORDERS: HALF, ODD: TableProgress(TableState.DONE, 9)})
    fresh = {ORDERS: TableProgress(TableState.RUNNING)}
    left = writes

    def killed(write: Any) -> Any:
        def one(*arguments: Any, **more: Any) -> Any:
            nonlocal left
            if not left:
                raise ConnectionLoss
            left -= 1
            return write(*arguments, **more)

        return one

    for name in ("set_async", "create_async", "delete_async"):
        monkeypatch.setattr(client, name, killed(getattr(client, name)))
    load = replace(LOAD, offsets={TopicPartition("orders", 0): 90})
    with nullcontext() if writes == 3 else pytest.raises((ConnectionLoss, PositionUnavailable)):
        begin_direct_load(client, snapshots, "7", load, fresh)
    assert direct_load(client, "7") == (load if writes == 3 else LOAD)
    with pytest.raises(ConfigError, match="is not finished"):
        refuse_unfinished(client, "7")
    if writes == 3:
        assert snapshots.load() == fresh


@pytest.mark.parametrize(
    "fields", [{"offsets": 3}, {"offsets": [[1]], "done": True}, {**LOAD.to_fields(), "seen": []}]
)
def test_a_damaged_direct_load_is_no_done_one(zookeeper: Any, fields: object) -> None:
    zookeeper.put(direct_path("7"), fields)
    with pytest.raises(PositionError, match="delete it, empty the target tables"):
        direct_load(zookeeper, "7")


def test_a_task_does_not_run_beside_an_unfinished_direct_load_which_names_its_tables(
    zookeeper: Any,
) -> None:
    refuse_unfinished(zookeeper, "7")
    put_direct_load(zookeeper, "7", LOAD)
    done = TableProgress(TableState.DONE)
    ZooKeeperSnapshots(zookeeper, "7", "direct").save({ORDERS: HALF, ODD: done})
    with pytest.raises(ConfigError, match=r"is not finished \(shop\.orders left\): cdcbus snapsh"):
        refuse_unfinished(zookeeper, "7")
    put_direct_load(zookeeper, "7", DirectLoad({}, is_done=True))
    refuse_unfinished(zookeeper, "7")


def test_a_task_does_not_run_beside_a_void_load(zookeeper: Any) -> None:
    void_direct_load(zookeeper, "7", LOAD)
    assert direct_load(zookeeper, "7") == replace(LOAD, is_void=True)
    with pytest.raises(ConfigError, match="is not finished: it is void"):
        refuse_unfinished(zookeeper, "7")
