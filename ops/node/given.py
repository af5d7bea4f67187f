"""What operators have given a task: its text, and a place to start from. A task that waits, for a
person or for its next start, is started at once when that has changed."""

from __future__ import annotations

from collections.abc import Iterator

from kazoo.client import KazooClient

from cdcbus.tasks.snapshots.store import snapshot_path
from cdcbus.tasks.zookeeper.dist_nodes import dist_path
from cdcbus.tasks.zookeeper.position_history import history_path
from cdcbus.tasks.zookeeper.positions import position_path, written_path
from cdcbus.tasks.zookeeper.znode import get_children, get_node


def given(client: KazooClient, task_id: str) -> str:
    """It as ZooKeeper's change numbers. What the task itself has written is no part of it. Raises
    PositionUnavailable, PositionError."""
    return ",".join(map(str, _changes(client, task_id)))


def _changes(client: KazooClient, task_id: str) -> Iterator[int]:
    for swimlane in get_children(client, dist_path(task_id)):
        yield _change(client, f"{dist_path(task_id)}/{swimlane}")
    for swimlane in get_children(client, position_path(task_id)):
        position = _change(client, position_path(task_id, swimlane))
        is_own = position == _change(client, written_path(task_id, swimlane))
        yield 0 if is_own else position
    for swimlane in get_children(client, history_path(task_id)):
        yield _change(client, f"{history_path(task_id)}/{swimlane}")
    yield _change(client, f"{snapshot_path(task_id)}/direct")  # a load that was finished


def _change(client: KazooClient, path: str) -> int:
    node = get_node(client, path)
    return 0 if node is None else node.mzxid
