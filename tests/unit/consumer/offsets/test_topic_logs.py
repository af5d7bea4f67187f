"""How long the records are waited for by which a log is compared with what was read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.offsets import topic_logs
from cdcbus.consumer.offsets.topic_logs import ASK_SECONDS, FIRST_SECONDS, TopicLogs
from cdcbus.plugins.contracts import JdbcTarget, Landmark
from cdcbus.plugins.errors import BusUnavailable
from cdcbus.plugins.positions import TopicPartition

TASK = LoadTask("7", TopicConfig("k:1", ("orders",)), "canalRow", "JdbcBatch", JdbcTarget(""))
ONE = TopicPartition("orders", 0)


class Kafka:
    """Gives records of one partition at their times, in seconds; and the clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.coming: list[tuple[float, int]] = []
        monkeypatch.setattr(topic_logs, "Consumer", lambda _: self)
        monkeypatch.setattr(topic_logs, "monotonic", lambda: self.now)

    def poll(self, seconds: float) -> Any:
        if not self.coming or self.coming[0][0] > self.now + seconds:
            self.now += seconds
            return None
        at, offset = self.coming.pop(0)
        self.now = max(self.now, at)
        told = {"topic": ONE.topic, "partition": 0, "error": None, "offset": offset}
        told |= {"timestamp": (1, 5), "value": b"x", "key": None}
        return SimpleNamespace(**{name: lambda it=it: it for name, it in told.items()})

    def assign(self, _: object) -> None:
        pass

    def unassign(self) -> None:
        pass

    def close(self) -> None:
        pass


@pytest.fixture
def kafka(monkeypatch: pytest.MonkeyPatch) -> Kafka:
    return Kafka(monkeypatch)


def test_one_large_record_over_a_slow_line_is_waited_for(kafka: Kafka) -> None:
    kafka.coming = [(ASK_SECONDS + 2, 4)]
    with TopicLogs(TASK) as logs:
        assert logs.landmarks({ONE: 4}, {ONE: 5}) == [(ONE, Landmark(4, 5))]


def test_what_lies_behind_it_is_waited_for_as_long_as_an_answer(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.coming = [(1.0, 4), (ASK_SECONDS + 1, 90)]
    with TopicLogs(TASK) as logs:
        assert logs.landmarks({ONE: 4}, {ONE: 100}) == [(ONE, Landmark(4, 5))]
    assert kafka.now == ASK_SECONDS
    assert "what orders[0] holds up to offset 100" in caplog.text


def test_without_any_record_the_log_is_not_taken_for_the_same(kafka: Kafka) -> None:
    kafka.coming = [(FIRST_SECONDS + 1, 4)]
    with TopicLogs(TASK) as logs, pytest.raises(BusUnavailable):
        logs.landmarks({ONE: 4}, {ONE: 5})
