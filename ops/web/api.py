"""The API: what the commands do, for programs. /api/openapi.json describes it.

Changes take POST, answer immediately, and are in the audit; read the task to see when they have
taken effect. An error is `{"error": "a sentence"}`: 401 and 403 without the token, 404 for what
does not exist, 409 where the current state does not allow it, 422 for a malformed body, 503 where
ZooKeeper, Kafka or a source is unreachable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Security
from fastapi.security import HTTPBearer

from cdcbus.consumer.config import LoadTask
from cdcbus.ops.services.scheduling import explained
from cdcbus.ops.services.snapshots import TableSnapshot, snapshots_of
from cdcbus.ops.services.task_fields import as_fields
from cdcbus.ops.web import actions, api_models
from cdcbus.ops.web.answers import Refused
from cdcbus.ops.web.api_models import (
    Alarms,
    Change,
    Letter,
    Letters,
    Limit,
    NewPosition,
    Node,
    Noted,
    OpenWish,
    Position,
    Problem,
    Replayed,
    Reset,
    ResetTarget,
    Resolved,
    Silence,
    SnapshotOrder,
    Snapshots,
    SnapshotWish,
    Task,
    TaskDetail,
    Topic,
    Topics,
    Undo,
)
from cdcbus.ops.web.auth import operator_of
from cdcbus.ops.web.bus import WebBus, bus_of
from cdcbus.ops.web.pages import alarms as alarm_views
from cdcbus.plugins.errors import CdcError
from cdcbus.producer.config import FetchTask
from cdcbus.producer.snapshot.progress import Wish, WishKind
from cdcbus.tasks.control.reset import Target
from cdcbus.tasks.control.uses import nothing_of
from cdcbus.tasks.verify.last import VerifyNodes
from cdcbus.tasks.zookeeper import audit
from cdcbus.tasks.zookeeper.lock import described
from cdcbus.tasks.zookeeper.node_registry import BusNodes, NodeInfo
from cdcbus.tasks.zookeeper.position.history import histories, positions_of
from cdcbus.tasks.zookeeper.status import Status, seen_status
from cdcbus.tasks.zookeeper.tasks import TaskNodes

_Bus = Annotated[WebBus, Depends(bus_of)]
# Each change takes it, for the audit.
_Who = Annotated[str, Depends(operator_of)]
# For the description only: `Guard` checks tokens.
_token = Security(HTTPBearer(auto_error=False, description="The setting http.token of the node."))

router = APIRouter(
    prefix="/api",
    responses={status: {"model": Problem} for status in (401, 404, 409, 503)},
    dependencies=[_token],
)


@router.get("/tasks", summary="All tasks and their states")
def tasks(bus: _Bus) -> list[Task]:
    nodes = TaskNodes(bus.client)
    found = []
    for task_id in nodes.ids():
        status = explained(bus.client, seen_status(nodes, task_id))
        found.append(_task(status))
    return found


@router.get("/tasks/{task_id}", summary="One task, with its positions and its processes")
def task(task_id: str, bus: _Bus) -> TaskDetail:
    status = actions.known_task(bus, task_id)
    nodes = TaskNodes(bus.client)
    locks = {swimlane: described(lock) for swimlane, lock in nodes.locks(task_id).items()}
    return TaskDetail(
        **_task(status).model_dump(),
        swimlanes=nodes.swimlanes(task_id),
        locks=locks,
        positions=positions_of(bus.client, task_id),
        verify=_verified(bus, task_id),
    )


def _verified(bus: WebBus, task_id: str) -> api_models.LastVerify | None:
    last = VerifyNodes(bus.client).last(task_id)
    if last is None:
        return None
    return api_models.LastVerify(result=last.word, **asdict(last))


@router.post("/tasks/{task_id}/start", status_code=202, summary="Start it on a node")
def start(task_id: str, bus: _Bus, who: _Who) -> Task:
    return _task(actions.start(bus, task_id, who))


@router.post("/tasks/{task_id}/stop", status_code=202, summary="Stop it, with its positions stored")
def stop(task_id: str, bus: _Bus, who: _Who) -> Task:
    return _task(actions.stop(bus, task_id, who))


@router.post(
    "/tasks/{task_id}/restart",
    status_code=202,
    summary="Restart it with its current text",
)
def restart(task_id: str, bus: _Bus, who: _Who) -> Task:
    return _task(actions.restart(bus, task_id, who))


@router.get(
    "/tasks/{task_id}/positions", summary="Its stored positions, and those that were set before"
)
def positions(task_id: str, bus: _Bus) -> list[Position]:
    actions.known_task(bus, task_id)
    stored = positions_of(bus.client, task_id)
    changes = histories(bus.client, task_id)
    # Also those that the task's text no longer names.
    swimlanes = dict.fromkeys([*TaskNodes(bus.client).swimlanes(task_id), *stored, *changes])
    found = []
    for swimlane in swimlanes:
        history = [Change(**change.to_fields()) for change in changes.get(swimlane, ())]
        position = stored.get(swimlane)
        found.append(Position(swimlane=swimlane, position=position, history=history))
    return found


@router.post(
    "/tasks/{task_id}/positions/reset",
    summary="Set its positions to a place, or show what that would mean",
)
def reset(task_id: str, place: ResetTarget, bus: _Bus, who: _Who) -> Reset:
    topic, partition = place.topic, place.partition
    if place.dry_run:
        targets = actions.reset_preview(bus, task_id, place.to, topic, partition).targets
    else:
        targets = actions.reset(bus, task_id, place.to, who, topic, partition, place.live)
    return Reset(is_set=not place.dry_run, positions=_new(targets))


@router.post(
    "/tasks/{task_id}/positions/undo",
    summary="Restore a position to the one before its last change",
)
def undo(task_id: str, what: Undo, bus: _Bus, who: _Who) -> NewPosition:
    return NewPosition(
        swimlane=what.swimlane,
        position=actions.undo(bus, task_id, what.swimlane, who, what.live, what.at, what.after),
        means=[],
    )


@router.get("/tasks/{task_id}/snapshot", summary="The progress of its snapshots or its direct load")
def snapshots(task_id: str, bus: _Bus) -> Snapshots:
    actions.known_task(bus, task_id)
    found = snapshots_of(bus.client, task_id)
    return Snapshots(
        is_direct=found.direct is not None,
        why=found.why,
        tables=list(map(_table_snapshot, found.tables)),
        wishes=[OpenWish(**each.to_fields()) for each in found.wishes],
    )


@router.post(
    "/tasks/{task_id}/snapshot/{kind}",
    status_code=202,
    summary="Start, pause, resume or stop snapshots of its tables",
)
def snapshot(
    task_id: str, kind: WishKind, bus: _Bus, who: _Who, which: SnapshotWish | None = None
) -> SnapshotOrder:
    which = which or SnapshotWish(tables=[])
    what = Wish(kind, tuple(which.tables), which.where, which.force)
    return SnapshotOrder(**asdict(actions.snapshot(bus, task_id, what, who)))


@router.get("/tasks/{task_id}/dlq", summary="Its open dead letters")
def dead_letters(task_id: str, bus: _Bus) -> list[Letter]:
    letters = []
    for each in actions.dead_letters(bus, task_id):
        dead_letter = each.dead_letter
        letter = Letter(record=dead_letter.record, time=each.time, reason=dead_letter.reason)
        letters.append(letter)
    return letters


@router.post(
    "/tasks/{task_id}/dlq/replay",
    summary="Append original records to their partitions, and mark their dead letters resolved",
)
def replay(task_id: str, which: Replayed, bus: _Bus, who: _Who) -> Resolved:
    return Resolved(count=actions.dlq_replay(bus, task_id, _records(which), who, which.force))


@router.post("/tasks/{task_id}/dlq/drop", summary="Resolve dead letters without applying them")
def drop(task_id: str, which: Letters, bus: _Bus, who: _Who) -> Resolved:
    return Resolved(count=actions.dlq_drop(bus, task_id, _records(which), who))


@router.get("/alarms", summary="The alarms of all tasks, their notices, and silences")
def alarms(bus: _Bus) -> list[Alarms]:
    return [_alarms(bus, task_id) for task_id in TaskNodes(bus.client).ids()]


@router.post(
    "/tasks/{task_id}/silence",
    summary="Send no alarm of it for a while; what is still wrong at the end is sent then",
)
def silence(task_id: str, how_long: Silence, bus: _Bus, who: _Who) -> Alarms:
    actions.silence(bus, [task_id], how_long.seconds, who)
    return _alarms(bus, task_id)


@router.get("/nodes", summary="All nodes and their states")
def nodes(bus: _Bus) -> list[Node]:
    return list(map(_node, BusNodes(bus.client).all()))


@router.get("/nodes/{node_id}", summary="One node")
def node(node_id: str, bus: _Bus) -> Node:
    return _node(actions.known_node(bus, node_id))


@router.post(
    "/nodes/{node_id}/drain", status_code=202, summary="Make it give up its tasks and take no more"
)
def drain(node_id: str, bus: _Bus, who: _Who) -> Node:
    return _node(actions.drain(bus, node_id, who))


@router.post("/nodes/{node_id}/resume", status_code=202, summary="Let it take tasks again")
def resume(node_id: str, bus: _Bus, who: _Who) -> Node:
    return _node(actions.resume(bus, node_id, who))


@router.post(
    "/nodes/{node_id}/limit", status_code=202, summary="Set how many swimlanes it runs at most"
)
def limit(node_id: str, most: Limit, bus: _Bus, who: _Who) -> Node:
    return _node(actions.limit(bus, node_id, most.swimlanes, who))


@router.get("/topics", summary="The topics of all tasks: who writes and who reads them")
def topics(bus: _Bus) -> Topics:
    writers: dict[str, list[str]] = {}
    readers: dict[str, list[str]] = {}
    unreadable: dict[str, str] = {}
    for task_id in TaskNodes(bus.client).ids():
        try:
            # Only names of topics are needed, so no secret has to be available here.
            found = actions.stored_task(bus, task_id, nothing_of)
        except CdcError as error:
            unreadable[task_id] = str(error)
            continue
        if isinstance(found, FetchTask):
            writers.setdefault(found.publish.topic, []).append(task_id)
        elif isinstance(found, LoadTask):
            for topic in found.source.topics:
                readers.setdefault(topic, []).append(task_id)
    listed = []
    for name in sorted(writers.keys() | readers.keys()):
        written_by, read_by = writers.get(name, []), readers.get(name, [])
        listed.append(Topic(topic=name, written_by=written_by, read_by=read_by))
    return Topics(topics=listed, unreadable=unreadable)


@router.get("/audit", summary="What operators did, the newest last")
def audited(bus: _Bus, newest: Annotated[int, Query(ge=1, le=audit.KEPT)] = 100) -> list[Noted]:
    return [Noted(**asdict(action)) for action in audit.actions(bus.client, newest)]


def _task(status: Status) -> Task:
    fields: dict[str, Any] = as_fields(status)
    return Task(**fields)


def _table_snapshot(found: TableSnapshot) -> api_models.TableSnapshot:
    """The progress of a table without the row keys that it has reached: those are cells."""
    progress = found.progress
    return api_models.TableSnapshot(
        table=str(found.table),
        state=progress.state,
        rows=progress.rows,
        estimated_rows=progress.estimated_rows,
        bytes=progress.bytes,
        rows_per_second=round(found.rows_per_second, 1),
        seconds_left=found.seconds_left,
        where=progress.where,
        reason=progress.reason,
    )


def _alarms(bus: WebBus, task_id: str) -> Alarms:
    fields = asdict(alarm_views.alarms_of(bus, task_id))
    for each in (*fields["raised"], *fields["notices"]):
        del each["task_id"]
    return Alarms(**fields)


def _node(info: NodeInfo) -> Node:
    fields = {**asdict(info), "state": info.status, "used": info.used}
    del fields["wish"], fields["is_there"]
    return Node(**fields)


def _new(targets: Mapping[str, Target]) -> list[NewPosition]:
    positions = []
    for swimlane, target in targets.items():
        means = list(target.means)
        positions.append(NewPosition(swimlane=swimlane, position=target.text, means=means))
    return positions


def _records(which: Letters) -> list[str] | None:
    # Exactly one of the two: an empty list must not stand for all.
    if bool(which.records) == which.all:
        raise Refused(422, 'name records as GET .../dlq lists them, or say "all": true')
    if which.all:
        return None
    return which.records
