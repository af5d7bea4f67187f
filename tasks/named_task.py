"""A task by the word that an operator types: a file, or the id of a task in ZooKeeper."""

from __future__ import annotations

import os
from pathlib import Path

from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks import properties
from cdcbus.tasks.bus_settings import BusSettings
from cdcbus.tasks.dist_nodes import dist_nodes, dist_path
from cdcbus.tasks.findings import Severity
from cdcbus.tasks.kinds import PATH_NAME
from cdcbus.tasks.properties import Inspection
from cdcbus.tasks.stored_task import Dist


def is_file(word: str) -> bool:
    """Whether a word means a file: it is one, or reads like one. Any other is an id."""
    return os.sep in word or word.endswith(".properties") or Path(word).is_file()


def place_of(word: str) -> str:
    """Where the task stands, for people."""
    return word if is_file(word) else f"ZooKeeper {dist_path(word)}"


def inspect_named(word: str, bus: BusSettings, unfilled: Severity) -> Inspection:
    """What the task says, wrong or right. Raises CdcError when it cannot be read at all, and ConfigError when there is none."""
    if is_file(word):
        return properties.inspect_task(Path(word), bus.filling, unfilled, bus.source_lookup(Path(word)))
    inspection = properties.inspect_dist(stored_task(word, bus), bus.filling, unfilled, bus.source_lookup())
    if inspection.task is not None and inspection.task.task_id != word:
        # Its position would be the other task's.
        raise ConfigError(f"{dist_path(word)} holds taskId={inspection.task.task_id}; expected taskId={word}; import the task again")
    return inspection


def stored_task(task_id: str, bus: BusSettings) -> Dist:
    """The task in ZooKeeper. Raises ConfigError when there is none."""
    if not _is_id(task_id):
        raise ConfigError(f"{task_id!r} is neither a file nor a task's id; expected a file, or {PATH_NAME.expected}")
    with dist_nodes(bus.zookeeper, bus.zookeeper_auth) as nodes:
        found = nodes.get(task_id)
    if found is None:
        where = f"{dist_path(task_id)} at {bus.zookeeper}"
        raise ConfigError(f"there is no file and no task called {task_id}: nothing is below {where}; check the name and the address")
    return found


def _is_id(word: str) -> bool:
    try:
        return bool(PATH_NAME.read(word))
    except ValueError:
        return False
