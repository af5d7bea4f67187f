"""What the progress of a task says of its rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import chain

import pytest

from cdcbus.consumer.batch.progress import Progress
from cdcbus.consumer.records.batch_report import BatchReport, Beat
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.progress import Progress as Done
from cdcbus.tasks.runtime.metrics import FetchMetrics, LoadMetrics
from cdcbus.tasks.zookeeper.stat import TableCounts

ORDERS = TableId("shop", "orders")


def batch(records: int, committed: float, came: float) -> BatchReport:
    """Rows that were committed within a second, and came into Kafka within a second, so many
    seconds ago."""
    now_ms = int(time.time() * 1000)
    report = BatchReport(
        records,
        first_kafka_ms=now_ms - int(came * 1000) - 1000,
        last_kafka_ms=now_ms - int(came * 1000),
    )
    report.committed(now_ms - int(committed * 1000) - 1000, now_ms - int(committed * 1000))
    report.table(ORDERS).inserted = report.table(ORDERS).rows = records
    return report


def at_work() -> LoadMetrics:
    """Of a task whose first batch was done 50 s ago."""
    clock = chain([time.time() - 50], iter(time.time, None))
    metrics, progress = LoadMetrics(lambda: next(clock)), Progress()
    progress.add(BatchReport(1), [])
    metrics.see(progress)
    return metrics


def test_each_stage_is_timed_by_the_first_and_the_last_row_of_a_batch() -> None:
    metrics, progress = at_work(), Progress()
    assert metrics.latencies(None) == {}
    one = batch(10, committed=100.0, came=40.0)
    progress.add(one, [("t", one)])
    metrics.see(progress)
    metrics.see(progress)  # told of twice
    latencies = metrics.latencies(None)
    assert list(latencies) == ["source_to_kafka", "kafka_to_target", "source_to_target"]
    assert (latencies["source_to_kafka"].p50, latencies["source_to_kafka"].p99) == (60.0, 60.0)
    assert 40 <= latencies["kafka_to_target"].p50 <= latencies["kafka_to_target"].p99 - 1
    assert latencies["source_to_target"].p50 >= 100
    assert metrics.skew_seconds is None


def test_rows_that_came_before_the_first_batch_was_done_are_not_timed() -> None:
    metrics, progress = LoadMetrics(), Progress()
    metrics.see(progress)  # reading begins
    waiting = batch(10, committed=3600.0, came=3599.0)
    progress.add(waiting, [("t", waiting)])
    metrics.see(progress)
    came_meanwhile = batch(10, committed=5.0, came=4.0)
    progress.add(came_meanwhile, [("t", came_meanwhile)])
    metrics.see(progress)
    assert (metrics.latencies(None), len(metrics.batches)) == ({}, 2)
    later = batch(10, committed=3600.0, came=-5.0)  # late in Kafka: it did not wait for this task
    progress.add(later, [("t", later)])
    metrics.see(progress)
    assert metrics.latencies(None)["source_to_kafka"].p50 > 3600


def test_a_fetch_task_tells_each_stage_and_takes_the_clocks_difference_out_that_can_be_told() -> (
    None
):
    fetch, progress = FetchMetrics("shop"), Done()
    assert fetch.latencies(2.5) == {}
    fetch.see(progress)
    assert fetch.latencies(None) == {}
    progress.stages.read.record(0.0012)
    progress.stages.to_kafka.record(0.0021)
    progress.stages.published.record(0.0033)
    latencies = fetch.latencies(2.5)
    assert {stage: latency.p99 for stage, latency in latencies.items()} == {
        "source_to_read": 0.0012,
        "read_to_kafka": 0.0021,
        "source_to_kafka": 0.0033,
    }
    assert progress.stages.skew_seconds == 2.5
    fetch.latencies(None)  # not known just now
    assert progress.stages.skew_seconds == 2.5
    fetch.latencies(0.003)  # as long as it took to ask
    assert progress.stages.skew_seconds == 0.0


def test_a_consumer_task_tells_how_long_records_wait_and_how_long_they_are_applied() -> None:
    metrics, progress = at_work(), Progress(since=time.time() - 100)
    one = batch(10, committed=50.0, came=40.0)
    progress.batch_since = time.monotonic() - 30
    progress.add(one, [("t", one)])
    progress.batch_since = 0.0
    early = batch(10, committed=500.0, came=400.0)  # before its start
    progress.batch_since = time.monotonic() - 1
    progress.add(early, [("t", early)])
    metrics.see(progress)
    latencies = metrics.latencies(None)
    assert 10 <= latencies["kafka_to_taken"].p50 <= latencies["kafka_to_taken"].p99 < 12
    assert 1 <= latencies["taken_to_target"].p50 < 2
    assert 30 <= latencies["taken_to_target"].p99 < 32


def test_a_batch_in_progress_is_timed_whatever_becomes_of_the_machines_clock(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    metrics, progress = LoadMetrics(), Progress()
    assert metrics.batch_seconds == 0.0
    metrics.see(progress)
    assert metrics.batch_seconds == 0.0
    progress.batch_since = time.monotonic() - 30
    ahead = time.time() + 3600
    monkeypatch.setattr(time, "time", lambda: ahead)
    assert 30 <= metrics.batch_seconds < 60


def test_a_batch_that_ends_while_it_is_timed_has_not_taken_since_1970(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An alarm would have the task restarted."""
    metrics, progress = LoadMetrics(), Progress()
    metrics.see(progress)

    def end(clock: Callable[[], float]) -> float:
        progress.batch_since = 0.0
        return clock()

    progress.batch_since = time.monotonic() - 2
    for name in ("time", "monotonic"):
        monkeypatch.setattr(time, name, partial(end, getattr(time, name)))
    assert metrics.batch_seconds < 60


def test_a_source_whose_clock_is_ahead_is_noticed() -> None:
    metrics, progress = at_work(), Progress()
    one = batch(10, committed=-500.0, came=0.0)
    progress.add(one, [("t", one)])
    metrics.see(progress)
    assert metrics.skew_seconds is not None and 0 < metrics.skew_seconds <= 500
    assert metrics.latencies(None)["source_to_target"].p50 == 0.0


def test_counters_are_told_by_swimlane_and_table() -> None:
    metrics, progress = LoadMetrics(), Progress()
    one, other = batch(3, 1, 1), batch(4, 1, 1)
    total = BatchReport()
    for part in (one, other):
        total.add(part)
    progress.add(total, [("t", one), ("u", other)])
    progress.add(one, [("t", one)])
    metrics.see(progress)
    assert metrics.counts == [
        TableCounts("t", "shop.orders", 6, 6),
        TableCounts("u", "shop.orders", 4, 4),
    ]


def test_skipped_statements_are_told_for_an_hour_after_the_last() -> None:
    now = [time.time()]
    metrics, progress = FetchMetrics("shop", lambda: now[0]), Done()
    metrics.see(progress)
    assert metrics.skipped == ""
    progress.skipped, progress.skipped_at = 3, now[0]
    assert metrics.skipped.startswith("3 statements that change its tables")
    now[0] += 3601
    assert metrics.skipped == ""


def test_what_a_target_has_lost_is_told_for_an_hour() -> None:
    now = [time.time()]
    metrics, progress = LoadMetrics(lambda: now[0]), Progress()
    metrics.see(progress)
    assert metrics.target_lost == ""
    progress.lose("7", {TopicPartition("t", 0): (10, 60)})
    assert (
        "it has t[0] up to offset 10, the task knows that it had it up to 60" in metrics.target_lost
    )
    progress.lose("7", {})  # another start does not take it back
    assert metrics.target_lost
    progress.lose_table("7", "target table s.t is another one than before")
    assert " had it up to 60; going on from 10; target table s.t is another" in metrics.target_lost
    now[0] += 3601
    assert metrics.target_lost == ""


def test_heartbeats_are_told_by_when_they_came_into_kafka_as_far_as_that_is_known() -> None:
    metrics, progress = LoadMetrics(), Progress()
    assert metrics.beats == {}
    progress.total.beat("7", Beat(1_800_000_000.25, 1_700_000_000.0))
    progress.total.beat("8", Beat(0.0, 1_900_000_000.0))
    metrics.see(progress)
    assert metrics.beats == {"7": 1_800_000_000.25}
