"""The versions of a task's text: the last VERSIONS that commands and pages have stored, with who
and when, VERSIONS_BYTES at most.

`/datas/task/<id>/versions` holds `{"versions":[{"at","by","how","text"}, ...]}`, the newest last. A
text and its version are written together or not at all. A version does not hold the inline secrets
of its text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import orjson
from kazoo.client import KazooClient

from cdcbus.plugins.errors import CdcError, ConfigError, PositionConflict
from cdcbus.tasks.editing.masked import masked_text
from cdcbus.tasks.open_record import OpenRecord
from cdcbus.tasks.zookeeper.audit import audited
from cdcbus.tasks.zookeeper.connection import REQUEST_BYTES, ROOT
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes
from cdcbus.tasks.zookeeper.task_configs import Dist, merged
from cdcbus.tasks.zookeeper.znode import get_node, now

VERSIONS = 50
# ZooKeeper takes 1 MB; the newest version is always kept.
VERSIONS_BYTES = 256 << 10
# What is written at once, and generously what a znode takes in a request beside its data.
AT_ONCE_BYTES, ZNODE_BYTES = REQUEST_BYTES - (64 << 10), 512


@dataclass(frozen=True, slots=True)
class Version(OpenRecord):
    """One text: when it was stored (UTC), by whom, with which command; empty if unknown."""

    at: str
    by: str
    how: str
    text: str


def versions_path(task_id: str) -> str:
    return f"{ROOT}/task/{task_id}/versions"


def versions_of(client: KazooClient, task_id: str) -> list[Version]:
    """The versions, oldest first. Raises ConfigError for a znode that holds something else."""
    return _read(client, task_id)[0]


def put_tasks(
    client: KazooClient,
    tasks: Mapping[str, Mapping[str, Dist]],
    is_replacing: bool,
    by: str,
    how: str,
    expected: Mapping[str, Dist] | None = None,
) -> None:
    """Stores the texts of tasks, each as a new version and with an audit record: all or none, or
    where they are more than ZooKeeper takes at once, group by group, and an error says which are
    stored.

    `expected`: the text that a task must still have. Raises PositionConflict if it has another one,
    or somebody writes it at the same time, and what `DistNodes.put` raises.
    """
    nodes = DistNodes(client)
    if not is_replacing:
        nodes.refuse_existing(tasks)
    writes: dict[str, tuple[bytes, int | None]] = {}
    sizes: dict[str, int] = {}
    for task_id, dists in tasks.items():
        before = _before(nodes, task_id)
        if expected is not None and task_id in expected and before != expected[task_id]:
            raise PositionConflict(
                f"the text of task {task_id} was changed by somebody else meanwhile; nothing is "
                "stored; look at its versions, then edit it again"
            )
        found, version = _read(client, task_id)
        # The first version is the text that was stored without one, as porter stores it.
        if not found and before is not None:
            found.append(Version("", "", "", masked_text(before)))
        # Masked, so that a version can be shown to anyone who may see the task.
        text = masked_text(merged(list(dists.values())))
        if not found or found[-1].text != text:
            found.append(Version(now(), by, how, text))
        bytes_ = sum(ZNODE_BYTES + len(orjson.dumps(dist)) for dist in dists.values())
        data = versions_to_json(found, AT_ONCE_BYTES - bytes_ - ZNODE_BYTES)
        writes[task_id] = data, version
        sizes[task_id] = bytes_ + ZNODE_BYTES + len(data)
    stored: list[str] = []
    for group in _fitting(sizes):
        try:
            _put_at_once(
                nodes, {each: tasks[each] for each in group}, is_replacing, by, how, writes
            )
        except CdcError as error:
            if not stored:
                raise
            raise type(error)(f"{error}. Stored before that: {', '.join(stored)}") from error
        stored += group


def _fitting(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    """The tasks in groups that fit into a request; one that does not fit has its own."""
    group: list[str] = []
    left = AT_ONCE_BYTES
    for task_id, size in sizes.items():
        if group and size > left:
            yield group
            group, left = [], AT_ONCE_BYTES
        group.append(task_id)
        left -= size
    yield group


def _put_at_once(
    nodes: DistNodes,
    tasks: Mapping[str, Mapping[str, Dist]],
    is_replacing: bool,
    by: str,
    how: str,
    writes: Mapping[str, tuple[bytes, int | None]],
) -> None:
    def with_versions(transaction: Any) -> None:
        for task_id in tasks:
            data, version = writes[task_id]
            if version is None:
                transaction.create(versions_path(task_id), data)
            else:
                transaction.set_data(versions_path(task_id), data, version)

    # The audit of each task is open until all are stored, as they fail together.
    with ExitStack() as notes:
        for task_id in tasks:
            notes.enter_context(audited(nodes.client, by, how, f"task {task_id}"))
        nodes.put(tasks, is_replacing, with_versions)


def versions_to_json(versions: Sequence[Version], most_bytes: int = VERSIONS_BYTES) -> bytes:
    """The newest versions that fit, as JSON."""
    most_bytes = min(most_bytes, VERSIONS_BYTES)
    kept = [version.to_fields() for version in versions[-VERSIONS:]]
    data = orjson.dumps({"versions": kept})
    # Texts of hundreds of mapper lines are long, so the number alone does not limit the size.
    while len(data) > most_bytes and len(kept) > 1:
        kept.pop(0)
        data = orjson.dumps({"versions": kept})
    return data


def _before(nodes: DistNodes, task_id: str) -> Dist | None:
    """The stored task; None also if it cannot be read, as it is only kept as a version."""
    try:
        return nodes.get(task_id)
    except ConfigError:
        return None


def _read(client: KazooClient, task_id: str) -> tuple[list[Version], int | None]:
    path = versions_path(task_id)
    node = get_node(client, path)
    if node is None:
        return [], None
    stored = node.usable().fields.get("versions")
    try:
        return list(map(Version.from_fields, stored or [])), node.version
    except (AttributeError, TypeError) as error:
        raise ConfigError(
            f"{path} does not hold versions; it may be of a newer cdcbus: run that one. Otherwise "
            "delete it with zkCli"
        ) from error
