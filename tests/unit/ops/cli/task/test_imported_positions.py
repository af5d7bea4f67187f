"""Which positions `cdcbus task import --porter` replaces, on a ZooKeeper in memory."""

from __future__ import annotations

from typing import Any

import pytest

from cdcbus.ops.cli.task.imported_positions import set_imported
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.tasks.zookeeper.lock import lock_path
from tests.support.stand_ins.memory_zookeeper import SESSION, MemoryZooKeeper

PORTERS = BinlogPosition("bin.000001", 9).to_json()


@pytest.mark.parametrize(
    ("owner", "why"),
    [
        (SESSION + 1, "as the task is running;"),
        (0, f"as {lock_path('7')}/lane is held by process 2 on h, in a persistent znode, "),
        (None, ""),
    ],
)
def test_a_locked_task_keeps_its_position_and_a_lock_of_no_session_is_named(
    owner: int | None, why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    zookeeper: Any = MemoryZooKeeper()
    if owner is not None:
        zookeeper.put(f"{lock_path('7')}/lane", {"processId": 2, "hostName": "h"}, owner)
    set_imported(zookeeper, "7", {"lane": PORTERS})
    assert ("/datas/task/7/position/lane" in zookeeper.nodes) == (owner is None)
    printed = capsys.readouterr().err
    assert printed.startswith(f"task 7: lane keeps its position none, {why}" if why else "")
    assert bool(printed) == bool(why)
