"""Where a bounded run ends, without Kafka."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.offsets import bounds
from cdcbus.consumer.offsets.bounds import bounded
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.start import AfterOffset, AtTime, Edge, KafkaStart

TASK = LoadTask(
    "7", TopicConfig("kafka:9092", ("orders",)), "canalRow", "JdbcBatch", JdbcTarget("")
)
ONE, TWO = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Logs:
    """Two partitions which end at 200 and at 50; a record a second, from 1970 on."""

    ENDS = {ONE: 200, TWO: 50}

    def __init__(self, _: LoadTask, *, sees_open: bool) -> None:
        assert sees_open

    def __enter__(self) -> Logs:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def partitions(self, _: str) -> list[int]:
        return [0, 1]

    def bounds(self, partition: TopicPartition) -> tuple[int, int]:
        return 0, self.ENDS[partition]

    def at_time(self, partition: TopicPartition, epoch_ms: int) -> int | None:
        offset = epoch_ms // 1000
        return offset if offset < self.ENDS[partition] else None


@pytest.fixture(autouse=True)
def logs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "TopicLogs", Logs)


@pytest.mark.parametrize(
    ("until", "ends"),
    [
        (Edge.LATEST, {ONE: 200, TWO: 50}),
        (AtTime(100_000), {ONE: 100, TWO: 50}),
        (AtTime(30_000), {ONE: 30, TWO: 30}),
        (AfterOffset(49), {ONE: 50, TWO: 50}),
    ],
)
def test_each_partition_ends_where_it_was_at_that_place(
    until: KafkaStart, ends: dict[TopicPartition, int]
) -> None:
    assert bounded(replace(TASK, until=until)).ends == ends


def test_an_offset_that_one_partition_has_not_is_refused_with_its_end() -> None:
    with pytest.raises(
        ConfigError, match=r"--until or consumer\.stopAt 50: .* ends before it, at 50"
    ):
        bounded(replace(TASK, until=AfterOffset(50)))


def test_only_the_partitions_that_the_task_reads_have_an_end() -> None:
    source = replace(TASK.source, partitions=(1,))
    assert bounded(replace(TASK, source=source, until=Edge.LATEST)).ends == {TWO: 50}


def test_a_time_that_has_not_come_is_refused() -> None:
    with pytest.raises(ConfigError, match="this time has not come yet"):
        bounded(replace(TASK, until=AtTime(int(time.time() * 1000) + 60_000)))


def test_a_run_without_an_end_stays_as_it_is() -> None:
    assert bounded(TASK) is TASK
