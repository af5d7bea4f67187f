"""SIGKILL at random moments under load: source and targets are equal in the end.

CDCBUS_TEST_KILLS says how often for each task; the default is what has time in every run.
"""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest
from rich.console import Console

from cdcbus.ops.demo.measure import Meter
from cdcbus.ops.demo.run import Options, prepare
from cdcbus.ops.demo.shop.compare import compare_shops
from cdcbus.ops.demo.shop.load import Load
from cdcbus.ops.demo.task_files import TARGETS
from cdcbus.ops.demo.tasks import TaskProcess, stop_tasks
from cdcbus.ops.stack.addresses import Addresses
from cdcbus.tasks.zookeeper.connection import connect
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

KILLS_PER_TASK = int(os.environ.get("CDCBUS_TEST_KILLS", "2"))
MOST_SECONDS_BEFORE_A_KILL = 3.0
# a start of Spark has taken 130 s on a machine with twenty times as much to do as it could
PATIENCE_SECONDS = 400


def test_source_and_targets_are_equal_after_each_task_was_killed_again_and_again(
    stack: Addresses, tmp_path: Path
) -> None:
    """More than 20 s: six kills, and after each a start that has to get on."""
    seed = int(os.environ.get("CDCBUS_TEST_SEED", time.time_ns() % 2**32))
    print(f"CDCBUS_TEST_SEED={seed}")
    choose = random.Random(seed)
    client = connect(stack.zookeeper)
    tasks = prepare(Options(tmp_path, 0, TARGETS, seed), stack, client, Console(quiet=True))
    try:
        with Load(stack.source, seed) as load, Meter(stack, client, load, TARGETS) as meter:
            for task in tasks.values():
                task.start()
            load.open_shop()
            load.start()
            victims = [task for task in tasks.values() for _ in range(KILLS_PER_TASK)]
            choose.shuffle(victims)
            for task in victims:
                await_progress(meter, task)
                # the random moment itself
                time.sleep(choose.uniform(0, MOST_SECONDS_BEFORE_A_KILL))
                load.check()
                task.check()
                kill(task, choose.choice(("process", "group")))
                task.start()
            load.stop_changes()
            load.stop()
            wait_until(
                lambda: meter.sample().is_fetched,
                "the fetch task to reach the end of the binlog",
                PATIENCE_SECONDS,
            )
            for target in TARGETS:
                wait_until(
                    lambda: meter.sample().is_done(target.task_id),
                    f"{target.task_id} to apply everything",
                    PATIENCE_SECONDS,
                )
        assert stop_tasks(list(tasks.values())) == []
    finally:
        for task in tasks.values():
            task.kill()
        client.stop()
        client.close()
    for target in TARGETS:
        comparisons = compare_shops(stack.source, target.server, target.database(stack))
        assert sum(comparison.source_rows for comparison in comparisons) > 1000
        assert [comparison for comparison in comparisons if not comparison.is_equal] == []


def await_progress(meter: Meter, task: TaskProcess) -> None:
    """Until the task's position has moved since now: it works."""
    before = meter.sample().position_of(task.task_id)
    wait_until(
        lambda: meter.sample().position_of(task.task_id) != before,
        f"{task.task_id} to get on: {task.log}",
        PATIENCE_SECONDS,
    )


def kill(task: TaskProcess, how: str) -> None:
    """The process alone, whose JVM must then end by itself, or its whole group at once."""
    if how == "process":
        os.kill(task.pid, signal.SIGKILL)
        wait_until(
            lambda: not is_group_alive(task.pid),
            f"the children of {task.task_id} to end by themselves",
        )
    task.kill()


def is_group_alive(pid: int) -> bool:
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[2] == str(pid) and fields[0] != "Z":
            return True
    return False
