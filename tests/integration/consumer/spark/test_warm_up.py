"""A Python worker that is started before there is work serves the work."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from threading import Event

import pyarrow as pa
import pytest

from cdcbus.consumer.batch.executor_batch import map_in_arrow, warm_up
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.consumer.spark.session import spark_session
from cdcbus.plugins.contracts import JdbcTarget
from tests.support.python_workers import python_workers
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

    with spark_session(TASK, Event()) as (spark, _):
        before = python_workers(os.getsid(0))
        warm_up(spark, 1)
        wait_until(
            lambda: not any(thread.name == "warm-up" for thread in threading.enumerate()),
            "the worker to be started",
        )
        started = set(python_workers(os.getsid(0))) - set(before)
        assert (
            int(bytes(map_in_arrow(spark.range(0, 1, numPartitions=1), pid)._jdf.head().get(0)))
            in started
        )
