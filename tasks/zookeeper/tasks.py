"""What ZooKeeper knows of a task besides its text: what is wanted of it, who has taken it, how it
goes.

    /datas/task/<id>/wanted   what operators want: WORKING or STOPPED, with who and when; written by
                              `task start|stop|restart`
    /datas/task/<id>/claim    the node that has taken it; ephemeral, lives as long as the node
    /datas/task/<id>/state    how the node that has taken it last saw it
    /datas/task/<id>/stat     how far it is, told by the process that runs it
    /datas/task/<id>/error    its last failures; below it, as long as it waits for a person,
                              porter's `error/<swimlane>`
    /datas/task/<id>/letters  how many dead letters of it are open, counted by a node
    /datas/task/<id>/lock/    see `swimlane_lock`

The number of an order is the change number of `wanted`: a state that names another order is of the
past.
"""

from __future__ import annotations

import re
from dataclasses import astuple, dataclass
from typing import Any

import orjson
from kazoo.client import KazooClient
from kazoo.exceptions import NotEmptyError

from cdcbus.plugins.errors import ConfigError, PositionConflict
from cdcbus.plugins.task_status import State
from cdcbus.tasks.process_identity import identity
from cdcbus.tasks.zookeeper.audit import audited
from cdcbus.tasks.zookeeper.lock import lock_path
from cdcbus.tasks.zookeeper.positions import ROOT
from cdcbus.tasks.zookeeper.stat import Stat, stat_from_json, stat_to_json
from cdcbus.tasks.zookeeper.znode import (
    JsonNode,
    Watch,
    camel_case_fields,
    drop_node,
    get_children,
    get_node,
    is_own,
    now,
    put_node,
    reported,
    take_node,
)

TASKS = f"{ROOT}/task"
WORKING, STOPPED = "WORKING", "STOPPED"

ENDED = (State.DONE, State.ERROR)  # until the next order
FAILURES_KEPT = 20


@dataclass(frozen=True, slots=True)
class DesiredState:
    """What operators want. `order` is its number."""

    is_working: bool
    order: int
    by: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """How a node last saw a task. `restarts`: how often it was started again after failures.
    `host` and `log`: where its log file is."""

    state: State
    reason: str = ""
    order: int = 0
    node_id: str = ""
    host: str = ""
    log: str = ""
    restarts: int = 0
    since: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a task failed. `at`: when that was last so; `times`: how often in a row; `place`: the
    node, or the host and process."""

    at: str
    place: str
    sentence: str
    times: int = 1


class TaskNodes:
    """Lives as long as its client. All calls raise PositionUnavailable, PositionError, and
    ConfigError for a node that holds something else."""

    def __init__(self, client: KazooClient) -> None:
        self.client = client

    def ids(self, watch: Watch | None = None) -> list[str]:
        return get_children(self.client, TASKS, watch)

    def swimlanes(self, task_id: str) -> list[str]:
        return get_children(self.client, f"{TASKS}/{task_id}/dist")

    def wanted(self, task_id: str, watch: Watch | None = None) -> DesiredState | None:
        node = get_node(self.client, f"{TASKS}/{task_id}/wanted", watch)
        if node is None:
            return None
        status = node.usable().text("status")
        if status not in (WORKING, STOPPED):
            raise ConfigError(
                f'{TASKS}/{task_id}/wanted does not say "status":"WORKING" or "STOPPED"; start or '
                "stop the task again"
            )
        return DesiredState(status == WORKING, node.mzxid, node.text("by"), node.text("at"))

    def want(self, task_id: str, is_working: bool, by: str, what: str = "") -> None:
        """Writes what is wanted, and that it is, into the audit; `what`: as what, else as start
        or stop."""
        fields = {
            "taskId": task_id,
            "status": WORKING if is_working else STOPPED,
            "by": by,
            "at": now(),
        }
        with audited(
            self.client, by, what or f"task {'start' if is_working else 'stop'}", f"task {task_id}"
        ):
            put_node(self.client, f"{TASKS}/{task_id}/wanted", fields)
        if is_working:
            for swimlane in get_children(self.client, f"{TASKS}/{task_id}/error"):
                drop_node(self.client, f"{TASKS}/{task_id}/error/{swimlane}")

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
        return take_node(
            self.client, f"{TASKS}/{task_id}/claim", {"taskId": task_id, "nodeId": node_id}
        )

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
        """Also tells of the failure, if it is one; of the last one in porter's nodes as well."""
        put_node(
            self.client, f"{TASKS}/{task_id}/state", {"taskId": task_id, **camel_case_fields(run)}
        )
        if run.state in (State.RETRYING, State.ERROR) and run.reason:
            self.add_failure(task_id, f"node {run.node_id}", run.reason, is_again=False)
        if run.state is State.ERROR:
            for swimlane in self.swimlanes(task_id):
                put_node(
                    self.client,
                    f"{TASKS}/{task_id}/error/{swimlane}",
                    porters_error(task_id, swimlane, run),
                )

    def errors(self, task_id: str) -> list[Failure]:
        """The last FAILURES_KEPT failures, oldest first; what is damaged counts as none."""
        node = get_node(self.client, f"{TASKS}/{task_id}/error")
        told = node.fields.get("failures") if node is not None else None
        rows = told if isinstance(told, list) else ()
        return [
            Failure(str(row[0]), str(row[1]), str(row[2]), row[3])
            for row in rows
            if _is_failure(row)
        ]

    def add_failure(
        self, task_id: str, place: str, sentence: str, *, is_again: bool = True
    ) -> None:
        """One more failure. The same as the one before is counted, not told twice; not even
        counted if it is the very same one."""
        known, sentence = self.errors(task_id), _PAUSE.sub("", sentence)
        same = known.pop() if known and known[-1].sentence == sentence else None
        if same and not is_again:
            return
        failures = [*known, Failure(now(), place, sentence, same.times + 1 if same else 1)][
            -FAILURES_KEPT:
        ]
        put_node(
            self.client,
            f"{TASKS}/{task_id}/error",
            {"failures": [astuple(failure) for failure in failures]},
        )

    def stat(self, task_id: str, watch: Watch | None = None) -> Stat | None:
        node = get_node(self.client, f"{TASKS}/{task_id}/stat", watch)
        if node is None or not node.fields:
            return None
        node.usable()
        return stat_from_json(node, _state(node, f"{TASKS}/{task_id}/stat"))

    def put_stat(self, task_id: str, stat: Stat) -> None:
        fields = {"taskId": task_id, **stat_to_json(stat)}
        put_node(self.client, f"{TASKS}/{task_id}/stat", fields)

    def open_dead_letters(self, task_id: str) -> int | None:
        """Dead letters, as they were counted last; None where nobody has."""
        node = get_node(self.client, f"{TASKS}/{task_id}/letters")
        return None if node is None else node.number("open")

    def put_open_dead_letters(self, task_id: str, dead_letters: int) -> None:
        put_node(
            self.client,
            f"{TASKS}/{task_id}/letters",
            {"taskId": task_id, "open": dead_letters, "at": now()},
        )

    def locks(self, task_id: str) -> dict[str, JsonNode]:
        """Who holds each swimlane that is held, damaged nodes too."""
        directory = lock_path(task_id)
        found = {
            lane: get_node(self.client, f"{directory}/{lane}")
            for lane in get_children(self.client, directory)
        }
        return {lane: node for lane, node in found.items() if node is not None}

    def remove(self, task_id: str) -> None:
        """Deletes all that ZooKeeper has of a task. Raises PositionConflict when somebody holds
        a lock of it."""
        path = f"{TASKS}/{task_id}"
        if self.locks(task_id) or self.claimed_by(task_id):
            raise PositionConflict(
                f"task {task_id} is running; stop it first: cdcbus task stop {task_id}"
            )
        with reported(path):
            try:
                self.client.delete(path, recursive=True)
            except NotEmptyError as error:
                raise PositionConflict(f"{path} is written at the same time; try again") from error


_PAUSE = re.compile(r"; trying again in [0-9.e+-]+ s$")  # another one each time


def porters_error(task_id: str, swimlane: str, run: Run) -> dict[str, Any]:
    """porter's object of a task that waits for a person; its message is JSON text."""
    message = {
        "title": f"task {task_id} has stopped by an error",
        "content": run.reason,
        "errorCode": "",
        "receiver": [],
        "copy": [],
    }
    return {
        "taskId": task_id,
        "swimlaneId": swimlane,
        **identity(),
        "message": orjson.dumps({**message, "streamTime": now()}).decode(),
    }


def _is_failure(row: Any) -> bool:
    return isinstance(row, list) and len(row) == 4 and isinstance(row[3], int)


def _state(node: JsonNode, path: str) -> State:
    try:
        return State(node.text("state"))
    except ValueError as error:
        raise ConfigError(f"{path} names no state; delete it with zkCli") from error
