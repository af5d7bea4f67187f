"""The versions of a task's text: the last VERSIONS that commands and pages have stored, with who
and when, VERSIONS_BYTES at most.

`/datas/task/<id>/versions` holds `{"versions":[{"at","by","how","text"}, ...]}`, the newest last. A
text and its version are written together or not at all. A version does not hold the inline secrets
of its text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from typing import Any

import orjson
from kazoo.client import KazooClient

from cdcbus.plugins.errors import ConfigError, PositionConflict
from cdcbus.tasks.editing.masked import masked_text
from cdcbus.tasks.zookeeper.audit import audited
from cdcbus.tasks.zookeeper.connection import ROOT
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes
from cdcbus.tasks.zookeeper.task_configs import Dist, merged
from cdcbus.tasks.zookeeper.znode import get_node, now

VERSIONS = 50
# ZooKeeper takes 1 MB; the newest version is always kept.
VERSIONS_BYTES = 256 << 10


@dataclass(frozen=True, slots=True)
class Version:
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
    """Stores the texts of tasks, all or none, each as a new version and with an audit record.

    `expected`: the text that a task must still have. Raises PositionConflict if it has another one,
    or somebody writes it at the same time, and what `DistNodes.put` raises.
    """
    nodes = DistNodes(client)
    writes = []
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
        writes.append((versions_path(task_id), versions_to_json(found), version))

    def with_versions(transaction: Any) -> None:
        for path, data, version in writes:
            if version is None:
                transaction.create(path, data)
            else:
                transaction.set_data(path, data, version)

    # The audit of each task is open until all are stored, as they fail together.
    with ExitStack() as notes:
        for task_id in tasks:
            notes.enter_context(audited(client, by, how, f"task {task_id}"))
        nodes.put(tasks, is_replacing, with_versions)


def versions_to_json(versions: Sequence[Version]) -> bytes:
    """The newest versions that fit, as JSON."""
    kept = [asdict(version) for version in versions[-VERSIONS:]]
    data = orjson.dumps({"versions": kept})
    # Texts of hundreds of mapper lines are long, so the number alone does not limit the size.
    while len(data) > VERSIONS_BYTES and len(kept) > 1:
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
        return [Version(**version) for version in stored or []], node.version
    except TypeError as error:
        raise ConfigError(f"{path} does not hold versions; delete it with zkCli") from error
