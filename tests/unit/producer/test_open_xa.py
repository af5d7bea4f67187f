"""When an XA transaction counts as one that an operator must finish."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from cdcbus.plugins.task_status import State, TaskStatus
from cdcbus.producer import open_xa
from cdcbus.producer.open_xa import OPEN_XA_SECONDS, OpenXa


@pytest.mark.parametrize("ahead_seconds", [-3600, 0, 3600])
def test_it_is_reported_a_minute_after_it_was_read_whatever_the_sources_clock_says(
    monkeypatch: pytest.MonkeyPatch, ahead_seconds: int
) -> None:
    clock = SimpleNamespace(now=1000.0)
    monkeypatch.setattr(
        open_xa, "time", SimpleNamespace(monotonic=lambda: clock.now, time=time.time)
    )
    status = TaskStatus("7")
    status.reading("the binlog")
    watch = OpenXa(status)
    one, other = [(xid, int(time.time()) + ahead_seconds) for xid in ("a", "b")]

    def state_after(seconds: float, oldest: tuple[str, int] | None) -> State:
        clock.now += seconds
        watch.look(oldest)
        return status.now[0]

    assert state_after(0, one) is State.WORKING
    assert state_after(OPEN_XA_SECONDS, one) is State.WORKING
    assert state_after(0, other) is State.WORKING
    assert state_after(OPEN_XA_SECONDS + 1, other) is State.RETRYING
    assert "for XA transaction b, prepared 61 s ago or more" in status.now[1]
    watch.look(None)
    status.observe(is_behind=False)
    assert status.now[0] is State.WORKING
