"""What a running task does for its process."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import orjson
import pytest
from kazoo.exceptions import NoAuthError

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.tasks.process_identity import identity, process_token
from cdcbus.tasks.runtime import runner
from cdcbus.tasks.zookeeper.lock import lock_path
from tests.support.stand_ins.memory_zookeeper import SESSION, MemoryZooKeeper

TASK = LoadTask("7", TopicConfig("k:1", ("orders",)), "canalRow", "JdbcBatch", JdbcTarget(""))


def test_what_is_loaded_when_a_task_begins_to_read_is_not_looked_through_again_and_again() -> None:
    """In a process of its own: this one's garbage is to be found."""
    code = (
        "import gc; from cdcbus.tasks.runtime.runner import keep_what_is_loaded as keep; keep(); "
        "kept = gc.get_freeze_count(); later = [[] for _ in range(10)]; keep(); "
        "print(kept > 10_000, gc.get_freeze_count() == kept, gc.is_tracked(later[0]))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "True True True\n"


def lock(zookeeper: MemoryZooKeeper, swimlane: str, owner: int, **fields: object) -> None:
    data = orjson.dumps({**identity(), "hostName": "elsewhere", "processId": "12", **fields})
    zookeeper._make(lock_path("7", swimlane), data, owner)


def test_a_process_that_uses_the_tasks_id_for_other_topics_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As after a task file was copied, and only its topic was changed."""
    zookeeper = MemoryZooKeeper()
    client: Any = zookeeper
    lock(zookeeper, "orders", SESSION)
    lock(zookeeper, "customers", SESSION + 1, nodeId="n2")
    runner._warn_of_others(TASK, client)
    [record] = caplog.records
    assert record.getMessage().startswith(
        "task 7: process 12 on elsewhere (node n2) runs a task with this id, too, which reads or "
        "writes customers: "
    )


def test_locks_of_the_task_itself_and_of_processes_that_are_gone_are_no_other_task(
    caplog: pytest.LogCaptureFixture,
) -> None:
    zookeeper = MemoryZooKeeper()
    client: Any = zookeeper
    lock(zookeeper, "orders", SESSION + 1)
    lock(zookeeper, "items", SESSION)
    # porter's, which work with it no more
    lock(zookeeper, "parts", 0)
    host, space, _, started = process_token(os.getpid()).split("/")
    lock(zookeeper, "gone", SESSION + 1, process=f"{host}/{space}/{2**22 + 1}/{started}")
    runner._warn_of_others(TASK, client)
    zookeeper.refusal = NoAuthError()
    runner._warn_of_others(TASK, client)
    assert caplog.text == ""
