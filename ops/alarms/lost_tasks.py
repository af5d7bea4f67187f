"""Tasks that a node ran, and of which ZooKeeper holds nothing any more, though nobody has removed
them: as where it comes back empty, or another one is behind its address. It answers, so nothing
else tells that all tasks stand still."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field

from kazoo.client import KazooClient

from cdcbus.plugins.errors import PositionError
from cdcbus.tasks.first_of import first_of
from cdcbus.tasks.zookeeper.audit import actions, removed_tasks
from cdcbus.tasks.zookeeper.connection import is_silence
from cdcbus.tasks.zookeeper.tasks import TaskNodes

# Of the tasks in a sentence; the others are counted.
NAMED = 5


@dataclass(slots=True)
class LostTasks:
    """What a node knows of them, until the node ends. Used on one thread."""

    # Those that the node had last, as far as is known.
    _had: set[str] = field(default_factory=set)
    # When each was seen to be lost, in epoch seconds.
    _lost: dict[str, float] = field(default_factory=dict)

    def note(self, task_id: str) -> None:
        """The node has this task."""
        self._had.add(task_id)

    def forget(self, task_id: str) -> None:
        """Another node has this task by now."""
        self._had.discard(task_id)

    def look(self, client: KazooClient, kept_seconds: float) -> tuple[str, float]:
        """What is told of the tasks that were lost within the last `kept_seconds`, and when the
        last of them was; empty where none was. Raises PositionUnavailable."""
        tasks = TaskNodes(client)
        now = time.time()
        gone = {task_id for task_id in self._had if not tasks.has_text(task_id)}
        removed = _removed(client) if gone else set()
        # Else they are looked at again, as nothing says yet whether they were removed.
        if removed is not None:
            for task_id in gone - removed:
                self._lost[task_id] = now
            self._had -= gone
        for task_id, at in list(self._lost.items()):
            if not 0 <= now - at < kept_seconds or tasks.has_text(task_id):
                del self._lost[task_id]
        if not self._lost:
            return "", 0.0
        sentence = (
            f"ZooKeeper holds nothing any more of {named(sorted(self._lost))}, which ran here, and "
            "no `cdcbus task rm` has removed: it was emptied, restored from an older backup, or "
            "another one is behind its address; check the address and its data, then import and "
            "start what is missing, which stands still until then"
        )
        return sentence, max(self._lost.values())


def _removed(client: KazooClient) -> set[str] | None:
    """The tasks that operators have removed; None where ZooKeeper refuses the audit. Raises
    PositionUnavailable."""
    try:
        return removed_tasks(actions(client))
    except PositionError as error:
        if is_silence(error):
            raise
        return None


def named(task_ids: Collection[str]) -> str:
    """Some tasks in a sentence."""
    return f"{'task' if len(task_ids) == 1 else 'tasks'} {first_of(task_ids, NAMED)}"
