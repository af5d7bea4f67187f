"""What ZooKeeper holds of a task besides its text: commands, the node that runs it, its state.

    /datas/task/<id>/wanted   what operators want: WORKING or STOPPED, with who and when; written by
                              `task start|stop|restart`
    /datas/task/<id>/claim    the node that has taken it; ephemeral, lives as long as the node
    /datas/task/<id>/state    the state in which that node last saw it
    /datas/task/<id>/stat     its progress, reported by the process that runs it
    /datas/task/<id>/error    its last failures; below it, while it waits for a person, porter's
                              `error/<swimlane>`
    /datas/task/<id>/letters  the number of its open dead letters, counted by a node
    /datas/task/<id>/lock/    see `lock`

The number of a command (`order`) is the change number of `wanted`; a state with another number is
outdated.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any

import orjson
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError, NotEmptyError

from cdcbus.plugins.errors import ConfigError, PositionConflict, PositionError
from cdcbus.plugins.task_status import State
from cdcbus.tasks.process_identity import identity
from cdcbus.tasks.zookeeper.audit import audited
from cdcbus.tasks.zookeeper.connection import ROOT, is_silence
from cdcbus.tasks.zookeeper.lock import left_lock, live, lock_path
from cdcbus.tasks.zookeeper.stat import Stat, stat_from_json, stat_to_json
from cdcbus.tasks.zookeeper.znode import (
    JsonNode,
    Watch,
    answer,
    camel_case_fields,
    drop_node,
    drop_tree,
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

# Until the next command.
ENDED = (State.DONE, State.ERROR)
FAILURES_KEPT = 20
# Of three in an hour, no more than two others can be later, unless these are three in an hour, too.
RESTARTS_KEPT = 5
# A sentence can name a GTID set of hundreds of kilobytes, and FAILURES_KEPT of them must stay below
# ZooKeeper's limit of 1 MB.
SENTENCE_CHARACTERS = 4000


@dataclass(frozen=True, slots=True)
class DesiredState:
    """What operators want of a task. `order`: the number of their last command."""

    is_working: bool
    order: int
    by: str = ""
    at: str = ""


@dataclass(frozen=True, slots=True)
class Run:
    """A task as its node last saw it. `restarts`: the number of restarts after failures in a row.
    `host` and `log`: where its log file is. `given`: what operators had given it when it was
    started. `all_restarts`: after failures, since an operator started it; `restarted_at`: when the
    last RESTARTS_KEPT of them were, in epoch seconds."""

    state: State
    reason: str = ""
    order: int = 0
    node_id: str = ""
    host: str = ""
    log: str = ""
    restarts: int = 0
    since: str = ""
    given: str = ""
    all_restarts: int = 0
    restarted_at: tuple[int, ...] = ()

    def restarted(self, at: float) -> Run:
        """The run with one more restart after a failure."""
        times = (*self.restarted_at, int(at))[-RESTARTS_KEPT:]
        return replace(self, all_restarts=self.all_restarts + 1, restarted_at=times)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a task failed. `at`: the last time. `times`: how often in a row. `place`: the node, or
    the host and process."""

    at: str
    place: str
    sentence: str
    times: int = 1


class TaskNodes:
    """The znodes of tasks. Usable while its client is. All calls raise PositionUnavailable,
    PositionError, and ConfigError for a znode that holds something else."""

    def __init__(self, client: KazooClient) -> None:
        self.client = client

    def ids(self, watch: Watch | None = None) -> list[str]:
        return get_children(self.client, TASKS, watch)

    def swimlanes(self, task_id: str) -> list[str]:
        return get_children(self.client, f"{TASKS}/{task_id}/dist")

    def has_text(self, task_id: str) -> bool:
        """Whether ZooKeeper holds a text of the task, also one that it refuses. Raises
        PositionUnavailable."""
        try:
            return bool(self.swimlanes(task_id))
        except PositionError as error:
            if is_silence(error):
                raise
            return True  # else there would be no right to lack

    def made(self, task_id: str) -> int:
        """The number of the change that made the folder of the task's texts, 0 where there is none:
        it stays when the task is imported over itself, or ZooKeeper restored from its files, and is
        another one once the task was removed and imported again, or its tree copied back."""
        node = get_node(self.client, f"{TASKS}/{task_id}/dist")
        return node.czxid if node is not None else 0

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

    def want(
        self, task_id: str, is_working: bool, by: str, what: str = "", order: int | None = None
    ) -> None:
        """Gives a command, recorded in the audit as `what`, by default as start or stop. `order`:
        raises PositionConflict where this is no longer the last command."""
        status = WORKING if is_working else STOPPED
        fields = {"taskId": task_id, "status": status, "by": by, "at": now()}
        if not what:
            what = "task start" if is_working else "task stop"
        path = f"{TASKS}/{task_id}/wanted"
        with audited(self.client, by, what, f"task {task_id}"):
            if order is None:
                put_node(self.client, path, fields)
            else:
                self._replace(path, fields, order)
        # Starting the task again resolves porter's errors of it.
        if is_working:
            for swimlane in get_children(self.client, f"{TASKS}/{task_id}/error"):
                drop_node(self.client, f"{TASKS}/{task_id}/error/{swimlane}")

    def want_again(self, task_id: str, by: str, what: str) -> DesiredState | None:
        """Starts a task whose command is gone; returns the command, None where another one is there
        by now. Recorded in the audit."""
        path = f"{TASKS}/{task_id}/wanted"
        fields = {"taskId": task_id, "status": WORKING, "by": by, "at": now()}
        with audited(self.client, by, what, f"task {task_id}"), reported(path):
            try:
                answer(self.client.create_async(path, orjson.dumps(fields)))
            # Or the whole task is gone.
            except (NodeExistsError, NoNodeError):
                return None
        desired = self.wanted(task_id)
        return desired if desired is not None and desired.by == by else None

    def _replace(self, path: str, fields: Mapping[str, object], order: int) -> None:
        """Writes a command in place of the one with this number, and of no other."""
        node = get_node(self.client, path)
        with reported(path):
            try:
                if node is not None and node.mzxid == order:
                    answer(self.client.set_async(path, orjson.dumps(fields), version=node.version))
                    return
            except (BadVersionError, NoNodeError):
                pass
        raise PositionConflict(f"{path} holds another command by now, which counts")

    def claimed_by(self, task_id: str, watch: Watch | None = None) -> str | None:
        """The node that has taken the task, if any. A claim of no session, as a copy of the tree
        can hold, is none: its node may not exist here."""
        node = get_node(self.client, f"{TASKS}/{task_id}/claim", watch)
        if node is None or not node.owner:
            return None
        return node.text("nodeId") or "?"

    def is_mine(self, task_id: str) -> bool:
        """Whether this client's session holds the claim."""
        return is_own(self.client, get_node(self.client, f"{TASKS}/{task_id}/claim"))

    def claim(self, task_id: str, node_id: str) -> bool:
        """Takes the task for a node; False when another one has it."""
        # Checked first, as a failed create costs more, and ZooKeeper logs it.
        if self.is_mine(task_id):
            return True
        return take_node(
            self.client, f"{TASKS}/{task_id}/claim", {"taskId": task_id, "nodeId": node_id}
        )

    def release(self, task_id: str) -> None:
        """Gives the task back, if this session has it."""
        if self.is_mine(task_id):
            drop_node(self.client, f"{TASKS}/{task_id}/claim")

    def run(self, task_id: str, watch: Watch | None = None) -> Run | None:
        node = get_node(self.client, f"{TASKS}/{task_id}/state", watch)
        if node is None:
            return None
        node.usable()
        restarts = node.number("restarts")
        return Run(
            _state(node, f"{TASKS}/{task_id}/state"),
            node.text("reason"),
            node.number("order"),
            node.text("nodeId"),
            node.text("host"),
            node.text("log"),
            restarts,
            node.text("since"),
            node.text("given"),
            # An earlier version does not write it.
            node.number("allRestarts", restarts),
            _whole_numbers(node.fields.get("restartedAt")),
        )

    def put_run(self, task_id: str, run: Run, listed_since: str = "") -> None:
        """Writes the state, and adds a failure to the list, see `add_failure`; if the task waits
        for a person, also to porter's znodes."""
        run = replace(run, reason=_shortened(run.reason))
        put_node(
            self.client, f"{TASKS}/{task_id}/state", {"taskId": task_id, **camel_case_fields(run)}
        )
        if run.state in (State.RETRYING, State.ERROR) and run.reason:
            self.add_failure(task_id, f"node {run.node_id}", run.reason, listed_since)
        if run.state is State.ERROR:
            # porter has an error znode for each swimlane, not for each task.
            for swimlane in self.swimlanes(task_id):
                put_node(
                    self.client,
                    f"{TASKS}/{task_id}/error/{swimlane}",
                    porters_error(task_id, swimlane, run),
                )

    def errors(self, task_id: str) -> list[Failure]:
        """The last FAILURES_KEPT failures, oldest first, without damaged ones."""
        node = get_node(self.client, f"{TASKS}/{task_id}/error")
        if node is None:
            return []
        stored = node.fields.get("failures")
        if not isinstance(stored, list):
            return []
        failures = []
        for row in stored:
            match row:
                case [at, place, sentence, int(times)]:
                    failures.append(Failure(str(at), str(place), str(sentence), times))
        return failures

    def add_failure(
        self, task_id: str, place: str, sentence: str, listed_since: str | None = None
    ) -> None:
        """Adds a failure. One with the same sentence as the last is counted, not listed twice.
        `listed_since`: where the last was listed since then, empty: at any time, it is the very
        same failure, which is not counted either."""
        failures = self.errors(task_id)
        # Before comparing, so that a failure after a longer pause counts as the same.
        sentence = _shortened(without_pause(sentence))
        times, at = 1, now()
        if failures and failures[-1].sentence == sentence:
            # One that is later than now is of a clock that was ahead.
            if listed_since is not None and listed_since <= failures[-1].at <= at:
                return
            times += failures.pop().times
        failures.append(Failure(at, place, sentence, times))
        kept = [astuple(failure) for failure in failures[-FAILURES_KEPT:]]
        put_node(self.client, f"{TASKS}/{task_id}/error", {"failures": kept})

    def stat(self, task_id: str, watch: Watch | None = None) -> Stat | None:
        node = get_node(self.client, f"{TASKS}/{task_id}/stat", watch)
        if node is None or not node.fields:
            return None
        node.usable()
        return stat_from_json(node, _state(node, f"{TASKS}/{task_id}/stat"))

    def put_stat(self, task_id: str, stat: Stat) -> None:
        stat = replace(stat, reason=_shortened(stat.reason))
        fields = {"taskId": task_id, **stat_to_json(stat)}
        put_node(self.client, f"{TASKS}/{task_id}/stat", fields)

    def open_dead_letters(self, task_id: str) -> int | None:
        """The last count of open dead letters; None where they were never counted."""
        node = get_node(self.client, f"{TASKS}/{task_id}/letters")
        if node is None:
            return None
        return node.number("open")

    def put_open_dead_letters(self, task_id: str, dead_letters: int) -> None:
        put_node(
            self.client,
            f"{TASKS}/{task_id}/letters",
            {"taskId": task_id, "open": dead_letters, "at": now()},
        )

    def locks(self, task_id: str) -> dict[str, JsonNode]:
        """The holder of each locked swimlane, damaged znodes included."""
        directory = lock_path(task_id)
        holders = {}
        for swimlane in get_children(self.client, directory):
            node = get_node(self.client, f"{directory}/{swimlane}")
            # Otherwise it was released between the two requests.
            if node is not None:
                holders[swimlane] = node
        return holders

    def remove(self, task_id: str) -> None:
        """Deletes everything that ZooKeeper holds of a task. Raises PositionConflict when it runs,
        is claimed by a node, or may be at any moment."""
        path = f"{TASKS}/{task_id}"
        locks = self.locks(task_id)
        if not live(locks) and (left := left_lock(task_id, locks)):
            raise PositionConflict(f"task {task_id}: {left}")
        if locks or self.claimed_by(task_id):
            raise PositionConflict(
                f"task {task_id} is running; stop it first: cdcbus task stop {task_id}"
            )
        # Also one that has ended: a node takes it again when its text or position changes.
        desired = self.wanted(task_id)
        if desired is not None and desired.is_working:
            raise PositionConflict(
                f"task {task_id} was started, and a node may take it at any moment; stop it first: "
                f"cdcbus task stop {task_id}"
            )
        try:
            drop_tree(self.client, path)
        # A process that still reports creates znodes while they are deleted.
        except NotEmptyError as error:
            raise PositionConflict(f"{path} is written at the same time; try again") from error


_PAUSE = re.compile(r"; trying again in [0-9.e+-]+ s$")


def without_pause(sentence: str) -> str:
    """A failure's sentence without its pause, which differs each time and would make one failure
    many."""
    return _PAUSE.sub("", sentence)


def _shortened(sentence: str) -> str:
    """The sentence without its middle if it is too long: the end often says what to do."""
    left_out = len(sentence) - SENTENCE_CHARACTERS
    if left_out <= 0:
        return sentence
    half = SENTENCE_CHARACTERS // 2
    return f"{sentence[:half]} ... ({left_out:,} characters, see the log) ... {sentence[-half:]}"


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


def _state(node: JsonNode, path: str) -> State:
    try:
        return State(node.text("state"))
    except ValueError as error:
        raise ConfigError(
            f"{path} names no state that this cdcbus knows; it may be of a newer cdcbus: run that "
            "one. Otherwise delete it with zkCli"
        ) from error


def _whole_numbers(stored: object) -> tuple[int, ...]:
    """The whole numbers of a list; none of anything else."""
    if not isinstance(stored, list):
        return ()
    # `type` and not `isinstance`, as a bool would pass for an int.
    return tuple(each for each in stored if type(each) is int)
