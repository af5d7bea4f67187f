"""Finds where a bounded run ends (`--until`, `consumer.stopAt`): an offset for each partition, as
of the run's start."""

from __future__ import annotations

import time
from dataclasses import replace

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.topic_logs import TopicLogs, partitions_read
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.start import AfterOffset, AtTime


def bounded(task: LoadTask) -> LoadTask:
    """The task with the ends of its run, if it has an `until`. Raises ConfigError for an offset or
    a time in the future, BusError."""
    if task.until is None:
        return task
    if isinstance(task.until, AtTime) and task.until.epoch_ms > time.time() * 1000:
        raise ConfigError(
            "--until or consumer.stopAt: this time has not come yet, so records before it can "
            "still arrive; give an earlier time, or now"
        )
    ends: dict[TopicPartition, int] = {}
    # Behind an open transaction can be committed records, which come once it has ended.
    with TopicLogs(task, sees_open=True) as logs:
        for partition in partitions_read(task, logs):
            ends[partition] = _end(task, logs, partition)
    return replace(task, ends=ends)


def _end(task: LoadTask, logs: TopicLogs, partition: TopicPartition) -> int:
    _, high = logs.bounds(partition)
    match task.until:
        case AtTime(epoch_ms):
            found = logs.at_time(partition, epoch_ms)
            return high if found is None else found
        case AfterOffset(offset):
            if offset >= high:
                raise ConfigError(
                    f"--until or consumer.stopAt {offset}: {partition} ends before it, at "
                    f"{high}; give an offset below that, or now"
                )
            return offset + 1
    return high
