"""How long an answer of Kafka is waited for."""

from __future__ import annotations

from threading import Event

import pytest

from cdcbus.plugins.errors import BusUnavailable
from cdcbus.plugins.kafka.client import asking
from cdcbus.plugins.kafka.client.asking import asked


def test_a_task_that_is_to_stop_still_takes_an_answer_that_comes_soon() -> None:
    stop = Event()
    stop.set()
    soon = Event()
    assert asked(lambda: soon.wait(0.05) or "an answer", "kafka:9092", stop) == "an answer"


def test_a_task_that_is_to_stop_waits_for_no_late_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "GRACE_SECONDS", 0.05)
    stop, late = Event(), Event()
    stop.set()
    try:
        with pytest.raises(BusUnavailable, match="stopped before a Kafka broker at kafka:9092"):
            asked(late.wait, "kafka:9092", stop)
    finally:
        late.set()
