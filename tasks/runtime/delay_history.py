"""How long a task's rows took from stage to stage: in steps over the last hours, and by the hour
over the last month. Two small znodes per task.

/datas/task/<id>/delays         {"delays":[[1795281300,{"source_to_read":[0.01,0.05,0.2]}],...]}:
                                oldest first; p50, p95 and p99 by stage, in seconds
/datas/task/<id>/delays/hours   the same for whole hours: the longest in each
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kazoo.client import KazooClient

from cdcbus.tasks.runtime.throughput_history import (
    HOURS_KEPT_SECONDS,
    KEPT_SECONDS,
    hour_of,
)
from cdcbus.tasks.zookeeper.connection import ROOT
from cdcbus.tasks.zookeeper.stat import Percentiles
from cdcbus.tasks.zookeeper.znode import get_node, put_node

STEP_SECONDS: Final = 300
"""Five minutes: delays cover the last five minutes, so shorter steps would repeat them."""
NAME: Final = "delays"


@dataclass(frozen=True, slots=True)
class DelayStep:
    """The delays of one step. `at`: when it began, in epoch seconds. `stages`: only those in which
    rows were timed."""

    at: int
    stages: Mapping[str, Percentiles]


class DelayHistory:
    """The stored delays of tasks. Usable while its client is. Calls raise PositionUnavailable and
    PositionError."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client

    def read(self, task_id: str) -> list[DelayStep]:
        """The steps of the last hours, oldest first, without damaged ones."""
        return self._read(delays_path(task_id))

    def read_hours(self, task_id: str) -> list[DelayStep]:
        """The whole hours of the last month, oldest first, without damaged ones."""
        return self._read(f"{delays_path(task_id)}/hours")

    def put(self, task_id: str, steps: Iterable[DelayStep]) -> None:
        """Replaces all steps."""
        put_node(self._client, delays_path(task_id), {NAME: list(map(_row, steps))})

    def put_hours(self, task_id: str, hours: Iterable[DelayStep]) -> None:
        """Replaces all hours."""
        put_node(self._client, f"{delays_path(task_id)}/hours", {NAME: list(map(_row, hours))})

    def _read(self, path: str) -> list[DelayStep]:
        node = get_node(self._client, path)
        if node is None:
            return []
        stored = node.fields.get(NAME)
        if not isinstance(stored, list):
            return []
        return list(filter(None, map(_step, stored)))


class DelayWriter:
    """Writes a task's delays while it runs, continuing those of an earlier process. Used on one
    thread."""

    def __init__(self, task_id: str, history: DelayHistory) -> None:
        self._task_id, self._history = task_id, history
        self._known: list[DelayStep] | None = None
        self._hours: list[DelayStep] = []
        self._at = step_of(time.time())

    def is_due(self) -> bool:
        """Whether an ended step is not written yet."""
        # Not only a later one: the clock can be put back.
        return step_of(time.time()) != self._at

    def write(self, stages: Mapping[str, Percentiles]) -> None:
        """Ends the current step, and begins the next one. A step without rows is left out. Raises
        PositionUnavailable and PositionError; the step is then written with the next one."""
        # Read late: ZooKeeper may be unavailable at the start, and a failed read is repeated.
        if self._known is None:
            self._hours = self._history.read_hours(self._task_id)
            self._known = self._history.read(self._task_id)
        ended, self._at = self._at, step_of(time.time())
        if not stages:
            return
        self._known = with_step(self._known, DelayStep(ended, stages))
        self._history.put(self._task_id, self._known)
        hours = with_hours(self._hours, self._known)
        # Once an hour; the znode of hours is larger than that of steps.
        if hours != self._hours:
            self._history.put_hours(self._task_id, hours)
            self._hours = hours


def step_of(epoch_seconds: float) -> int:
    """When the step that contains a time began, in epoch seconds."""
    return int(epoch_seconds) // STEP_SECONDS * STEP_SECONDS


def with_step(steps: Sequence[DelayStep], step: DelayStep) -> list[DelayStep]:
    """The history with one more step, and without expired ones."""
    kept = [known for known in steps if step.at - KEPT_SECONDS < known.at < step.at]
    return [*kept, step]


def with_hours(hours: Sequence[DelayStep], steps: Sequence[DelayStep]) -> list[DelayStep]:
    """The hours with those that the steps have since completed, and without expired ones. A known
    hour stays as it is."""
    known = {hour.at: hour for hour in hours}
    current = hour_of(steps[-1].at)
    parts: dict[int, list[DelayStep]] = {}
    for step in steps:
        at = hour_of(step.at)
        # The current hour is not over; a known one may have lost its first steps meanwhile.
        if at < current and at not in known:
            parts.setdefault(at, []).append(step)
    for at, part in parts.items():
        known[at] = longest(at, part)
    oldest = current - HOURS_KEPT_SECONDS
    return [known[at] for at in sorted(known) if at > oldest]


def longest(at: int, steps: Sequence[DelayStep]) -> DelayStep:
    """Several steps as one, with the longest of each percentile."""
    stages: dict[str, Percentiles] = {}
    for step in steps:
        for stage, one in step.stages.items():
            most = stages.get(stage, one)
            stages[stage] = Percentiles(
                max(most.p50, one.p50), max(most.p95, one.p95), max(most.p99, one.p99)
            )
    return DelayStep(at, stages)


def delays_path(task_id: str) -> str:
    return f"{ROOT}/task/{task_id}/delays"


def _row(step: DelayStep) -> list[Any]:
    stages = {}
    for stage, each in step.stages.items():
        stages[stage] = [each.p50, each.p95, each.p99]
    return [step.at, stages]


def _step(row: Any) -> DelayStep | None:
    match row:
        case [int(at), dict(stages)]:
            pass
        case _:
            return None
    found = {}
    for stage, numbers in stages.items():
        match numbers:
            case [int() | float() as p50, int() | float() as p95, int() | float() as p99]:
                found[stage] = Percentiles(float(p50), float(p95), float(p99))
            case _:
                return None
    return DelayStep(at, found)
