"""The history of positions that operators set by command, with the previous positions: the newest
HISTORY of each swimlane, HISTORY_BYTES at most, less where a task has many swimlanes, in ZooKeeper.

`/datas/task/<id>/history/<swimlane>` holds
`{"changes":[{"at","by","how","before","after"}, ...],"hasMoved":false}`, the newest last. A
position and its change are written together or not at all. `before` is null where there was no
position. `hasMoved`: see `has_moved`; an earlier version does not write it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import orjson
from kazoo.client import KazooClient

from cdcbus.plugins.errors import (
    ConfigError,
    PositionConflict,
    PositionError,
    PositionUnavailable,
)
from cdcbus.plugins.positions import kafka_positions_from_json, kafka_positions_to_json
from cdcbus.tasks.open_record import OpenRecord
from cdcbus.tasks.zookeeper.audit import audited
from cdcbus.tasks.zookeeper.connection import (
    LOST,
    REFUSED,
    REQUEST_BYTES,
    RETRY_SECONDS,
    ROOT,
)
from cdcbus.tasks.zookeeper.position.written import written_from_json, written_to_json
from cdcbus.tasks.zookeeper.position.znodes import position_path, stored_positions, written_path
from cdcbus.tasks.zookeeper.znode import (
    ANSWER_SECONDS,
    answer,
    get_children,
    get_node,
    now,
    reported,
)

HISTORY = 50
# The newest change is always kept.
HISTORY_BYTES = 256 << 10
# Of a request, for the paths and versions of each swimlane.
HEAD_BYTES = 1024


def history_path(task_id: str, swimlane: str = "") -> str:
    """The znode of a swimlane, or the parent of all histories of a task."""
    directory = f"{ROOT}/task/{task_id}/history"
    return f"{directory}/{swimlane}" if swimlane else directory


@dataclass(frozen=True, slots=True)
class Change(OpenRecord):
    """One position that was set: when (UTC), by whom, with which command."""

    at: str
    by: str
    how: str
    before: str | None
    after: str


@dataclass(frozen=True, slots=True)
class _Stored:
    """The history of a swimlane as stored, None: not at all, in this version."""

    changes: Sequence[Change] = ()
    version: int | None = None
    has_moved: bool = False


def histories(client: KazooClient, task_id: str) -> dict[str, list[Change]]:
    """The changes of each swimlane, oldest first. Raises ConfigError for a znode that holds
    something else."""
    changes = {}
    for swimlane in get_children(client, history_path(task_id)):
        changes[swimlane] = [*_read(client, task_id, swimlane).changes]
    return changes


def set_positions(
    client: KazooClient,
    task_id: str,
    texts: dict[str, str],
    before: dict[str, str | None],
    by: str,
    how: str,
    partitions: Collection[int] | None = None,
) -> None:
    """Sets the position of each swimlane in `texts`, all or none, and records in the audit who did
    it. `partitions`: the partitions of a topic that are set, None: all that a text names; the
    others continue where the target is. Raises PositionConflict where a position is no longer the
    one in `before`, PositionError where they are too large for one request, and
    PositionUnavailable, which says so where it is not known whether they were set."""
    # Recorded before the change, see `audit`.
    with audited(client, by, how, f"task {task_id}"), reported(position_path(task_id)):
        # One transaction for all swimlanes, so that a refused one leaves the others as they were.
        transaction = client.transaction()
        for directory in (position_path(task_id), history_path(task_id)):
            answer(client.ensure_path_async(directory))
        size = 0
        for swimlane, text in texts.items():
            path = position_path(task_id, swimlane)
            _write(transaction, client, path, text.encode(), before.get(swimlane))
            size += len(text.encode()) + HEAD_BYTES
            # Otherwise a position equal to the task's own would not count as set.
            size += _take_out(
                transaction, client, written_path(task_id, swimlane), text, partitions
            )
        made: dict[str, Change] = {}
        stored: dict[str, _Stored] = {}
        for swimlane, text in texts.items():
            stored[swimlane] = _read(client, task_id, swimlane)
            made[swimlane] = Change(now(), by, how, before.get(swimlane), text)
        for swimlane, data in _that_fit(stored, made, REQUEST_BYTES - size).items():
            size += len(data)
            path, version = history_path(task_id, swimlane), stored[swimlane].version
            if version is None:
                transaction.create(path, data)
            else:
                transaction.set_data(path, data, version)
        try:
            results = answer(transaction.commit_async())
        except LOST:
            # The answer may be lost, and not the write.
            if _is_written(client, task_id, made):
                return
            if size >= REQUEST_BYTES:
                raise _too_large(task_id, size, has_many=len(texts) > 1) from None
            raise
        for result in results:
            if isinstance(result, REFUSED):
                raise result
        if any(isinstance(result, Exception) for result in results):
            raise _conflict(task_id)


def _is_written(client: KazooClient, task_id: str, made: Mapping[str, Change]) -> bool:
    """Whether changes whose write was not answered are the last ones now. Raises
    PositionUnavailable where ZooKeeper does not say."""
    deadline = time.monotonic() + ANSWER_SECONDS
    while True:
        try:
            return all(
                [*_read(client, task_id, swimlane).changes[-1:]] == [change]
                for swimlane, change in made.items()
            )
        except PositionUnavailable as error:
            if time.monotonic() > deadline:
                raise PositionUnavailable(
                    f"{error}. It is not known whether the position of task {task_id} was set: "
                    f"cdcbus offset show {task_id}"
                ) from error
            time.sleep(RETRY_SECONDS)


def _too_large(task_id: str, size: int, has_many: bool) -> PositionError:
    what, remedy = f"position of task {task_id} with its history is", ""
    if has_many:
        what = f"positions of task {task_id} with their history are"
        remedy = "set them topic by topic (cdcbus offset reset --topic, cdcbus offset set), or "
    return PositionError(
        f"the {what} {size} bytes, too large for one request to ZooKeeper: {remedy}raise "
        "jute.maxbuffer on all its servers"
    )


def _that_fit(
    stored: Mapping[str, _Stored], made: Mapping[str, Change], most_bytes: int
) -> dict[str, bytes]:
    """The history of each swimlane as JSON: the change that is made, whatever its size, and of the
    earlier ones the newest, as many of each swimlane as fit into `most_bytes` together."""
    all_changes = {
        swimlane: [*stored[swimlane].changes, change] for swimlane, change in made.items()
    }
    kept = dict.fromkeys(made, 1)
    sizes = {swimlane: len(history_to_json([change], False)) for swimlane, change in made.items()}
    left = most_bytes - sum(sizes.values())
    for number in range(2, HISTORY + 1):
        for swimlane, changes in all_changes.items():
            # None is left, or a newer one did not fit.
            if number > len(changes) or kept[swimlane] < number - 1:
                continue
            more = len(orjson.dumps(changes[-number].to_fields())) + len(",")
            # Positions of many partitions are long, so the number alone does not limit the size.
            if more <= left and sizes[swimlane] + more <= HISTORY_BYTES:
                kept[swimlane] = number
                sizes[swimlane] += more
                left -= more
    found = {}
    for swimlane, changes in all_changes.items():
        former = stored[swimlane]
        # By all that are stored, before the oldest are left out.
        set_by_command = ["", None, *(change.after for change in former.changes)]
        has_moved = former.has_moved or made[swimlane].before not in set_by_command
        found[swimlane] = history_to_json(changes[-kept[swimlane] :], has_moved)
    return found


def history_to_json(changes: Sequence[Change], has_moved: bool) -> bytes:
    return orjson.dumps({"changes": [each.to_fields() for each in changes], "hasMoved": has_moved})


def _take_out(
    transaction: Any, client: KazooClient, path: str, text: str, partitions: Collection[int] | None
) -> int:
    """Removes the set partitions from what the task itself has written, even where both are equal:
    from now on they are an operator's position. Returns how many bytes it writes for that."""
    if not answer(client.exists_async(path)):
        return 0
    data, stat = answer(client.get_async(path))
    written = written_from_json(data, path)
    rest = without(written.position, text, partitions)
    # By version, as a running task may write it at the same time; the transaction then fails.
    if rest == written.position:
        return 0
    left = written_to_json(replace(written, position=rest))
    transaction.set_data(path, left, stat.version)
    return len(left)


def without(written: str, text: str, partitions: Collection[int] | None = None) -> str:
    """A Kafka position without the partitions that `text` names (only those in `partitions`, if
    given); any other position unchanged."""
    if not _is_kafka(written) or not _is_kafka(text):
        return written
    removed = set(_offsets(text))
    if partitions is not None:
        removed &= {*partitions}
    rest = []
    for position in kafka_positions_from_json(written):
        if position.partition not in removed:
            rest.append(position)
    return kafka_positions_to_json(rest)


def changed(before: str | None, after: str | None) -> set[int]:
    """The partitions in which two Kafka positions differ."""
    old = _offsets(before)
    new = _offsets(after)
    return {partition for partition, _ in old.items() ^ new.items()}


def _offsets(text: str | None) -> dict[int, int]:
    if text is None or not _is_kafka(text):
        return {}
    return {each.partition: each.offset for each in kafka_positions_from_json(text)}


def _is_kafka(text: str | None) -> bool:
    """Whether a stored position is a usable one of a topic, and not one of a binlog. What somebody
    has typed by hand may be neither: it is replaced as a whole."""
    if text is None or '"topic"' not in text:
        return False
    with suppress(PositionError):
        kafka_positions_from_json(text)
        return True
    return False


def undone(change: Change, now: str | None) -> tuple[str, set[int] | None]:
    """The position with the partitions that a change had set as they were before it, all others as
    they are now; and these partitions. They are None where the position is not of a topic, or
    where there was none."""
    before = change.before or ""
    if now is None or not _is_kafka(before) or not _is_kafka(now):
        return before, None
    partitions = changed(before, change.after)
    rest = without(now, now, partitions)
    positions = []
    # Otherwise all partitions were set, and an empty array is no valid position.
    if rest != "[]":
        positions += kafka_positions_from_json(rest)
    for position in kafka_positions_from_json(before):
        if position.partition in partitions:
            positions.append(position)
    return kafka_positions_to_json(positions), partitions


def merged(stored: str | None, text: str, partitions: Collection[int] | None = None) -> str:
    """A Kafka position with the partitions of `text` (only those in `partitions`, if given) in
    place of its own; the others stay."""
    if stored is None or not _is_kafka(stored) or not _is_kafka(text):
        return text
    new = {}
    topics = set()
    for position in kafka_positions_from_json(text):
        topics.add(position.topic)
        if partitions is None or position.partition in partitions:
            new[position.topic, position.partition] = position
    known = {}
    for position in kafka_positions_from_json(stored):
        # A position of another topic, as of a wrong paste, is unusable.
        if position.topic in topics:
            known[position.topic, position.partition] = position
    if partitions is None and known.keys() <= new.keys():
        # Nothing of the stored one is left, so the given text is kept verbatim.
        return text
    return kafka_positions_to_json((known | new).values())


def _write(
    transaction: Any, client: KazooClient, path: str, data: bytes, before: str | None
) -> None:
    if not answer(client.exists_async(path)):
        if before is not None:
            raise _conflict(_task_of(path))
        transaction.create(path, data)
        return
    stored, stat = answer(client.get_async(path))
    # The caller decided by this text; the version then covers the time until the commit.
    if stored.decode("utf-8", "replace") != before:
        raise _conflict(_task_of(path))
    transaction.set_data(path, data, stat.version)


def _task_of(path: str) -> str:
    """`/datas/task/<id>/position/<swimlane>`"""
    return path.split("/")[-3]


def _conflict(task_id: str) -> PositionConflict:
    return PositionConflict(
        f"the position of task {task_id} moved meanwhile, so nothing was set; try again"
    )


def _read(client: KazooClient, task_id: str, swimlane: str) -> _Stored:
    path = history_path(task_id, swimlane)
    node = get_node(client, path)
    if node is None:
        return _Stored()
    fields = node.usable().fields
    try:
        changes = [*map(Change.from_fields, fields.get("changes") or [])]
        return _Stored(changes, node.version, _shows_move(fields))
    except (AttributeError, TypeError) as error:
        raise ConfigError(
            f"{path} does not hold a history of positions; it may be of a newer cdcbus: run that "
            "one. Otherwise delete it with zkCli"
        ) from error


def positions_of(client: KazooClient, task_id: str) -> dict[str, str | None]:
    """The stored positions' texts by swimlane."""
    stored = stored_positions(client, task_id)
    return {path.rpartition("/")[2]: text for path, text in stored.items()}


def has_moved(history: bytes) -> bool:
    """Whether a history of positions contains one that no command had set, which the task itself
    must have reached."""
    try:
        return _shows_move(orjson.loads(history or b"{}"))
    except (orjson.JSONDecodeError, AttributeError, KeyError, TypeError):
        # Damaged, so there was a history.
        return True


def _shows_move(fields: Mapping[str, Any]) -> bool:
    has_moved = fields.get("hasMoved")
    if isinstance(has_moved, bool):
        return has_moved
    # A `before` that no earlier command had set shows that the task moved in between, unless that
    # command was left out of a full history.
    set_by_command = ["", None]
    for change in fields.get("changes") or []:
        if change["before"] not in set_by_command:
            return True
        set_by_command.append(change["after"])
    return False
