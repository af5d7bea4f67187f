"""The end of a task that forwards records."""

from __future__ import annotations

from threading import Barrier, Event
from typing import Any

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.forward.forwarder import Forwarder
from cdcbus.consumer.forward.outlet import Outlet
from cdcbus.plugins.converters.canal_row import CanalRow
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.positions import TopicPartition

PARTITIONS = 40


def test_all_transactions_are_undone_at_the_same_time() -> None:
    """Each waits for 10 s where Kafka does not answer."""
    together = Barrier(PARTITIONS)

    class Waiting(Outlet):
        def __init__(self) -> None: ...

        def __exit__(self, *_: object) -> None:
            together.wait(20)

    config = PublishConfig("127.0.0.1:9", "out", "canalRow")
    source = TopicConfig("127.0.0.1:9", ("orders",))
    task = LoadTask("7", source, "canalRow", "KAFKA_SYNC", config)
    forwarder: Any = Forwarder(task, config, CanalRow(), None, None, Event())
    for number in range(PARTITIONS):
        forwarder._outlets[TopicPartition("orders", number)] = Waiting()
    forwarder.close()
    assert forwarder._outlets == {}
    forwarder.close()
