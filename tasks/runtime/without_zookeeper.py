"""Runs one task without ZooKeeper, with everything that it stores in a file."""

from __future__ import annotations

import logging
from pathlib import Path

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.epoch import epoch_text
from cdcbus.plugins.errors import CdcError
from cdcbus.plugins.task_status import TaskStatus
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.local.state_file import StateFile, state_file
from cdcbus.tasks.local.stores import (
    FilePositions,
    FileSchemas,
    FileSnapshots,
    bus_identity,
    next_epoch,
)
from cdcbus.tasks.runtime.loops import fetch_loop
from cdcbus.tasks.runtime.runner import ProgressLog, interruptible
from cdcbus.tasks.runtime.stop_signals import stop_signals
from cdcbus.tasks.zookeeper.lock import Stop

LOG = logging.getLogger(__name__)


def run_with_file(task: FetchTask | LoadTask, file: Path) -> bool:
    """Like `run_task`, with positions, schema history, snapshots and epochs in the file. Raises
    CdcError, also when another process uses the file."""
    with stop_signals() as stop, state_file(file, task.task_id) as state:
        LOG.info(
            "task %s keeps its positions in %s, not in ZooKeeper: nodes, the console, alarms, "
            "task list, offset and snapshot commands do not see it",
            task.task_id,
            state.path,
        )
        status = TaskStatus(task.task_id)
        try:
            with interruptible(stop, status):
                _run(task, state, stop, status)
        except CdcError as error:
            raise _without_command(error, state.path) from error
        LOG.info("task %s has stopped", task.task_id)
        return not stop.is_set()


def _without_command(error: CdcError, file: Path) -> CdcError:
    """An error whose text names a command that sets a position: none reaches the file."""
    if "cdcbus offset " not in str(error):
        return error
    return type(error)(
        f"{error}. As this task keeps its position in {file}, and not in ZooKeeper, edit "
        "`position` of the swimlane there instead"
    )


def _run(task: FetchTask | LoadTask, state: StateFile, stop: Stop, status: TaskStatus) -> None:
    report = ProgressLog(task.task_id)
    if isinstance(task, FetchTask):
        run = fetch_loop(task)
        swimlane = task.swimlane
        number = next_epoch(state, swimlane)
        run(
            task,
            FilePositions(state, swimlane, is_only=True),
            FileSchemas(state, swimlane),
            stop,
            status,
            report,
            epoch_text(number, task.task_id, swimlane, bus_identity(state, swimlane)),
            FileSnapshots(state, swimlane),
        )
    else:
        # Imported on demand: fetch tasks need neither Spark nor its memory.
        from cdcbus.consumer import run as consumer

        stores = {topic: FilePositions(state, topic) for topic in task.source.topics}
        consumer.run(task, stores, stop, status, report, None)
