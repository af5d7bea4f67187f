"""porter's address for Zabbix, asked as Zabbix does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.processes.bus import open_bus, resting_text
from tests.support.web import BEARER, pages

pytestmark = pytest.mark.integration


def test_zabbix_reads_the_stopped_tasks_as_porter_told_them(
    zookeeper: str, name: str, tmp_path: Path
) -> None:
    with open_bus(zookeeper, name, tmp_path) as bus, pages(bus.address) as web:
        for task_id in ("5401", "5402", "5403"):
            bus.load(resting_text(task_id, "127.0.0.1:2", name))
        bus("task", "stop", "5403")
        none = web.get("/alarm/task/check")
        assert (none.status_code, none.text) == (200, "")
        assert none.headers["content-type"] == "text/plain; charset=utf-8"
        for task_id, reason in (("5401", "no table; make it"), ("5402", "password refused")):
            bus.tasks.want(task_id, is_working=True, by="x")
            wanted = bus.tasks.wanted(task_id)
            assert wanted is not None
            state = {"state": "ERROR", "order": wanted.order, "nodeId": "n1", "reason": reason}
            bus.client.create(f"/datas/task/{task_id}/state", json.dumps(state).encode())
        assert web.get("/alarm/task/check").text == (
            "task 5401 has stopped: no table, make it;task 5402 has stopped: password refused"
        )
        elsewhere = {"X-Forwarded-For": "10.0.0.1"}
        assert web.get("/alarm/task/check", headers=elsewhere).status_code == 401
        assert web.get("/alarm/task/check", headers={**elsewhere, **BEARER}).status_code == 200
