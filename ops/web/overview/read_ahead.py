"""Reads what the overview or the metrics show of many tasks, and sends all requests before it waits
for the first answer: one by one, 500 tasks would be 4,000 round trips to ZooKeeper."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from cdcbus.tasks.zookeeper.connection import REFUSED
from cdcbus.tasks.zookeeper.dist_nodes import dist_path
from cdcbus.tasks.zookeeper.lock import lock_path
from cdcbus.tasks.zookeeper.tasks import TASKS
from cdcbus.tasks.zookeeper.znode import answer, groups, reported

OF_A_TASK = ("wanted", "claim", "state", "stat", "letters")
OF_AN_OVERVIEW = (*OF_A_TASK, "alarm", "alarm/silence")
OF_METRICS = (*OF_A_TASK, "error", "verify")


class ReadAhead:
    """A client for the readers of znodes: it answers from what was read ahead, and asks ZooKeeper
    for the rest. What was read is of one moment, so each look makes a new one."""

    def __init__(self, client: KazooClient) -> None:
        self._client = client
        self._nodes: dict[str, Any] = {}
        self._children: dict[str, Any] = {}

    def get_async(self, path: str, watch: Any = None) -> Any:
        # A watch can only be set by ZooKeeper itself.
        if watch is None and path in self._nodes:
            return self._nodes[path]
        return self._client.get_async(path, watch=watch)

    def get_children_async(self, path: str, watch: Any = None) -> Any:
        if watch is None and path in self._children:
            return self._children[path]
        return self._client.get_children_async(path, watch=watch)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def read(self, nodes: Iterable[str], folders: Iterable[str] = ()) -> None:
        """Reads znodes, and the names in folders. Raises PositionUnavailable."""
        for group in groups(nodes):
            self._nodes.update(_answered(group, self._client.get_async))
        for group in groups(folders):
            self._children.update(_answered(group, self._client.get_children_async))

    def names(self, folder: str) -> Sequence[str]:
        """The names in a folder that was read; none where it does not exist, or is refused."""
        try:
            found: Sequence[str] = answer(self._children[folder])
        except (NoNodeError, *REFUSED):
            return ()
        return found


def tasks_ahead(client: KazooClient, task_ids: Sequence[str]) -> ReadAhead:
    """A client with everything that an overview shows of these tasks, except their minutes."""
    return _ahead(client, task_ids, OF_AN_OVERVIEW, (dist_path, lock_path))


def metrics_ahead(client: KazooClient, task_ids: Sequence[str]) -> ReadAhead:
    """A client with everything that the metrics of these tasks say."""
    return _ahead(client, task_ids, OF_METRICS, (lock_path,))


def _ahead(
    client: KazooClient,
    task_ids: Sequence[str],
    names: Sequence[str],
    folders_of: Sequence[Callable[[str], str]],
) -> ReadAhead:
    ahead = ReadAhead(client)
    nodes = []
    folders = []
    for task_id in task_ids:
        for name in names:
            nodes.append(f"{TASKS}/{task_id}/{name}")
        for folder_of in folders_of:
            folders.append(folder_of(task_id))
    # Two rounds: what is in the folders is known only after the first.
    ahead.read(nodes, folders)
    ahead.read(_inside(ahead, folders))
    return ahead


def texts_ahead(client: KazooClient, task_ids: Sequence[str]) -> ReadAhead:
    """A client with the texts of these tasks only."""
    ahead = ReadAhead(client)
    folders = list(map(dist_path, task_ids))
    ahead.read((), folders)
    ahead.read(_inside(ahead, folders))
    return ahead


def _inside(ahead: ReadAhead, folders: Iterable[str]) -> Iterator[str]:
    """The paths of all znodes in folders that were read."""
    for folder in folders:
        for name in ahead.names(folder):
            yield f"{folder}/{name}"


def _answered(paths: Sequence[str], ask: Callable[[str], Any]) -> dict[str, Any]:
    """Asks for all paths, then waits for the answers."""
    requests = {path: ask(path) for path in paths}
    # Answers arrive in the order of the requests: once the last one is here, all are.
    for path, request in reversed(requests.items()):
        with reported(path):
            _wait(request)
    return requests


def _wait(request: Any) -> None:
    try:
        answer(request)
    except (NoNodeError, *REFUSED):
        # These are answers as well: the reader of the path gets them again.
        return
