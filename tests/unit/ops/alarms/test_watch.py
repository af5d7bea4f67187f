"""What a channel gets of several tasks, where it refuses some."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cdcbus.ops.alarms import watch
from cdcbus.ops.alarms.channels import Message, NotAccepted
from cdcbus.ops.alarms.state import Kind, Notice
from cdcbus.ops.alarms.store import AlarmNodes, TaskAlarms
from cdcbus.ops.alarms.watch import AGAIN_SECONDS, REFUSED_SECONDS, Watch
from cdcbus.plugins.task_status import State


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
