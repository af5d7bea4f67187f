"""`cdcbus task start` and `stop` on a ZooKeeper in memory."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result

from cdcbus.ops.cli.main import main
from cdcbus.ops.cli.task import state as command
from cdcbus.tasks.zookeeper.lock import lock_path
from tests.support.stand_ins.memory_zookeeper import SESSION
from tests.unit.ops.cli.runs import in_memory

LOCK = f"{lock_path('7')}/lane"


@pytest.fixture
def zookeeper(monkeypatch: pytest.MonkeyPatch) -> Any:
    found = in_memory(monkeypatch, command)
    found.put("/datas/task/7/position/lane", {"journalName": "bin.000001", "position": 4})
    return found


def stop(*words: str) -> Result:
    return CliRunner().invoke(main, ["task", "stop", "7", *words])


def test_a_task_whose_lock_may_be_porters_is_not_said_to_have_stopped(zookeeper: Any) -> None:
    """A runbook goes on once the command ends well."""
    assert (stop().exit_code, stop().output) == (0, "task 7 is STOPPED\n")
    zookeeper.put(LOCK, {"processId": 2, "hostName": "h", "nodeId": "n2"}, 0)
    refused = stop()
    assert refused.exit_code == 1
    assert f"task 7 has not stopped: {LOCK} is held by process 2 on h" in refused.output
    assert "STOPPED" not in refused.output
    [row] = orjson.loads(stop("--json").stdout)
    assert (row["ok"], "in a persistent znode" in row["missing"]) == (False, True)


def test_a_start_names_the_lock_of_no_session_that_the_task_waits_for(zookeeper: Any) -> None:
    zookeeper.put("/datas/task/7/dist/lane", {})
    zookeeper.put("/datas/task/7/claim", {"nodeId": "n1"}, SESSION + 1)
    zookeeper.put(LOCK, {"processId": 2, "hostName": "h"}, 0)
    late = CliRunner().invoke(main, ["task", "start", "7", "--timeout", "0"])
    assert late.exit_code == 1
    assert f"task 7 is STARTING: {LOCK} is held by process 2 on h, in a persist" in late.output
