"""The tasks that ZooKeeper holds: porter's dist nodes."""

from __future__ import annotations

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError

from cdcbus.plugins.errors import PositionError, PositionUnavailable
from cdcbus.tasks.positions import LOST, ROOT

TASKS = f"{ROOT}/task"


def stored_dists(client: KazooClient) -> dict[str, str]:
    """The text of each dist node, by its path; read only. A task has one node for each swimlane."""
    try:
        folders = [f"{TASKS}/{task_id}/dist" for task_id in _children(client, TASKS)]
        paths = [f"{folder}/{swimlane}" for folder in folders for swimlane in _children(client, folder)]
        return {path: client.get(path)[0].decode("utf-8", "replace") for path in paths}
    except NoAuthError as error:
        raise PositionError(f"ZooKeeper does not let this user read all of {TASKS}; check its ACL") from error
    except LOST as error:
        raise PositionUnavailable(f"ZooKeeper does not answer for {TASKS}; check that the server runs") from error


def _children(client: KazooClient, path: str) -> list[str]:
    try:
        return sorted(client.get_children(path))
    except NoNodeError:
        return []
