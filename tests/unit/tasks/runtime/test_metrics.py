"""What the progress of a task says of its rows."""

from __future__ import annotations

import time
from itertools import chain

from cdcbus.consumer.batch.progress import Progress
from cdcbus.consumer.offsets.start_offsets import Starts
from cdcbus.consumer.records.batch_report import BatchReport
from cdcbus.plugins.positions import BinlogPosition
from cdcbus.plugins.rowchange import TableId
from cdcbus.producer.run import Progress as Done
from cdcbus.tasks.runtime.metrics import FetchMeasures, LoadMeasures
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


def at_work() -> LoadMeasures:
    """Of a task whose first batch was done 50 s ago."""
    clock = chain([time.time() - 50], iter(time.time, None))
    measures, progress = LoadMeasures(lambda: next(clock)), Progress()
    progress.add(BatchReport(1), [])
    measures.see(progress)
    return measures


def test_each_stage_is_timed_by_the_first_and_the_last_row_of_a_batch() -> None:
    measures, progress = at_work(), Progress()
    assert measures.delays(None) == {}
    one = batch(10, committed=100.0, came=40.0)
    progress.add(one, [("t", one)])
    measures.see(progress)
    measures.see(progress)  # told of twice
    delays = measures.delays(None)
    assert list(delays) == ["source_to_kafka", "kafka_to_target", "source_to_target"]
    assert (delays["source_to_kafka"].p50, delays["source_to_kafka"].p99) == (60.0, 60.0)
    assert 40 <= delays["kafka_to_target"].p50 <= delays["kafka_to_target"].p99 - 1
    assert delays["source_to_target"].p50 >= 100
    assert measures.skew_seconds is None


def test_rows_that_came_before_the_first_batch_was_done_are_not_timed() -> None:
    measures, progress = LoadMeasures(), Progress()
    measures.see(progress)  # reading begins
    waiting = batch(10, committed=3600.0, came=3599.0)
    progress.add(waiting, [("t", waiting)])
    measures.see(progress)
    came_meanwhile = batch(10, committed=5.0, came=4.0)
    progress.add(came_meanwhile, [("t", came_meanwhile)])
    measures.see(progress)
    assert (measures.delays(None), len(measures.batches)) == ({}, 2)
    later = batch(10, committed=3600.0, came=-5.0)  # late in Kafka: it did not wait for this task
    progress.add(later, [("t", later)])
    measures.see(progress)
    assert measures.delays(None)["source_to_kafka"].p50 > 3600
    fetch = FetchMeasures("shop")
    fetch.see(Done(0, 0))
    old, new = (
        BinlogPosition("bin.1", 4, timestamp_ms=int((time.time() + ago) * 1000))
        for ago in (-3600, 0)
    )
    fetch.see(Done(900, 1, old))
    assert fetch.delays(None) == {}
    fetch.see(Done(1000, 2, new))
    assert fetch.delays(None)["source_to_kafka"].p99 < 3600


def test_a_source_whose_clock_is_ahead_is_noticed() -> None:
    measures, progress = at_work(), Progress()
    one = batch(10, committed=-500.0, came=0.0)
    progress.add(one, [("t", one)])
    measures.see(progress)
    assert measures.skew_seconds is not None and 0 < measures.skew_seconds <= 500
    assert measures.delays(None)["source_to_target"].p50 == 0.0


def test_counters_are_told_by_swimlane_and_table() -> None:
    measures, progress = LoadMeasures(), Progress()
    one, other = batch(3, 1, 1), batch(4, 1, 1)
    total = BatchReport()
    for part in (one, other):
        total.add(part)
    progress.add(total, [("t", one), ("u", other)])
    progress.add(one, [("t", one)])
    measures.see(progress)
    assert measures.counts == [
        TableCounts("t", "shop.orders", 6, 6),
        TableCounts("u", "shop.orders", 4, 4),
    ]


def test_skipped_statements_are_told_for_an_hour_after_the_last() -> None:
    now = [time.time()]
    measures, progress = FetchMeasures("shop", lambda: now[0]), Done()
    measures.see(progress)
    assert measures.skipped == ""
    progress.skipped, progress.skipped_at = 3, now[0]
    assert measures.skipped.startswith("3 statements that change its tables")
    now[0] += 3601
    assert measures.skipped == ""


def test_what_a_target_has_lost_is_told_for_an_hour() -> None:
    now = [time.time()]
    measures, progress = LoadMeasures(lambda: now[0]), Progress()
    measures.see(progress)
    assert measures.target_lost == ""
    progress.begin("7", Starts({("t", 0): 10}, lost={("t", 0): (10, 60)}))
    assert (
        "it has t[0] up to offset 10, ZooKeeper knows that it had it up to 60"
        in measures.target_lost
    )
    progress.begin("7", Starts({("t", 0): 60}))  # another start does not take it back
    assert measures.target_lost
    now[0] += 3601
    assert measures.target_lost == ""
