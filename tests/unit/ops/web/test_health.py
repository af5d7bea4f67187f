"""Of which tasks /healthz complains."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdcbus.ops.web.health import complaint
from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper.stat import Stat
from cdcbus.tasks.zookeeper.status import Status
from cdcbus.tasks.zookeeper.znode import now

LONG_AGO = "2024-05-01 03:04:05"


@pytest.mark.parametrize(
    ("status", "says"),
    [
        (Status("7", State.WORKING, stat=Stat(State.WORKING)), ""),
        (
            Status("7", State.WORKING, stat=Stat(State.WORKING), reported_at=LONG_AGO),
            "has reported",
        ),
        # its process stands still, and so has lost its locks
        (Status("7", State.WORKING, reported_at=LONG_AGO), "task 7 has reported nothing for"),
        (Status("7", State.RETRYING, reported_at=LONG_AGO), ""),
        (Status("7", State.STARTING, reported_at=LONG_AGO), ""),
        (
            Status("7", State.WORKING, stat=Stat(State.WORKING, still_seconds=300)),
            "has made no progress for 300 s",
        ),
    ],
)
def test_a_task_that_does_not_work_though_it_should_is_named(status: Status, says: str) -> None:
    # Not among the cases, which are made long before.
    found = complaint(status if status.reported_at else replace(status, reported_at=now()))
    assert (says in found) if says else not found
