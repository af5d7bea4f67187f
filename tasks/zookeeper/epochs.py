"""The epoch of a fetch task's swimlane: a number in `/datas/task/<id>/epoch/<swimlane>` that grows
with each holder of its lock.

Each epoch is at least the time in milliseconds, so that epochs keep growing if the znode is lost or
the task moves to another ZooKeeper. A task's first one is higher than all that any task of this bus
has had, as `/datas/epoch` says: it can have been removed and stored again, and the clock that gave
its last epoch can have been ahead. Consumers would leave out all records until that time had come.
"""

from __future__ import annotations

import time

from kazoo.client import KazooClient

from cdcbus.plugins.errors import PositionConflict
from cdcbus.tasks.zookeeper.connection import ROOT
from cdcbus.tasks.zookeeper.lock import lock_path
from cdcbus.tasks.zookeeper.znode import (
    JsonNode,
    Turn,
    answer,
    get_node,
    is_done,
    is_own,
    reported,
    turn_of,
)

HIGHEST = f"{ROOT}/epoch"
"""The znode of a number that no epoch of this bus exceeds."""
# How far that number is set ahead of the clock, so that tasks which have an epoch, and start
# together, do not all write it.
AHEAD_MS = 60_000


def epoch_path(task_id: str, swimlane: str) -> str:
    """The znode of a swimlane's epoch."""
    return f"{ROOT}/task/{task_id}/epoch/{swimlane}"


def bus_identity(client: KazooClient) -> str:
    """What identifies the tree of this bus among those of other ZooKeepers and chroots, whose
    epochs say nothing about its own. A restored copy of the ZooKeeper is the same bus, a tree that
    was copied to another one is not. Raises PositionUnavailable."""
    with reported(ROOT):
        stat = answer(client.exists_async(ROOT))
    # Change numbers are small in young ensembles, so the time tells two of these apart.
    return f"{stat.czxid}/{stat.ctime}"


def next_epoch(client: KazooClient, task_id: str, swimlane: str) -> int:
    """A new epoch for this client, which must hold the lock: higher than those of all earlier
    holders. Raises PositionConflict if another process holds the lock, and PositionUnavailable.

    The lock's znode is written in the same transaction, which names its version and that of its
    folder: the former changes with each epoch, the latter with each holder. A process that has lost
    the lock therefore never gets a higher epoch than its successor: it is refused, or the successor
    tries again.
    """
    path, lock = epoch_path(task_id, swimlane), lock_path(task_id, swimlane)
    while True:
        turn = turn_of(client, lock)
        node = get_node(client, lock)
        if turn is None or node is None or not is_own(client, node):
            raise PositionConflict(f"{lock} is not held by this process any longer; waiting for it")
        with reported(path):
            # With an empty znode, the first epoch is a write like any other, which names a version.
            for each in (path, HIGHEST):
                answer(client.ensure_path_async(each))
            if (epoch := _advanced(client, turn, node, path)) is not None:
                return epoch


def _advanced(client: KazooClient, turn: Turn, lock: JsonNode, path: str) -> int | None:
    """The new epoch; None if one of the znodes changed meanwhile."""
    data, stat = answer(client.get_async(path))
    highest_data, highest_stat = answer(client.get_async(HIGHEST))
    highest = _number(highest_data) or 0
    last = _number(data)
    if last is None:
        last = highest
    now_ms = time.time_ns() // 1_000_000
    number = max(last + 1, now_ms)
    # The content stays the same: the write makes the lock's version part of the transaction.
    lock_data = answer(client.get_async(lock.path))[0]
    transaction = client.transaction()
    transaction.check(lock.path.rpartition("/")[0], turn.version)
    transaction.set_data(lock.path, lock_data, lock.version)
    transaction.set_data(path, str(number).encode(), stat.version)
    if number > highest:
        # Never further ahead of the clock: if ZooKeeper loses it, epochs go on by that.
        data = str(max(number, now_ms + AHEAD_MS)).encode()
        transaction.set_data(HIGHEST, data, highest_stat.version)
    return number if is_done(answer(transaction.commit_async())) else None


def _number(data: bytes) -> int | None:
    """None for an empty znode, and a damaged one."""
    return int(data) if data.strip().isdigit() else None
