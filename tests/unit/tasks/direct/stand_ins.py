"""A task and its topic, for direct loads without servers."""

from __future__ import annotations

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import TableId

ONE = TopicPartition("shop", 0)
ORDERS = TableId("shop", "orders")
LOAD = LoadTask("7", TopicConfig("k:9092", ("shop",)), "canalRow", "JdbcBatch", JdbcTarget(""))


class Logs:
    """A partition that holds the offsets 100 to 200."""

    def __init__(self, _: LoadTask) -> None:
        pass

    def __enter__(self) -> Logs:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def partitions(self, _: str) -> list[int]:
        return [0, 1]

    def bounds(self, _: TopicPartition) -> tuple[int, int]:
        return 100, 200
