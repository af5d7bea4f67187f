"""Which settings of a task a command uses: a secret of any other need not be there where the
command runs, as with somebody who may read Kafka, and not log in to the database."""

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
    """What a command logs in to. READ: what the task reads, WRITE: what it writes to; KAFKA: one of
    these, or both, with the settings that count for all of a task's Kafka."""

    NOTHING = 0
    READ = auto()
    WRITE = auto()
    KAFKA = auto()

    def needs(self, key: str) -> bool:
        """Whether a key must have its value. Whatever is no login must: what a task is, which rows
        it takes, and by which brokers it is known to be another one's reader, all depends on."""
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
"""What only a running task, or a node, looks at."""


def kafka_of(task: Task) -> Uses:
    """Of what looks at the topics of a task: those that a consumer task reads, and that a fetch
    task writes."""
    side = Uses.READ if isinstance(task, LoadTask) else Uses.WRITE
    return side | Uses.KAFKA


def source_of(task: Task) -> Uses:
    """Of what looks at the places that a task reads from."""
    return Uses.READ | Uses.KAFKA if isinstance(task, LoadTask) else Uses.READ


def target_of(task: Task) -> Uses:
    """Of what looks at what a task has written. Where that is Kafka, the topics that it reads are
    looked at, too."""
    written = task.target if isinstance(task, LoadTask) else task.publish
    if not isinstance(written, PublishConfig):
        return Uses.WRITE
    return Uses.READ | Uses.WRITE | Uses.KAFKA


def kafka_and_target_of(task: Task) -> Uses:
    return kafka_of(task) | target_of(task)


def task_of(inspection: Inspection, place: str, uses: Callable[[Task], Uses]) -> Task:
    """The task, with all that a command uses of it. Raises ConfigError that names all that is
    wrong, and what of that is missing here. `inspection`: with secrets that are missing as notes.
    """
    task = inspection.ready(place).task
    return inspection.using(uses(task).needs).ready(place).task


def named_task(word: str, bus: BusSettings, uses: Callable[[Task], Uses]) -> Task:
    """The same of a file or an id. Raises CdcError where it cannot be read."""
    return task_of(inspect_named(word, bus, Severity.NOTE), place_of(word), uses)


def lacking(inspection: Inspection, place: str, uses: Callable[[Task], Uses]) -> str:
    """What a command uses of a task and has not here, such as a secret, in words; else empty. For
    what can go without. Raises ConfigError where the text makes no task at all."""
    task = inspection.ready(place).task
    try:
        inspection.using(uses(task).needs).ready(place)
    except ConfigError as error:
        return str(error).replace("\n", "; ")
    return ""


def stored_task(task_id: str, bus: BusSettings, uses: Callable[[Task], Uses]) -> Task:
    """The same of a task in ZooKeeper, never of a file."""
    return task_of(inspect_stored(task_id, bus, Severity.NOTE), f"task {task_id}", uses)


def nothing_of(_: Task) -> Uses:
    """Of what only wants to know what a task is."""
    return Uses.NOTHING
