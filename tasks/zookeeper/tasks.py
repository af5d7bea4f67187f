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
from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict, astuple, dataclass, field, replace
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
from cdcbus.tasks.zookeeper.stat import Percentiles, TableCounts, from_json, to_json
from cdcbus.tasks.zookeeper.znode import (
    JsonNode,
    Watch,
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
class Batch:
    """A batch that was applied, and when; what its stages took, added up over its lanes, which
    run side by side."""

    at: str
    records: int
    decode_ms: float
    apply_ms: float
    commit_ms: float


@dataclass(frozen=True, slots=True)
class Stat:
    """How far a task is. None: not known. `at`: when this was told. `state`: as the task itself
    sees it. `last_row`: when the newest of its rows was committed at the source.

    `lag_records`, `lag_bytes`: between it and the end of its topics, or of the binlog.
    `idle_seconds`: since rows came last; `still_seconds`: how long its position has not moved
    although there is more; `batch_seconds`: how long the batch at hand has been applied.
    `skew_seconds`: by how much the source's clock is ahead of its machine's, as far as is known; it
    is taken out of lag and delays. `retention_seconds`: how long the topics, or the binlog, keep
    what it has to read. `kept_unread`: where they keep so many bytes, how much of these is still to
    be read, 1 = all; `kept_place`: the same in words. `beats`: epoch seconds of the last heartbeat
    of each source. `delays`: from stage to stage, over the last minutes, in seconds. `stages_ms`:
    of the last batch. `queued_bytes`: of records that wait for Kafka. `batches`: the last ones of a
    consumer task, oldest first. `target_lost`: what its start found the target to have lost, for an
    hour. `late_records`: left out as their sender had lost its lock; `late_at`: when the last came,
    in epoch seconds, 0 without one. `skipped`: what a fetch task has left out within an hour.
    """

    state: State
    reason: str = ""
    _: KW_ONLY
    at: str = ""
    node_id: str = ""
    process_id: int = 0
    rows: int = 0
    rows_per_second: float = 0.0
    lag_records: int | None = None
    lag_seconds: float | None = None
    last_row: str = ""
    lag_bytes: int | None = None
    idle_seconds: float | None = None
    still_seconds: float = 0.0
    batch_seconds: float = 0.0
    skew_seconds: float | None = None
    retention_seconds: float | None = None
    beats: Mapping[str, float] = field(default_factory=dict)
    delays: Mapping[str, Percentiles] = field(default_factory=dict)
    stages_ms: Mapping[str, float] = field(default_factory=dict)
    tables: tuple[TableCounts, ...] = ()
    queued_bytes: int | None = None
    kept_unread: float | None = None
    kept_place: str = ""
    batches: tuple[Batch, ...] = ()
    target_lost: str = ""
    late_records: int = 0
    late_at: float = 0.0
    skipped: str = ""


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
        put_node(self.client, f"{TASKS}/{task_id}/state", {"taskId": task_id, **_fields(run)})
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
        return Stat(
            _state(node, f"{TASKS}/{task_id}/stat"),
            node.text("reason"),
            at=node.text("at"),
            node_id=node.text("nodeId"),
            process_id=node.number("processId"),
            rows=node.number("rows"),
            rows_per_second=node.real("rowsPerSecond") or 0.0,
            lag_records=None if node.real("lagRecords") is None else node.number("lagRecords"),
            lag_seconds=node.real("lagSeconds"),
            last_row=node.text("lastRow"),
            lag_bytes=None if node.real("lagBytes") is None else node.number("lagBytes"),
            idle_seconds=node.real("idleSeconds"),
            still_seconds=node.real("stillSeconds") or 0.0,
            batch_seconds=node.real("batchSeconds") or 0.0,
            skew_seconds=node.real("skewSeconds"),
            retention_seconds=node.real("retentionSeconds"),
            beats=_reals(node.fields.get("beats")),
            delays=_percentiles(node.fields.get("delays")),
            stages_ms=_reals(node.fields.get("stagesMs")),
            tables=from_json(node.fields.get("tables")),
            queued_bytes=None if node.real("queuedBytes") is None else node.number("queuedBytes"),
            kept_unread=node.real("keptUnread"),
            kept_place=node.text("keptPlace"),
            batches=_batches(node.fields.get("batches")),
            target_lost=node.text("targetLost"),
            late_records=node.number("lateRecords"),
            late_at=node.real("lateAt") or 0.0,
            skipped=node.text("skipped"),
        )

    def put_stat(self, task_id: str, stat: Stat) -> None:
        fields = {"taskId": task_id, **_fields(stat), "tables": to_json(stat.tables)}
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


@dataclass(frozen=True, slots=True)
class Status:
    """A task as operators see it. `is_by_hand`: run by `task run`, not by a node. `stat` is None
    where it is of an earlier process. `open_dead_letters`: its dead letters, as a node has
    counted them last."""

    task_id: str
    state: State
    reason: str = ""
    node_id: str = ""
    order: int = 0
    run: Run | None = None
    stat: Stat | None = None
    is_by_hand: bool = False
    open_dead_letters: int | None = None

    @property
    def is_running(self) -> bool:
        return self.state in (State.WORKING, State.RETRYING) and (
            self.is_by_hand or self.stat is not None
        )


def status_of(nodes: TaskNodes, task_id: str) -> Status:
    """How a task is, of all that ZooKeeper says. A damaged node is an ERROR with its sentence."""
    try:
        wanted, claim, run, stat = (
            nodes.wanted(task_id),
            nodes.claimed_by(task_id),
            nodes.run(task_id),
            nodes.stat(task_id),
        )
    except ConfigError as error:
        return Status(task_id, State.ERROR, str(error))
    order = wanted.order if wanted else 0
    holder = next(iter(nodes.locks(task_id).values()), None)
    runner = None if holder is None else holder.number("processId")
    current = stat if stat is not None and stat.process_id == runner else None
    status = Status(
        task_id,
        State.NEW,
        node_id=claim or "",
        order=order,
        run=run,
        stat=current,
        open_dead_letters=nodes.open_dead_letters(task_id),
    )
    if claim is None and holder is not None and not holder.text("nodeId"):
        place = f"process {runner} on {holder.text('hostName') or '?'} runs it by hand"
        state = current.state if current else State.STARTING
        return replace(
            status,
            state=state,
            reason=(current.reason if current else "") or place,
            is_by_hand=True,
        )
    if wanted is None and claim is None:
        return status
    is_of_order = run is not None and run.order == order
    if wanted is not None and wanted.is_working:
        if run is not None and is_of_order and (claim is not None or run.state in ENDED):
            return replace(status, state=run.state, reason=run.reason, node_id=claim or run.node_id)
        return replace(status, state=State.STARTING, reason="" if claim else "no node has taken it")
    if claim is None and holder is None:
        return replace(
            status,
            state=State.STOPPED,
            reason=run.reason if run is not None and is_of_order else "",
        )
    return replace(
        status,
        state=run.state if run else State.STARTING,
        reason=f"stopping on node {claim or (holder and holder.text('nodeId'))}",
    )


_NAMES = {
    "node_id": "nodeId",
    "process_id": "processId",
    "rows_per_second": "rowsPerSecond",
    "lag_records": "lagRecords",
    "lag_seconds": "lagSeconds",
    "last_row": "lastRow",
    "lag_bytes": "lagBytes",
    "idle_seconds": "idleSeconds",
    "still_seconds": "stillSeconds",
    "batch_seconds": "batchSeconds",
    "skew_seconds": "skewSeconds",
    "retention_seconds": "retentionSeconds",
    "stages_ms": "stagesMs",
    "queued_bytes": "queuedBytes",
    "kept_unread": "keptUnread",
    "kept_place": "keptPlace",
    "target_lost": "targetLost",
    "late_records": "lateRecords",
    "late_at": "lateAt",
}
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


def _reals(value: Any) -> dict[str, float]:
    items = value.items() if isinstance(value, dict) else ()
    return {name: float(number) for name, number in items if isinstance(number, int | float)}


def _percentiles(value: Any) -> dict[str, Percentiles]:
    items = value.items() if isinstance(value, dict) else ()
    found = {name: _reals(numbers) for name, numbers in items}
    return {
        name: Percentiles(**each)
        for name, each in found.items()
        if each.keys() == {"p50", "p95", "p99"}
    }


def _batches(value: Any) -> tuple[Batch, ...]:
    rows = value if isinstance(value, list) else ()
    try:
        return tuple(Batch(**row) for row in rows)
    except TypeError:  # of another form
        return ()


def _fields(value: Run | Stat) -> dict[str, Any]:
    return {_NAMES.get(name, name): field for name, field in asdict(value).items()}


def _state(node: JsonNode, path: str) -> State:
    try:
        return State(node.text("state"))
    except ValueError as error:
        raise ConfigError(f"{path} names no state; delete it with zkCli") from error
