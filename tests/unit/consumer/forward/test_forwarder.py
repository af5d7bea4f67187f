"""The end of a task that forwards records."""

from __future__ import annotations

from itertools import count
from threading import Barrier, Event, Thread
from typing import Any

import pytest

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.forward.forwarder import Forwarder
from cdcbus.consumer.forward.outlet import Outlet
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.positions import TopicPartition

PARTITIONS = 40


def forwarder() -> Any:
    config = PublishConfig("127.0.0.1:9", "out", "canalRow")
    source = TopicConfig("127.0.0.1:9", ("orders",))
    task = LoadTask("7", source, "canalRow", "KAFKA_SYNC", config)
    return Forwarder(task, config, CanalRow(), None, None, Event())


def test_all_transactions_are_undone_at_the_same_time() -> None:
    """Each waits for 10 s where Kafka does not answer."""
    together = Barrier(PARTITIONS)

    class Waiting(Outlet):
        def __init__(self) -> None: ...

        def __exit__(self, *_: object) -> None:
            together.wait(20)

    forwards = forwarder()
    for number in range(PARTITIONS):
        forwards._outlets[TopicPartition("orders", number)] = Waiting()
    forwards.close()
    assert forwards._outlets == {}
    forwards.close()


@pytest.mark.parametrize("threads", [0, 3])
def test_each_is_undone_once_where_there_are_few_threads(
    monkeypatch: pytest.MonkeyPatch, threads: int
) -> None:
    closed = []

    class Closing(Outlet):
        def __init__(self, number: int) -> None:
            self.number = number

        def __exit__(self, *_: object) -> None:
            closed.append(self.number)

    start = Thread.start
    left = count(threads, -1)

    def start_one_of_few(thread: Thread) -> None:
        if next(left) <= 0:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(Thread, "start", start_one_of_few)
    forwards = forwarder()
    for number in range(PARTITIONS):
        forwards._outlets[TopicPartition("orders", number)] = Closing(number)
    forwards.close()
    assert sorted(closed) == list(range(PARTITIONS))
