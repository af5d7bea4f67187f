"""What is asked of Kafka for the lag of a task."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.ops.services import topic_lag
from cdcbus.ops.services.topic_lag import lag_rows
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.kafka.topic_log import KafkaRecord
from cdcbus.plugins.positions import KafkaPosition, kafka_positions_to_json
from cdcbus.tasks.zookeeper.position.znodes import position_path

PARTITIONS = 5
TASK = LoadTask("7", TopicConfig("k:1", ("t",)), "canalRow", "JdbcBatch", JdbcTarget(""))


class Log:
    """As TopicLog, with ten records in each partition."""

    asked = 0

    def __init__(self, _: object) -> None:
        pass

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def bounds(self, _: str) -> dict[int, tuple[int, int]]:
        Log.asked += 1
        return dict.fromkeys(range(PARTITIONS), (0, 10))

    def records(
        self, _: str, starts: Mapping[int, int], ends: Mapping[int, int]
    ) -> Iterator[KafkaRecord]:
        for partition, offset in starts.items():
            assert ends[partition] == 10
            yield KafkaRecord(partition, offset, 1_700_000_000_000, None, None)


def test_the_bounds_of_a_topic_are_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is a question to the brokers for each partition."""
    monkeypatch.setattr(topic_lag, "TopicLog", Log)
    monkeypatch.setattr(Log, "asked", 0)
    places = [KafkaPosition("t", partition, partition) for partition in range(PARTITIONS)]
    rows = [*lag_rows(TASK, {position_path("7", "t"): kafka_positions_to_json(places)})]
    assert [row["records"] for row in rows] == [9, 8, 7, 6, 5]
    assert all(row["seconds"] > 0 for row in rows)
    assert Log.asked == 1
