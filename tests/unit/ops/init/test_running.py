"""Which tasks the first copy starts, on a ZooKeeper in memory."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdcbus.ops.init import running as module
from cdcbus.plugins.errors import CdcError, ConfigError
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.snapshot.progress import TableProgress, TableState
from cdcbus.tasks.snapshots.store import ZooKeeperSnapshots
from cdcbus.tasks.zookeeper.lock import lock_path
from tests.support.stand_ins.memory_zookeeper import SESSION, MemoryZooKeeper


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The ids of the tasks that were started."""
    found: list[str] = []

    def process(task_id: str, *_: object) -> Any:
        return SimpleNamespace(start=lambda: found.append(task_id), kill=lambda: None, log="")

    monkeypatch.setattr(module, "_process", process)
    monkeypatch.setattr(module, "stop_tasks", lambda _: ())
    return found


def run(zookeeper: MemoryZooKeeper) -> None:
    ids = {"fetch": SimpleNamespace(task_id="6"), "load": SimpleNamespace(task_id="7")}
    tasks: Any = SimpleNamespace(**ids, fetch_file=Path("f"), load_file=Path("l"))
    bus: Any = None
    client: Any = zookeeper
    with module.running(tasks, bus, client):
        pass


def test_a_task_that_runs_is_not_started(
    started: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    zookeeper = MemoryZooKeeper()
    for swimlane in ("a", "b"):
        zookeeper.put(f"{lock_path('7')}/{swimlane}", {"hostName": "h"}, SESSION + 1)
    run(zookeeper)
    assert started == ["6"]
    assert "task 7 runs already, on h\n" in capsys.readouterr().err


def test_a_task_that_runs_beside_a_lock_of_a_former_swimlane_is_not_started(
    started: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    zookeeper = MemoryZooKeeper()
    zookeeper.put(f"{lock_path('7')}/a", {"processId": 2, "hostName": "old"})
    zookeeper.put(f"{lock_path('7')}/b", {"hostName": "h"}, SESSION + 1)
    run(zookeeper)
    assert started == ["6"]
    assert "task 7 runs already, on h\n" in capsys.readouterr().err


def test_a_lock_of_no_session_is_named_before_any_task_is_started(started: list[str]) -> None:
    """It was told as a task that runs, and no row ever came."""
    zookeeper = MemoryZooKeeper()
    zookeeper.put(f"{lock_path('7')}/a", {"processId": 2, "hostName": "h"})
    told = f"task 7: {lock_path('7')}/a is held by process 2 on h, in a persistent znode, "
    with pytest.raises(ConfigError, match=told):
        run(zookeeper)
    assert started == []


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("denied", "denied; once the cause is fixed: cdcbus snapshot start 6 --table shop.orders,"),
        ("empty it, then cdcbus snapshot start 6 --table shop.orders --yes", "orders --yes; do so"),
    ],
)
def test_a_table_that_cannot_be_read_names_one_command(reason: str, told: str) -> None:
    zookeeper: Any = MemoryZooKeeper()
    zookeeper.put(f"{lock_path('6')}/a", {}, SESSION + 1)
    failed = TableProgress(TableState.FAILED, reason=reason)
    ZooKeeperSnapshots(zookeeper, "6", "a").save({TableId("shop", "orders"): failed})
    tasks: Any = SimpleNamespace(fetch=SimpleNamespace(task_id="6"))
    with pytest.raises(CdcError) as raised:
        module._await_snapshot(tasks, (), zookeeper, 1, 60, module.Progress())
    assert f"cannot be read: {reason}" in str(raised.value)
    assert told in str(raised.value)
    assert str(raised.value).count("cdcbus snapshot start") == 1
