"""How far a consumer task is behind its topics, from its stored position."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.topic_logs import chosen_partitions
from cdcbus.ops.services.topics import access_of
from cdcbus.plugins.errors import PositionError
from cdcbus.plugins.kafka.topic_log import TopicLog, end_offsets, first_times
from cdcbus.plugins.positions import kafka_positions_from_json
from cdcbus.tasks.zookeeper.position.znodes import position_path


def lag_rows(task: LoadTask, stored: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """A row for each partition: next offset, first offset held, end, and what lies from the next
    offset to the end in records and seconds, None where Kafka does not hold that. `stored`: the
    task's positions by path. Raises BusError."""
    with TopicLog(access_of(task)) as log:
        for topic in task.source.topics:
            next_offsets = _next_offsets(stored.get(position_path(task.task_id, topic), ""))
            bounds = log.bounds(topic)
            chosen = chosen_partitions(task.source, topic, sorted(bounds))
            # The next record's time says how long it has waited; without one there is nothing to
            # ask.
            behind = {}
            for partition in chosen:
                next_offset = next_offsets.get(partition)
                first, end = bounds[partition]
                if next_offset is not None and first <= next_offset < end:
                    behind[partition] = next_offset
            times = first_times(log, topic, behind, end_offsets(bounds))
            now_ms = time.time_ns() // 1_000_000
            for partition in chosen:
                first, end = bounds[partition]
                next_offset = next_offsets.get(partition)
                row = {
                    "task": task.task_id,
                    "topic": topic,
                    "partition": partition,
                    "next": next_offset,
                    "first": first,
                    "end": end,
                }
                if next_offset is None or not first <= next_offset <= end:
                    yield {**row, "records": None, "seconds": None}
                    continue
                # Clocks can differ, and all records that are left may have been compacted away.
                waited_ms = max(0, now_ms - times.get(partition, now_ms))
                yield {
                    **row,
                    "records": end - next_offset,
                    "seconds": round(waited_ms / 1000, 1),
                }


def _next_offsets(text: str) -> dict[int, int]:
    """The stored offsets; none where the position is unusable, as the task's own error says."""
    with suppress(PositionError):
        return {each.partition: each.next_offset for each in kafka_positions_from_json(text)}
    return {}
