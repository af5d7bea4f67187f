"""What the API says of a task, on a ZooKeeper in memory."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from cdcbus.ops.web import api
from cdcbus.tasks.zookeeper.lock import lock_path
from tests.support.stand_ins.memory_zookeeper import MemoryZooKeeper


def test_a_lock_of_no_session_is_named_with_what_to_do() -> None:
    zookeeper = MemoryZooKeeper()
    zookeeper.put("/datas/task/7/dist/lane", {})
    zookeeper.put(f"{lock_path('7')}/lane", {"processId": 2, "hostName": "h"})
    bus: Any = SimpleNamespace(client=zookeeper)
    found = api.task("7", bus)
    holder = found.locks["lane"]
    assert holder.startswith("process 2 on h, in a persistent znode, as porter's are: delete it if")
    assert (found.state, found.reason) == ("NEW", f"{lock_path('7')}/lane is held by {holder}")
