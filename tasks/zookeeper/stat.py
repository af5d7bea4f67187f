"""What a running task reports about itself, and its form in the task's `stat` znode."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, astuple, dataclass, field
from typing import Any

from cdcbus.plugins.task_status import State
from cdcbus.tasks.zookeeper.znode import JsonNode, camel_case_fields

# Keeps the znode far below ZooKeeper's limit of 1 MB for tasks of thousands of tables.
TABLES_REPORTED = 200
PERCENTILES = {"p50", "p95", "p99"}


@dataclass(frozen=True, slots=True)
class Percentiles:
    """The times within which 50 %, 95 % and 99 % of the rows passed, in seconds."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True, slots=True)
class TableCounts:
    """The row changes of a table since the task was started. `rows`: all; `inserted`, `updated`,
    `deleted`, `truncated`: by operation at the source. At a target also `failed`: became dead
    letters; `missed`: updates and deletes that matched no row; `dropped`: lost a column;
    `superseded`: blocked by another row and replaced by a later change of the same row."""

    swimlane: str
    table: str
    rows: int = 0
    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    truncated: int = 0
    failed: int = 0
    missed: int = 0
    dropped: int = 0
    superseded: int = 0


@dataclass(frozen=True, slots=True)
class TableRate:
    """The row changes per second of a table in the last minute."""

    swimlane: str
    table: str
    rows_per_second: float


@dataclass(frozen=True, slots=True)
class Batch:
    """An applied batch. `at`: when it was applied. The times of its stages are sums over its
    partitions, which are applied in parallel."""

    at: str
    records: int
    decode_ms: float
    apply_ms: float
    commit_ms: float


@dataclass(frozen=True, slots=True)
class Stat:
    """A task's progress, reported by its own process every few seconds. None: unknown.

    `at`: when it was reported, by the process that `identity` names with `process`. `state`: as the
    task itself sees it. `last_row`: when its newest row was committed at the source. `lag_records`,
    `lag_bytes`: from its position to the end of its topics, or of the binlog.

    `idle_seconds`: since the last rows arrived. `still_seconds`: how long its position has not
    moved although there is more to read. `batch_seconds`: how long the current batch has been
    applied. `skew_seconds`: how far the source's clock is ahead of this machine's; lag and delays
    are already corrected by it. `beats`: when the last heartbeat of each source reached Kafka, in
    epoch seconds. `delays`: from stage to stage over the last minutes, in seconds. `stages_ms`:
    times of the last batch. `batches`: the last batches of a consumer task, oldest first.
    `table_rates`: rates of the busiest tables in the last minute, busiest first.

    `retention_seconds`: how long the topics, or the binlog, keep what the task has to read.
    `kept_unread`: where these are kept by size instead, the share that is still unread, 1 = all;
    `kept_place`: the same in words. `queued_bytes`: the size of records that wait for Kafka.

    `target_lost`: what the task found lost in its target, reported for an hour after
    `target_lost_at`, in epoch seconds, also by later processes.
    `late_records`: left out because their sender had lost its lock; `late_at`: when the last one
    came, in epoch seconds, 0 without one. `skipped`: what a fetch task left out in the last hour.
    """

    state: State
    reason: str = ""
    _: KW_ONLY
    at: str = ""
    node_id: str = ""
    process_id: int = 0
    process: str = ""
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
    target_lost_at: float = 0.0
    late_records: int = 0
    late_at: float = 0.0
    skipped: str = ""
    table_rates: tuple[TableRate, ...] = ()


def stat_to_json(stat: Stat) -> dict[str, Any]:
    """The fields of the znode. Tables are lists of values, as names would be most of the text."""
    rates = [list(astuple(each)) for each in stat.table_rates]
    return {
        **camel_case_fields(stat),
        "tables": table_counts_to_json(stat.tables),
        "tableRates": rates,
    }


def stat_from_json(node: JsonNode, state: State) -> Stat:
    """The report in a znode; damaged and missing fields count as unknown."""
    return Stat(
        state,
        node.text("reason"),
        at=node.text("at"),
        node_id=node.text("nodeId"),
        process_id=node.number("processId"),
        process=node.text("process"),
        rows=node.number("rows"),
        rows_per_second=node.real("rowsPerSecond") or 0.0,
        lag_records=_whole(node, "lagRecords"),
        lag_seconds=node.real("lagSeconds"),
        last_row=node.text("lastRow"),
        lag_bytes=_whole(node, "lagBytes"),
        idle_seconds=node.real("idleSeconds"),
        still_seconds=node.real("stillSeconds") or 0.0,
        batch_seconds=node.real("batchSeconds") or 0.0,
        skew_seconds=node.real("skewSeconds"),
        retention_seconds=node.real("retentionSeconds"),
        beats=_reals(node.fields.get("beats")),
        delays=_percentiles(node.fields.get("delays")),
        stages_ms=_reals(node.fields.get("stagesMs")),
        tables=table_counts_from_json(node.fields.get("tables")),
        queued_bytes=_whole(node, "queuedBytes"),
        kept_unread=node.real("keptUnread"),
        kept_place=node.text("keptPlace"),
        batches=_batches(node.fields.get("batches")),
        target_lost=node.text("targetLost"),
        target_lost_at=node.real("targetLostAt") or 0.0,
        late_records=node.number("lateRecords"),
        late_at=node.real("lateAt") or 0.0,
        skipped=node.text("skipped"),
        table_rates=_rates(node.fields.get("tableRates")),
    )


def table_counts_to_json(counts: Iterable[TableCounts]) -> list[list[Any]]:
    """The values, in the order of the fields, of the TABLES_REPORTED tables with the most rows."""
    largest = sorted(counts, key=lambda each: -each.rows)[:TABLES_REPORTED]
    return [list(astuple(each)) for each in largest]


def table_counts_from_json(value: Any) -> tuple[TableCounts, ...]:
    """Reads the output of `table_counts_to_json`, without rows of any other form."""
    if not isinstance(value, list):
        return ()
    # Another version of cdcbus may have written rows with other fields.
    kinds = list(map(type, astuple(TableCounts("", ""))))
    found = []
    for row in value:
        # `type` and not `isinstance`, as a bool would pass for an int.
        if isinstance(row, list) and list(map(type, row)) == kinds:
            found.append(TableCounts(*row))
    return tuple(found)


def _whole(node: JsonNode, name: str) -> int | None:
    # `number` alone would return 0, which means that nothing is left to read.
    if node.real(name) is None:
        return None
    return node.number(name)


def _reals(value: Any) -> dict[str, float]:
    if not isinstance(value, dict):
        return {}
    found = {}
    for name, number in value.items():
        if isinstance(number, int | float):
            found[name] = float(number)
    return found


def _percentiles(value: Any) -> dict[str, Percentiles]:
    if not isinstance(value, dict):
        return {}
    found = {}
    for name, numbers in value.items():
        reals = _reals(numbers)
        if reals.keys() == PERCENTILES:
            found[name] = Percentiles(**reals)
    return found


def _rates(value: Any) -> tuple[TableRate, ...]:
    if not isinstance(value, list):
        return ()
    found = []
    for row in value:
        match row:
            case [str(swimlane), str(table), int() | float() as rate]:
                found.append(TableRate(swimlane, table, float(rate)))
    return tuple(found)


def _batches(value: Any) -> tuple[Batch, ...]:
    if not isinstance(value, list):
        return ()
    try:
        return tuple([Batch(**row) for row in value])
    # Written by a version whose batches have other fields.
    except TypeError:
        return ()
