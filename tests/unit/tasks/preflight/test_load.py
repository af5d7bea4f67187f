"""Where a consumer task would start, as a check says it."""

from __future__ import annotations

from typing import Any

import pytest

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.contracts import AppliedOffset, JdbcTarget, Mark, OffsetTable, Written
from cdcbus.plugins.positions import KafkaPosition, TopicPartition, kafka_positions_to_json
from cdcbus.plugins.start import Edge
from cdcbus.tasks.local.memory import MemoryNode, MemoryPositions
from cdcbus.tasks.preflight import load

BY_RULE = "the start rule, as nothing is stored"
BY_STORED, BY_TARGET = "the stored position", "what the target has applied"


class Logs:
    """Of a topic with one partition, which holds the offsets 0 to 10000; as TopicLogs."""

    def __init__(self, *_: object) -> None:
        pass

    def __enter__(self) -> Logs:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def partitions(self, _: str) -> list[int]:
        return [0]

    def bounds(self, _: TopicPartition) -> tuple[int, int]:
        return 0, 10_000


@pytest.fixture(autouse=True)
def _kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "TopicLogs", Logs)
    monkeypatch.setattr(load, "topic_ids", lambda _: {})


def at(next_offset: int) -> str:
    return kafka_positions_to_json([KafkaPosition("t", 0, next_offset - 1)])


@pytest.mark.parametrize(
    ("written", "edited", "applied", "offset", "rule"),
    [
        (None, None, None, 0, BY_RULE),
        (None, None, 9_000, 9_000, BY_TARGET),
        (8_000, None, 9_000, 9_000, BY_TARGET),
        (9_000, None, 9_000, 9_000, BY_STORED),
        (8_000, None, None, 8_000, BY_STORED),
        (8_000, 5_000, 9_000, 5_000, BY_STORED),
    ],
)
def test_who_says_where_the_task_starts_is_named(
    written: int | None, edited: int | None, applied: int | None, offset: int, rule: str
) -> None:
    node = MemoryNode()
    if written is not None:
        node.write(Written(at(written), Mark()))
    if edited is not None:
        node.set(at(edited).encode())
    there = []
    if applied is not None:
        there.append(AppliedOffset("t", 0, applied, 0))
    task = LoadTask(
        "7",
        TopicConfig("k:1", ("t",)),
        "canalRow",
        "JdbcBatch",
        JdbcTarget("jdbc:postgresql://h/d"),
        start=Edge.EARLIEST,
    )
    stores: Any = {"t": MemoryPositions(node)}
    table = OffsetTable(True, None, there)
    seen = [each.found for each in load._start(task, stores, table, {}) if "t[0]" in each.subject]
    (found,) = seen
    assert found.startswith(f"at offset {offset} by {rule}, {10_000 - offset:,} records behind")
