"""A task whose process stands still as a whole, while its node works."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from pymysql.cursors import Cursor

from cdcbus.ops.stack.addresses import Database
from cdcbus.plugins.task_status import State
from tests.support.processes.bus import fetch_text, open_bus, published
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.integration, pytest.mark.chaos]


def test_a_task_that_stands_still_is_told_of_and_started_again(
    zookeeper: str,
    kafka: str,
    source: Database,
    source_cursor: Cursor,
    name: str,
    make_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    """Two minutes: the alarm needs one, and the node asks the task to stop before it kills it."""
    make_topic(name)
    source_cursor.execute("CREATE TABLE t (id INT PRIMARY KEY)")
    with open_bus(zookeeper, name, tmp_path, SOURCE_PASSWORD=source.password) as bus:
        bus.load(fetch_text("1084", source, kafka, name))
        bus.node("n1", CDCBUS_ALARM_RECOVERIES="1")
        bus("task", "start", "1084")
        still = bus.runner("1084")
        os.kill(still, signal.SIGSTOP)
        source_cursor.execute("INSERT INTO t VALUES (1)")
        wait_until(lambda: "silent" in bus("alarm", "list").stdout, "the alarm", 150)
        wait_until(
            lambda: (
                bus.runner("1084") not in (0, still) and bus.status("1084").state is State.WORKING
            ),
            "the task to be started again",
            150,
        )
        wait_until(lambda: bool(published(kafka, name)), "the row of that time")
        assert not Path(f"/proc/{still}").exists()
        bus("task", "stop", "1084")
