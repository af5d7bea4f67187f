"""What is done before there is work: a Python worker that was started serves the work, and a query
that was tried changes nothing."""

from __future__ import annotations

import gc
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame

from cdcbus.consumer.batch import trial_query
from cdcbus.consumer.batch.executor_batch import map_in_arrow, warm_up
from cdcbus.consumer.batch.trial_query import run_trial_query
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.spark.scratch import _remove_leftovers
from cdcbus.consumer.spark.session import spark_session
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.positions import TopicPartition
from tests.support.clusters.python_workers import python_workers
from tests.support.topics.kafka_producer import kafka_producer
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


TASK = LoadTask("warm-up", TopicConfig("", ()), "canalRow", "JdbcBatch", JdbcTarget(""))


def test_a_worker_begins_with_what_applying_needs_and_nothing_of_it_from_an_archive() -> None:
    def loaded(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from_archives = any(
            ".zip/" in (getattr(module, "__file__", None) or "") for module in sys.modules.values()
        )
        are_loaded = {"cdcbus.consumer.batch.executor_batch", "pyarrow.acero"} <= sys.modules.keys()
        found = (
            are_loaded,
            from_archives,
            gc.get_freeze_count() > len(gc.get_objects()),
            pa.default_memory_pool().backend_name,
        )
        yield pa.RecordBatch.from_arrays([pa.array([repr(found).encode()])], ["outcome"])

    with spark_session(TASK, Event()) as (spark, _):
        found = bytes(map_in_arrow(spark.range(0, 1, numPartitions=1), loaded)._jdf.head().get(0))
    assert found == b"(True, False, True, 'system')"


def test_a_worker_that_was_started_ahead_does_the_work() -> None:
    def pid(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays(
            [pa.array([b"%d" % os.getpid()], pa.binary())], ["outcome"]
        )

    # The second application of its JVM, beside another process that starts.
    with spark_session(TASK, Event()):
        pass
    with spark_session(TASK, Event()) as (spark, _):
        _remove_leftovers(Path(tempfile.gettempdir()))
        before = python_workers(os.getsid(0))
        warm_up(spark, 1)
        wait_until(
            lambda: not any(thread.name == "warm-up" for thread in threading.enumerate()),
            "the worker to be started",
        )
        started = set(python_workers(os.getsid(0))) - set(before)
        assert started
        assert (
            int(bytes(map_in_arrow(spark.range(0, 1, numPartitions=1), pid)._jdf.head().get(0)))
            in started
        )


# py4j leaves the sockets of Spark's calls to the garbage collector.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_query_that_is_tried_reads_records_and_ends_also_where_it_cannot_read(
    kafka: str, name: str, make_topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    make_topic(name)
    producer = kafka_producer(kafka)
    for _ in range(trial_query.RECORDS + 1):
        producer.produce(name, b"{}")
    assert producer.flush(60) == 0
    task = replace(TASK, source=TopicConfig(kafka, (name,)))
    one = TopicPartition(name, 0)
    read: list[int] = []

    def counted(frame: DataFrame, function: Any) -> DataFrame:
        read.append(frame.count())
        return map_in_arrow(frame, function)

    monkeypatch.setattr(trial_query, "map_in_arrow", counted)
    # It ends by what it reads, on a busy machine too.
    monkeypatch.setattr(trial_query, "MOST_SECONDS", 240.0)
    stop = Event()
    with spark_session(task, stop) as (spark, scratch):
        run_trial_query(task, spark, scratch, {one: 1}, stop)
        assert read == [trial_query.RECORDS]
        begun = monotonic()
        run_trial_query(task, spark, scratch, {one: 10_000}, stop)
        assert monotonic() - begun < trial_query.MOST_SECONDS
        stop.set()
        run_trial_query(task, spark, scratch, {one: 1}, stop)
        assert not spark.streams.active
        assert [path.name for path in scratch.iterdir()] == ["local"]
    assert len(read) <= 2
