"""The commands of operators to tasks and nodes, from the command line or a page. Each is noted in
the audit."""

from __future__ import annotations

from dataclasses import replace

from kazoo.client import KazooClient

from cdcbus.plugins.errors import ConfigError, PositionConflict
from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper.node_registry import BusNodes
from cdcbus.tasks.zookeeper.status import Status
from cdcbus.tasks.zookeeper.tasks import TaskNodes


def order_start(nodes: TaskNodes, status: Status, by: str, is_restart: bool = False) -> int:
    """Has nodes run a task. `is_restart`: a running one is stopped first. Returns the number of the
    command. Raises ConfigError for a task that somebody runs by hand."""
    refuse_by_hand(status)
    is_on_its_way = status.state in (State.STARTING, State.WORKING)
    # A command that changes nothing would restart the task, as it has another number.
    if is_restart or not is_on_its_way or not _is_wanted(nodes, status.task_id):
        what = "task restart" if is_restart else ""
        nodes.want(status.task_id, is_working=True, by=by, what=what)
    desired = nodes.wanted(status.task_id)
    return desired.order if desired else 0


def refuse_by_hand(status: Status) -> None:
    if status.is_by_hand:
        raise ConfigError(f"task {status.task_id}: {status.reason}; stop that process first")


def refuse_running(client: KazooClient, task_id: str, is_live: bool) -> None:
    """Raises PositionConflict for a running task whose position must not be changed."""
    locks = TaskNodes(client).locks(task_id)
    if not locks or is_live:
        return
    holder = next(iter(locks.values()))
    who = f"process {holder.text('processId')} on {holder.text('hostName')}"
    raise PositionConflict(
        f"task {task_id} is running ({who}): stop it first, cdcbus task stop {task_id}, or say "
        "--live"
    )


def order_taking(nodes: BusNodes, node_id: str, is_taking: bool, by: str) -> None:
    """Lets a node take tasks, or give up those that it has."""
    wish = replace(nodes.wish(node_id), is_taking=is_taking)
    nodes.put_wish(node_id, wish, by, "node resume" if is_taking else "node drain")


def order_limit(nodes: BusNodes, node_id: str, swimlanes: int, by: str) -> None:
    """Sets how many swimlanes a node runs at most."""
    wish = replace(nodes.wish(node_id), work_limit=swimlanes)
    nodes.put_wish(node_id, wish, by, f"node limit {swimlanes}")


def _is_wanted(nodes: TaskNodes, task_id: str) -> bool:
    try:
        desired = nodes.wanted(task_id)
    except ConfigError:
        return False  # damaged: it is written again
    return desired is not None and desired.is_working
