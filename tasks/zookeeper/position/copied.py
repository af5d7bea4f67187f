"""The stored positions of a task, for a copy of it under another id."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

from kazoo.client import KazooClient

from cdcbus.consumer.offsets.known import known_partitions
from cdcbus.plugins.contracts import Mark, PositionStore, Written
from cdcbus.plugins.errors import PositionError
from cdcbus.plugins.positions import kafka_positions_from_json, kafka_positions_to_json
from cdcbus.tasks.zookeeper.position.history import positions_of
from cdcbus.tasks.zookeeper.position.store import ZooKeeperPositions
from cdcbus.tasks.zookeeper.position.written import written_to_json
from cdcbus.tasks.zookeeper.position.znodes import position_path, written_path
from cdcbus.tasks.zookeeper.znode import answer


def positions_to_copy(client: KazooClient, task_id: str) -> dict[str, tuple[str, Written]]:
    """The task's positions by swimlane, each with what the copy is to have written itself. Raises
    PositionError, PositionUnavailable."""
    found = {}
    for swimlane in positions_of(client, task_id):
        with closing(ZooKeeperPositions(client, task_id, swimlane)) as store:
            text = store.load()
            # A blank position is as good as none.
            if text is not None:
                found[swimlane] = text, written_by_copy(swimlane, text, store)
    return found


def written_by_copy(swimlane: str, text: str, store: PositionStore) -> Written:
    """What the copy is to have written itself. `text`: as loaded from the store. What somebody has
    set for the task is set for the copy as well; what comes before the rest is of the same topic,
    read by the same rules. A target knows the copy's id not yet, so it keeps nothing of it."""
    if store.written is None:
        return Written(text)
    position, mark = store.written.position, store.written.mark
    unread = mark.unread
    try:
        known = known_partitions(swimlane, text, store, {}, {}, {})
        edited = {partition.partition for partition, each in known.items() if each.is_edited}
        if position != "[]":
            position = kafka_positions_to_json(
                each for each in kafka_positions_from_json(position) if each.partition not in edited
            )
        unread = {number: own for number, own in unread.items() if number not in edited}
    except PositionError:
        # Of a binlog, or unusable: it has no parts that are set on their own.
        pass
    return Written(
        position, Mark(topic_id=mark.topic_id, last=mark.last, unread=unread, rules=mark.rules)
    )


def create_positions(
    client: KazooClient,
    transaction: Any,
    task_id: str,
    positions: Mapping[str, tuple[str, Written]],
) -> None:
    """Adds to a transaction the positions of a task that has none yet, by swimlane, each with what
    the task counts as having written itself. Raises what kazoo raises."""
    for directory in (position_path(task_id), written_path(task_id)):
        answer(client.ensure_path_async(directory))
    for swimlane, (text, written) in positions.items():
        transaction.create(position_path(task_id, swimlane), text.encode())
        transaction.create(written_path(task_id, swimlane), written_to_json(written))
