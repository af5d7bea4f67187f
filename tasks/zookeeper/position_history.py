"""Positions that operators set by command, with what was there before: the newest HISTORY of each
swimlane, in ZooKeeper, HISTORY_BYTES at most.

`/datas/task/<id>/history/<swimlane>` holds `{"changes":[{"at","by","how","before","after"}, ...]}`,
the newest last. A position and the note of its change are written together or not at all. A
position of null: there was none.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import orjson
from kazoo.client import KazooClient

from cdcbus.plugins.errors import ConfigError, PositionConflict
from cdcbus.plugins.positions import kafka_positions_from_json, kafka_positions_to_json
from cdcbus.tasks.zookeeper.audit import audited
from cdcbus.tasks.zookeeper.positions import (
    ROOT,
    position_path,
    stored_positions,
    written_from_json,
    written_path,
    written_to_json,
)
from cdcbus.tasks.zookeeper.znode import answer, get_children, get_node, now, reported

HISTORY = 50
HISTORY_BYTES = 256 << 10  # ZooKeeper takes 1 MB; the newest change is kept in any case


def history_path(task_id: str, swimlane: str = "") -> str:
    """The node of a swimlane, or the directory of all of a task's."""
    return f"{ROOT}/task/{task_id}/history" + (f"/{swimlane}" if swimlane else "")


@dataclass(frozen=True, slots=True)
class Change:
    """One position that was set: when (UTC), by whom, by which command."""

    at: str
    by: str
    how: str
    before: str | None
    after: str


def histories(client: KazooClient, task_id: str) -> dict[str, list[Change]]:
    """The changes of each swimlane, oldest first. Raises ConfigError for a node that holds
    something else."""
    return {
        lane: _read(client, task_id, lane)[0]
        for lane in get_children(client, history_path(task_id))
    }


def set_positions(
    client: KazooClient,
    task_id: str,
    texts: dict[str, str],
    before: dict[str, str | None],
    by: str,
    how: str,
    partitions: Collection[int] | None = None,
) -> None:
    """Sets the position of each swimlane in `texts`, all or none; who has done it goes into the
    audit. `partitions`: which of a topic's are meant, None: all that a text names; the others
    stay where the target is. Raises PositionConflict when one is not what `before` says by now."""
    with audited(client, by, how, f"task {task_id}"), reported(position_path(task_id)):
        transaction = client.transaction()
        for directory in (position_path(task_id), history_path(task_id)):
            answer(client.ensure_path_async(directory))
        for lane, text in texts.items():
            changes, version = _read(client, task_id, lane)
            data = history_to_json([*changes, Change(now(), by, how, before.get(lane), text)])
            _write(
                transaction, client, position_path(task_id, lane), text.encode(), before.get(lane)
            )
            _take_out(transaction, client, written_path(task_id, lane), text, partitions)
            if version is None:
                transaction.create(history_path(task_id, lane), data)
            else:
                transaction.set_data(history_path(task_id, lane), data, version)
        if any(isinstance(result, Exception) for result in answer(transaction.commit_async())):
            raise _conflict(task_id)


def history_to_json(changes: Sequence[Change]) -> bytes:
    """The newest of them, as many as may be kept."""
    kept = list(changes[-HISTORY:])
    while (
        len(data := orjson.dumps({"changes": [asdict(change) for change in kept]})) > HISTORY_BYTES
        and len(kept) > 1
    ):
        kept.pop(0)
    return data


def _take_out(
    transaction: Any, client: KazooClient, path: str, text: str, partitions: Collection[int] | None
) -> None:
    """What is set is the task's own writing no longer, also where it is the same."""
    if not answer(client.exists_async(path)):
        return
    data, stat = answer(client.get_async(path))
    written = written_from_json(data, path)
    if (rest := without(written.position, text, partitions)) != written.position:
        transaction.set_data(path, written_to_json(replace(written, position=rest)), stat.version)


def without(written: str, text: str, partitions: Collection[int] | None = None) -> str:
    """A Kafka position less the partitions that a text names, or those of them that are chosen;
    any other position as it is."""
    if '"topic"' not in written or '"topic"' not in text:
        return written
    named = {position.partition for position in kafka_positions_from_json(text)}
    chosen = named if partitions is None else named & {*partitions}
    return kafka_positions_to_json(
        position
        for position in kafka_positions_from_json(written)
        if position.partition not in chosen
    )


def changed(before: str | None, after: str | None) -> set[int]:
    """The partitions of which two Kafka positions say something else."""
    one, other = (
        {position.partition: position.offset for position in kafka_positions_from_json(text)}
        if text and '"topic"' in text
        else {}
        for text in (before, after)
    )
    return {
        partition
        for partition in one.keys() | other.keys()
        if one.get(partition) != other.get(partition)
    }


def undone(change: Change, now: str | None) -> tuple[str, set[int] | None]:
    """The position as it was before a change, in the partitions that it had changed; the others
    stay as they are now. Which these are: None where it is not of a topic, or there was none."""
    before = change.before or ""
    if '"topic"' not in before or not now or '"topic"' not in now:
        return before, None
    partitions = changed(before, change.after)
    rest = without(now, now, partitions)
    old = [
        position
        for position in kafka_positions_from_json(before)
        if position.partition in partitions
    ]
    if rest == "[]":
        return kafka_positions_to_json(old), partitions
    return kafka_positions_to_json([*kafka_positions_from_json(rest), *old]), partitions


def merged(stored: str | None, text: str, partitions: Collection[int] | None = None) -> str:
    """A Kafka position with what another one says of partitions, or of those of them that are
    chosen; the others stay."""
    if not stored or '"topic"' not in stored or '"topic"' not in text:
        return text
    known = {
        (position.topic, position.partition): position
        for position in kafka_positions_from_json(stored)
    }
    new = [
        position
        for position in kafka_positions_from_json(text)
        if partitions is None or position.partition in partitions
    ]
    if partitions is None and {*known} <= {
        (position.topic, position.partition) for position in new
    }:
        return text  # as it was given
    return kafka_positions_to_json(
        {**known, **{(position.topic, position.partition): position for position in new}}.values()
    )


def _write(
    transaction: Any, client: KazooClient, path: str, data: bytes, before: str | None
) -> None:
    found = answer(client.get_async(path)) if answer(client.exists_async(path)) else None
    if (None if found is None else found[0].decode("utf-8", "replace")) != before:
        raise _conflict(path.split("/")[-3])
    if found is None:
        transaction.create(path, data)
    else:
        transaction.set_data(path, data, found[1].version)


def _conflict(task_id: str) -> PositionConflict:
    return PositionConflict(
        f"the position of task {task_id} has moved meanwhile; nothing is set; try again"
    )


def _read(client: KazooClient, task_id: str, swimlane: str) -> tuple[list[Change], int | None]:
    path = history_path(task_id, swimlane)
    node = get_node(client, path)
    if node is None:
        return [], None
    changes = node.usable().fields.get("changes")
    try:
        return [Change(**change) for change in changes or []], node.version
    except TypeError as error:
        raise ConfigError(
            f"{path} does not hold a history of positions; delete it with zkCli"
        ) from error


def positions_of(client: KazooClient, task_id: str) -> dict[str, str | None]:
    """The stored text by swimlane."""
    return {
        path.rpartition("/")[2]: text for path, text in stored_positions(client, task_id).items()
    }
