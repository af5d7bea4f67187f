"""How a task takes its partitions over, in this order: whoever has run it until now is fenced at
the target; what the target knows is read behind that; where to go on is decided; the target is
told, and then ZooKeeper. Whenever it dies in between, the next start comes to the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from cdcbus.consumer.batch.sink import Applier
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.checkpoint import StoredPositions
from cdcbus.consumer.offsets.landmarks import same_logs
from cdcbus.consumer.offsets.start_offsets import (
    NOTHING_PASSED,
    Starts,
    TopicLogs,
    starting_offsets,
)
from cdcbus.consumer.offsets.topic_identity import topic_ids
from cdcbus.plugins.contracts import AppliedOffset, Details, Landmark, Mark, PositionStore
from cdcbus.plugins.positions import TopicPartition


def find_starts(
    task: LoadTask,
    logs: TopicLogs,
    applier: Applier,
    stores: Mapping[str, PositionStore],
    reached: Mapping[TopicPartition, int],
    passed: Mapping[TopicPartition, Landmark] = NOTHING_PASSED,
) -> Starts:
    """Fences, and tells where to go on. `reached` and `passed`: how far this process has come,
    and the last records before that. Raises as starting_offsets, `same_logs` and
    `applied_offsets`."""
    applied = applier.applied_offsets()
    starts = starting_offsets(task, logs, stores, applied, topic_ids(task.source), reached, passed)
    same_logs(task, logs, starts)
    return starts


def take_over(applier: Applier, positions: StoredPositions, starts: Starts) -> None:
    """ZooKeeper is the last, so that an edit counts until the target knows of it. Raises
    OffsetConflict, and as StoredPositions."""

    def taken(partition: TopicPartition, offset: int) -> AppliedOffset:
        return AppliedOffset(
            *partition,
            offset,
            positions.position_version(partition),
            details=Details(
                starts.topic_ids.get(partition.topic, ""), last=starts.last.get(partition)
            ),
        )

    applier.take_over([taken(partition, offset) for partition, offset in starts.offsets.items()])
    marks = {
        topic: Mark(applier.keeps_offsets, starts.topic_ids.get(topic, ""))
        for topic, _ in starts.offsets
    }
    positions.begin(starts.offsets, starts.unread, marks, starts.last)
