"""How a task takes its lanes over, in this order: whoever has run it until now is fenced at the
target; what the target knows is read behind that; where to go on is decided; the target is told,
and then ZooKeeper. Whenever it dies in between, the next start comes to the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from cdcbus.consumer.batch.sink import Applier
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.checkpoint import StoredPositions
from cdcbus.consumer.offsets.landmarks import same_logs
from cdcbus.consumer.offsets.start_offsets import (
    NOTHING_PASSED,
    Lane,
    Starts,
    TopicLogs,
    starting_offsets,
)
from cdcbus.consumer.offsets.topic_identity import topic_ids
from cdcbus.plugins.contracts import AppliedOffset, Details, Landmark, Mark, PositionStore


def find_starts(
    task: LoadTask,
    logs: TopicLogs,
    applier: Applier,
    stores: Mapping[str, PositionStore],
    reached: Mapping[Lane, int],
    passed: Mapping[Lane, Landmark] = NOTHING_PASSED,
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

    def taken(lane: Lane, offset: int) -> AppliedOffset:
        return AppliedOffset(
            *lane,
            offset,
            positions.position_version(lane),
            details=Details(starts.topic_ids.get(lane[0], ""), last=starts.last.get(lane)),
        )

    applier.take_over([taken(lane, offset) for lane, offset in starts.offsets.items()])
    marks = {
        topic: Mark(applier.keeps_offsets, starts.topic_ids.get(topic, ""))
        for topic, _ in starts.offsets
    }
    positions.begin(starts.offsets, starts.unread, marks, starts.last)
