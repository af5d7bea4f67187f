"""The nodes of the bus in ZooKeeper, in porter's places.

/datas/node/<id>/lock     the process that is this node; ephemeral
/datas/node/<id>/stat     how it is, told every few seconds
/datas/node/<id>/wanted   what operators want of it: to take tasks (WORKING) or not (SUSPEND), and
                          how many swimlanes at most
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kazoo.client import KazooClient

from cdcbus.plugins.errors import ConfigError
from cdcbus.tasks.process_identity import identity, is_gone
from cdcbus.tasks.zookeeper.audit import audited
from cdcbus.tasks.zookeeper.positions import ROOT
from cdcbus.tasks.zookeeper.znode import (
    JsonNode,
    Watch,
    age_seconds,
    drop_node,
    get_children,
    get_node,
    is_own,
    now,
    put_node,
    reported,
    take_node,
)

NODES = f"{ROOT}/node"
TAKING, DRAINED = "WORKING", "SUSPEND"


@dataclass(frozen=True, slots=True)
class NodeWish:
    """What operators want of a node. `work_limit` None: as its settings say."""

    is_taking: bool = True
    work_limit: int | None = None


@dataclass(frozen=True, slots=True)
class NodeInfo:
    """A node as it reports itself. `tasks`: swimlanes by task. `is_there`: whether its process
    runs; `silent_seconds`: since its last report."""

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

    @property
    def used(self) -> int:
        """How many swimlanes it runs."""
        return sum(map(len, self.tasks.values()))

    @property
    def status(self) -> str:
        """In one word, for operators."""
        if not self.is_there:
            return "away"
        return "working" if self.wish.is_taking else "drained" if not self.tasks else "draining"


class BusNodes:
    """Lives as long as its client. All calls raise PositionUnavailable, PositionError, and
    ConfigError for a node that holds something else."""

    def __init__(self, client: KazooClient) -> None:
        self.client = client

    def ids(self) -> list[str]:
        return get_children(self.client, NODES)

    def is_first(self, node_id: str) -> bool:
        """Of the nodes that are there, by name: who does what one alone is to do."""
        return node_id == next(
            (
                each
                for each in self.ids()
                if get_node(self.client, f"{NODES}/{each}/lock") is not None
            ),
            None,
        )

    def register(self, node_id: str) -> JsonNode | None:
        """Makes this process the node; who it is already, or None."""
        path = f"{NODES}/{node_id}/lock"
        while not is_own(self.client, holder := get_node(self.client, path)):
            if holder is None:
                take_node(self.client, path, {"nodeId": node_id, **identity()})
            elif is_gone(holder.fields):
                drop_node(self.client, path)
            else:
                return holder
        return None

    def unregister(self, node_id: str) -> None:
        if is_own(self.client, get_node(self.client, f"{NODES}/{node_id}/lock")):
            drop_node(self.client, f"{NODES}/{node_id}/lock")

    def remove(self, node_id: str, by: str) -> None:
        """Forgets a node that does not run. Raises ConfigError where it does."""
        if get_node(self.client, f"{NODES}/{node_id}/lock") is not None:
            raise ConfigError(f"node {node_id} runs; end its process first, then remove it")
        with audited(self.client, by, "node rm", f"node {node_id}"), reported(NODES):
            self.client.delete(f"{NODES}/{node_id}", recursive=True)

    def wish(self, node_id: str, watch: Watch | None = None) -> NodeWish:
        node = get_node(self.client, f"{NODES}/{node_id}/wanted", watch)
        if node is None:
            return NodeWish()
        status, limit = node.usable().text("status") or TAKING, node.fields.get("workLimit")
        if status not in (TAKING, DRAINED) or not (
            limit is None or (isinstance(limit, int) and limit >= 0)
        ):
            raise ConfigError(
                f"{NODES}/{node_id}/wanted is not of the form "
                f'{{"status":"WORKING","workLimit":10}}; drain or resume it again'
            )
        return NodeWish(status == TAKING, limit)

    def put_wish(self, node_id: str, wish: NodeWish, by: str, what: str) -> None:
        """`what`: the command that asks for it, for the audit."""
        status = TAKING if wish.is_taking else DRAINED
        fields = {
            "nodeId": node_id,
            "status": status,
            "workLimit": wish.work_limit,
            "by": by,
            "at": now(),
        }
        with audited(self.client, by, what, f"node {node_id}"):
            put_node(self.client, f"{NODES}/{node_id}/wanted", fields)

    def put_stat(self, node_id: str, fields: Mapping[str, Any]) -> None:
        """`fields` beside porter's own of the process and the time."""
        put_node(
            self.client,
            f"{NODES}/{node_id}/stat",
            {"nodeId": node_id, "heartbeat": now(), **identity(), **fields},
        )

    def all(self) -> list[NodeInfo]:
        """What is known of each node, by id."""
        infos = map(self.seen, self.ids())
        return [info for info in infos if info is not None]

    def seen(self, node_id: str) -> NodeInfo | None:
        """The same as `info`, but a node whose znodes are damaged is RED, with the reason."""
        try:
            return self.info(node_id)
        except ConfigError as error:
            return NodeInfo(node_id, False, NodeWish(), health="RED", health_reason=str(error))

    def info(self, node_id: str) -> NodeInfo | None:
        """A node, also one that does not run; None when nothing is known of it."""
        lock = get_node(self.client, f"{NODES}/{node_id}/lock")
        stat = get_node(self.client, f"{NODES}/{node_id}/stat")
        wanted = get_node(self.client, f"{NODES}/{node_id}/wanted")
        if lock is None and stat is None and wanted is None:
            return None
        told = stat or lock
        wish = self.wish(node_id)
        if told is None:
            return NodeInfo(node_id, False, wish)
        tasks = told.usable().fields.get("tasks")
        return NodeInfo(
            node_id,
            lock is not None,
            wish,
            told.text("hostName"),
            told.text("address"),
            told.number("processId"),
            told.number("workLimit"),
            told.text("healthLevel"),
            told.text("healthLevelDesc"),
            {
                task: tuple(map(str, swimlanes))
                for task, swimlanes in tasks.items()
                if isinstance(swimlanes, list)
            }
            if isinstance(tasks, dict)
            else {},
            age_seconds(told.text("heartbeat")),
            told.text("environment"),
        )
