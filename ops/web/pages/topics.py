"""The pages of topics: those of all Kafka clusters that tasks name, and the row changes in one,
decoded, with their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from cdcbus.consumer.config import LoadTask
from cdcbus.ops.services.dead_letter_counts import dead_letter_topic_of
from cdcbus.ops.services.row_view import is_wanted, key_text, utc
from cdcbus.ops.services.topics import access_of
from cdcbus.ops.web import actions
from cdcbus.ops.web.answers import Refused
from cdcbus.ops.web.auth import has_all_tasks
from cdcbus.ops.web.bus import bus_of
from cdcbus.ops.web.cells import short
from cdcbus.ops.web.pages.live import stream
from cdcbus.ops.web.pages.rendering import live_parts, page
from cdcbus.ops.web.pages.shared import shared
from cdcbus.plugins.errors import CdcError, ConversionError
from cdcbus.plugins.kafka.config import PublishConfig
from cdcbus.plugins.kafka.topic_log import Access, KafkaRecord, TopicLog
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Cell, Op, RowChange
from cdcbus.producer.config import FetchTask
from cdcbus.tasks.config.diagnostics import printable
from cdcbus.tasks.control.uses import kafka_of

NEWEST = 50  # records of each partition that a topic's page reads
MOST_NEWEST = 1000
TAIL_SECONDS = 3.0
ROWS = 200  # shown at most


router = APIRouter()


@dataclass(frozen=True, slots=True)
class TopicRow:
    """A topic. `task_id`: a task that says how to reach it. `records`: how many Kafka holds now;
    None for a topic that no task names. `letters_of`: tasks that send their dead letters to it;
    `senders`: tasks that forward rows to it, with the topics that they read."""

    name: str
    task_id: str
    partitions: int
    replicas: int
    records: int | None
    writers: Sequence[str]
    readers: Sequence[str]
    letters_of: Sequence[str]
    senders: Sequence[tuple[str, Sequence[str]]] = ()


@dataclass(frozen=True, slots=True)
class Cluster:
    """A Kafka cluster and its topics, those of tasks first. `away`: why it does not answer."""

    servers: str
    topics: Sequence[TopicRow]
    away: str = ""


@dataclass(frozen=True, slots=True)
class CellChange:
    """A cell of a row change. `before`: only where it is known and differs. None is NULL."""

    name: str
    value: Cell
    before: Cell = None
    is_changed: bool = False
    is_key: bool = False


@dataclass(frozen=True, slots=True)
class TailRow:
    """A row change, or why a record cannot be read (then `op` is empty)."""

    time: str
    place: str
    key: str
    op: str
    table: str
    cells: Sequence[CellChange]
    unreadable: str = ""


def topics_of(task: FetchTask | LoadTask) -> tuple[str, ...]:
    """The topics that a task writes or reads."""
    if isinstance(task, LoadTask):
        return task.source.topics
    return (task.publish.topic,)


def clusters(
    tasks: Iterable[FetchTask | LoadTask], lacking: Callable[[FetchTask | LoadTask], str]
) -> list[Cluster]:
    """All clusters that tasks name. Each is reached by the settings of the first task that is
    `lacking` nothing here to log in; one that does not answer takes a few seconds."""
    by_servers: dict[str, list[FetchTask | LoadTask]] = {}
    for task in tasks:
        by_servers.setdefault(access_of(task).servers, []).append(task)
    found = []
    for servers, users in sorted(by_servers.items()):
        complete = next((task for task in users if not lacking(task)), None)
        if complete is None:
            found.append(Cluster(servers, (), lacking(users[0])))
        else:
            found.append(_cluster(servers, users, access_of(complete)))
    return found


def _cluster(servers: str, tasks: Sequence[FetchTask | LoadTask], access: Access) -> Cluster:
    try:
        with TopicLog(access) as log:
            rows = []
            for name, (partitions, replicas) in log.topics().items():
                rows.append(_topic(log, name, partitions, replicas, tasks))
    except CdcError as error:
        return Cluster(servers, (), str(error))
    return Cluster(servers, sorted(rows, key=lambda row: (row.records is None, row.name)))


def _topic(
    log: TopicLog, name: str, partitions: int, replicas: int, tasks: Sequence[FetchTask | LoadTask]
) -> TopicRow:
    writers: list[str] = []
    readers: list[str] = []
    letters_of: list[str] = []
    senders: list[tuple[str, Sequence[str]]] = []
    users: list[str] = []
    for task in tasks:
        if name in topics_of(task):
            users.append(task.task_id)
            if isinstance(task, FetchTask):
                writers.append(task.task_id)
            else:
                readers.append(task.task_id)
        if name == dead_letter_topic_of(task):
            letters_of.append(task.task_id)
        if isinstance(task, LoadTask) and _sends_to(task, name):
            senders.append((task.task_id, task.source.topics))
    # Only of topics that tasks name: each bound is a request to Kafka.
    records = None
    if users or letters_of or senders:
        records = sum(end - low for low, end in log.bounds(name).values())
    # All tasks here share the cluster, so any of them can be named for a topic that none uses.
    if not users:
        users = [task_id for task_id, _ in senders] or [tasks[0].task_id]
    return TopicRow(
        name=name,
        task_id=users[0],
        partitions=partitions,
        replicas=replicas,
        records=records,
        writers=writers,
        readers=readers,
        letters_of=letters_of,
        senders=senders,
    )


def _sends_to(task: LoadTask, topic: str) -> bool:
    """Whether a task from Kafka to the same Kafka writes to a topic."""
    target = task.target
    return (
        isinstance(target, PublishConfig)
        and target.servers == task.source.servers
        and target.topic == topic
    )


def tail(
    task: FetchTask | LoadTask, topic: str, count: int, tables: Sequence[str], key: str, op: str
) -> list[TailRow]:
    """The row changes in the newest `count` records of each partition, newest first, at most ROWS.
    Raises BusError."""
    access = access_of(task)
    converter = make_converter(access.converter, access.time_zone)
    with TopicLog(access) as log:
        records = log.newest(topic, count)
    ops = (op,) if op else ()
    rows: list[TailRow] = []
    records.sort(key=lambda record: (record.time_ms, record.partition, record.offset))
    for record in records:
        if record.value is None:
            # A tombstone holds no row.
            continue
        try:
            changes = converter.from_bytes(record.value)
        except ConversionError as error:
            rows.append(_unreadable(record, error))
            continue
        for change in changes:
            if is_wanted(record, change, tables, key or None, ops):
                rows.append(_row(record, change))
    newest = rows[-ROWS:]
    newest.reverse()
    return newest


def _unreadable(record: KafkaRecord, error: ConversionError) -> TailRow:
    sentence = printable(str(error))
    return TailRow(utc(record.time_ms), _place(record), key_text(record), "", "", (), sentence)


def _row(record: KafkaRecord, change: RowChange) -> TailRow:
    return TailRow(
        utc(record.time_ms),
        _place(record),
        key_text(record),
        change.op.value,
        printable(str(change.table.id)),
        cells_of(change),
    )


def cells_of(change: RowChange) -> list[CellChange]:
    """All cells of a row that was inserted or deleted; of an update the key and the cells that it
    changed."""
    before = change.before or {}
    after = change.after or {}
    key = change.table.key
    found = []
    if change.op is not Op.UPDATE:
        for name, cell in (after or before).items():
            found.append(CellChange(printable(name), short(cell), is_key=name in key))
        return found
    key_names = [name for name in key if name in after]
    others = [name for name in after if name not in key]
    for name in key_names + others:
        # A cell whose value before is not known may have changed, so it is shown.
        is_unknown = name not in before
        is_changed = not is_unknown and before[name] != after[name]
        if is_changed or is_unknown or name in key:
            was = None
            if is_changed:
                was = short(before[name])
            cell = short(after[name])
            found.append(CellChange(printable(name), cell, was, is_changed, name in key))
    return found


def _place(record: KafkaRecord) -> str:
    return f"{record.partition}@{record.offset}"


@router.get("/topics")
def topics_page(request: Request) -> Response:
    tasks = shared(request).tasks
    found = clusters(tasks.all(), partial(tasks.lacking, uses=kafka_of))
    return page(request, "topics.html", {"clusters": found}, section="/topics")


@dataclass(frozen=True, slots=True)
class _Shown:
    """The rows of a topic that a page shows."""

    topic: str
    task: str
    table: str = ""
    key: str = ""
    op: str = ""
    newest: int = NEWEST

    @property
    def query(self) -> str:
        fields = asdict(self)
        del fields["topic"]  # it is in the path
        return urlencode(fields)


Newest = Annotated[int, Query(ge=1, le=MOST_NEWEST)]


@router.get("/topics/{topic}")
def topic_page(
    request: Request,
    topic: str,
    task: str = "",
    table: str = "",
    key: str = "",
    op: str = "",
    newest: Newest = NEWEST,
) -> Response:
    if (refused := without_login(request)) is not None:
        return refused
    wanted = _Shown(topic, task or task_naming(request, topic), table, key, op, newest)
    live = f"/live/topics/{quote(topic, safe='')}?{wanted.query}"
    values = {"ops": list(Op), **_tail_values(request, wanted)}
    return page(request, "topic.html", values, section="/topics", live=live)


@router.get("/live/topics/{topic}")
def topic_live(
    request: Request,
    topic: str,
    task: str,
    table: str = "",
    key: str = "",
    op: str = "",
    newest: Newest = NEWEST,
) -> Response:
    if (refused := without_login(request)) is not None:
        return refused
    wanted = _Shown(topic, task, table, key, op, newest)
    return stream(
        request, lambda: live_parts("topic.html", _tail_values(request, wanted)), TAIL_SECONDS
    )


def without_login(request: Request) -> Response | None:
    """The redirect for somebody who may not see rows, else None: if there is a token, only those
    who have it may, also on loopback."""
    if not bus_of(request).has_way_in or has_all_tasks(request):
        return None
    if request.state.operator is not None:
        raise Refused(403, "rows are shown to those who operate all tasks")
    return RedirectResponse(f"/login?next={quote(request.scope['path'])}", 303)


def task_naming(request: Request, topic: str) -> str:
    for task in shared(request).tasks.all():
        if topic in topics_of(task):
            return task.task_id
    raise Refused(404, f"no task names topic {topic}")


def _tail_values(request: Request, wanted: _Shown) -> dict[str, Any]:
    task = actions.stored_task(bus_of(request), wanted.task)
    tables = wanted.table.split()
    key, op = wanted.key.strip(), wanted.op.lower()
    return {
        "wanted": wanted,
        "today": f"{datetime.now(UTC):%Y-%m-%d}",
        "rows": tail(task, wanted.topic, wanted.newest, tables, key, op),
    }
