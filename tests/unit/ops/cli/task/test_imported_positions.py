"""Which positions `cdcbus task import --porter` replaces, on a ZooKeeper in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cdcbus.ops.cli.task.imported_positions import set_imported, set_imported_in_file
from cdcbus.plugins.positions import BinlogPosition, KafkaPosition, kafka_positions_to_json
from cdcbus.tasks.local.state_file import StateFile
from cdcbus.tasks.local.stores import FileSnapshots
from cdcbus.tasks.snapshots.store import ZooKeeperSnapshots
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


@pytest.mark.parametrize(
    ("text", "is_live"),
    [(PORTERS, True), (kafka_positions_to_json([KafkaPosition("lane", 0, 5)]), None)],
)
def test_what_porter_has_sent_is_noted_with_its_place_so_that_no_snapshot_adds_it_once_more(
    tmp_path: Path, text: str, is_live: bool | None
) -> None:
    zookeeper: Any = MemoryZooKeeper()
    set_imported(zookeeper, "7", {"lane": text})
    assert ZooKeeperSnapshots(zookeeper, "7", "lane").is_live() is is_live
    state = StateFile(tmp_path / "state.json", "7")
    set_imported_in_file(state, "7", {"lane": text})
    assert FileSnapshots(state, "lane").is_live() is is_live
