"""What `cdcbus alarm list` shows, on a ZooKeeper in memory."""

from __future__ import annotations

from typing import Any

import pytest
from click.testing import CliRunner

from cdcbus.ops.alarms.state import Alarm
from cdcbus.ops.alarms.store import AlarmNodes, TaskAlarms
from cdcbus.ops.cli.commands import alarm
from cdcbus.ops.cli.main import main
from tests.unit.ops.cli.runs import in_memory


def test_a_refused_znode_hides_no_alarm_of_another_task(monkeypatch: pytest.MonkeyPatch) -> None:
    zookeeper: Any = in_memory(monkeypatch, alarm)
    for task_id in ("7", "8"):
        zookeeper.put(f"/datas/task/{task_id}/dist/lane", {})
        raised = Alarm("it lags", since=1.0, raised_at=2.0)
        assert AlarmNodes(zookeeper).put(task_id, TaskAlarms({"lag": raised}), -1) == 0
    zookeeper.refused.add("/datas/task/7/alarm/silence")
    ended = CliRunner().invoke(main, ["alarm", "list"])
    assert (ended.exit_code, ended.stdout.count("it lags")) == (0, 1)
    assert "task 7: ZooKeeper does not let this user use /datas/task/7/alarm/si" in ended.stderr
