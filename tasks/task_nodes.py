"""What ZooKeeper knows of a task besides its text: what is wanted of it, who has taken it, how it goes.

    /datas/task/<id>/wanted   what operators want: WORKING or STOPPED, with who and when; written by `task start|stop|restart`
    /datas/task/<id>/claim    the node that has taken it; ephemeral, lives as long as the node
    /datas/task/<id>/state    how the node that has taken it last saw it
    /datas/task/<id>/stat     how far it is, told by the process that runs it
    /datas/task/<id>/lock/    see `swimlane_lock`

The number of an order is the change number of `wanted`: a state that names another order is of the past.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NotEmptyError

from cdcbus.plugins.errors import ConfigError, PositionConflict
from cdcbus.tasks.json_nodes import JsonNode, Watch, drop_node, get_children, get_node, is_own, now, put_node, reported, take_node
from cdcbus.tasks.positions import ROOT
from cdcbus.tasks.swimlane_lock import lock_path

TASKS = f"{ROOT}/task"
WORKING, STOPPED = "WORKING", "STOPPED"


class State(StrEnum):
    """NEW: never started. STARTING: wanted, not at work yet. RETRYING: something is away, or it has failed and is started again.
    DONE: a bounded replay has reached its end. ERROR: it waits for a person."""

    NEW = "NEW"
    STARTING = "STARTING"
    WORKING = "WORKING"
    RETRYING = "RETRYING"
    STOPPED = "STOPPED"
    DONE = "DONE"
    ERROR = "ERROR"


ENDED = (State.DONE, State.ERROR)  # until the next order


@dataclass(frozen=True, slots=True)
class Wanted:
    """What operators want. `order` is its number."""

    is_working: bool
    order: int
    by: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """How a node last saw a task. `restarts`: how often it was started again after failures. `host` and `log`: where its log file is."""

    state: State
    reason: str = ""
    order: int = 0
    node_id: str = ""
    host: str = ""
    log: str = ""
    restarts: int = 0
    since: str = ""


@dataclass(frozen=True, slots=True)
class Stat:
    """How far a task is. None: not known. `at`: when this was told. `state`: as the task itself sees it. `last_row`: when the newest of
    its rows was committed at the source."""

    state: State
    reason: str = ""
    at: str = ""
    node_id: str = ""
    process_id: int = 0
    rows: int = 0
    rows_per_second: float = 0.0
    lag_records: int | None = None
    lag_seconds: float | None = None
    last_row: str = ""


class TaskNodes:
    """Lives as long as its client. All calls raise PositionUnavailable, PositionError, and ConfigError for a node that holds something
    else."""

    def __init__(self, client: KazooClient) -> None:
        self.client = client

    def ids(self, watch: Watch | None = None) -> list[str]:
        return get_children(self.client, TASKS, watch)

    def swimlanes(self, task_id: str) -> list[str]:
        return get_children(self.client, f"{TASKS}/{task_id}/dist")

    def wanted(self, task_id: str, watch: Watch | None = None) -> Wanted | None:
        node = get_node(self.client, f"{TASKS}/{task_id}/wanted", watch)
        if node is None:
            return None
        status = node.usable().text("status")
        if status not in (WORKING, STOPPED):
            raise ConfigError(f'{TASKS}/{task_id}/wanted does not say "status":"WORKING" or "STOPPED"; start or stop the task again')
        return Wanted(status == WORKING, node.mzxid, node.text("by"), node.text("at"))

    def want(self, task_id: str, is_working: bool, by: str) -> None:
        fields = {"taskId": task_id, "status": WORKING if is_working else STOPPED, "by": by, "at": now()}
        put_node(self.client, f"{TASKS}/{task_id}/wanted", fields)

    def claimed_by(self, task_id: str, watch: Watch | None = None) -> str | None:
        """The node that has taken it, if any."""
        node = get_node(self.client, f"{TASKS}/{task_id}/claim", watch)
        return None if node is None else node.text("nodeId") or "?"

    def is_mine(self, task_id: str) -> bool:
        """Whether this client's session has the claim."""
        return is_own(self.client, get_node(self.client, f"{TASKS}/{task_id}/claim"))

    def claim(self, task_id: str, node_id: str) -> bool:
        """Takes the task for a node; False when it is taken."""
        if self.is_mine(task_id):  # cheaper than a create that fails, which ZooKeeper logs
            return True
        return take_node(self.client, f"{TASKS}/{task_id}/claim", {"taskId": task_id, "nodeId": node_id})

    def release(self, task_id: str) -> None:
        """Gives it back, if it is this session's."""
        if self.is_mine(task_id):
            drop_node(self.client, f"{TASKS}/{task_id}/claim")

    def run(self, task_id: str, watch: Watch | None = None) -> Run | None:
        node = get_node(self.client, f"{TASKS}/{task_id}/state", watch)
        if node is None:
            return None
        node.usable()
        return Run(
            _state(node, f"{TASKS}/{task_id}/state"),
            node.text("reason"),
            node.number("order"),
            node.text("nodeId"),
            node.text("host"),
            node.text("log"),
            node.number("restarts"),
            node.text("since"),
        )

    def put_run(self, task_id: str, run: Run) -> None:
        fields = _fields(run)
        put_node(self.client, f"{TASKS}/{task_id}/state", {"taskId": task_id, **fields})

    def stat(self, task_id: str, watch: Watch | None = None) -> Stat | None:
        node = get_node(self.client, f"{TASKS}/{task_id}/stat", watch)
        if node is None or not node.fields:
            return None
        node.usable()
        return Stat(
            _state(node, f"{TASKS}/{task_id}/stat"),
            node.text("reason"),
            node.text("at"),
            node.text("nodeId"),
            node.number("processId"),
            node.number("rows"),
            node.real("rowsPerSecond") or 0.0,
            None if node.real("lagRecords") is None else node.number("lagRecords"),
            node.real("lagSeconds"),
            node.text("lastRow"),
        )

    def put_stat(self, task_id: str, stat: Stat) -> None:
        put_node(self.client, f"{TASKS}/{task_id}/stat", {"taskId": task_id, **_fields(stat)})

    def locks(self, task_id: str) -> dict[str, JsonNode]:
        """Who holds each swimlane that is held, damaged nodes too."""
        directory = lock_path(task_id)
        found = {lane: get_node(self.client, f"{directory}/{lane}") for lane in get_children(self.client, directory)}
        return {lane: node for lane, node in found.items() if node is not None}

    def remove(self, task_id: str) -> None:
        """Deletes all that ZooKeeper has of a task. Raises PositionConflict when somebody holds a lock of it."""
        path = f"{TASKS}/{task_id}"
        if self.locks(task_id) or self.claimed_by(task_id):
            raise PositionConflict(f"task {task_id} is running; stop it first: cdcbus task stop {task_id}")
        with reported(path):
            try:
                self.client.delete(path, recursive=True)
            except NotEmptyError as error:
                raise PositionConflict(f"{path} is written at the same time; try again") from error


@dataclass(frozen=True, slots=True)
class Status:
    """A task as operators see it. `is_by_hand`: run by `task run`, not by a node. `stat` is None where it is of an earlier process."""

    task_id: str
    state: State
    reason: str = ""
    node_id: str = ""
    order: int = 0
    run: Run | None = None
    stat: Stat | None = None
    is_by_hand: bool = False

    @property
    def is_running(self) -> bool:
        return self.state in (State.WORKING, State.RETRYING) and (self.is_by_hand or self.stat is not None)


def status_of(nodes: TaskNodes, task_id: str) -> Status:
    """How a task is, of all that ZooKeeper says. A damaged node is an ERROR with its sentence."""
    try:
        wanted, claim, run, stat = nodes.wanted(task_id), nodes.claimed_by(task_id), nodes.run(task_id), nodes.stat(task_id)
    except ConfigError as error:
        return Status(task_id, State.ERROR, str(error))
    order = wanted.order if wanted else 0
    holder = next(iter(nodes.locks(task_id).values()), None)
    runner = None if holder is None else holder.number("processId")
    current = stat if stat is not None and stat.process_id == runner else None
    status = Status(task_id, State.NEW, node_id=claim or "", order=order, run=run, stat=current)
    if claim is None and holder is not None and not holder.text("nodeId"):
        place = f"process {runner} on {holder.text('hostName') or '?'} runs it by hand"
        state = current.state if current else State.STARTING
        return replace(status, state=state, reason=(current.reason if current else "") or place, is_by_hand=True)
    if wanted is None and claim is None:
        return status
    is_of_order = run is not None and run.order == order
    if wanted is not None and wanted.is_working:
        if run is not None and is_of_order and (claim is not None or run.state in ENDED):
            return replace(status, state=run.state, reason=run.reason, node_id=claim or run.node_id)
        return replace(status, state=State.STARTING, reason="" if claim else "no node has taken it")
    if claim is None and holder is None:
        return replace(status, state=State.STOPPED, reason=run.reason if run is not None and is_of_order else "")
    return replace(
        status, state=run.state if run else State.STARTING, reason=f"stopping on node {claim or (holder and holder.text('nodeId'))}"
    )


_NAMES = {
    "node_id": "nodeId",
    "process_id": "processId",
    "rows_per_second": "rowsPerSecond",
    "lag_records": "lagRecords",
    "lag_seconds": "lagSeconds",
    "last_row": "lastRow",
}


def _fields(value: Run | Stat) -> dict[str, Any]:
    return {_NAMES.get(name, name): field for name, field in asdict(value).items()}


def _state(node: JsonNode, path: str) -> State:
    try:
        return State(node.text("state"))
    except ValueError as error:
        raise ConfigError(f"{path} names no state; delete it with zkCli") from error
