"""Where a consumer task starts when Kafka no longer has, or does not have yet, what its position says."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from cdcbus.consumer.offsets import TopicLogs, starting_offsets
from cdcbus.consumer.task import LoadTask, TopicConfig
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.errors import PositionLost
from cdcbus.plugins.position import KafkaPosition, kafka_positions_to_json
from cdcbus.tasks.positions import MemoryPositions

pytestmark = pytest.mark.integration


@pytest.fixture
def task(cut_topic: str, kafka: str) -> LoadTask:
    return LoadTask(cut_topic, TopicConfig(kafka, (cut_topic,)), "canalRow", "JdbcBatch", JdbcTarget(""))


def start(task: LoadTask, last_offset: int) -> int:
    store = MemoryPositions()
    store.save(kafka_positions_to_json([KafkaPosition(task.task_id, 0, last_offset)]))
    with TopicLogs(task) as logs:
        [(_, offset)] = starting_offsets(task, logs, {task.task_id: store}, []).items()
    return offset


@pytest.mark.parametrize("last_offset", [4, 9])
def test_the_first_and_the_end_offset_are_held(task: LoadTask, last_offset: int) -> None:
    assert start(task, last_offset) == last_offset + 1


@pytest.mark.parametrize("last_offset", [3, 10])
def test_an_offset_that_is_not_held_stops_with_the_numbers_or_is_reset_with_a_warning(
    task: LoadTask, last_offset: int, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(PositionLost, match=rf"wants offset {last_offset + 1} of {task.task_id}\[0\], Kafka holds 5 to 10; "):
        start(task, last_offset)
    with caplog.at_level(logging.WARNING):
        assert start(replace(task, allow_offset_reset=True), last_offset) == 5
    assert f"offset {last_offset + 1} of {task.task_id}[0] is not held (5 to 10); reset to 5" in caplog.text
