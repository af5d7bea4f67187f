"""The commands that operators give to tasks and nodes, from the command line or a page. Each is
recorded in the audit."""

from __future__ import annotations

from dataclasses import replace

from kazoo.client import KazooClient

from cdcbus.plugins.errors import ConfigError, PositionConflict, PositionError
from cdcbus.plugins.positions import (
    BINLOG_FORM,
    KAFKA_FORM,
    BinlogPosition,
    kafka_positions_from_json,
)
from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper.lock import left_lock, live
from cdcbus.tasks.zookeeper.node_registry import BusNodes, NodeWish
from cdcbus.tasks.zookeeper.status import Status
from cdcbus.tasks.zookeeper.tasks import TaskNodes


def order_start(nodes: TaskNodes, status: Status, by: str, is_restart: bool = False) -> int:
    """Tells nodes to run a task, and returns the number of the command. `is_restart`: a running
    task is stopped first. Raises ConfigError for a task that runs by hand."""
    refuse_by_hand(status)
    is_on_its_way = status.state in (State.STARTING, State.WORKING)
    # Even a command that changes nothing has a new number, and would restart the task.
    if is_restart or not is_on_its_way or not _is_wanted(nodes, status.task_id):
        # Without one, the audit derives the command from the state.
        what = "task restart" if is_restart else ""
        nodes.want(status.task_id, is_working=True, by=by, what=what)
    desired = nodes.wanted(status.task_id)
    if desired is None:
        return 0
    return desired.order


def refuse_by_hand(status: Status) -> None:
    if status.is_by_hand:
        raise ConfigError(f"task {status.task_id}: {by_hand(status)}")


def by_hand(status: Status) -> str:
    """What to say of a task that runs by hand to those who want to start or stop it."""
    return f"{status.process} runs it by hand; end that process (Ctrl-C, SIGTERM): no node can"


def refuse_running(client: KazooClient, task_id: str, is_live: bool) -> None:
    """Raises PositionConflict for a running task, whose position must not change, unless `is_live`
    allows it."""
    locks = TaskNodes(client).locks(task_id)
    if not locks or is_live:
        return
    running = live(locks)
    if not running:
        left = left_lock(task_id, locks)
        raise PositionConflict(f"task {task_id}: {left}; or say --live")
    # One process holds all locks of a task.
    holder = next(iter(running.values()))
    who = f"process {holder.text('processId')} on {holder.text('hostName')}"
    remedy = f"stop it first, cdcbus task stop {task_id}"
    if not holder.text("nodeId"):
        remedy = "end that process first (Ctrl-C, SIGTERM), as it was started by hand"
    raise PositionConflict(f"task {task_id} is running ({who}): {remedy}, or say --live")


def check_position(text: str, swimlane: str) -> None:
    """Raises ConfigError for a text that no task could start from."""
    try:
        if '"topic"' not in text:
            BinlogPosition.from_json(text)
            return
        positions = kafka_positions_from_json(text)
    except PositionError as error:
        raise ConfigError(
            f"{error}; expected a position, such as {BINLOG_FORM} or {KAFKA_FORM}"
        ) from error
    for position in positions:
        if position.topic != swimlane:
            raise ConfigError(
                f"the position is of topic {position.topic}, the swimlane is {swimlane}; expected "
                "the same"
            )


def order_taking(nodes: BusNodes, node_id: str, is_taking: bool, by: str) -> None:
    """Tells a node to take tasks, or to give up its tasks, also where its last command cannot be
    read."""
    command = "node drain"
    if is_taking:
        command = "node resume"

    # The znode also holds the limit.
    def change(wish: NodeWish) -> NodeWish:
        return replace(wish, is_taking=is_taking)

    nodes.change_wish(node_id, change, by, command, replaces_damaged=True)


def order_limit(nodes: BusNodes, node_id: str, swimlanes: int, by: str) -> None:
    """Sets the maximum number of swimlanes that a node runs. Raises ConfigError where its last
    command cannot be read: nobody would know whether it was drained."""

    def change(wish: NodeWish) -> NodeWish:
        return replace(wish, work_limit=swimlanes)

    nodes.change_wish(node_id, change, by, f"node limit {swimlanes}")


def _is_wanted(nodes: TaskNodes, task_id: str) -> bool:
    try:
        desired = nodes.wanted(task_id)
    except ConfigError:
        # Damaged, so the command is written again.
        return False
    return desired is not None and desired.is_working
