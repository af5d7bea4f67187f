"""The nodes of the bus in ZooKeeper, under porter's paths.

/datas/node/<id>/lock     the process that is this node, and its version of cdcbus; ephemeral
/datas/node/<id>/stat     its state, reported every few seconds
/datas/node/<id>/wanted   what operators want of it: to take tasks (WORKING) or not (SUSPEND), and
                          how many swimlanes at most
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import orjson
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from cdcbus import __version__
from cdcbus.plugins.errors import ConfigError, PositionError
from cdcbus.tasks.process_identity import identity
from cdcbus.tasks.zookeeper.audit import audited
from cdcbus.tasks.zookeeper.connection import ROOT, is_silence
from cdcbus.tasks.zookeeper.znode import (
    JsonNode,
    Watch,
    age_seconds,
    answer,
    drop_tree,
    get_children,
    get_node,
    give_up,
    now,
    put_node,
    reported,
    take_free,
)

NODES = f"{ROOT}/node"
TAKING, DRAINED = "WORKING", "SUSPEND"
ENVIRONMENT = "environment"
VERSION = "version"
ONE_VERSION = "end all nodes, then start them with one version"
"""What to do where `mixed_versions` says something."""


@dataclass(frozen=True, slots=True)
class NodeWish:
    """What operators want of a node. `work_limit` None: the limit in its settings."""

    is_taking: bool = True
    work_limit: int | None = None


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node as it reports itself. `is_there`: whether its process runs. `work_limit`: the
    operators', where they have set one. `tasks`: swimlanes by task. `silent_seconds`: since its
    last report. `version`: of cdcbus; empty for one that does not say it."""

    node_id: str
    is_there: bool
    wish: NodeWish
    host: str = ""
    address: str = ""
    process_id: int = 0
    work_limit: int = 0
    health: str = ""
    health_reason: str = ""
    tasks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    silent_seconds: float | None = None
    environment: str = ""
    version: str = ""

    @property
    def used(self) -> int:
        """The number of swimlanes that it runs."""
        return sum(map(len, self.tasks.values()))

    @property
    def status(self) -> str:
        """The node's status in one word, for operators."""
        if not self.is_there:
            return "away"
        if self.wish.is_taking:
            return "working"
        return "draining" if self.tasks else "drained"


class BusNodes:
    """The nodes of the bus. Usable while its client is. All calls raise PositionUnavailable,
    PositionError, and ConfigError for a znode that holds something else."""

    def __init__(self, client: KazooClient) -> None:
        self.client = client

    def ids(self) -> list[str]:
        return get_children(self.client, NODES)

    def running(self) -> dict[str, str | None]:
        """The running nodes by name, each with its environment; None for one of a version that does
        not say it there."""
        found: dict[str, str | None] = {}
        for each in self.ids():
            lock = get_node(self.client, f"{NODES}/{each}/lock")
            if _is_held(lock):
                found[each] = lock.text(ENVIRONMENT) if ENVIRONMENT in lock.fields else None
        return found

    def versions(self) -> dict[str, str]:
        """The versions of cdcbus of the running nodes, by name, without those of which ZooKeeper
        refuses the lock; empty for one that does not say it. Raises PositionUnavailable."""
        found = {}
        for each in self.ids():
            try:
                lock = get_node(self.client, f"{NODES}/{each}/lock")
            except PositionError as error:
                if is_silence(error):
                    raise
                continue
            if _is_held(lock):
                found[each] = lock.text(VERSION)
        return found

    def register(self, node_id: str, environment: str = "") -> JsonNode | None:
        """Makes this process the node, of an environment such as `prod`, and returns None; returns
        the holder if another process is the node."""
        fields = {
            "nodeId": node_id,
            ENVIRONMENT: environment,
            VERSION: __version__,
            **identity(),
        }
        return take_free(self.client, f"{NODES}/{node_id}/lock", fields)

    def unregister(self, node_id: str) -> None:
        # After a lost session another process may be the node by now.
        give_up(self.client, f"{NODES}/{node_id}/lock")

    def remove(self, node_id: str, by: str) -> None:
        """Deletes a node that does not run. Raises ConfigError if it may run, as a porter may."""
        path = f"{NODES}/{node_id}/lock"
        if (lock := get_node(self.client, path)) is not None:
            if not _is_held(lock):
                raise ConfigError(f"{left_node_lock(node_id)}, then remove it")
            raise ConfigError(f"node {node_id} runs; end its process first, then remove it")
        with audited(self.client, by, "node rm", f"node {node_id}"):
            drop_tree(self.client, f"{NODES}/{node_id}")

    def wish(self, node_id: str, watch: Watch | None = None) -> NodeWish:
        path = f"{NODES}/{node_id}/wanted"
        return _wish(get_node(self.client, path, watch), path)

    def change_wish(
        self,
        node_id: str,
        change: Callable[[NodeWish], NodeWish],
        by: str,
        what: str,
        *,
        replaces_damaged: bool = False,
    ) -> None:
        """Stores what `change` makes of what operators want of a node; called again if another one
        has changed that meanwhile. `what`: the command, for the audit. `replaces_damaged`: begins
        with a new wish where the stored one cannot be read, rather than raise ConfigError."""
        path = f"{NODES}/{node_id}/wanted"
        with audited(self.client, by, what, f"node {node_id}"), reported(path):
            is_stored = False
            while not is_stored:
                node = get_node(self.client, path)
                try:
                    known = _wish(node, path)
                except ConfigError:
                    if not replaces_damaged:
                        raise
                    known = NodeWish()
                data = orjson.dumps(_wish_fields(node_id, change(known), by))
                is_stored = _write(self.client, path, data, node)

    def put_stat(self, node_id: str, fields: Mapping[str, Any]) -> None:
        """Stores a node's report. `fields` are added to porter's own of the process and the
        time."""
        put_node(
            self.client,
            f"{NODES}/{node_id}/stat",
            {"nodeId": node_id, "heartbeat": now(), VERSION: __version__, **identity(), **fields},
        )

    def all(self) -> list[NodeInfo]:
        """All nodes, sorted by id."""
        return list(filter(None, map(self.seen, self.ids())))

    def seen(self, node_id: str) -> NodeInfo | None:
        """Like `info`, but a node whose znodes are damaged, or refused, is RED, with the reason.
        Raises PositionUnavailable."""
        try:
            return self.info(node_id)
        except (ConfigError, PositionError) as error:
            if is_silence(error):
                raise
            return NodeInfo(node_id, False, NodeWish(), health="RED", health_reason=str(error))

    def info(self, node_id: str) -> NodeInfo | None:
        """A node, running or not; None when ZooKeeper holds nothing of it."""
        lock = get_node(self.client, f"{NODES}/{node_id}/lock")
        stat = get_node(self.client, f"{NODES}/{node_id}/stat")
        wanted = get_node(self.client, f"{NODES}/{node_id}/wanted")
        if lock is None and stat is None and wanted is None:
            return None
        # A node that has just started has a lock and no report yet.
        report = stat or lock
        wish = self.wish(node_id)
        if report is None:
            return NodeInfo(node_id, False, wish)
        tasks = _tasks(report.usable().fields.get("tasks"))
        return NodeInfo(
            node_id,
            _is_held(lock),
            wish,
            report.text("hostName"),
            report.text("address"),
            report.number("processId"),
            # What the node keeps within a second; it reports that later.
            report.number("workLimit") if wish.work_limit is None else wish.work_limit,
            report.text("healthLevel"),
            report.text("healthLevelDesc"),
            tasks,
            age_seconds(report.text("heartbeat")),
            report.text(ENVIRONMENT),
            # The report can still be that of the process before.
            (lock if _is_held(lock) else report).text(VERSION),
        )


def _is_held(lock: JsonNode | None) -> TypeGuard[JsonNode]:
    """Whether a process runs as the node. porter's locks are persistent: they stay after a crash,
    and no porter takes tasks of this bus."""
    return lock is not None and lock.owner != 0


def left_node_lock(node_id: str) -> str:
    """What to say of a node's lock that is of no session: also a copy of the tree can hold one."""
    return (
        f"node {node_id} has a lock in a persistent znode, as porter's are, which stays after its "
        f"process's end: delete {NODES}/{node_id}/lock with zkCli if no porter runs as this node"
    )


def mixed_versions(versions: Mapping[str, str]) -> str:
    """A sentence where nodes, by name, run several versions of cdcbus; else empty."""
    if len({*versions.values()}) < 2:
        return ""
    named = ", ".join(
        f"{node} {version or 'of an earlier one'}" for node, version in versions.items()
    )
    return (
        f"the running nodes have several versions of cdcbus ({named}), and an older one takes "
        "tasks without what only a newer one knows of them"
    )


def first_for(running: Mapping[str, str | None], environment: str) -> str | None:
    """The node that does the work that only one must do for tasks of an environment which no node
    has: the first of that environment, as it has the settings for them; where none runs, the first
    of all."""
    for node_id, each in running.items():
        if each == environment:
            return node_id
    return next(iter(running), None)


def _wish(node: JsonNode | None, path: str) -> NodeWish:
    if node is None:
        return NodeWish()
    status = node.usable().text("status") or TAKING
    limit = node.fields.get("workLimit")
    is_limit = limit is None or (isinstance(limit, int) and limit >= 0)
    if status not in (TAKING, DRAINED) or not is_limit:
        raise ConfigError(
            f'{path} is not of the form {{"status":"WORKING","workLimit":10}}; drain or resume '
            "the node again, then limit it again"
        )
    return NodeWish(status == TAKING, limit)


def _wish_fields(node_id: str, wish: NodeWish, by: str) -> dict[str, Any]:
    status = TAKING if wish.is_taking else DRAINED
    return {
        "nodeId": node_id,
        "status": status,
        "workLimit": wish.work_limit,
        "by": by,
        "at": now(),
    }


def _write(client: KazooClient, path: str, data: bytes, before: JsonNode | None) -> bool:
    """Writes the znode, unless it is no longer as it was read."""
    try:
        if before is None:
            answer(client.create_async(path, data, makepath=True))
        else:
            answer(client.set_async(path, data, version=before.version))
    except (NodeExistsError, NoNodeError, BadVersionError):
        return False
    return True


def _tasks(stored: Any) -> dict[str, tuple[str, ...]]:
    """The swimlanes by task in a node's report; anything of another form is left out."""
    if not isinstance(stored, dict):
        return {}
    tasks = {}
    for task, swimlanes in stored.items():
        if isinstance(swimlanes, list):
            tasks[task] = tuple(map(str, swimlanes))
    return tasks
