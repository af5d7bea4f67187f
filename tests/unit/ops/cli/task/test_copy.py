"""`cdcbus task clone|rm` on a ZooKeeper in memory."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner, Result

from cdcbus.ops.cli.main import main
from cdcbus.ops.cli.task import copy
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.snapshot.progress import TableProgress, TableState
from cdcbus.tasks.snapshots.direct import DirectLoad, put_direct_load
from cdcbus.tasks.snapshots.store import ZooKeeperSnapshots
from cdcbus.tasks.zookeeper.tasks import TaskNodes
from tests.support.stand_ins.memory_zookeeper import SESSION
from tests.unit.ops.cli.runs import in_memory


@pytest.fixture
def removed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(TaskNodes, "remove", lambda _, task_id: found.append(task_id))
    return found


@pytest.fixture
def zookeeper(monkeypatch: pytest.MonkeyPatch) -> Any:
    """With task 7."""
    found = in_memory(monkeypatch, copy)
    found.put("/datas/task/7/dist/lane", {"taskId": "7"})
    return found


def rm() -> Result:
    return CliRunner().invoke(main, ["task", "rm", "7", "--yes"])


@pytest.mark.parametrize("load", [DirectLoad({}), DirectLoad({}, is_void=True)])
def test_a_task_whose_direct_load_is_unfinished_is_not_removed(
    zookeeper: Any, removed: list[str], load: DirectLoad
) -> None:
    put_direct_load(zookeeper, "7", load)
    done = rm()
    assert (done.exit_code, removed) == (1, [])
    for what in ("cdcbus snapshot stop 7", "empty these tables", "cdcbus offset reset 7"):
        assert what in done.output


@pytest.mark.parametrize("load", [None, DirectLoad({}, is_done=True)])
def test_a_task_without_an_unfinished_direct_load_is_removed(
    zookeeper: Any, removed: list[str], load: DirectLoad | None
) -> None:
    if load is not None:
        put_direct_load(zookeeper, "7", load)
    done = rm()
    assert (done.exit_code, removed) == (0, ["7"]), done.output


def test_a_task_whose_direct_load_was_given_up_is_removed_with_a_warning(
    zookeeper: Any, removed: list[str]
) -> None:
    put_direct_load(zookeeper, "7", DirectLoad({}, is_void=True, is_given_up=True))
    done = rm()
    assert (done.exit_code, removed) == (0, ["7"]), done.output
    assert "hold some of the rows" in done.stderr


@pytest.mark.parametrize("load", [DirectLoad({}), DirectLoad({}, is_void=True)])
def test_a_task_whose_direct_load_is_unfinished_is_not_copied(
    zookeeper: Any, load: DirectLoad
) -> None:
    put_direct_load(zookeeper, "7", load)
    done = CliRunner().invoke(main, ["task", "clone", "7", "8"])
    assert done.exit_code == 1
    assert "the direct load of task 7 is not finished" in done.output
    assert not zookeeper.exists("/datas/task/8")


def test_a_running_task_whose_snapshots_are_not_done_is_not_copied(zookeeper: Any) -> None:
    tables = {TableId("shop", "orders"): TableProgress(TableState.RUNNING, 5)}
    ZooKeeperSnapshots(zookeeper, "7", "lane").save(tables)
    zookeeper.put("/datas/task/7/lock/lane", {}, SESSION)
    refused = CliRunner().invoke(main, ["task", "clone", "7", "8"])
    assert refused.exit_code == 1
    assert "its snapshots are not done" in refused.output
    assert not zookeeper.exists("/datas/task/8")
