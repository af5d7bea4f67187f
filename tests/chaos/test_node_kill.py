"""SIGKILL of whole nodes under load: the tasks go on elsewhere, and source and target are equal
in the end."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.plugins.task_status import State
from tests.support.changes.changing import KEYS, changing
from tests.support.processes.bus import Bus, fetch_text, load_text, open_bus, postgresql_schema
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

# 6 to 8 are ZooKeeper's patience, whatever the machine; what follows takes milliseconds
TAKEN_SECONDS = 15.0
# starts of Spark on a busy machine, so that how soon the task works again is not asserted
PATIENCE_SECONDS = 300.0


def test_tables_are_equal_after_each_node_was_killed(
    stack: Addresses,
    source: Database,
    source_cursor: Cursor,
    name: str,
    make_topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More than 20 s: what a killed node has had is free only when its session is over."""
    pg = stack.postgresql
    monkeypatch.setenv("SOURCE_PASSWORD", source.password)
    monkeypatch.setenv("TARGET_PASSWORD", pg.password)
    make_topic(name)
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY, n INT)")
    with (
        postgresql_schema(stack, name) as run,
        open_bus(
            stack.zookeeper,
            name,
            tmp_path,
            SOURCE_PASSWORD=source.password,
            TARGET_PASSWORD=pg.password,
        ) as bus,
    ):
        run(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, n INT)")
        bus.load(fetch_text("fetch", source, stack.kafka, name))
        bus.load(load_text("load", stack, name))
        for node_id in ("n1", "n2"):
            bus.node(node_id)
        bus("task", "start", "fetch", "load", "--timeout", PATIENCE_SECONDS)
        with changing(source, name):
            for _ in range(2):
                kill_holder(bus)
        source_cursor.execute("SELECT id, n FROM t ORDER BY id")
        wanted = list(source_cursor.fetchall())
        assert len(wanted) > KEYS // 4
        wait_until(
            lambda: run(f"SELECT id, n FROM {name}.t ORDER BY id").fetchall() == wanted,
            "the target to be equal",
            PATIENCE_SECONDS,
        )
        bus("task", "stop", "fetch", "load")
        assert run(f"SELECT id, n FROM {name}.t ORDER BY id").fetchall() == wanted
        # A bounded replay, which repeats old rows, ends by itself.
        bus.load(load_text("replay", stack, name, **{"consumer.offset": "0-5"}))
        bus("task", "start", "replay", "--timeout", PATIENCE_SECONDS)
        wait_until(
            lambda: bus.status("replay").state is State.DONE and bus.runner("replay") == 0,
            "the replay to end",
            PATIENCE_SECONDS,
        )


def kill_holder(bus: Bus) -> None:
    """Kills the node that has the consumer task; returns when another one has both tasks, and the
    killed one runs again."""
    rows = bus.rows("load")
    # less than before: another process has it by now
    wait_until(lambda: bus.rows("load") not in (0, rows), "rows to be loaded", PATIENCE_SECONDS)
    victim, shared = bus.status("load").node_id, bus.runner("load")
    os.kill(bus.nodes[victim].pid, signal.SIGKILL)
    bus.nodes[victim].wait()
    killed = time.time()
    wait_until(lambda: not Path(f"/proc/{shared}").exists(), "its consumer tasks to end with it")
    for task_id in ("load", "fetch"):
        wait_until(
            lambda: bus.status(task_id).node_id not in ("", victim),
            f"another node to take {task_id}",
        )
        # by ZooKeeper's clock, not when it was seen
        taken = bus.client.get(f"/datas/task/{task_id}/claim")[1].created - killed
        assert taken < TAKEN_SECONDS, task_id
        print(f"{task_id} was taken {taken:.1f} s after the kill")
    wait_until(lambda: bus.status("load").state is State.WORKING, "it to work", PATIENCE_SECONDS)
    print(f"the consumer task works again {time.time() - killed:.1f} s after the kill")
    bus.node(victim)
