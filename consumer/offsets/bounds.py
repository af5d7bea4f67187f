"""Where a run ends that is bounded by `--until`: an offset for each partition, as of its start."""

from __future__ import annotations

import time
from dataclasses import replace

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.start_offsets import Lane, TopicLogs, lanes_of
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.start import AfterOffset, AtTime


def bounded(task: LoadTask) -> LoadTask:
    """The task with the ends of its run, if it has an `until`. Raises ConfigError for an offset or
    a time that has not come yet, BusError."""
    if task.until is None:
        return task
    if isinstance(task.until, AtTime) and task.until.epoch_ms > time.time() * 1000:
        raise ConfigError(
            "--until: this time has not come yet, so nothing says when all before it is there: "
            "give a time before, or now"
        )
    with TopicLogs(task) as logs:
        lanes = [lane for topic in task.source.topics for lane in lanes_of(task, logs, topic)]
        return replace(task, ends={lane: _end(task, logs, lane) for lane in lanes})


def _end(task: LoadTask, logs: TopicLogs, lane: Lane) -> int:
    _, high = logs.bounds(lane)
    match task.until:
        case AtTime(epoch_ms):
            found = logs.at_time(lane, epoch_ms)
            return high if found is None else found
        case AfterOffset(offset):
            if offset >= high:
                raise ConfigError(
                    f"--until {offset}: {lane[0]}[{lane[1]}] ends before it, at {high}; give an "
                    "offset that is there, or now"
                )
            return offset + 1
    return high
