"""Which settings of a task a command uses. Secrets of other settings need not be available where
the command runs: its user may be allowed to read Kafka, but not to log in to the database."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Flag, auto
from typing import Final

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.errors import ConfigError
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.config.read_task import Inspection
from cdcbus.tasks.control.bus_settings import BusSettings
from cdcbus.tasks.control.named_task import inspect_named, inspect_stored, place_of

Task = FetchTask | LoadTask


class Uses(Flag):
    """What a command logs in to. READ: what the task reads. WRITE: what it writes to. KAFKA: Kafka
    is among these, so the settings for all of a task's Kafka are needed."""

    NOTHING = 0
    READ = auto()
    WRITE = auto()
    KAFKA = auto()

    def needs(self, key: str) -> bool:
        """Whether a key must have its value. Every key that is not a login must, except those of
        OF_RUNS: the kind of a task, its rows and the tasks that it reads from depend on them."""
        for side, keys in KEYS.items():
            if keys.fullmatch(key):
                return side in self
        return OF_RUNS.fullmatch(key) is None


KEYS: Final = {
    Uses.READ: re.compile(r"consumer\.source\.(address|username|password|ssl[A-Z]\w*|kafka\..*)"),
    Uses.WRITE: re.compile(r"loader\.source\.(url|userName|password|kafka\..*)"),
    Uses.KAFKA: re.compile(r"kafka\..*"),
}
OF_RUNS: Final = re.compile(r"(consumer\.source\.|loader\.source\.)?spark\..*|receiver\[.*")
"""The keys that only a running task, or a node, uses."""


def kafka_of(task: Task) -> Uses:
    """The uses of a command on a task's topics: those that a consumer task reads, or that a fetch
    task writes."""
    if isinstance(task, LoadTask):
        return Uses.READ | Uses.KAFKA
    return Uses.WRITE | Uses.KAFKA


def source_of(task: Task) -> Uses:
    """The uses of a command on what a task reads."""
    if isinstance(task, LoadTask):
        return Uses.READ | Uses.KAFKA
    return Uses.READ


def target_of(task: Task) -> Uses:
    """The uses of a command on what a task has written. Where that is Kafka, the topics that the
    task reads are used, too."""
    if isinstance(task, LoadTask) and not isinstance(task.target, PublishConfig):
        return Uses.WRITE
    return Uses.READ | Uses.WRITE | Uses.KAFKA


def kafka_and_target_of(task: Task) -> Uses:
    return kafka_of(task) | target_of(task)


def task_of(inspection: Inspection, place: str, uses: Callable[[Task], Uses]) -> Task:
    """The task, with every secret that a command uses. `inspection`: one in which missing secrets
    are notes. Raises ConfigError that lists all errors, including used secrets that are missing.
    """
    task = inspection.ready(place).task
    # What a command uses depends on the kind of task, so the task is read before that is known.
    return inspection.using(uses(task).needs).ready(place).task


def named_task(word: str, bus: BusSettings, uses: Callable[[Task], Uses]) -> Task:
    """The same for a file or an id. Raises CdcError where it cannot be read."""
    return task_of(inspect_named(word, bus, Severity.NOTE), place_of(word), uses)


def lacking(inspection: Inspection, place: str, uses: Callable[[Task], Uses]) -> str:
    """What a command uses of a task but lacks here, such as a secret, in words; else empty. For
    commands that can do without. Raises ConfigError where the text is not a valid task at all."""
    task = inspection.ready(place).task
    try:
        inspection.using(uses(task).needs).ready(place)
    except ConfigError as error:
        return str(error).replace("\n", "; ")
    return ""


def stored_task(task_id: str, bus: BusSettings, uses: Callable[[Task], Uses]) -> Task:
    """The same as `named_task` for a task in ZooKeeper, never for a file."""
    return task_of(inspect_stored(task_id, bus, Severity.NOTE), f"task {task_id}", uses)


def nothing_of(_: Task) -> Uses:
    """The uses of a command that only needs to know what a task is."""
    return Uses.NOTHING
