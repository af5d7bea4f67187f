"""All that the overview reads of many tasks, asked for before the first answer is waited for: one
by one, 500 tasks are 4,000 questions, each as long as the way to ZooKeeper and back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from cdcbus.tasks.zookeeper.dist_nodes import dist_path
from cdcbus.tasks.zookeeper.lock import lock_path
from cdcbus.tasks.zookeeper.tasks import TASKS
from cdcbus.tasks.zookeeper.znode import answer, groups, reported

OF_A_TASK = ("wanted", "claim", "state", "stat", "letters", "alarm", "alarm/silence")


class ReadAhead:
    """A client for the readers of znodes: it answers from what was read ahead, and asks ZooKeeper
    for the rest. What was read is of one moment, so it is made anew for each look."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client
        self._nodes: dict[str, Any] = {}
        self._children: dict[str, Any] = {}

    def get_async(self, path: str, watch: Any = None) -> Any:
        known = self._nodes.get(path) if watch is None else None
        return self._client.get_async(path, watch=watch) if known is None else known

    def get_children_async(self, path: str, watch: Any = None) -> Any:
        known = self._children.get(path) if watch is None else None
        return self._client.get_children_async(path, watch=watch) if known is None else known

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def read(self, nodes: Iterable[str], folders: Iterable[str] = ()) -> None:
        """Asks for znodes, and for the names in folders. Raises PositionUnavailable."""
        for known, paths, ask in (
            (self._nodes, nodes, self._client.get_async),
            (self._children, folders, self._client.get_children_async),
        ):
            for group in groups(paths):
                requests = {path: ask(path) for path in group}
                # Answers come in the order of the questions: behind the last one all are there.
                for path, request in reversed(requests.items()):
                    with reported(path):
                        _wait(request)
                known.update(requests)

    def names(self, folder: str) -> Sequence[str]:
        """The names in a folder that was read; none where it is not there."""
        try:
            found: Sequence[str] = answer(self._children[folder])
        except NoNodeError:
            return ()
        return found


def tasks_ahead(client: KazooClient, task_ids: Sequence[str]) -> ReadAhead:
    """With everything that an overview shows of these tasks but their minutes."""
    ahead = ReadAhead(client)
    nodes = [f"{TASKS}/{task_id}/{name}" for task_id in task_ids for name in OF_A_TASK]
    folders = [place for task_id in task_ids for place in (dist_path(task_id), lock_path(task_id))]
    ahead.read(nodes, folders)
    ahead.read(f"{folder}/{name}" for folder in folders for name in ahead.names(folder))
    return ahead


def texts_ahead(client: KazooClient, task_ids: Sequence[str]) -> ReadAhead:
    """With the texts of these tasks alone."""
    ahead = ReadAhead(client)
    folders = [dist_path(task_id) for task_id in task_ids]
    ahead.read((), folders)
    ahead.read(f"{folder}/{name}" for folder in folders for name in ahead.names(folder))
    return ahead


def _wait(request: Any) -> None:
    try:
        answer(request)
    except NoNodeError:
        return
