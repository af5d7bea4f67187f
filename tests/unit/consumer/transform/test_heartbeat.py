"""Which rows are heartbeats, and what time they tell."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.records.batch_report import BatchReport, Beat
from cdcbus.consumer.transform.change_filter import ChangeFilter
from cdcbus.consumer.transform.heartbeat import read_beat
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.rowchange import Op, Row, RowChange, Table, TableId

TASK = LoadTask(
    "1", TopicConfig("k:9092", ("t",)), "canalRow", "JdbcBatch", JdbcTarget("jdbc:postgresql://h/d")
)
TABLE = TableId("ops", "cdcbus_heartbeat")


def beat(after: Row | None) -> RowChange:
    return RowChange(Table(TABLE, (), ()), Op.UPDATE, {}, after)


@pytest.mark.parametrize("name", ["beat_at", "BEAT_AT"])
def test_a_heartbeat_tells_its_source_and_its_time_in_utc(name: str) -> None:
    assert read_beat(beat({"server_id": "1", name: "2023-11-14 22:13:20.250000"})) == (
        "1",
        1_700_000_000.25,
    )


@pytest.mark.parametrize("after", [None, {}, {"beat_at": None}, {"beat_at": "soon"}])
def test_a_row_that_tells_no_time_gives_no_lag(after: Row | None) -> None:
    assert read_beat(beat(after)) is None


def test_heartbeats_are_not_applied_whatever_is_included() -> None:
    included = replace(TASK, includes=frozenset({"OPS.CDCBUS_HEARTBEAT", "SHOP.ORDERS"}))
    for task in (TASK, included):
        assert task.is_heartbeat(TABLE)
        assert not task.wants(TABLE)
        assert task.wants(TableId("shop", "orders"))


def test_a_table_named_in_the_task_file_is_the_one_of_heartbeats() -> None:
    task = replace(TASK, heartbeats=TableId("Ops", "Beats"))
    assert task.is_heartbeat(TableId("OPS", "BEATS"))
    assert not task.wants(TableId("OPS", "BEATS"))
    assert task.wants(TABLE)


@pytest.mark.parametrize("came_ms", [1_800_000_000_250, 0])
def test_a_heartbeat_is_told_by_when_it_came_into_kafka_whatever_the_sources_clock_says(
    came_ms: int,
) -> None:
    report = BatchReport()
    written = {"server_id": "7", "beat_at": "2023-11-14 22:13:20"}
    value = TASK.reader.to_bytes(RowChange(Table(TABLE, (), ()), Op.INSERT, None, written))
    wanted = ChangeFilter(TASK, TASK.reader, None)
    assert list(wanted.changes(value, report, came_ms)) == []
    assert report.beats == {"7": Beat(came_ms / 1000, 1_700_000_000.0)}
