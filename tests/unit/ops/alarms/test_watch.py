"""What a channel gets of several tasks, where it refuses some."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss, NoAuthError, QuotaExceededError

from cdcbus.ops.alarms import lost_tasks, outage, watch
from cdcbus.ops.alarms.channels import Message, NotAccepted
from cdcbus.ops.alarms.limits import Limits
from cdcbus.ops.alarms.state import Kind, Notice
from cdcbus.ops.alarms.store import AlarmNodes, TaskAlarms
from cdcbus.ops.alarms.watch import AGAIN_SECONDS, REFUSED_SECONDS, Watch
from cdcbus.plugins.errors import PositionError
from cdcbus.plugins.task_status import State
from cdcbus.tasks.control.bus_settings import read_bus_settings
from cdcbus.tasks.verify.last import LastVerify, NotEqual, VerifyNodes
from cdcbus.tasks.zookeeper.audit import audited
from cdcbus.tasks.zookeeper.node_registry import BusNodes
from cdcbus.tasks.zookeeper.stat import Stat
from cdcbus.tasks.zookeeper.tasks import Run, TaskNodes
from cdcbus.tasks.zookeeper.znode import now
from tests.support.stand_ins.memory_zookeeper import MemoryZooKeeper


class Mail:
    """Has nobody to write to about one task."""

    name, least = "mail", "warning"

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.asked: list[str] = []
        self._clock, self._seconds = clock, seconds

    def send(self, message: Message) -> str:
        self.asked.append(message.subject)
        if "task a" in message.subject:
            self._clock.now += self._seconds
            raise NotAccepted("nobody gets mail of task a")
        return ""


class Clock:
    """`ahead`: how far the wall clock is ahead of the monotonic one."""

    def __init__(self) -> None:
        self.now, self.ahead = 1000.0, 0.0

    def time(self) -> float:
        return self.now + self.ahead

    def monotonic(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("seconds", "is_told"),
    [(0.0, True), (REFUSED_SECONDS + 1, False)],  # the latter as where a server is away
)
def test_a_message_that_is_refused_holds_up_later_ones_of_its_task_only(
    seconds: float,
    is_told: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    mail = Mail(clock, seconds)
    looked, written = watching(mail, clock, monkeypatch)
    for task_id, at in (("a", 1.0), ("b", 2.0), ("a", 3.0)):
        looked._open.append(is_open(task_id, at))
    looked._send()
    assert len([each for each in mail.asked if "task a" in each]) == 1
    assert [*written] == (["b"] if is_told else [])


def test_a_message_that_nobody_gets_delays_no_later_one_of_another_task(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = Clock()
    mail = Mail(clock, 0.0)
    looked, written = watching(mail, clock, monkeypatch)
    looked._open.append(is_open("a", clock.now))
    looked._send()
    clock.now += 10
    looked._open.append(is_open("b", clock.now))
    looked._send()
    assert [*written] == ["b"]
    assert len(mail.asked) == 2
    clock.now += AGAIN_SECONDS - 10
    looked._send()
    assert len([each for each in mail.asked if "task a" in each]) == 2


def test_a_channel_with_a_bug_ends_no_alarms(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Clock()
    mail = Mail(clock, 0.0)
    looked, written = watching(mail, clock, monkeypatch)
    monkeypatch.setattr(mail, "send", lambda _: [][0])
    looked._open.append(is_open("a", clock.now))
    looked._send()
    assert written == {}
    assert "alarm: mail: unexpected IndexError" in caplog.text


def test_a_clock_that_is_put_back_keeps_no_channel_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    clock.ahead = 100_000.0
    mail = Mail(clock, 0.0)
    looked, _ = watching(mail, clock, monkeypatch)
    looked._open.append(is_open("a", clock.time()))
    looked._send()
    assert len(mail.asked) == 1
    clock.ahead = 0.0
    looked._send()
    assert len(mail.asked) == 1
    clock.now += AGAIN_SECONDS
    looked._send()
    assert len(mail.asked) == 2


def watching(
    mail: Mail, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> tuple[Watch, dict[str, TaskAlarms]]:
    """A watch with this channel, and what it stores, by task."""
    monkeypatch.setattr(watch, "time", clock)
    monkeypatch.setattr(watch, "all_channels", lambda _: [mail])
    written: dict[str, TaskAlarms] = {}
    put: Any = lambda _, task_id, alarms, __: written.__setitem__(task_id, alarms)  # noqa: E731
    monkeypatch.setattr(AlarmNodes, "put", put)
    bus: Any = SimpleNamespace(alarm={"alarm.digestSeconds": 0.0, "alarm.log": False})
    client: Any = None
    return Watch(client, bus, "n1"), written


def is_open(task_id: str, at: float) -> watch._Open:
    """A task with a notice of this time."""
    notice = Notice(Kind.RAISED, f"rule-{at}", f"task {task_id} is wrong", at, at)
    return watch._Open(task_id, TaskAlarms(waiting=(notice,)), 0, State.ERROR, ())


class Stuck(MemoryZooKeeper):
    """A bus whose only task is stuck. `before_audit`: done while a command is being given."""

    def __init__(self) -> None:
        super().__init__()
        self.before_audit: Callable[[], object] | None = None
        client: Any = self
        self.tasks = TaskNodes(client)
        self.put("/datas/task/7/dist/t", {"positionCheckInterval": 1, "alarm.stuckSeconds": 300})
        self.tasks.want("7", True, "ann")
        assert self.tasks.claim("7", "n1")
        self.put("/datas/task/7/lock/t", {"processId": os.getpid(), "nodeId": "n1"})
        wanted = self.tasks.wanted("7")
        assert wanted is not None
        self.tasks.put_run("7", Run(State.WORKING, "", wanted.order, "n1"))
        self.tasks.put_stat(
            "7",
            Stat(
                State.WORKING,
                at=now(),
                node_id="n1",
                process_id=os.getpid(),
                lag_records=5,
                still_seconds=1000.0,
            ),
        )

    def create_async(self, path: str, data: bytes, **options: Any) -> Any:
        if path == "/datas/audit/" and self.before_audit is not None:
            act, self.before_audit = self.before_audit, None
            act()
        return super().create_async(path, data, **options)

    def look(self) -> str:
        """Looks at it once; returns who gave the last command."""
        client: Any = self
        settings = {"CDCBUS_ALARM_RECOVERIES": "1", "CDCBUS_ALARM_HOLDSECONDS": "0"}
        Watch(client, read_bus_settings({}, None, settings, Path()), "n1").look()
        wanted = self.tasks.wanted("7")
        assert wanted is not None
        return f"{wanted.by}: {'start' if wanted.is_working else 'stop'}"


def test_a_stuck_task_is_started_again() -> None:
    assert Stuck().look() == "node n1, as the task is stuck: start"


def test_a_stuck_task_that_is_being_stopped_is_not_started_again() -> None:
    """It counts as WORKING until its node lets go of it, which can take half a minute."""
    bus = Stuck()
    bus.tasks.want("7", False, "bob")
    assert bus.look() == "bob: stop"


def test_a_command_that_is_given_while_a_stuck_task_is_started_again_counts() -> None:
    bus = Stuck()
    bus.before_audit = lambda: bus.tasks.want("7", False, "bob")
    assert bus.look() == "bob: stop"


class StandsStill(Stuck):
    """A bus whose only task stands still as a whole, and so has lost its lock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.clock = Clock()
        monkeypatch.setattr(watch, "time", self.clock)
        self.tasks.put_stat("7", Stat(State.WORKING, at=now(), node_id="n1", process_id=1))
        client: Any = self
        client.delete_async("/datas/task/7/lock/t")
        settings = {"CDCBUS_ALARM_RECOVERIES": "1", "CDCBUS_ALARM_HOLDSECONDS": "0"}
        self._looking = Watch(client, read_bus_settings({}, None, settings, Path()), "n1")

    def looks(self, seconds: float) -> None:
        """Looks as often as a node does."""
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.clock.now += watch.LOOK_SECONDS
            self._looking.look()

    @property
    def raised(self) -> list[str]:
        client: Any = self
        alarms, _ = AlarmNodes(client).get("7")
        return [*alarms.alarms]

    @property
    def wanted_by(self) -> str:
        wanted = self.tasks.wanted("7")
        assert wanted is not None
        return wanted.by


def test_a_task_that_stands_still_as_a_whole_is_silent_and_started_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bus = StandsStill(monkeypatch)
    bus.looks(60)
    assert (bus.raised, bus.wanted_by) == ([], "ann")
    bus.looks(10)
    assert (bus.raised, bus.wanted_by) == (["silent"], "node n1, as the task is stuck")


def test_no_task_is_silent_because_zookeeper_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sessions end with an outage, also those of tasks that work."""
    bus = StandsStill(monkeypatch)
    bus.looks(50)
    bus.refusal = ConnectionLoss()
    bus.looks(300)
    bus.refusal = None
    bus.looks(60)
    assert (bus.raised, bus.wanted_by) == ([], "ann")


class Kept:
    """A channel that takes messages, once it `is_up`."""

    name, least = "kept", "critical"

    def __init__(self) -> None:
        self.taken: list[Message] = []
        self.is_up = True

    def send(self, message: Message) -> str:
        if not self.is_up:
            raise NotAccepted("away")
        self.taken.append(message)
        return ""


class Outages(StandsStill):
    """A bus whose ZooKeeper does not serve the node that looks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, holds: str = "60") -> None:
        super().__init__(monkeypatch)
        for module in (outage, lost_tasks):
            monkeypatch.setattr(module, "time", self.clock)
        client: Any = self
        settings = {"CDCBUS_ALARM_HOLDSECONDS": holds, "CDCBUS_ALARM_INTERVALTIME": "600"}
        self.channel = Kept()
        monkeypatch.setattr(watch, "all_channels", lambda _: [self.channel])
        self._looking = Watch(client, read_bus_settings({}, None, settings, Path()), "n1")

    @property
    def told(self) -> list[tuple[str, str]]:
        """The kind and rule of each message about ZooKeeper."""
        found = [each.fields for each in self.channel.taken]
        return [(each["kind"], each["rule"]) for each in found if each["rule"] == "zookeeper"]


@pytest.mark.parametrize("refusal", [ConnectionLoss(), NoAuthError()])
def test_a_zookeeper_that_does_not_serve_a_node_is_told_of_by_the_node_itself(
    refusal: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """No alarm of a task can be stored then."""
    bus = Outages(monkeypatch)
    bus.refusal = refusal
    bus.looks(50)
    assert bus.told == []
    bus.looks(30)
    assert bus.told == [("raised", "zookeeper")]
    [message] = bus.channel.taken
    assert message.subject.startswith("node n1: zookeeper: ZooKeeper ")
    assert message.subject.endswith("; tasks stand still without it")
    assert (message.fields["severity"], message.fields["node"]) == ("critical", "n1")
    bus.looks(600)
    assert bus.told[1:] == [("repeated", "zookeeper")]
    bus.refusal = None
    bus.looks(50)
    assert len(bus.told) == 2
    bus.looks(30)
    assert bus.told[2:] == [("cleared", "zookeeper")]
    assert caplog.text.count("alarm: node n1: zookeeper") == 3


def test_a_short_outage_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    bus = Outages(monkeypatch)
    bus.refusal = ConnectionLoss()
    bus.looks(50)
    bus.refusal = None
    bus.looks(200)
    assert bus.told == []


def test_a_quota_that_keeps_alarms_from_being_stored_is_told_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bus = Outages(monkeypatch)
    # It is stuck, which is to be told of at each look.
    bus.put("/datas/task/7/lock/t", {"processId": 1, "nodeId": "n1"})
    bus.tasks.put_stat(
        "7", Stat(State.WORKING, node_id="n1", process_id=1, lag_records=5, still_seconds=1000.0)
    )
    create = bus.create_async

    def refuse(path: str, data: bytes, **options: Any) -> Any:
        if path == "/datas/task/7/alarm":
            raise QuotaExceededError
        return create(path, data, **options)

    monkeypatch.setattr(bus, "create_async", refuse)
    bus.looks(300)
    assert bus.told[:1] == [("raised", "zookeeper")]
    # The task itself works.
    words = bus.channel.taken[0].subject
    assert words.endswith("setquota; alarms of task 7 are not stored, nor sent")


def test_a_zookeeper_that_comes_back_empty_is_told_of_though_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bus = Outages(monkeypatch)
    bus.looks(10)
    bus.refusal = ConnectionLoss()
    bus.looks(90)
    bus.refusal = None
    bus.nodes.clear()
    # Not as an end of the outage, and at once.
    bus.looks(10)
    assert bus.told == [("raised", "zookeeper"), ("repeated", "zookeeper")]
    words = bus.channel.taken[-1].subject
    assert "(2 times): ZooKeeper holds nothing any more of task 7, which ran here, and no" in words
    bus.looks(580)
    assert len(bus.told) == 2
    # Told once: nobody may need these tasks any more.
    bus.looks(100)
    assert bus.told[2:] == [("cleared", "zookeeper")]


def test_tasks_that_are_lost_are_over_once_they_are_back(monkeypatch: pytest.MonkeyPatch) -> None:
    bus = Outages(monkeypatch)
    bus.looks(10)
    nodes, bus.nodes = bus.nodes, {}
    bus.looks(80)
    assert bus.told == [("raised", "zookeeper")]
    bus.nodes = nodes
    bus.looks(80)
    assert bus.told[1:] == [("cleared", "zookeeper")]


@pytest.mark.parametrize("is_again", [False, True])
def test_a_task_that_was_removed_by_command_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, is_again: bool
) -> None:
    """Which can be done while the node is cut off; not one that was started since."""
    bus = Outages(monkeypatch)
    client: Any = bus
    bus.looks(10)
    with audited(client, "ann", "task rm", "task 7"):
        pass
    if is_again:
        bus.tasks.want("7", True, "ann")
    for path in [each for each in bus.nodes if each.startswith("/datas/task/")]:
        client.delete_async(path).get()
    bus.looks(300)
    assert bool(bus.told) is is_again


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        ("/datas/task/8/dist", ""),
        ("/datas/node/n2/lock", "; alarms of tasks that no node has are not stored, nor sent"),
    ],
)
def test_a_znode_that_is_refused_ends_no_alarms_of_other_tasks(
    refused: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Task 8 ran here before, and n2 is another node."""
    bus = Outages(monkeypatch)
    bus.put("/datas/task/8/dist/t", {})
    assert bus.tasks.claim("8", "n1")
    bus.put("/datas/node/n2/lock", {"nodeId": "n2"}, owner=5)
    bus.looks(10)
    client: Any = bus
    client.delete_async("/datas/task/8/claim").get()
    bus.refused.add(refused)
    bus.looks(90)
    assert bus.raised == ["silent"]
    assert bus.told == ([("raised", "zookeeper")] if words else [])
    assert [each.subject.endswith(words) for each in bus.channel.taken[-1:]] == [True]


def test_a_task_is_lost_only_to_the_node_that_had_it_last(monkeypatch: pytest.MonkeyPatch) -> None:
    bus = Outages(monkeypatch)
    bus.looks(10)
    bus.put("/datas/task/7/claim", {"nodeId": "n2"}, owner=5)
    bus.looks(10)
    bus.nodes.clear()
    bus.looks(300)
    assert bus.told == []


def test_a_task_is_lost_only_once_the_audit_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    bus = Outages(monkeypatch)
    bus.looks(10)
    bus.nodes.clear()
    bus.refused.add("/datas/audit")
    bus.looks(300)
    assert bus.told == []
    bus.refused.clear()
    bus.looks(80)
    assert bus.told == [("raised", "zookeeper")]


def test_the_first_of_many_tasks_are_named() -> None:
    error = PositionError("refused")
    found = [watch._not_stored(dict.fromkeys(map(str, range(number)), error)) for number in (0, 7)]
    assert found == [
        "",
        "refused; alarms of tasks 0, 1, 2, 3, 4 and 2 more are not stored, nor sent",
    ]


def test_what_a_channel_has_missed_waits_for_the_hours_in_which_people_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bus = Outages(monkeypatch, holds="1")
    bus.channel.is_up = False
    bus.refusal = ConnectionLoss()
    bus.looks(30)
    bus.channel.is_up = True
    is_open = False
    monkeypatch.setattr(Limits, "is_in_window", lambda *_: is_open)
    bus.looks(300)
    assert bus.told == []
    is_open = True
    bus.looks(10)
    assert bus.told == [("raised", "zookeeper")]


def test_a_channel_that_is_away_gets_what_it_has_missed_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bus = Outages(monkeypatch, holds="1")
    bus.channel.is_up = False
    bus.refusal = ConnectionLoss()
    bus.looks(30)
    bus.refusal = None
    bus.looks(30)
    assert bus.told == []
    bus.channel.is_up = True
    bus.looks(70)
    assert bus.told == [("raised", "zookeeper"), ("cleared", "zookeeper")]


def test_a_table_that_differs_is_an_alarm_though_the_limits_cannot_be_read() -> None:
    bus = Stuck()
    bus.put("/datas/task/7/dist/t", {"verify.schedule": "6h", "alarm.lagSeconds": "${env:NONE}"})
    found = NotEqual("shop.orders", "different", 2, "then")
    client: Any = bus
    VerifyNodes(client).put_last("7", LastVerify("then", "then", tables=(found,)))
    bus.look()
    alarms, _ = AlarmNodes(client).get("7")
    assert "unequal" in alarms.alarms


def test_a_task_that_is_killed_again_and_again_is_told_of_until_it_is_started_again() -> None:
    bus = Stuck()
    client: Any = bus
    run = bus.tasks.run("7")
    assert run is not None
    for _ in range(3):
        run = run.restarted(time.time())
        bus.tasks.add_failure("7", "node n1", "ended by signal 9 from outside")
        bus.tasks.put_run("7", run)
    bus.look()
    alarm = AlarmNodes(client).get("7")[0].raised["restarts"]
    assert "3 restarts" in alarm.sentence and alarm.sentence.endswith("signal 9 from outside")
    bus.tasks.want("7", True, "ann")
    for _ in range(2):  # it is over, and has been for as long as it must
        bus.look()
    assert "restarts" not in AlarmNodes(client).get("7")[0].alarms


@pytest.mark.parametrize(
    ("environment", "watched_by"), [("prod", "b"), ("test", "a"), ("", "a"), ("other", "a")]
)
def test_a_task_that_no_node_has_is_watched_by_a_node_of_its_environment(
    environment: str, watched_by: str
) -> None:
    """Only that one has the channels for it."""
    zookeeper = MemoryZooKeeper()
    client: Any = zookeeper
    nodes = BusNodes(client)
    nodes.register("a", "test")
    nodes.register("b", "prod")
    zookeeper.put("/datas/task/7/dist/t", {"environment": environment})
    tasks = TaskNodes(client)
    tasks.want("7", True, "ann")
    tasks.put_run("7", Run(State.ERROR, "it is wrong", 1))
    for node_id in ("a", "b"):
        Watch(client, read_bus_settings({}, None, {}, Path()), node_id).look()
        has_found = bool(AlarmNodes(client).get("7")[0].alarms)
        assert has_found == (watched_by <= node_id)
