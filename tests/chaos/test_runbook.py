"""porter's runbook from end to end, as operators type it: commands, and zkCli for positions."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Addresses, Database
from cdcbus.ops.stack.java_servers import zkcli
from cdcbus.plugins.task_status import State
from tests.support.changes.changing import KEYS, changing
from tests.support.processes.bus import Bus, fetch_text, load_text, open_bus, postgresql_schema
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.chaos]

PATIENCE_SECONDS = 400.0  # starts of Spark on a busy machine
PARTS = ("15242-0", "15242-1", "15242-2")


def zk(bus: Bus, *words: str) -> str:
    """What zkCli prints."""
    return subprocess.run(
        zkcli(bus.address, words), capture_output=True, text=True, check=True, timeout=120
    ).stdout


def zk_position(bus: Bus, task_id: str, topic: str) -> dict[str, Any]:
    said = zk(bus, "get", f"/datas/task/{task_id}/position/{topic}")
    found: dict[str, Any] = json.loads(
        next(line for line in said.splitlines() if line.startswith("{"))
    )
    return found


def lag(bus: Bus, task_id: str) -> int | None:
    listed = {task["task_id"]: task for task in bus.json("task", "list")}
    progress = listed[task_id]["progress"]
    return None if progress is None else progress["lag_records"]


def test_a_task_is_cloned_moved_taken_over_and_split_and_the_tables_are_equal(
    stack: Addresses,
    source: Database,
    source_cursor: Cursor,
    name: str,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    """More than 20 s: a shift of an operator, with two nodes and five tasks that start one after
    the other."""
    pg = stack.postgresql
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
        rows = f"SELECT id, n FROM {name}.t ORDER BY id"
        run(f"CREATE TABLE {name}.t (id INT PRIMARY KEY, n INT)")
        bus.load(fetch_text("fetch", source, stack.kafka, name))
        bus.load(load_text("242", stack, name))
        node_a = bus.node("a")
        bus("task", "start", "fetch", "242", "--timeout", PATIENCE_SECONDS)
        with changing(source, name):
            wait_until(lambda: bool(run(rows).fetchall()), "the first rows", PATIENCE_SECONDS)
            # A new task, cloned from the running one; it takes over where that one was stopped.
            bus("task", "clone", "242", "15242", "--to-node", "a,b")
            cloned = zk_position(bus, "15242", name)
            bus("task", "stop", "242")
            stopped = zk_position(bus, "242", name)
            assert cloned["offset"] <= stopped["offset"]
            zk(
                bus,
                "set",
                f"/datas/task/15242/position/{name}",
                json.dumps(stopped, separators=(",", ":")),
            )
            assert zk_position(bus, "15242", name) == stopped
            bus("task", "start", "15242", "--timeout", PATIENCE_SECONDS)
            assert bus.status("15242").node_id == "a"
            # Node A dies, B takes over.
            bus.node("b")
            os.kill(node_a.pid, signal.SIGKILL)
            node_a.wait()
            for task_id in ("fetch", "15242"):
                wait_until(
                    lambda: (
                        bus.status(task_id).node_id == "b"
                        and bus.status(task_id).state is State.WORKING
                    ),
                    f"node b to run {task_id}",
                    PATIENCE_SECONDS,
                )
        # The topic is split, at lag 0.
        bus("task", "stop", "fetch")
        wait_until(lambda: lag(bus, "15242") == 0, "lag 0", PATIENCE_SECONDS)
        bus("task", "stop", "15242")
        admin = AdminClient({"bootstrap.servers": stack.kafka})  # lives until it has answered
        admin.create_partitions([NewPartitions(name, 3)])[name].result(60)
        for number, task_id in enumerate(PARTS):
            bus.load(load_text(task_id, stack, name, **{"consumer.source.partition": str(number)}))
        bus("offset", "copy", "15242", PARTS[0], "--yes")
        bus("task", "start", "fetch", *PARTS, "--timeout", PATIENCE_SECONDS)
        with changing(source, name):
            for task_id in PARTS:
                wait_until(
                    lambda: bus.rows(task_id) > 0,
                    f"rows of {task_id}",
                    PATIENCE_SECONDS,
                )
        source_cursor.execute("SELECT id, n FROM t ORDER BY id")
        wanted = list(source_cursor.fetchall())
        assert len(wanted) > KEYS // 4
        wait_until(
            lambda: run(rows).fetchall() == wanted, "the target to be equal", PATIENCE_SECONDS
        )
        bus("task", "stop", "fetch", *PARTS)
        assert run(rows).fetchall() == wanted
        assert [zk_position(bus, task_id, name)["partition"] for task_id in PARTS] == [0, 1, 2]
