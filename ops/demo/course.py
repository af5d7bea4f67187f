"""The course of the demo: tasks start, rows change, each task is killed once and comes back, the
load ends, the lag goes to 0."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from threading import Event

from rich.console import RenderableType

from cdcbus.ops.demo.measure import Meter, Sample
from cdcbus.ops.demo.screen import Phase, Screen, State
from cdcbus.ops.demo.shop.load import Load
from cdcbus.ops.demo.task_files import FETCH
from cdcbus.ops.demo.tasks import TaskProcess
from cdcbus.plugins.errors import CdcError

SAMPLE_SECONDS = 0.5
QUIET_SECONDS = 180.0  # without any progress, however slow the machine is
LONGEST_SECONDS = 3600.0  # even with some progress
DOWN_SECONDS = 1.0  # how long a killed task stays down
LOG_LINES = 5
FIRST_TRANSACTIONS = 2000  # before the tasks of a first copy start


class Course:
    """One run of the demo over started servers and written task files."""

    def __init__(
        self,
        tasks: Mapping[str, TaskProcess],
        load: Load,
        meter: Meter,
        screen: Screen,
        is_copied: Callable[[], bool] | None = None,
    ) -> None:
        """`is_copied`: whether a snapshot has sent the whole shop, which then has rows from the
        start; None: the shop starts empty."""
        self._tasks, self._load, self._meter, self._screen = tasks, load, meter, screen
        self._is_copied = is_copied
        self._states = dict.fromkeys(tasks, State.STARTING)
        self._sample = meter.sample()
        self._started: dict[str, tuple[float, Sample]] = {}
        self._kills: dict[str, float] = {}
        self._restarts: dict[str, float] = {}
        self.scene: list[RenderableType] = []  # what was shown while one task was down

    def run(self, seconds: float, seed: int) -> None:
        """Returns when every task has nothing left to do. Raises CdcError when the source refuses a
        change, when a task ends on its own, or when one makes no progress."""
        # For a first copy the rows come before the tasks, otherwise after them.
        if self._is_copied is not None:
            self._load.open_shop()
            self._load.fill(FIRST_TRANSACTIONS)
            self._screen.event("●", "bold", f"the shop holds rows already: {self._load.rows:,}")
        for task_id in self._tasks:
            self._start(task_id)
        if self._is_copied is None:
            self._load.open_shop()
        self._watch("starting the tasks", self._are_all_working)
        self._screen.event("▶", "bold green", f"all tasks work; rows change for {seconds:.0f} s")
        self._kills = kill_times(list(self._tasks), seconds, seed)
        self._load.start()
        self._change(seconds)
        self._load.stop_changes()
        self._screen.event(
            "■", "bold", f"the load has ended after {self._load.rows:,} changed rows"
        )
        self._watch("waiting until killed tasks are back", self._are_all_working)
        # The heartbeat continues until now: a task that is back shows its work by a position that
        # moves.
        self._load.stop()
        self._watch("waiting for lag 0", self._are_all_done)
        self._screen.event("✓", "bold green", "lag is 0: every position is at its end")
        self._look(Phase("all has arrived", self._screen.elapsed))

    def _change(self, seconds: float) -> None:
        """Watches while rows change, until the time is over and every kill is done."""
        begun = time.monotonic()
        while (elapsed := time.monotonic() - begun) < seconds or self._kills or self._restarts:
            self._interrupt(elapsed)
            picture = self._look(Phase("changing rows", elapsed, seconds))
            resting = [state for state in self._states.values() if state is not State.WORKING]
            # The scene for the picture: the last moment at which one task was not at work.
            if not self.scene or len(resting) == 1:
                self.scene = [*self._screen.events, picture]
            _pause()

    def _watch(self, title: str, is_over: Callable[[], bool]) -> None:
        """Looks until it is over. Raises CdcError that says what is stuck when a task makes no
        progress."""
        begun = time.monotonic()
        moved = {task_id: (begun, self._progress(task_id)) for task_id in self._tasks}
        while True:
            now = time.monotonic()
            self._look(Phase(title, now - begun))
            if is_over():
                return
            for task_id, (_, progress) in moved.items():
                if self._is_through(task_id) or self._progress(task_id) != progress:
                    moved[task_id] = (now, self._progress(task_id))
            # The task that has stood still the longest counts.
            quiet_seconds = now - min(at for at, _ in moved.values())
            if quiet_seconds > QUIET_SECONDS or now - begun > LONGEST_SECONDS:
                raise CdcError(self._stuck(title, now - begun, quiet_seconds))
            _pause()

    def _progress(self, task_id: str) -> object:
        """What changes while a task makes progress: its state, its position, the size of its
        log."""
        return (
            self._states[task_id],
            self._sample.position_of(task_id),
            self._tasks[task_id].logged_bytes,
        )

    def _is_through(self, task_id: str) -> bool:
        return self._sample.is_done(task_id) and self._states[task_id] is State.WORKING

    def _look(self, phase: Phase) -> RenderableType:
        self._load.check()
        for task_id, task in self._tasks.items():
            if self._states[task_id] is not State.KILLED:
                task.check()
        self._sample = self._meter.sample()
        for task_id, state in self._states.items():
            if state is State.STARTING:
                self._notice_work(task_id)
        return self._screen.show(phase, self._sample, self._states)

    def _start(self, task_id: str) -> None:
        self._tasks[task_id].start()
        self._states[task_id] = State.STARTING
        self._started[task_id] = (time.monotonic(), self._sample)

    def _notice_work(self, task_id: str) -> None:
        """A task works when its position has moved since it was started."""
        at, before = self._started[task_id]
        if self._sample.position_of(task_id) != before.position_of(task_id):
            self._states[task_id] = State.WORKING
            self._screen.event(
                "●", "green", f"{task_id} works, {time.monotonic() - at:.1f} s after its start"
            )

    def _interrupt(self, elapsed: float) -> None:
        """Kills what is due, and starts what was killed."""
        for task_id in _due(self._kills, elapsed):
            del self._kills[task_id]
            self._tasks[task_id].kill()
            self._states[task_id] = State.KILLED
            self._restarts[task_id] = elapsed + DOWN_SECONDS
            self._screen.event(
                "✗",
                "bold red",
                f"{task_id} killed with SIGKILL (process {self._tasks[task_id].pid})",
            )
        for task_id in _due(self._restarts, elapsed):
            del self._restarts[task_id]
            self._start(task_id)
            self._screen.event(
                "↻", "bold yellow", f"{task_id} started again (process {self._tasks[task_id].pid})"
            )

    def _are_all_working(self) -> bool:
        return all(state is State.WORKING for state in self._states.values())

    def _are_all_done(self) -> bool:
        if self._is_copied is not None and not self._is_copied():
            return False
        return all(self._sample.is_done(task_id) for task_id in self._tasks)

    def _stuck(self, title: str, seconds: float, quiet_seconds: float) -> str:
        """Which tasks made no progress, how far they are, and the ends of their logs."""
        lines = [
            f"{title}: not over after {seconds:.0f} s, without any progress for the last "
            f"{quiet_seconds:.0f} s"
        ]
        for task_id, task in self._tasks.items():
            if self._is_through(task_id):
                continue
            end: object = self._sample.ends
            if task_id == FETCH:
                end = self._sample.binlog_end
            lines.append(
                f"{task_id} is at {self._sample.position_of(task_id)}, the end is {end}; its "
                f"log {task.log} ends with"
            )
            for line in task.last_lines(LOG_LINES):
                lines.append(f"    {line}")
        return "\n".join(lines)


def kill_times(task_ids: list[str], seconds: float, seed: int) -> dict[str, float]:
    """When each task is killed, in seconds of the load: one after the other, in its middle, by
    the seed."""
    chance = random.Random(seed)
    # In the middle half of the load: each task in a part of its own, at a random moment of it.
    step = 0.5 / len(task_ids)
    times = {}
    for number, task_id in enumerate(task_ids):
        times[task_id] = seconds * (0.25 + step * (number + chance.random() * 0.6))
    return times


def _due(times: Mapping[str, float], elapsed: float) -> list[str]:
    return [task_id for task_id, at in times.items() if elapsed >= at]


def _pause() -> None:
    # Nothing notifies us of a change in ZooKeeper or Kafka: this is the rate of the screen.
    Event().wait(SAMPLE_SECONDS)
