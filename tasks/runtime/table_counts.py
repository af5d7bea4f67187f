"""A task's row counts by table, and porter's znodes for them.

/datas/task/<id>/stat/<swimlane>/<SCHEMA.TABLE>   porter's object, counted since the znode was
                                                  created; written once a minute
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient

from cdcbus.plugins.rowchange import Op
from cdcbus.tasks.zookeeper.connection import ROOT
from cdcbus.tasks.zookeeper.stat import TableCounts
from cdcbus.tasks.zookeeper.znode import get_nodes, now, put_nodes

if TYPE_CHECKING:
    from cdcbus.consumer.batch.progress import Progress as LoadProgress
    from cdcbus.producer.progress import Progress as FetchProgress


def counts_of_load(progress: LoadProgress) -> list[TableCounts]:
    """The counts of a consumer task, by target table."""
    # After swimlane and table; the counters have the same names in a batch's report.
    names = [each.name for each in fields(TableCounts)[2:]]
    found = []
    # Copies, because the task's own thread adds tables concurrently.
    for topic, reports in list(progress.swimlanes.items()):
        for table, report in list(reports.tables.items()):
            counts = [getattr(report, name) for name in names]
            found.append(TableCounts(topic, str(table), *counts))
    return found


def counts_of_fetch(progress: FetchProgress, swimlane: str) -> list[TableCounts]:
    """The counts of a fetch task, by source table."""
    found = []
    for table, ops in list(progress.tables.items()):
        counts = TableCounts(
            swimlane,
            str(table),
            rows=sum(ops.values()),
            inserted=ops.get(Op.INSERT, 0),
            updated=ops.get(Op.UPDATE, 0),
            deleted=ops.get(Op.DELETE, 0),
            truncated=ops.get(Op.TRUNCATE, 0),
        )
        found.append(counts)
    return found


def add_to_porters_nodes(
    client: KazooClient,
    task_id: str,
    node_id: str,
    counts: Mapping[TableCounts, TableCounts | None],
) -> None:
    """Adds counts of tables to porter's znodes. `counts`: current counts -> the counts already
    added, None for none. Raises PositionUnavailable and PositionError."""
    paths = {}
    for after in counts:
        # porter writes names in upper case; a slash would be another level of znodes.
        name = after.table.upper().replace("/", "_")
        paths[after] = f"{ROOT}/task/{task_id}/stat/{after.swimlane}/{name}"
    stored = get_nodes(client, paths.values())
    objects = {}
    for after, before in counts.items():
        path = paths[after]
        known = {}
        if path in stored:
            known = stored[path].fields
        before = before or TableCounts(after.swimlane, after.table)
        objects[path] = porters_object(task_id, node_id, known, before, after, now())
    put_nodes(client, objects)


def porters_object(
    task_id: str,
    node_id: str,
    stored: Mapping[str, Any],
    before: TableCounts,
    after: TableCounts,
    at: str,
) -> dict[str, Any]:
    """porter's object of a table: the stored one plus the difference between two counts. porter
    counts errors by operation; cdcbus does not, so all count as failed updates."""
    schema, _, table = after.table.upper().partition(".")
    counters = {
        "insertRow": after.inserted - before.inserted,
        "updateRow": after.updated - before.updated,
        "deleteRow": after.deleted - before.deleted,
        "errorInsertRow": 0,
        "errorUpdateRow": after.failed - before.failed,
        "errorDeleteRow": 0,
        "alertedTimes": 0,
    }
    for name in counters:
        counters[name] += _number(stored.get(name))
    return {
        "taskId": task_id,
        "nodeId": node_id,
        "swimlaneId": after.swimlane,
        "schema": schema,
        "table": table,
        **counters,
        "registeredTime": stored.get("registeredTime") or at,
        "heartbeatTime": at,
        "lastCheckedTime": stored.get("lastCheckedTime"),
        "lastLoadedDataTime": at,
        "lastLoadedSystemTime": at,
        "progress": stored.get("progress") or "",
    }


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
