"""The course of the demo, with tasks that are none."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from rich.console import Console

from cdcbus.ops.demo import course
from cdcbus.ops.demo.course import Course, kill_times
from cdcbus.ops.demo.measure import Consumed, Sample
from cdcbus.ops.demo.screen import Screen
from cdcbus.ops.demo.task_files import FETCH
from cdcbus.plugins.errors import CdcError
from cdcbus.plugins.positions import BinlogPosition

LOAD = "demo-postgresql"


class Task:
    """Works from its start to its kill."""

    log = "task.log"

    def __init__(self, task_id: str, story: list[str]) -> None:
        self.task_id, self.story = task_id, story
        self.pid = self.starts = 0
        self.is_up = self.is_stuck = False
        self.logs_seconds = 0.0

    def start(self) -> None:
        self.story.append(f"start {self.task_id}")
        self.pid += 1
        self.starts += 1
        self.is_up = True

    def kill(self) -> None:
        self.story.append(f"kill {self.task_id}")
        self.is_up = False

    def check(self) -> None:
        if not self.is_up:
            raise CdcError(f"{self.task_id} has ended on its own")

    @property
    def logged_bytes(self) -> int:
        """It logs every 100 s for as long as `logs_seconds` says."""
        return int(min(time.monotonic(), self.logs_seconds) / 100)

    def last_lines(self, count: int) -> list[str]:
        return ["the last line"][:count]


class World:
    """A shop in which rows change, and who measures it; each look is a step on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.story: list[str] = []
        self.tasks = {name: Task(name, self.story) for name in (FETCH, LOAD)}
        self.rows = self.looks = 0
        self.now = 0.0
        self.is_copied: Callable[[], bool] | None = None
        monkeypatch.setattr(course, "_pause", self.pause)
        monkeypatch.setattr("time.monotonic", lambda: self.now)

    def pause(self) -> None:
        self.now += 0.5

    def run(self) -> None:
        tasks: Any = self.tasks
        world: Any = self
        with Screen(Console(quiet=True)) as screen:
            Course(tasks, world, world, screen, self.is_copied).run(10, 1)

    # As a Load

    def open_shop(self) -> None:
        self.story.append("open")

    def fill(self, transactions: int) -> None:
        self.story.append("fill")
        self.rows += transactions

    def start(self) -> None:
        self.story.append("change")

    def stop_changes(self) -> None:
        self.story.append("rest")

    def stop(self) -> None:
        self.story.append("stop")

    def check(self) -> None:
        self.rows += 10

    # As a Meter: what works gets on with each look

    def sample(self) -> Sample:
        self.looks += 1
        is_over = self.story[-1:] == ["stop"]
        end = 1_000_000 if is_over else self.looks
        fetch, load = self.tasks.values()
        read = end if fetch.is_up and not fetch.is_stuck else 0
        applied = end if load.is_up and not load.is_stuck else 0
        return Sample(
            self.now,
            self.rows,
            BinlogPosition("b.1", end),
            BinlogPosition("b.1", read),
            (end,),
            {LOAD: Consumed((applied,), 0.1)},
        )


def test_each_task_is_killed_once_and_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)
    world.run()
    assert world.story[:4] == [f"start {FETCH}", f"start {LOAD}", "open", "change"]
    assert [each for each in world.story if each.startswith("kill")] == [
        f"kill {FETCH}",
        f"kill {LOAD}",
    ]
    assert all(task.starts == 2 and task.is_up for task in world.tasks.values())
    assert world.story[-2:] == ["rest", "stop"]


def test_a_shop_that_is_full_already_is_filled_before_any_task_starts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    asked: list[int] = []

    def is_copied() -> bool:
        asked.append(world.looks)
        return len(asked) == 3

    world.is_copied = is_copied
    world.run()
    assert world.story[:3] == ["open", "fill", f"start {FETCH}"]
    assert len(asked) == 3  # until the snapshot had sent all of it


def test_a_task_that_does_not_get_on_is_named_with_where_it_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    world.tasks[LOAD].is_stuck = True
    with pytest.raises(CdcError, match=r"starting the tasks: not over after 18[01] s") as raised:
        world.run()
    assert f"{LOAD} is at (0,)" in str(raised.value)
    assert "the last line" in str(raised.value)


def test_a_slow_machine_has_time_as_long_as_its_tasks_get_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(monkeypatch)
    slow = world.tasks[LOAD]
    slow.is_stuck, slow.logs_seconds = True, 1000.0
    with pytest.raises(CdcError, match=r"not over after 118[01] s, without any progress for the "):
        world.run()


def test_a_task_that_ends_by_itself_ends_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(monkeypatch)

    def end() -> None:
        world.tasks[FETCH].is_up = False

    monkeypatch.setattr(world, "start", end)
    with pytest.raises(CdcError, match="has ended on its own"):
        world.run()


def test_kills_are_one_after_the_other_in_the_middle_and_the_same_for_a_seed() -> None:
    times = kill_times(["a", "b", "c"], 40, 7)
    assert list(times) == sorted(times, key=times.__getitem__)
    assert all(10 <= at <= 30 for at in times.values())
    assert times == kill_times(["a", "b", "c"], 40, 7) != kill_times(["a", "b", "c"], 40, 8)
