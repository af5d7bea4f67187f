"""The tasks beside a task: in its folder, or in ZooKeeper; and those that could not be read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from cdcbus.consumer.config import LoadTask
from cdcbus.plugins.errors import CdcError, ConfigError, PositionError, PositionUnavailable
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.diagnostics import Diagnostic, Severity
from cdcbus.tasks.config.keys.allow_lists import ENVIRONMENT
from cdcbus.tasks.config.keys.task import find_key
from cdcbus.tasks.config.named_sources import first_of
from cdcbus.tasks.config.read_task import Inspection, inspect_dist, inspect_task
from cdcbus.tasks.control.bus_settings import FILE_NAME, BusSettings
from cdcbus.tasks.control.named_task import inspect_stored, is_file
from cdcbus.tasks.lineage.kafka_names import has_names, may_share_names, refuse_same_names

KINDS: Final = "consumer.consumerName", "loader.loaderName"
DECIDING: Final = re.compile(
    r"taskId|consumer\.(consumerName|includes|excludes)|loader\.loaderName|mapper\[.*|"
    r"consumer\.source\.(sourceName|servers|topics|filter|blackFilter|heartbeatTable)|"
    r"loader\.source\.(sourceName|servers|topic|dynamicTopic|url)"
)
"""The keys that decide which rows a task takes, and where these go."""


@dataclass(frozen=True, slots=True)
class Unread:
    """A task that could not be read. `reason`: in words. `may_fetch`: it may be a fetch task."""

    reason: str
    may_fetch: bool = True


@dataclass(frozen=True, slots=True)
class Beside:
    """By file or id, a task itself included. `tasks`: may lack secrets, and have errors in keys
    that do not decide which rows go where. `unread`: their rows may go anywhere. `elsewhere`: those
    of `tasks` that are of another environment."""

    tasks: dict[str, FetchTask | LoadTask] = field(default_factory=dict)
    unread: dict[str, Unread] = field(default_factory=dict)
    elsewhere: set[str] = field(default_factory=set)

    @property
    def unread_feeds(self) -> dict[str, Unread]:
        """Those of the unread that may feed a consumer task."""
        return {place: each for place, each in self.unread.items() if each.may_fetch}


def shown(unread: Mapping[str, Unread]) -> str:
    """The unread tasks with their reasons."""
    return "; ".join(f"{place}: {each.reason}" for place, each in unread.items())


def refuse(unread: Mapping[str, Unread], what: str) -> None:
    """Raises ConfigError if there are unread tasks. `what`: what must know all tasks."""
    if unread:
        raise ConfigError(
            f"{what} is refused, as rows of tasks that cannot be read may go to the same tables: "
            f"{shown(unread)}. Correct what is wrong there and run it again; if it is no task that "
            "runs, move its file to another folder, or delete it in ZooKeeper"
        )


def tasks_beside(word: str, bus: BusSettings) -> Beside:
    """The tasks beside a task. A file that names neither a consumer nor a loader is none. Raises
    CdcError where they cannot be listed."""
    found = Beside()
    for place in _places(word, bus):
        try:
            inspection = inspected_beside(place, word, bus)
        except CdcError as error:
            found.unread[place] = Unread(_line(str(error)))
            continue
        _sort(place, inspection, found)
    return found


def _sort(place: str, inspection: Inspection, found: Beside) -> None:
    entries = inspection.entries
    if entries.keys().isdisjoint(KINDS):
        return
    bad = [each for each in inspection.diagnostics.found if _is_error(each)]
    # One that names no environment may be meant for this one.
    is_elsewhere = ENVIRONMENT in entries and any(each.key == ENVIRONMENT for each in bad)
    unclear = [each for each in bad if _hides_rows(each)]
    if inspection.draft is not None and not unclear:
        found.tasks[place] = inspection.draft
        if is_elsewhere:
            found.elsewhere.add(place)
    # Whatever is missing here may be there where it is meant for.
    elif not is_elsewhere:
        reasons = "; ".join(f"{each.key}: {each.sentence}" for each in unclear or bad)
        consumer, loader = (entries[key].value.strip() if key in entries else "" for key in KINDS)
        # Loaders into databases, porter's own included, write to no topic.
        is_feed = consumer != "KafkaFetch" and not loader.startswith("Jdbc")
        found.unread[place] = Unread(_line(reasons), is_feed)


def _is_error(each: Diagnostic) -> bool:
    return each.severity is Severity.ERROR or each.is_unfilled


def _hides_rows(each: Diagnostic) -> bool:
    """Whether it is unknown for this error which rows go where. An unknown key may be a misspelt
    one of those that decide."""
    return DECIDING.fullmatch(each.key) is not None or find_key(each.key) is None


def _line(text: str) -> str:
    return text.replace("\n", "; ")


def _places(word: str, bus: BusSettings) -> list[str]:
    if not is_file(word):
        return _stored_ids(bus)
    # Not those that begin with a dot, which are an editor's.
    files = set(Path(word).parent.glob("[!.]*.properties"))
    # The settings of all tasks may lie in the same folder.
    files.discard(Path(word).parent / FILE_NAME)
    return sorted(map(str, files))


def _similar_tasks(own_id: str, bus: BusSettings) -> list[FetchTask | LoadTask]:
    """The other tasks in ZooKeeper that can have a name of this one, of which a text can be read;
    they may lack secrets, and have errors in some keys. Raises PositionUnavailable,
    PositionError."""
    from cdcbus.tasks.zookeeper.dist_nodes import dist_nodes
    from cdcbus.tasks.zookeeper.source_registry import SourceNodes

    found = []
    with dist_nodes(bus.zookeeper, bus.zookeeper_auth) as nodes:
        # By one connection, and each source once.
        sources = cache(first_of(bus.local_source_lookup(), SourceNodes(nodes.client).get))
        for task_id in nodes.ids():
            # Of the others no text is read: there can be hundreds, each of which starts like this.
            if task_id == own_id or not may_share_names(own_id, task_id):
                continue
            try:
                dist = nodes.get(task_id)
                if dist is None:
                    continue
                draft = inspect_dist(dist, bus.filling, Severity.NOTE, sources).draft
            except PositionUnavailable:
                raise
            # Another task's text, or its source, is no reason to refuse this one.
            except (ConfigError, PositionError):
                continue
            if draft is not None:
                found.append(draft)
    return found


def refuse_others_names(task: FetchTask | LoadTask, bus: BusSettings) -> None:
    """Raises ConfigError for a task that commits to Kafka under a name of a stored task, and what
    `_similar_tasks` raises. Asks nothing for a task without transactions."""
    if has_names(task):
        refuse_same_names(task, _similar_tasks(task.task_id, bus))


def _stored_ids(bus: BusSettings) -> list[str]:
    """The tasks that were imported; others have only their state there."""
    from cdcbus.tasks.zookeeper.connection import connected
    from cdcbus.tasks.zookeeper.tasks import TaskNodes

    with connected(bus.zookeeper, auth=bus.zookeeper_auth) as client:
        nodes = TaskNodes(client)
        return [task_id for task_id in nodes.ids() if nodes.has_text(task_id)]


def inspected_beside(place: str, word: str, bus: BusSettings) -> Inspection:
    """A task beside the task of `word`. Raises CdcError when it cannot be read at all."""
    if is_file(word):
        file = Path(place)
        return inspect_task(file, bus.filling, Severity.NOTE, bus.source_lookup(file))
    return inspect_stored(place, bus, Severity.NOTE)
