"""What the znodes of a task hold, and what is made of it when it is read: a round trip, and what
operators or damage have left there."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial
from typing import Any

import orjson
import pytest

from cdcbus.plugins.errors import ConfigError, PositionConflict
from cdcbus.plugins.task_status import State
from cdcbus.tasks.control.commands import refuse_running
from cdcbus.tasks.zookeeper import znode
from cdcbus.tasks.zookeeper.audit import AUDIT, actions, audited
from cdcbus.tasks.zookeeper.lock import lock_path
from cdcbus.tasks.zookeeper.stat import Batch, Percentiles, Stat, TableCounts
from cdcbus.tasks.zookeeper.status import status_of
from cdcbus.tasks.zookeeper.tasks import (
    FAILURES_KEPT,
    RESTARTS_KEPT,
    TASKS,
    Failure,
    Run,
    TaskNodes,
)
from cdcbus.tasks.zookeeper.znode import get_nodes, put_nodes
from tests.support.stand_ins.memory_zookeeper import SESSION, MemoryZooKeeper

PATH = f"{TASKS}/7"


@pytest.fixture
def zookeeper() -> MemoryZooKeeper:
    return MemoryZooKeeper()


@pytest.fixture
def nodes(zookeeper: MemoryZooKeeper) -> TaskNodes:
    client: Any = zookeeper
    return TaskNodes(client)


def test_a_command_is_what_was_wanted_last_with_a_number_of_its_own(nodes: TaskNodes) -> None:
    assert nodes.wanted("7") is None
    nodes.want("7", True, "ann")
    first = nodes.wanted("7")
    nodes.want("7", False, "bob")
    second = nodes.wanted("7")
    assert first is not None
    assert second is not None
    assert (first.is_working, first.by) == (True, "ann")
    assert (second.is_working, second.by) == (False, "bob")
    assert first.order < second.order


def test_a_start_takes_back_porters_errors_and_a_stop_does_not(
    nodes: TaskNodes, zookeeper: MemoryZooKeeper
) -> None:
    zookeeper.put(f"{PATH}/dist/orders", "{}")
    nodes.put_run("7", Run(State.ERROR, "the target is full", order=1, node_id="n1"))
    error = orjson.loads(zookeeper.texts()[f"{PATH}/error/orders"])
    assert (error["taskId"], error["swimlaneId"]) == ("7", "orders")
    assert orjson.loads(error["message"])["content"] == "the target is full"
    nodes.want("7", False, "ann")
    assert f"{PATH}/error/orders" in zookeeper.texts()
    nodes.want("7", True, "ann")
    assert f"{PATH}/error/orders" not in zookeeper.texts()
    assert nodes.errors("7")[-1].sentence == "the target is full"


@pytest.mark.parametrize("text", ['{"status":"MAYBE"}', "{", "[1]"])
def test_a_command_that_says_nothing_is_refused_with_what_to_do(
    nodes: TaskNodes, zookeeper: MemoryZooKeeper, text: str
) -> None:
    zookeeper.put(f"{PATH}/wanted", text)
    with pytest.raises(ConfigError, match=f"{PATH}/wanted"):
        nodes.wanted("7")
    assert status_of(nodes, "7").state is State.ERROR


def test_a_claim_is_of_the_session_that_has_taken_it(
    nodes: TaskNodes, zookeeper: MemoryZooKeeper
) -> None:
    assert not nodes.is_mine("7")
    assert nodes.claim("7", "n1")
    assert nodes.claim("7", "n1")
    assert (nodes.claimed_by("7"), nodes.is_mine("7")) == ("n1", True)
    nodes.release("7")
    assert nodes.claimed_by("7") is None
    zookeeper.put(f"{PATH}/claim", '{"nodeId":"n2"}', SESSION + 1)
    assert not nodes.claim("7", "n1")
    nodes.release("7")
    assert nodes.claimed_by("7") == "n2"


def test_a_claim_of_no_session_is_none_and_is_taken(
    nodes: TaskNodes, zookeeper: MemoryZooKeeper
) -> None:
    """As after the tree was copied by a tool that makes each znode a persistent one."""
    zookeeper.put(f"{PATH}/claim", '{"nodeId":"n2"}')
    assert nodes.claimed_by("7") is None
    assert nodes.claim("7", "n1")
    assert (nodes.claimed_by("7"), nodes.is_mine("7")) == ("n1", True)
    nodes.release("7")
    zookeeper.put(f"{PATH}/claim", '{"nodeId":"n2"}')
    nodes.remove("7")
    assert nodes.ids() == []


def test_of_two_who_take_a_claim_of_no_session_one_gets_it(
    nodes: TaskNodes, zookeeper: MemoryZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    zookeeper.put(f"{PATH}/claim", '{"nodeId":"n0"}')
    real = znode.get_node

    def meanwhile(client: Any, path: str) -> Any:
        found = real(client, path)
        monkeypatch.setattr(znode, "get_node", real)
        with monkeypatch.context() as other:
            other.setattr(zookeeper, "client_id", (SESSION + 1, b""))
            assert nodes.claim("7", "n2")
        return found

    monkeypatch.setattr(znode, "get_node", meanwhile)
    assert not nodes.claim("7", "n1")
    assert (nodes.claimed_by("7"), nodes.is_mine("7")) == ("n2", False)


def test_what_a_node_saw_comes_back_as_it_was(nodes: TaskNodes) -> None:
    run = Run(State.RETRYING, "away", 12, "n1", "host", "/logs/7.log", 3, "2026-11-25 10:00:00")
    run = replace(run, all_restarts=14, restarted_at=(1_795_600_000, 1_795_600_150))
    nodes.put_run("7", run)
    assert nodes.run("7") == run


def test_restarts_of_an_earlier_version_are_counted_on_and_damaged_times_are_none(
    nodes: TaskNodes, zookeeper: MemoryZooKeeper
) -> None:
    zookeeper.put(f"{PATH}/state", {"state": "WORKING", "restarts": 3})
    run = nodes.run("7")
    assert run is not None
    assert (run.all_restarts, run.restarted_at) == (3, ())
    zookeeper.put(f"{PATH}/state", {"state": "WORKING", "restartedAt": [1, "x", True, None]})
    damaged = nodes.run("7")
    assert damaged is not None and damaged.restarted_at == (1,)


def test_as_many_times_of_restarts_are_kept_as_are_looked_at() -> None:
    run = Run(State.RETRYING)
    for at in range(RESTARTS_KEPT + 2):
        run = run.restarted(at + 0.5)
    assert run.all_restarts == RESTARTS_KEPT + 2
    assert run.restarted_at == tuple(range(2, RESTARTS_KEPT + 2))


def test_a_failure_that_repeats_is_counted_and_the_oldest_ones_are_forgotten(
    nodes: TaskNodes, zookeeper: MemoryZooKeeper
) -> None:
    nodes.add_failure("7", "node n1", "away; trying again in 1 s")
    nodes.add_failure("7", "node n1", "away; trying again in 2 s")
    assert [(each.sentence, each.times) for each in nodes.errors("7")] == [("away", 2)]
    for since in ("", nodes.errors("7")[0].at):
        nodes.add_failure("7", "node n1", "away", listed_since=since)
        assert nodes.errors("7")[0].times == 2
    nodes.add_failure("7", "node n1", "away", listed_since="9999-01-01 00:00:00")
    assert nodes.errors("7")[0].times == 3
    for number in range(FAILURES_KEPT):
        nodes.add_failure("7", "node n1", f"failure {number}")
    kept = nodes.errors("7")
    assert (len(kept), kept[0].sentence) == (FAILURES_KEPT, "failure 0")
    # of a clock that was ahead
    zookeeper.put(f"{PATH}/error", {"failures": [["9999-01-01 00:00:00", "n1", "away", 1]]})
    nodes.add_failure("7", "node n1", "away", listed_since="2026-11-25 10:00:00")
    assert nodes.errors("7")[0].times == 2
    zookeeper.put(f"{PATH}/error", '{"failures":[["at","n1","said",2],["damaged"],7]}')
    assert nodes.errors("7") == [Failure("at", "n1", "said", 2)]


def test_a_report_comes_back_as_it_was(nodes: TaskNodes) -> None:
    stat = Stat(
        State.WORKING,
        "",
        at="2026-11-25 10:00:00",
        node_id="n1",
        process_id=4711,
        rows=12,
        rows_per_second=1.5,
        lag_records=3,
        lag_seconds=0.25,
        last_row="2026-11-25 09:59:59",
        lag_bytes=100,
        idle_seconds=4.0,
        beats={"10.0.0.1:3306": 1.5},
        delays={"source_to_target": Percentiles(0.01, 0.02, 0.03)},
        stages_ms={"source_to_read": 0.5},
        tables=(TableCounts("orders", "shop.orders", 1, 2, 3),),
        batches=(Batch("2026-11-25 10:00:00", 12, 1.0, 2.0, 3.0),),
        target_lost="orders[0]",
        target_lost_at=1.5,
        late_records=1,
    )
    nodes.put_stat("7", stat)
    assert nodes.stat("7") == stat


def test_a_report_of_what_no_state_is_or_of_damaged_numbers_is_not_believed(
    nodes: TaskNodes, zookeeper: MemoryZooKeeper
) -> None:
    zookeeper.put(f"{PATH}/stat", '{"state":"DANCING"}')
    with pytest.raises(ConfigError, match="names no state"):
        nodes.stat("7")
    zookeeper.put(
        f"{PATH}/stat",
        '{"state":"WORKING","rows":"many","lagSeconds":"x","delays":[1],"tables":[["a"]],'
        '"batches":7,"beats":{"a":"b"}}',
    )
    stat = nodes.stat("7")
    assert stat is not None
    assert (stat.rows, stat.lag_seconds, stat.delays, stat.tables) == (0, None, {}, ())


def test_a_report_of_another_process_than_the_locks_holder_counts_no_more(
    nodes: TaskNodes, zookeeper: MemoryZooKeeper
) -> None:
    nodes.want("7", True, "ann")
    desired = nodes.wanted("7")
    assert desired is not None
    nodes.claim("7", "n1")
    nodes.put_run("7", Run(State.WORKING, order=desired.order, node_id="n1"))
    nodes.put_stat("7", replace(Stat(State.WORKING, "", at=""), process_id=1))
    zookeeper.put(f"{lock_path('7')}/orders", '{"processId":2,"nodeId":"n1"}')
    assert status_of(nodes, "7").stat is None
    zookeeper.put(f"{lock_path('7')}/orders", '{"processId":1,"nodeId":"n1"}')
    found = status_of(nodes, "7")
    assert found.stat is not None
    assert (found.state, found.node_id) == (State.WORKING, "n1")


def test_how_long_a_task_is_silent_is_known_without_its_lock_and_not_between_two_starts(
    nodes: TaskNodes,
) -> None:
    nodes.want("7", True, "ann")
    desired = nodes.wanted("7")
    assert desired is not None
    nodes.claim("7", "n1")
    nodes.put_stat("7", Stat(State.WORKING, at="2024-05-01 03:04:05"))
    for state in (State.WORKING, State.RETRYING):
        nodes.put_run("7", Run(state, order=desired.order, node_id="n1"))
        found = status_of(nodes, "7")
        assert (found.stat, found.state) == (None, state)
        assert (found.silent_seconds is not None) == (state is State.WORKING)


def test_a_task_that_runs_is_not_removed(nodes: TaskNodes, zookeeper: MemoryZooKeeper) -> None:
    zookeeper.put(f"{lock_path('7')}/orders", '{"processId":2}', SESSION + 1)
    with pytest.raises(PositionConflict, match="is running; stop it first"):
        nodes.remove("7")


LEFT = f"{lock_path('7')}/orders is held by process 2 on h (node n2), in a persistent znode"


def test_a_lock_of_no_session_is_named_as_no_command_ends_it(
    nodes: TaskNodes, zookeeper: MemoryZooKeeper
) -> None:
    lock = {"processId": 2, "hostName": "h", "nodeId": "n2"}
    zookeeper.put(f"{lock_path('7')}/orders", lock)
    found = status_of(nodes, "7")
    assert (found.state, found.reason.startswith(LEFT)) == (State.NEW, True)
    nodes.want("7", False, "ann")
    nodes.put_run("7", Run(State.WORKING, node_id="n2"))
    found = status_of(nodes, "7")
    assert (found.state, found.reason.startswith(LEFT)) == (State.STOPPED, True)
    for refused in (nodes.remove, partial(refuse_running, nodes.client, is_live=False)):
        with pytest.raises(PositionConflict, match=re.escape(LEFT)):
            refused("7")
    # Beside one of a session it is of a former swimlane, and tells nothing.
    zookeeper.put(f"{lock_path('7')}/sales", lock, SESSION)
    for refused in (nodes.remove, partial(refuse_running, nodes.client, is_live=False)):
        with pytest.raises(PositionConflict, match=r"task 7 is running.* stop it first"):
            refused("7")


def test_a_started_task_says_which_lock_of_no_session_its_process_waits_for(
    nodes: TaskNodes, zookeeper: MemoryZooKeeper
) -> None:
    """Only its log said so, and the alarm `starting` had no reason."""
    nodes.want("7", True, "ann")
    desired = nodes.wanted("7")
    assert desired is not None
    lock = {"processId": 2, "hostName": "h", "nodeId": "n2"}
    for state in (State.STARTING, State.RETRYING):
        nodes.put_run("7", Run(state, "it has failed", desired.order, "n1"))
        nodes.claim("7", "n1")
        assert status_of(nodes, "7").reason == "it has failed"
        zookeeper.put(f"{lock_path('7')}/orders", lock)
        found = status_of(nodes, "7")
        assert (found.state, found.node_id) == (state, "n1")
        assert (found.is_locked, found.reason.startswith(LEFT)) == (state is State.STARTING,) * 2
        nodes.release("7")
        assert not status_of(nodes, "7").is_locked
        zookeeper.delete_async(f"{lock_path('7')}/orders")


def test_nobody_runs_a_task_by_hand_in_no_session(
    nodes: TaskNodes, zookeeper: MemoryZooKeeper
) -> None:
    zookeeper.put(f"{lock_path('7')}/orders", {"processId": 2})
    assert not status_of(nodes, "7").is_by_hand
    zookeeper.put(f"{lock_path('7')}/orders", {"processId": 2}, SESSION + 1)
    assert status_of(nodes, "7").is_by_hand


@pytest.mark.parametrize("has_reported", [True, False])
def test_a_task_runs_by_hand_also_beside_a_lock_of_a_former_swimlane(
    nodes: TaskNodes, zookeeper: MemoryZooKeeper, has_reported: bool
) -> None:
    """Until it has reported, it may wait for that one."""
    zookeeper.put(f"{lock_path('7')}/a", {"processId": 2, "hostName": "h", "nodeId": "n2"})
    zookeeper.put(f"{lock_path('7')}/b", {"processId": 3}, SESSION + 1)
    if has_reported:
        nodes.put_stat("7", replace(Stat(State.WORKING, at=""), process_id=3))
    found = status_of(nodes, "7")
    assert (found.is_by_hand, found.is_locked) == (has_reported, not has_reported)
    assert found.state is (State.WORKING if has_reported else State.NEW)


def test_a_task_that_a_node_may_take_at_any_moment_is_not_removed(
    nodes: TaskNodes, zookeeper: MemoryZooKeeper
) -> None:
    """It would take it while the tree is deleted, and write into it."""
    nodes.want("7", True, "ann")
    with pytest.raises(PositionConflict, match=r"may take it .* cdcbus task stop 7"):
        nodes.remove("7")
    assert "/datas/task/7/wanted" in zookeeper.nodes
    nodes.want("7", False, "ann")
    nodes.remove("7")
    assert nodes.ids() == []


def test_open_dead_letters_are_unknown_until_they_were_counted(nodes: TaskNodes) -> None:
    assert nodes.open_dead_letters("7") is None
    nodes.put_open_dead_letters("7", 4)
    assert nodes.open_dead_letters("7") == 4


def test_an_action_is_noted_before_it_is_done_and_how_it_failed_after(
    zookeeper: MemoryZooKeeper,
) -> None:
    client: Any = zookeeper
    with audited(client, "ann", "task start", "task 7"):
        assert [each.what for each in actions(client)] == ["task start"]
    with pytest.raises(ConfigError), audited(client, "bob", "offset set", "task 7"):
        raise ConfigError("no such offset")
    with pytest.raises(ZeroDivisionError), audited(client, "bob", "offset set", "task 7"):
        raise ZeroDivisionError("a cell may be here")
    failed = [each.failed for each in actions(client)]
    assert failed == ["", "no such offset", "unexpected ZeroDivisionError"]
    assert [each.by for each in actions(client, newest=1)] == ["bob"]
    zookeeper.put(f"{AUDIT}/0000000001", "damaged")
    assert any("does not hold a JSON object" in each.failed for each in actions(client))


def test_many_nodes_are_written_whether_they_were_there_or_not(zookeeper: MemoryZooKeeper) -> None:
    client: Any = zookeeper
    zookeeper.put("/a", '{"n":0}')
    put_nodes(client, {"/a": {"n": 1}, "/b/c": {"n": 2}})
    found = get_nodes(client, ["/a", "/b/c", "/d"])
    assert {path: node.number("n") for path, node in found.items()} == {"/a": 1, "/b/c": 2}
