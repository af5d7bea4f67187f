"""/metrics, for Prometheus. Every node reports all tasks and nodes, so that a task without a node
is visible too: scrape one node, or take the maximum over all. `METRICS` has all metrics;
docs/http.md has a row for each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from fastapi import APIRouter, Request
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.registry import Collector
from starlette.responses import Response

from cdcbus import __version__
from cdcbus.ops.web.bus import WebBus
from cdcbus.ops.web.overview.read_ahead import metrics_ahead
from cdcbus.ops.web.overview.shared_look import SharedLook
from cdcbus.plugins.errors import PositionError
from cdcbus.tasks.verify.last import LastVerify, VerifyNodes
from cdcbus.tasks.zookeeper.connection import is_silence
from cdcbus.tasks.zookeeper.node_registry import BusNodes, NodeInfo
from cdcbus.tasks.zookeeper.stat import Stat
from cdcbus.tasks.zookeeper.status import Status, seen_status
from cdcbus.tasks.zookeeper.tasks import Failure, TaskNodes

router = APIRouter()


@dataclass(frozen=True, slots=True)
class Described:
    """A metric. A name that ends in _total is a counter, which restarts with the task's process;
    any other is a gauge."""

    name: str
    labels: tuple[str, ...]
    meaning: str


_TASK = ("task",)
_TABLE = ("task", "swimlane", "table")
_DESCRIBED = (
    Described("cdcbus_build_info", ("version", "node"), "1; the version of the node that answers."),
    Described("cdcbus_node_up", ("node",), "1 if the node's process runs, else 0."),
    Described("cdcbus_node_taking", ("node",), "1 if it takes tasks, 0 if it was drained."),
    Described("cdcbus_node_swimlanes", ("node",), "Swimlanes that it runs now."),
    Described("cdcbus_node_swimlane_limit", ("node",), "How many it runs at most."),
    Described("cdcbus_node_silent_seconds", ("node",), "Since its last report."),
    Described("cdcbus_task_state", ("task", "state"), "1 for the state that the task is in."),
    Described("cdcbus_task_on_node", ("task", "node"), "1 for the node that runs it."),
    Described(
        "cdcbus_task_restarts",
        _TASK,
        "How often it was restarted after failures, since an operator started it.",
    ),
    Described("cdcbus_task_last_failure_timestamp_seconds", _TASK, "When it last failed."),
    Described("cdcbus_task_silent_seconds", _TASK, "Since the last report of its process."),
    Described("cdcbus_task_rows_total", _TASK, "Row changes that it has processed."),
    Described("cdcbus_task_rows_per_second", _TASK, "Row changes per second, at present."),
    Described("cdcbus_task_lag_records", _TASK, "Records between it and the end of its topics."),
    Described("cdcbus_task_lag_bytes", _TASK, "Bytes between it and the end of its binlog."),
    Described(
        "cdcbus_task_lag_seconds",
        _TASK,
        "Fetch task: since the commit of the last transaction in Kafka; consumer task: since its "
        "oldest unapplied record came into Kafka; 0 at the end.",
    ),
    Described(
        "cdcbus_task_delay_seconds",
        ("task", "stage", "quantile"),
        "How long rows took from stage to stage, in the last minutes.",
    ),
    Described(
        "cdcbus_task_stage_seconds",
        ("task", "stage"),
        "How long the stages of its last batch took.",
    ),
    Described(
        "cdcbus_task_queued_bytes",
        _TASK,
        "Bytes of records that wait for Kafka; loader.source.queueBytes at most.",
    ),
    Described(
        "cdcbus_task_batch_seconds",
        _TASK,
        "How long the batch in progress has been applied; 0 between batches.",
    ),
    Described("cdcbus_task_idle_seconds", _TASK, "Since the last rows arrived."),
    Described(
        "cdcbus_task_still_seconds",
        _TASK,
        "How long its position has not moved although there is more.",
    ),
    Described(
        "cdcbus_task_skew_seconds",
        _TASK,
        "How far the source's clock is ahead, as far as is known.",
    ),
    Described(
        "cdcbus_task_retention_seconds",
        _TASK,
        "How long its topics, or its binlog, keep what it has to read.",
    ),
    Described(
        "cdcbus_task_kept_unread_ratio",
        _TASK,
        "Unread share of the bytes that its topics, or its binlog, keep; 1: all.",
    ),
    Described(
        "cdcbus_task_late_records_total",
        _TASK,
        "Records left out since its start, because a process that had lost its fetch task's "
        "lock sent them late.",
    ),
    Described(
        "cdcbus_task_open_letters",
        _TASK,
        "Its dead letters that are neither replayed nor dropped, as a node last counted them.",
    ),
    Described("cdcbus_task_verify_timestamp_seconds", _TASK, "When its last verify ended."),
    Described("cdcbus_task_verify_seconds", _TASK, "How long that took."),
    Described(
        "cdcbus_task_verified_tables",
        ("task", "result"),
        "Target tables of the last verify by its result: equal, different, changing, behind, "
        "error.",
    ),
    Described(
        "cdcbus_task_unequal_tables",
        _TASK,
        "Target tables that differ from the source, as far as its verifies know.",
    ),
    Described(
        "cdcbus_task_verify_failed",
        _TASK,
        "1 if the last verify could not be done, or could not compare a table, else 0.",
    ),
    Described(
        "cdcbus_task_unverified_columns",
        _TASK,
        "Columns of target tables that the last verify did not compare.",
    ),
    Described(
        "cdcbus_table_rows_total",
        (*_TABLE, "operation"),
        "Row changes of a table, by operation at the source.",
    ),
    Described(
        "cdcbus_table_rows_per_second",
        _TABLE,
        "Row changes of a table per second, in the last minute.",
    ),
    Described(
        "cdcbus_table_failed_rows_total", _TABLE, "Of these, those that went to dead letters."
    ),
    Described(
        "cdcbus_table_missed_rows_total",
        _TABLE,
        "Updates and deletes that hit no row of the target, also those that became inserts.",
    ),
    Described("cdcbus_table_dropped_rows_total", _TABLE, "Rows from which a column was left out."),
    Described(
        "cdcbus_table_superseded_rows_total",
        _TABLE,
        "Changes that another row blocked and a later change replaced.",
    ),
)
METRICS = {each.name: each for each in _DESCRIBED}
Sample = tuple[str, tuple[str, ...], float | None]


@router.get("/metrics", summary="What Prometheus reads", response_class=Response)
def metrics(request: Request) -> Response:
    state = request.app.state
    if not hasattr(state, "metrics"):
        state.metrics = SharedLook(lambda: exposed(of_all(state.bus)))
    look: SharedLook[bytes] = state.metrics
    return Response(look.get(), media_type=CONTENT_TYPE_PLAIN_0_0_4)


def of_all(bus: WebBus) -> Iterator[Sample]:
    """All samples. Raises PositionUnavailable; what ZooKeeper refuses is left out."""
    yield "cdcbus_build_info", (__version__, bus.node_id), 1
    for info in BusNodes(bus.client).all():
        yield from of_node(info)
    task_ids = TaskNodes(bus.client).ids()
    client = metrics_ahead(bus.client, task_ids)
    tasks, verifies = TaskNodes(client), VerifyNodes(client)
    for task_id in task_ids:
        yield from of_task(seen_status(tasks, task_id))
        try:
            yield from of_failures(task_id, tasks.errors(task_id))
            if (last := verifies.last(task_id)) is not None:
                yield from of_verify(task_id, last)
        except PositionError as error:
            if is_silence(error):
                raise


def of_node(info: NodeInfo) -> Iterator[Sample]:
    node = (info.node_id,)
    yield "cdcbus_node_up", node, info.is_there
    yield "cdcbus_node_taking", node, info.wish.is_taking
    # A node that is away still has its last report.
    yield "cdcbus_node_swimlanes", node, info.used if info.is_there else 0
    yield "cdcbus_node_swimlane_limit", node, info.work_limit
    yield "cdcbus_node_silent_seconds", node, info.silent_seconds


def of_task(status: Status) -> Iterator[Sample]:
    task, stat = (status.task_id,), status.stat
    yield "cdcbus_task_state", (status.task_id, status.state), 1
    if status.node_id:
        yield "cdcbus_task_on_node", (status.task_id, status.node_id), 1
    yield "cdcbus_task_restarts", task, status.run.all_restarts if status.run else 0
    yield "cdcbus_task_open_letters", task, status.open_dead_letters
    yield "cdcbus_task_silent_seconds", task, status.silent_seconds
    if stat is not None:
        yield from _of_stat(status.task_id, stat)


def of_failures(task_id: str, failures: list[Failure]) -> Iterator[Sample]:
    if failures:
        yield "cdcbus_task_last_failure_timestamp_seconds", (task_id,), _epoch(failures[-1].at)


def of_verify(task_id: str, last: LastVerify) -> Iterator[Sample]:
    task = (task_id,)
    yield "cdcbus_task_verify_timestamp_seconds", task, _epoch(last.ended)
    yield "cdcbus_task_verify_seconds", task, last.seconds
    for result, count in last.results.items():
        yield "cdcbus_task_verified_tables", (task_id, result), count
    yield "cdcbus_task_unequal_tables", task, len(last.different)
    yield "cdcbus_task_verify_failed", task, bool(last.error or last.unproved)
    yield "cdcbus_task_unverified_columns", task, len(last.left_out)


def _of_stat(task_id: str, stat: Stat) -> Iterator[Sample]:
    task = (task_id,)
    yield "cdcbus_task_rows_total", task, stat.rows
    yield "cdcbus_task_rows_per_second", task, stat.rows_per_second
    yield "cdcbus_task_lag_records", task, stat.lag_records
    yield "cdcbus_task_lag_bytes", task, stat.lag_bytes
    yield "cdcbus_task_lag_seconds", task, stat.lag_seconds
    yield "cdcbus_task_queued_bytes", task, stat.queued_bytes
    yield "cdcbus_task_batch_seconds", task, stat.batch_seconds
    yield "cdcbus_task_idle_seconds", task, stat.idle_seconds
    yield "cdcbus_task_still_seconds", task, stat.still_seconds
    yield "cdcbus_task_skew_seconds", task, stat.skew_seconds
    yield "cdcbus_task_retention_seconds", task, stat.retention_seconds
    yield "cdcbus_task_kept_unread_ratio", task, stat.kept_unread
    yield "cdcbus_task_late_records_total", task, stat.late_records
    for stage, delay in stat.delays.items():
        yield "cdcbus_task_delay_seconds", (task_id, stage, "0.5"), delay.p50
        yield "cdcbus_task_delay_seconds", (task_id, stage, "0.95"), delay.p95
        yield "cdcbus_task_delay_seconds", (task_id, stage, "0.99"), delay.p99
    for stage, milliseconds in stat.stages_ms.items():
        yield "cdcbus_task_stage_seconds", (task_id, stage), milliseconds / 1000
    # With a 0 for a table that rests: a series that ends looks like a table that was dropped.
    rates = {(each.swimlane, each.table): 0.0 for each in stat.tables}
    for each in stat.table_rates:
        rates[each.swimlane, each.table] = each.rows_per_second
    for name, rows_per_second in rates.items():
        yield "cdcbus_table_rows_per_second", (task_id, *name), rows_per_second
    for counts in stat.tables:
        table = (task_id, counts.swimlane, counts.table)
        yield "cdcbus_table_rows_total", (*table, "insert"), counts.inserted
        yield "cdcbus_table_rows_total", (*table, "update"), counts.updated
        yield "cdcbus_table_rows_total", (*table, "delete"), counts.deleted
        yield "cdcbus_table_rows_total", (*table, "truncate"), counts.truncated
        yield "cdcbus_table_failed_rows_total", table, counts.failed
        yield "cdcbus_table_missed_rows_total", table, counts.missed
        yield "cdcbus_table_dropped_rows_total", table, counts.dropped
        yield "cdcbus_table_superseded_rows_total", table, counts.superseded


def exposed(samples: Iterable[Sample]) -> bytes:
    """The samples in Prometheus's text format, by metric, without unknown values."""
    # Otherwise `register` would collect everything once, only to learn the names.
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(samples))
    return generate_latest(registry)


class _Families(Collector):
    """Samples as Prometheus's families of metrics, without unknown values."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = samples

    def collect(self) -> Iterator[Metric]:
        families: dict[str, CounterMetricFamily | GaugeMetricFamily] = {}
        for name, labels, value in self._samples:
            if value is None:
                continue
            if name not in families:
                families[name] = _family(METRICS[name])
            families[name].add_metric(labels, value)
        yield from families.values()


def _family(of: Described) -> CounterMetricFamily | GaugeMetricFamily:
    if of.name.endswith("_total"):
        return CounterMetricFamily(of.name, of.meaning, labels=of.labels)
    return GaugeMetricFamily(of.name, of.meaning, labels=of.labels)


def _epoch(stamp: str) -> float | None:
    try:
        return datetime.strptime(stamp, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return None
