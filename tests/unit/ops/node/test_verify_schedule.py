"""Which tasks a node verifies when, and what it makes of how that ends."""

from __future__ import annotations

import errno
import os
import time
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
from kazoo.exceptions import QuotaExceededError

from cdcbus.ops.node.held_task import NodeSettings
from cdcbus.ops.node.task_process import TaskProcess
from cdcbus.ops.node.verify_schedule import VerifyOrder, VerifySchedule, wanted_of
from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.verify.last import Begun, LastVerify, NotEqual, VerifyNodes
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes
from cdcbus.tasks.zookeeper.tasks import TaskNodes
from tests.support.stand_ins.memory_zookeeper import MemoryZooKeeper

HOUR = 3600.0
TEXT = {
    "consumer": {"consumerName": "KafkaFetch"},
    "verify.schedule": "1h",
    "verify.throttle": 200,
}


@dataclass
class Process:
    code: int | None = None
    words: str = ""
    is_killed: bool = False

    def ended(self) -> int | None:
        return self.code

    def last_words(self) -> str:
        return self.words

    def kill(self) -> None:
        self.is_killed = True


@dataclass
class Beside:
    """A node's schedule, the tasks that ZooKeeper holds, and the processes that were started."""

    texts: dict[str, dict[str, Any]]
    holders: dict[str, str]
    client: MemoryZooKeeper = field(default_factory=MemoryZooKeeper)
    started: list[tuple[str, int, Process]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.nodes = VerifyNodes(self.client)
        self.schedule = VerifySchedule(
            self.client, NodeSettings("n1", 9, Path(), {}), self._started
        )

    def _started(self, task_id: str, wanted: VerifyOrder, settings: NodeSettings) -> TaskProcess:
        process = Process()
        self.started.append((task_id, wanted.throttle, process))
        return cast("TaskProcess", process)

    def is_long_ago(self, task_id: str, hours: float, is_over: bool = True) -> None:
        self.nodes.put_begun(
            task_id, Begun(time.time() - hours * HOUR, "long ago", "n9", is_over=is_over)
        )

    @property
    def ids(self) -> list[str]:
        return [task_id for task_id, _, _ in self.started]

    def begun(self, task_id: str) -> Begun:
        found = self.nodes.begun(task_id)
        assert found is not None
        return found

    def last(self, task_id: str) -> LastVerify:
        found = self.nodes.last(task_id)
        assert found is not None
        return found


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Beside:
    found = Beside({"7": TEXT, "8": dict(TEXT)}, {"7": "n1", "8": "n1"})
    monkeypatch.setattr(TaskNodes, "ids", lambda self: list(found.texts))
    monkeypatch.setattr(TaskNodes, "claimed_by", lambda self, each: found.holders.get(each))
    monkeypatch.setattr(DistNodes, "get", lambda self, each: found.texts.get(each))
    return found


def test_a_task_is_verified_an_interval_after_it_was_seen_first(beside: Beside) -> None:
    beside.schedule.look()
    assert beside.ids == []
    assert time.time() - beside.begun("7").at < HOUR / 2
    beside.is_long_ago("7", 0.9)
    beside.schedule.look()
    assert beside.ids == []
    beside.is_long_ago("7", 1.1)
    beside.schedule.look()
    assert [(task_id, throttle) for task_id, throttle, _ in beside.started] == [("7", 200)]
    assert (beside.begun("7").is_over, beside.begun("7").node_id) == (False, "n1")


def test_a_clock_that_was_ahead_delays_no_verify_by_more_than_the_interval(beside: Beside) -> None:
    beside.is_long_ago("7", -48)
    beside.is_long_ago("8", -48, is_over=False)
    beside.schedule.look()
    assert beside.begun("7").at <= time.time()
    assert beside.ids == ["8"]


def test_one_is_verified_at_a_time_and_who_waits_for_longest_is_first(beside: Beside) -> None:
    beside.is_long_ago("7", 2)
    beside.is_long_ago("8", 3)
    for _ in range(3):
        beside.schedule.look()
    assert beside.ids == ["8"]
    [(_, _, process)] = beside.started
    stamp = beside.begun("8").stamp
    beside.nodes.put_last("8", LastVerify(stamp, "then", "node n1"))
    process.code = 0
    beside.schedule.look()
    assert beside.begun("8").is_over
    assert beside.last("8").error == ""
    assert beside.ids == ["8", "7"]


@pytest.mark.parametrize(
    ("process", "error"),
    [
        (Process(1, "the source is away"), "the source is away"),
        (Process(-9), "its process was ended by signal 9"),
        (Process(3), "its process has ended with 3"),
    ],
)
def test_a_verify_that_could_not_be_done_is_told(
    beside: Beside, process: Process, error: str
) -> None:
    beside.is_long_ago("7", 2)
    beside.schedule.look()
    [(_, _, running)] = beside.started
    running.code, running.words = process.code, process.words
    beside.schedule.look()
    last = beside.last("7")
    assert (last.error, last.begun) == (error, beside.begun("7").stamp)
    assert beside.begun("7").is_over


def test_a_result_that_a_verify_by_hand_has_replaced_is_not_missing(beside: Beside) -> None:
    beside.is_long_ago("7", 2)
    beside.schedule.look()
    [(_, _, process)] = beside.started
    by_hand = LastVerify("later", "later", "operator")
    beside.nodes.put_last("7", by_hand)
    process.code = 0
    beside.schedule.look()
    assert beside.last("7") == by_hand
    assert beside.begun("7").is_over


def test_what_a_node_has_not_seen_the_end_of_is_begun_again_by_the_next(beside: Beside) -> None:
    beside.is_long_ago("7", 0.1, is_over=False)
    beside.schedule.look()
    assert beside.ids == ["7"]


def test_a_task_that_another_node_has_by_now_is_left_to_it(beside: Beside) -> None:
    beside.is_long_ago("7", 2)
    beside.schedule.look()
    [(_, _, process)] = beside.started
    beside.holders["7"] = "n2"
    beside.schedule.look()
    assert process.is_killed
    assert not beside.begun("7").is_over
    beside.is_long_ago("8", 2)
    beside.schedule.look()
    assert beside.ids == ["7", "8"]


def test_tasks_of_other_kinds_and_without_a_schedule_are_left_alone(beside: Beside) -> None:
    fetch = {"consumer": {"consumerName": "CanalFetch"}}
    assert wanted_of({**TEXT, **fetch}, {}) is None
    assert wanted_of({**TEXT, "verify.schedule": ""}, {}) is None
    assert wanted_of({}, {}) is None
    placed = wanted_of({**TEXT, "verify.schedule": "${env:WHEN}"}, {"WHEN": "2h"})
    assert placed is not None
    assert placed.schedule.every == 2 * HOUR
    with pytest.raises(ConfigError, match=r"verify\.schedule: wrong value; expected an interval"):
        wanted_of({**TEXT, "verify.schedule": "often"}, {})
    beside.texts["7"] = {**TEXT, "verify.schedule": "often"}
    beside.is_long_ago("8", 2)
    beside.schedule.look()
    assert beside.ids == ["8"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("verify.schedule", "often"),
        ("verify.schedule", "${env:WHEN}"),
        ("verify.throttle", "${env:MANY}"),
    ],
)
def test_a_schedule_that_cannot_be_used_is_a_verify_that_failed(
    beside: Beside, key: str, value: str
) -> None:
    """Otherwise the result before would stand, without an alarm."""
    differs = NotEqual("shop.orders", "different", 2, "then")
    beside.nodes.put_last("7", LastVerify("then", "then", "node n1", tables=(differs,)))
    beside.texts["7"] = {**TEXT, key: value}
    beside.schedule.look()
    failed = beside.last("7")
    assert key in failed.error
    assert (failed.word, failed.different) == ("error", [differs])
    beside.nodes.put_last("7", replace(failed, ended="earlier"))
    beside.schedule.look()
    assert beside.last("7").ended == "earlier"


def test_a_throttle_that_is_not_given_is_the_default() -> None:
    text = {name: value for name, value in TEXT.items() if name != "verify.throttle"}
    found = wanted_of(text, {})
    assert found is not None
    assert replace(found).throttle == 50_000


def test_one_that_cannot_be_started_is_begun_again(
    beside: Beside, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start = beside._started

    def refuse(*_: object) -> TaskProcess:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    beside.is_long_ago("7", 2)
    monkeypatch.setattr(beside.schedule, "_start_process", refuse)
    for _ in range(2):
        beside.schedule.look()
    assert [message for message in caplog.messages if "cannot be started" in message] == [
        "verify.schedule: the verify of task 7 cannot be started on node n1: Resource temporarily "
        "unavailable; check its limits of processes and memory"
    ]
    monkeypatch.setattr(beside.schedule, "_start_process", start)
    beside.schedule.look()
    assert beside.ids == ["7"]


def test_a_znode_that_is_refused_keeps_no_other_task_from_being_verified(
    beside: Beside, caplog: pytest.LogCaptureFixture
) -> None:
    for task_id in ("7", "8"):
        beside.is_long_ago(task_id, 9 if task_id == "7" else 2)
    beside.client.refused.add("/datas/task/7/verify/begun")
    for _ in range(3):
        beside.schedule.look()
    assert beside.ids == ["8"]
    assert [each for each in caplog.messages if each.startswith("task 7 is not verified: Zoo")]
    assert len(caplog.messages) == 1


def test_a_quota_of_a_task_keeps_no_other_from_being_verified(
    beside: Beside, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither where it can say nothing of its begin, nor of its end."""
    write = beside.client.set_async
    used_up: set[str] = set()

    def refuse(path: str, data: bytes, version: int = -1) -> Any:
        if path in used_up:
            raise QuotaExceededError
        return write(path, data, version)

    monkeypatch.setattr(beside.client, "set_async", refuse)
    beside.is_long_ago("7", 9)
    beside.is_long_ago("8", 2)
    beside.schedule.look()
    assert beside.ids == ["7"]
    used_up.add("/datas/task/7/verify/begun")
    beside.started[0][2].code = 0
    for _ in range(3):
        beside.schedule.look()
    assert beside.ids == ["7", "8"]
    beside.started[1][2].code = 0
    for _ in range(3):
        beside.schedule.look()
    assert beside.ids == ["7", "8"]
    assert ["as a quota of it" in each for each in caplog.messages] == [True]
    # It is over all the same, until its time comes again.
    used_up.clear()
    beside.schedule.look()
    assert beside.ids == ["7", "8"]
    beside.is_long_ago("7", 9)
    beside.schedule.look()
    assert beside.ids == ["7", "8", "7"]


def test_a_verify_whose_result_is_refused_is_not_begun_again_and_again(
    beside: Beside, caplog: pytest.LogCaptureFixture
) -> None:
    beside.is_long_ago("7", 9)
    beside.schedule.look()
    beside.client.refused.add("/datas/task/7/verify")
    beside.started[0][2].code = 1
    for _ in range(3):
        beside.schedule.look()
    assert beside.ids == ["7"]
    assert [each for each in caplog.messages if "/datas/task/7/verify" in each]
