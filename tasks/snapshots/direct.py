"""`/datas/task/<id>/snapshot/direct`: the direct load of a consumer task. Below it, in `tables`,
stands how far each table is, as for any snapshot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kazoo.client import KazooClient

from cdcbus.plugins.errors import ConfigError, PositionError
from cdcbus.plugins.positions import BinlogPosition, TopicPartition
from cdcbus.producer.snapshot.progress import UNFINISHED
from cdcbus.tasks.snapshots.store import snapshot_path, tables_of
from cdcbus.tasks.zookeeper.znode import drop_node, get_children, get_node, put_node

NAME = "direct"
"""Where other snapshots have their swimlane."""


@dataclass(frozen=True, slots=True)
class DirectLoad:
    """`offsets`: where the topics ended before anything was read: the task goes on from there.
    `seen`: by fetch task, the place in the binlog before which all was to be seen by then.
    `is_done`: the task's position is set."""

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    seen: Mapping[str, BinlogPosition] = field(default_factory=dict)
    is_done: bool = False

    def to_fields(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {
            "offsets": [[*partition, offset] for partition, offset in self.offsets.items()],
            "topicIds": dict(self.topic_ids),
            "seen": {task: position.to_json() for task, position in self.seen.items()},
            "done": self.is_done,
        }

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> DirectLoad:
        """Reads what `to_fields` gives. Raises ValueError, PositionError."""
        try:
            return cls(
                {TopicPartition(topic, number): end for topic, number, end in fields["offsets"]},
                fields["topicIds"],
                {task: BinlogPosition.from_json(text) for task, text in fields["seen"].items()},
                fields["done"],
            )
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not a direct load: {error}") from error


def direct_path(task_id: str) -> str:
    """Its znode."""
    return snapshot_path(task_id, NAME)


def direct_load(client: KazooClient, task_id: str) -> DirectLoad | None:
    """The task's direct load, None where there is none. Raises PositionError,
    PositionUnavailable."""
    path = direct_path(task_id)
    node = get_node(client, path)
    if node is None or not node.fields:
        return None
    try:
        return DirectLoad.from_fields(node.fields)
    except ValueError as error:
        raise PositionError(
            f"{path}: {error}; delete it, empty the target tables, and begin the direct load anew"
        ) from error


def put_direct_load(client: KazooClient, task_id: str, load: DirectLoad) -> None:
    """Stores it."""
    put_node(client, direct_path(task_id), load.to_fields())


def forget_direct_load(client: KazooClient, task_id: str) -> None:
    """With what is known of its tables; the mark itself goes last."""
    path = direct_path(task_id)
    for name in get_children(client, f"{path}/tables"):
        drop_node(client, f"{path}/tables/{name}")
    drop_node(client, f"{path}/tables")
    drop_node(client, path)


def refuse_unfinished(client: KazooClient, task_id: str) -> None:
    """Raises ConfigError where a direct load of the task was begun and is not done: rows of its
    tables are missing at the target, and no position of the task brings them."""
    load = direct_load(client, task_id)
    if load is None or load.is_done:
        return
    tables = tables_of(client, direct_path(task_id))
    left = sorted(str(table) for table, each in tables.items() if each.state in UNFINISHED)
    raise ConfigError(
        f"the direct load of task {task_id} is not finished"
        + f" ({', '.join(left)} left)" * bool(left)
        + f": cdcbus snapshot run {task_id} --direct goes on with it; or cdcbus snapshot stop "
        f"{task_id} gives it up"
    )
