"""What operators order of tasks and nodes, wherever they do: by a command or on a page. Every
order is in the audit."""

from __future__ import annotations

from dataclasses import replace

from kazoo.client import KazooClient

from cdcbus.plugins.errors import ConfigError, PositionConflict
from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper.node_registry import BusNodes
from cdcbus.tasks.zookeeper.status import Status
from cdcbus.tasks.zookeeper.tasks import TaskNodes


def order_start(nodes: TaskNodes, status: Status, by: str, is_restart: bool = False) -> int:
    """Has a task run by nodes; `is_restart`: also one that runs already, which is stopped first.
    Gives the number of the order. Raises ConfigError for one that somebody runs by hand."""
    refuse_by_hand(status)
    if (
        is_restart
        or not _is_wanted(nodes, status.task_id)
        or status.state not in (State.STARTING, State.WORKING)
    ):
        nodes.want(
            status.task_id, is_working=True, by=by, what="task restart" if is_restart else ""
        )
    wanted = nodes.wanted(status.task_id)
    return wanted.order if wanted else 0


def refuse_by_hand(status: Status) -> None:
    if status.is_by_hand:
        raise ConfigError(f"task {status.task_id}: {status.reason}; stop that process first")


def refuse_running(client: KazooClient, task_id: str, is_live: bool) -> None:
    """Raises PositionConflict for a task whose position is not to be changed as it runs."""
    locks = TaskNodes(client).locks(task_id)
    if locks and not is_live:
        who = next(
            f"process {lock.text('processId')} on {lock.text('hostName')}"
            for lock in locks.values()
        )
        raise PositionConflict(
            f"task {task_id} is running ({who}): stop it first, cdcbus task stop {task_id}, or "
            "say --live"
        )


def order_taking(nodes: BusNodes, node_id: str, is_taking: bool, by: str) -> None:
    """Lets a node take tasks, or give up those that it has."""
    nodes.put_wish(
        node_id,
        replace(nodes.wish(node_id), is_taking=is_taking),
        by,
        "node resume" if is_taking else "node drain",
    )


def order_limit(nodes: BusNodes, node_id: str, swimlanes: int, by: str) -> None:
    """Lets a node run so many swimlanes at most."""
    nodes.put_wish(
        node_id, replace(nodes.wish(node_id), work_limit=swimlanes), by, f"node limit {swimlanes}"
    )


def _is_wanted(nodes: TaskNodes, task_id: str) -> bool:
    try:
        wanted = nodes.wanted(task_id)
    except ConfigError:
        return False  # writing it again is the cure
    return wanted is not None and wanted.is_working
