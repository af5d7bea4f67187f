"""A Python worker that is started before there is work serves the work."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from threading import Event

import pyarrow as pa
import pytest

from cdcbus.consumer.executors import Executors, map_in_arrow
from cdcbus.consumer.spark import spark_session
from cdcbus.consumer.task import LoadTask, TopicConfig
from cdcbus.plugins.contracts import JdbcTarget
from tests.support.waiting import wait_until

pytestmark = pytest.mark.integration


def python_workers() -> set[int]:
    """Process ids, with that of their parent."""
    found = set()
    for folder in Path("/proc").iterdir():
        try:
            if folder.name.isdigit() and b"pyspark.daemon" in (folder / "cmdline").read_bytes():
                found.add(int(folder.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def test_a_worker_that_was_started_ahead_does_the_work() -> None:
    def pid(_: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_arrays([pa.array([b"%d" % os.getpid()], pa.binary())], ["outcome"])

    task = LoadTask("warm-up", TopicConfig("", ()), "canalRow", "JdbcBatch", JdbcTarget(""))
    with spark_session(task, Event()) as (spark, _):
        before = python_workers()
        Executors.warm_up(spark, 1)
        wait_until(lambda: not any(thread.name == "warm-up" for thread in threading.enumerate()), "the worker to be started")
        started = python_workers() - before
        assert int(bytes(map_in_arrow(spark.range(0, 1, numPartitions=1), pid)._jdf.head().get(0))) in started
