"""Finds a task by the word that an operator types: a file, or the id of a task in ZooKeeper."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Collection
from pathlib import Path

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.errors import ConfigError
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config import read_task
from cdcbus.tasks.config.diagnostics import Severity
from cdcbus.tasks.config.keys.types import PATH_NAME, is_path_name
from cdcbus.tasks.config.read_task import Inspection
from cdcbus.tasks.control.bus_settings import BusSettings
from cdcbus.tasks.process_identity import NODE_VARIABLE
from cdcbus.tasks.zookeeper.dist_nodes import dist_nodes, dist_path
from cdcbus.tasks.zookeeper.task_configs import Dist

LOG = logging.getLogger(__name__)


def is_file(word: str) -> bool:
    """Whether a word means a file: it exists as one, or looks like one. Any other word is an id,
    and so is each in a process that a node has started."""
    # A node means the task that is stored, whatever is in its working directory.
    if NODE_VARIABLE in os.environ:
        return False
    # By its look, too, so that a mistyped file name is not looked up in ZooKeeper.
    return os.sep in word or word.endswith(".properties") or Path(word).is_file()


def place_of(word: str) -> str:
    """Where the task is stored, in words."""
    if is_file(word):
        return word
    return f"ZooKeeper {dist_path(word)}"


def inspect_named(word: str, bus: BusSettings, unfilled: Severity) -> Inspection:
    """Inspects the task, valid or not. Raises CdcError when it cannot be read at all, and
    ConfigError when it does not exist."""
    if is_file(word):
        return read_task.inspect_task(
            Path(word), bus.filling, unfilled, bus.source_lookup(Path(word))
        )
    return inspect_stored(word, bus, unfilled)


def inspect_without_zookeeper(word: str, bus: BusSettings, unfilled: Severity) -> Inspection:
    """The same for a file whose named sources are in files, too. Raises ConfigError for an id."""
    if not is_file(word):
        raise ConfigError(
            f"{word} is not a file, and a task's id is looked up in ZooKeeper; name a task file: "
            f"cdcbus task export {word} writes it"
        )
    file = Path(word)
    return read_task.inspect_task(file, bus.filling, unfilled, bus.local_source_lookup(file))


def inspect_stored(task_id: str, bus: BusSettings, unfilled: Severity) -> Inspection:
    """The same for a task in ZooKeeper, never for a file."""
    inspection = read_task.inspect_dist(
        stored_task(task_id, bus), bus.filling, unfilled, bus.source_lookup()
    )
    if inspection.task is not None and inspection.task.task_id != task_id:
        # The task would run with the other task's position.
        raise ConfigError(
            f"{dist_path(task_id)} holds taskId={inspection.task.task_id}; expected "
            f"taskId={task_id}; import the task again"
        )
    return inspection


def unknown_task(task_id: str, ids: Collection[str], address: str) -> ConfigError:
    """The error for an id without a stored text. `ids`: all tasks of which ZooKeeper holds
    something."""
    if task_id in ids:
        return ConfigError(
            f"task {task_id} is run from a file, and its text is not in ZooKeeper at {address}: "
            "name that file, or store it with cdcbus task import FILE"
        )
    return ConfigError(
        f"there is no task {task_id} at {address}{_similar(task_id, ids)}; cdcbus task list shows "
        "all, cdcbus task import FILE adds one"
    )


def _similar(task_id: str, ids: Collection[str]) -> str:
    near = difflib.get_close_matches(task_id, ids, n=1)
    return f", but there is {near[0]}" if near else ""


def stored_task(task_id: str, bus: BusSettings) -> Dist:
    """The task in ZooKeeper. Raises ConfigError when it does not exist."""
    if not is_path_name(task_id):
        raise ConfigError(
            f"{task_id!r} is neither a file nor a task's id; expected a file, or "
            f"{PATH_NAME.expected}"
        )
    with dist_nodes(bus.zookeeper, bus.zookeeper_auth) as nodes:
        found = nodes.get(task_id)
        if found is None:
            ids = nodes.ids()
            if task_id in ids:
                raise unknown_task(task_id, ids, bus.zookeeper)
            where = f"{dist_path(task_id)} at {bus.zookeeper}"
            raise ConfigError(
                f"there is no file and no task called {task_id}: nothing is below {where}"
                f"{_similar(task_id, ids)}; check the name and the address"
            )
    return found


def ready_task(word: str, bus: BusSettings, inspection: Inspection) -> FetchTask | LoadTask:
    """The task, ready to run; warnings and notes about it are logged. Raises ConfigError that lists
    all errors."""
    place = place_of(word)
    read = inspection.ready(place)
    for level, diagnostics in ((logging.WARNING, read.warnings), (logging.INFO, read.notes)):
        for diagnostic in diagnostics:
            LOG.log(level, "%s", diagnostic.located(place))
    return bus.applied_to(read.task)
