"""`/datas/task/<id>/snapshot/direct`: the direct load of a consumer task. Below it, `tables` holds
the progress of each table, as for any snapshot."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from kazoo.client import KazooClient

from cdcbus.plugins.errors import ConfigError, PositionError
from cdcbus.plugins.positions import (
    BinlogPosition,
    TopicPartition,
    kafka_positions_from_json,
)
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.schema.history_codec import entry_name
from cdcbus.producer.snapshot.progress import UNFINISHED, SnapshotStore, TableProgress
from cdcbus.tasks.snapshots.store import snapshot_path, tables_of
from cdcbus.tasks.zookeeper.position.history import positions_of
from cdcbus.tasks.zookeeper.znode import drop_node, get_children, get_node, put_node

NAME = "direct"
"""The path element where other snapshots have their swimlane."""


@dataclass(frozen=True, slots=True)
class DirectLoad:
    """The direct load of a task. `offsets`: where the topics ended before anything was read, and
    where the task continues. `seen`: by fetch task, a position in the binlog before which all
    changes were visible to readers by then. `is_done`: the task's position is set. `given`: what
    the chunks depend on, as `tasks/direct/given.py` says; empty in loads of earlier versions.
    `is_void`: its progress no longer tells what the target has, as the load is begun anew or given
    up. It stays unfinished, and is never continued. `is_given_up`: by an operator; then a position
    that is set also lets the task start. `tables`: how many it has, by which lost progress is
    noticed; 0 in loads of earlier versions. `looked`: by fetch task, the place up to which the
    source's binlog has no statement that gave a loaded table other rows. `commits`: how many
    transactions each reader of chunks has committed, by its number."""

    offsets: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    seen: Mapping[str, BinlogPosition] = field(default_factory=dict)
    is_done: bool = False
    given: Mapping[str, str] = field(default_factory=dict)
    is_void: bool = False
    tables: int = 0
    is_given_up: bool = False
    looked: Mapping[str, BinlogPosition] = field(default_factory=dict)
    commits: Mapping[int, int] = field(default_factory=dict)

    def to_fields(self) -> dict[str, Any]:
        """The fields of the znode."""
        return {
            # Lists, as JSON's names are texts only.
            "offsets": [[*partition, offset] for partition, offset in self.offsets.items()],
            "topicIds": dict(self.topic_ids),
            "seen": {task: position.to_json() for task, position in self.seen.items()},
            "done": self.is_done,
            "given": dict(self.given),
            "void": self.is_void,
            "tables": self.tables,
            "givenUp": self.is_given_up,
            "looked": {task: position.to_json() for task, position in self.looked.items()},
            "commits": {str(reader): count for reader, count in self.commits.items()},
        }

    @classmethod
    def from_fields(cls, fields: Mapping[str, Any]) -> DirectLoad:
        """Reads the output of `to_fields`. Raises ValueError, PositionError."""
        offsets = {}
        try:
            for topic, number, offset in fields["offsets"]:
                offsets[TopicPartition(topic, number)] = offset
            return cls(
                offsets,
                fields["topicIds"],
                _places(fields["seen"]),
                fields["done"],
                fields.get("given", {}),
                # Missing in loads of earlier versions.
                fields.get("void", False),
                fields.get("tables", 0),
                fields.get("givenUp", False),
                _places(fields.get("looked", {})),
                {int(reader): int(count) for reader, count in fields.get("commits", {}).items()},
            )
        except (TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"not a direct load: {error}") from error


def _places(fields: Mapping[str, str]) -> dict[str, BinlogPosition]:
    return {task: BinlogPosition.from_json(text) for task, text in fields.items()}


def direct_path(task_id: str) -> str:
    """The znode of a task's direct load."""
    return snapshot_path(task_id, NAME)


def direct_load(client: KazooClient, task_id: str) -> DirectLoad | None:
    """The task's direct load; None if it has none. Raises PositionError, PositionUnavailable."""
    path = direct_path(task_id)
    node = get_node(client, path)
    # Without fields it is only the parent of the progress, which is stored first.
    if node is None or not node.fields:
        return None
    try:
        return DirectLoad.from_fields(node.fields)
    except ValueError as error:
        raise PositionError(
            f"{path}: {error}; it may be of a newer cdcbus: run that one. Otherwise delete it, "
            "empty the target tables, and start the direct load again"
        ) from error


def put_direct_load(client: KazooClient, task_id: str, load: DirectLoad) -> None:
    """Stores the task's direct load."""
    put_node(client, direct_path(task_id), load.to_fields())


def void_direct_load(client: KazooClient, task_id: str, load: DirectLoad) -> None:
    """Marks the task's unfinished load as void, by one write."""
    put_direct_load(client, task_id, replace(load, is_void=True))


def begin_direct_load(
    client: KazooClient,
    store: SnapshotStore,
    task_id: str,
    load: DirectLoad,
    tables: Mapping[TableId, TableProgress],
) -> None:
    """Stores a new direct load in place of an earlier one. If that is unfinished, it stays so
    until the new one counts: else a task could start between the two, on empty tables. It must be
    void: the progress of some tables is the new one's before that."""
    store.save(tables)
    _forget_tables(client, task_id, tables)
    put_direct_load(client, task_id, load)


def give_up_direct_load(client: KazooClient, task_id: str, load: DirectLoad) -> None:
    """Gives the task's unfinished load up, and deletes the progress of its tables. The load itself
    stays: its offsets are in the target, and the task would start from them on tables that hold
    some of the rows. An interrupted call can be repeated."""
    put_direct_load(client, task_id, replace(load, is_void=True, is_given_up=True))
    _forget_tables(client, task_id)


def _forget_tables(client: KazooClient, task_id: str, kept: Collection[TableId] = ()) -> None:
    """Deletes the progress of all tables but these."""
    path = f"{direct_path(task_id)}/tables"
    names = set(map(entry_name, kept))
    for name in get_children(client, path):
        if name not in names:
            drop_node(client, f"{path}/{name}")


def refuse_unfinished(
    client: KazooClient,
    task_id: str,
    topics: Collection[str] = (),
    read: Callable[[], Collection[TopicPartition]] | None = None,
) -> None:
    """Raises ConfigError if a direct load of the task was begun and is not done: rows of its tables
    are missing at the target, and no position of the task would bring them. A load that was given
    up is forgotten if each of its partitions, and each of the task's topics, has a position: an
    operator has set it. `read` asks Kafka for the partitions that the task reads: those of the load
    that are gone, or not read any more, need none. A ConfigError of it counts
    as no answer; a BusError is raised."""
    load = direct_load(client, task_id)
    if load is None or load.is_done:
        return
    if load.is_given_up and _are_set(positions_of(client, task_id), topics, load.offsets, read):
        _forget_tables(client, task_id)
        drop_node(client, f"{direct_path(task_id)}/tables")
        drop_node(client, direct_path(task_id))
        return
    raise ConfigError(state_of(client, task_id, load))


def _are_set(
    stored: Mapping[str, str | None],
    topics: Collection[str],
    loaded: Iterable[TopicPartition],
    read: Callable[[], Collection[TopicPartition]] | None,
) -> bool:
    """Whether each topic has a position, and each of the loaded partitions of them that is read."""
    found: set[TopicPartition] = set()
    for topic in topics:
        try:
            positions = kafka_positions_from_json(stored.get(topic) or "")
        except PositionError:
            return False
        found.update(position.topic_partition for position in positions)
    missing = {partition for partition in loaded if partition.topic in topics} - found
    if missing and read is not None:
        # Without its topics each of them is needed.
        with suppress(ConfigError):
            missing.intersection_update(read())
    return bool(topics) and not missing


def state_of(client: KazooClient, task_id: str, load: DirectLoad) -> str:
    """The sentence about a load that is not done: why the task does not start, and what to do."""
    what = f"the direct load of task {task_id}"
    again = f"cdcbus snapshot run {task_id} --direct"
    if load.is_given_up:
        return (
            f"{what} was given up, and its target tables hold some of the rows: empty them, and "
            f"load them again ({again}), or set the task's position (cdcbus offset reset "
            f"{task_id}): without one the task would continue from where the load began"
        )
    stop = f"cdcbus snapshot stop {task_id} abandons it"
    if load.is_void:
        return (
            f"{what} is not finished: it is void, and a new one has not begun: empty the target "
            f"tables, and load them by {again}; {stop}"
        )
    left = []
    for table, progress in tables_of(client, direct_path(task_id)).items():
        if progress.state in UNFINISHED:
            left.append(str(table))
    are_left = f" ({', '.join(sorted(left))} left)" * bool(left)
    return f"{what} is not finished{are_left}: {again} continues it; {stop}"
