"""A task's history in a real ZooKeeper: minutes as they end, and hours of them."""

from __future__ import annotations

import pytest

from cdcbus.tasks.runtime import throughput_history
from cdcbus.tasks.runtime.throughput_history import (
    HOUR_SECONDS,
    ThroughputHistory,
    ThroughputWriter,
)
from cdcbus.tasks.zookeeper.connection import connect

pytestmark = pytest.mark.integration
BEGIN = 1_795_280_400  # a whole hour


class Clock:
    now = float(BEGIN)

    def time(self) -> float:
        return self.now


def test_an_hour_is_stored_once_it_is_over_and_a_restart_goes_on(
    zookeeper: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    monkeypatch.setattr(throughput_history, "time", clock)
    client = connect(f"{zookeeper}/{name}")
    try:
        history = ThroughputHistory(client)
        rows = 0
        for start in (0, 70):  # minutes; the second process counts its rows anew
            writer, rows = ThroughputWriter("x", history), 0
            for number in range(start, start + 70):
                clock.now = BEGIN + 60 * (number + 1)
                rows += 10
                writer.write(rows, number, 0.5, "WORKING")
                writer.is_due()
        hours = history.read_hours("x")
        assert [hour.at for hour in hours] == [BEGIN, BEGIN + HOUR_SECONDS]
        assert [hour.rows for hour in hours] == [600, 600]
        assert [hour.lag_records for hour in hours] == [59, 119]
        assert len(history.read("x")) == 140
    finally:
        client.stop()
        client.close()
