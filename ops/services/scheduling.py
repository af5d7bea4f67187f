"""Why no node has taken a started task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kazoo.client import KazooClient

from cdcbus.ops.services.offer import Offer, read_offer
from cdcbus.plugins.errors import ConfigError, PositionError
from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper.connection import is_silence
from cdcbus.tasks.zookeeper.dist_nodes import DistNodes
from cdcbus.tasks.zookeeper.node_registry import BusNodes, NodeInfo
from cdcbus.tasks.zookeeper.status import Status
from cdcbus.tasks.zookeeper.tasks import TaskNodes


def explained(client: KazooClient, status: Status) -> Status:
    """The status, with what is missing as the reason where no node has taken a started task. Raises
    PositionUnavailable."""
    if not is_waiting(status):
        return status
    reason, _ = why_waiting(client, status.task_id)
    return replace(status, reason=reason)


def is_waiting(status: Status) -> bool:
    """Whether the task is started, and no node has taken it."""
    return status.state is State.STARTING and not status.node_id and not status.is_by_hand


def why_waiting(client: KazooClient, task_id: str) -> tuple[str, bool]:
    """Why no node has taken a started task, and whether one of those that run could. Raises
    PositionUnavailable."""
    try:
        return _reason(client, task_id)
    except (ConfigError, PositionError) as error:
        if is_silence(error):
            raise
        return f"no node takes it: {error}", False


def could_run(client: KazooClient, node: NodeInfo, task_id: str) -> bool:
    """Whether a node could run a task if it took tasks and had no others. Raises
    PositionUnavailable."""
    try:
        offer = _offer(client, task_id)
    # No node can.
    except (ConfigError, PositionError) as error:
        if is_silence(error):
            raise
        return False
    has_room = len(offer.swimlanes) <= node.work_limit
    return has_room and offer.is_for(node.node_id, node.environment)


def _offer(client: KazooClient, task_id: str) -> Offer:
    return read_offer(DistNodes(client).get(task_id) or {}, TaskNodes(client).swimlanes(task_id))


def _reason(client: KazooClient, task_id: str) -> tuple[str, bool]:
    offer = _offer(client, task_id)
    known = [info for info in BusNodes(client).all() if info.is_there]
    if not known:
        return "no node runs; start one: cdcbus node run", False
    # Each reason rules out some of the remaining nodes; the first that rules out all is returned.
    reasons: list[tuple[str, Callable[[NodeInfo], bool]]] = [
        (
            f"no node of its environment runs (environment={offer.environment or 'none'})",
            lambda info: info.environment == offer.environment,
        ),
        (
            f"none of its nodes (nodeId={','.join(offer.node_ids)}) runs",
            lambda info: offer.is_for(info.node_id, info.environment),
        ),
        (
            "the nodes that may run it are drained: cdcbus node resume NODE",
            lambda info: info.wish.is_taking,
        ),
        (
            f"the nodes that may run it are full, it needs {len(offer.swimlanes)} swimlanes: "
            "cdcbus node limit NODE SWIMLANES",
            lambda info: info.used + len(offer.swimlanes) <= info.work_limit,
        ),
    ]
    for sentence, allows in reasons:
        known = list(filter(allows, known))
        if not known:
            return sentence, False
    first = known[0].node_id
    return f"no node has taken it yet, though {first} could; look at the log of that node", True
