"""Takes a task's partitions over, in this order: fences the predecessor at the target, reads the
target's offsets, decides where to resume, and writes that to the target and then to ZooKeeper. If
the process dies in between, the next start comes to the same result.
"""

from __future__ import annotations

from collections.abc import Mapping

from cdcbus.consumer.batch.sink import Applier
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.checkpoint import StoredPositions
from cdcbus.consumer.offsets.known import NOTHING_PASSED, of_topic
from cdcbus.consumer.offsets.landmarks import same_logs
from cdcbus.consumer.offsets.start_offsets import Starts, starting_offsets
from cdcbus.consumer.offsets.topic_identity import topic_ids
from cdcbus.consumer.offsets.topic_logs import TopicLogs
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
    """Fences the predecessor, and returns where to resume. `reached` and `passed`: how far this
    process has read, and the last records before that. Raises what `starting_offsets`, `same_logs`
    and `applied_offsets` raise."""
    applied = applier.applied_offsets()
    starts = starting_offsets(task, logs, stores, applied, topic_ids(task.source), reached, passed)
    same_logs(task, logs, starts)
    return starts


def take_over(task: LoadTask, applier: Applier, positions: StoredPositions, starts: Starts) -> None:
    """Writes the offsets at which the task resumes to the target and then to ZooKeeper. ZooKeeper
    comes last, so that an edit counts until the target knows of it. Raises OffsetConflict, and what
    StoredPositions raises."""
    taken: list[AppliedOffset] = []
    marks: dict[str, Mark] = {}
    rules = task.row_rules
    for partition, offset in starts.offsets.items():
        topic_id = starts.topic_ids.get(partition.topic, "")
        marks[partition.topic] = Mark(
            applier.keeps_offsets,
            topic_id,
            is_committed=applier.commits_offsets,
            target=starts.target_kind,
            unread=of_topic(partition.topic, starts.unread_written),
            rules=rules,
        )
        version = positions.position_version(partition)
        details = Details(topic_id, last=starts.last.get(partition))
        taken.append(AppliedOffset(*partition, offset, version, details=details))
    applier.take_over(taken)
    positions.begin(starts.offsets, starts.unread, marks, starts.last)
