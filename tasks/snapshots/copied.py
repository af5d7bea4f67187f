"""The snapshots of a fetch task, for a copy of it under another id, and for one that gets its
position alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import orjson
from kazoo.client import KazooClient

from cdcbus.plugins.errors import ConfigError, PositionConflict
from cdcbus.producer.config import SnapshotMode
from cdcbus.producer.snapshot.progress import PENDING, UNFINISHED, TableState
from cdcbus.tasks.snapshots.direct import NAME, direct_load
from cdcbus.tasks.snapshots.store import BEGUN, KNOWN, snapshot_path, tables_of
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes
from cdcbus.tasks.zookeeper.lock import left_lock, live
from cdcbus.tasks.zookeeper.tasks import TaskNodes
from cdcbus.tasks.zookeeper.znode import answer, get_children, get_nodes, is_done

# Of what one transaction creates: the text and the positions of the copy fit into the last one.
GROUP_BYTES = 256 << 10
_LEFT: Final = UNFINISHED | PENDING


def snapshots_to_copy(client: KazooClient, task_id: str) -> dict[str, Mapping[str, Any]]:
    """The fields of each znode of the task's snapshots, by its path below `snapshot_path`; those of
    a direct load are of the target, not of a task's progress. Raises ConfigError while the task
    reads snapshots: no place in the binlog belongs to what is read of them now."""
    found: dict[str, Mapping[str, Any]] = {}

    def read(*below: str) -> None:
        nodes = get_nodes(client, [snapshot_path(task_id, each) for each in below])
        for path, node in nodes.items():
            found[path.removeprefix(f"{snapshot_path(task_id)}/")] = node.fields

    for swimlane in get_children(client, snapshot_path(task_id)):
        if swimlane == NAME and direct_load(client, task_id) is not None:
            continue
        read(f"{swimlane}/{BEGUN}")
        # Wishes first: the task stores what it has made of one before it deletes it.
        for folder in (f"{swimlane}/wishes", f"{swimlane}/{KNOWN}", f"{swimlane}/tables"):
            names = get_children(client, snapshot_path(task_id, folder))
            read(*(f"{folder}/{name}" for name in names))
    left = [path for path, fields in found.items() if "/wishes/" in path or _is_left(fields)]
    locks = TaskNodes(client).locks(task_id)
    if left and not live(locks) and (stale := left_lock(task_id, locks)):
        raise ConfigError(stale)
    if left and locks:
        raise ConfigError(
            f"task {task_id} runs, and its snapshots are not done: a copy would have parts of them "
            f"that do not fit its position; stop it first: cdcbus task stop {task_id}"
        )
    return found


def _is_left(fields: Mapping[str, Any]) -> bool:
    return str(fields.get("state")) in _LEFT


def create_snapshots(
    client: KazooClient,
    transaction: Any,
    task_id: str,
    snapshots: Mapping[str, Mapping[str, Any]],
) -> None:
    """Adds to a transaction the snapshots of a task that has none yet. What is too much for one
    request is written before it: a copy that is interrupted then has no text. Raises
    PositionConflict, and what kazoo raises."""
    groups: list[dict[str, bytes]] = [{}]
    size = 0
    for below, fields in snapshots.items():
        folder, _, name = snapshot_path(task_id, below).rpartition("/")
        # ZooKeeper numbers later wishes from 0 on, and they come after these.
        path = f"{folder}/+{name}" if folder.endswith("/wishes") else f"{folder}/{name}"
        data = orjson.dumps(fields)
        size += len(path) + len(data)
        if size > GROUP_BYTES and groups[-1]:
            groups.append({})
            size = len(path) + len(data)
        groups[-1][path] = data
    for folder in {path.rpartition("/")[0] for group in groups for path in group}:
        answer(client.ensure_path_async(folder))
    *before, last = groups
    for group in before:
        first = client.transaction()
        _create(first, group)
        if not is_done(answer(first.commit_async())):
            raise PositionConflict(
                f"{snapshot_path(task_id)} was written by somebody else at the same time; check it "
                "and try again"
            )
    _create(transaction, last)


def _create(transaction: Any, nodes: Mapping[str, bytes]) -> None:
    for path, data in nodes.items():
        transaction.create(path, data)


def sent_without(
    client: KazooClient, task_id: str, other_id: str, swimlanes: Iterable[str]
) -> list[str]:
    """The tables whose rows the task has sent, and that another task, which gets its position,
    would send as well."""
    is_for_snapshots = _is_for_snapshots(client, other_id)
    found = []
    for swimlane in swimlanes:
        others = tables_of(client, snapshot_path(other_id, swimlane))
        for table, progress in tables_of(client, snapshot_path(task_id, swimlane)).items():
            if not progress.rows and progress.state is not TableState.DONE:
                continue
            other = others.get(table)
            if other is None or other.is_part:
                is_sent = is_for_snapshots
            else:
                is_sent = other.state in _LEFT and other != progress
            if is_sent:
                found.append(str(table))
    return found


def _is_for_snapshots(client: KazooClient, task_id: str) -> bool:
    """Whether the task sends tables without progress; it may where its text is not known."""
    try:
        dist = DistNodes(client).get(task_id)
    except ConfigError:
        dist = None
    if dist is None:
        return True
    consumer = dist.get("consumer")
    mode = consumer.get("snapshot") if isinstance(consumer, dict) else None
    return mode not in (None, "", SnapshotMode.NEVER)
