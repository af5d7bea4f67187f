"""Runs a query like the task's own, before that is needed, which applies nothing: Spark loads and
compiles its code while the tail gear keeps reading, rather than while nobody reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from threading import Event
from time import monotonic

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from cdcbus.consumer.batch.bulk import POOL
from cdcbus.consumer.batch.executor_batch import map_in_arrow
from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.records.records import same_in_all
from cdcbus.consumer.spark.kafka_stream import fresh_checkpoint, kafka_stream
from cdcbus.plugins.positions import TopicPartition

# Of all partitions together.
RECORDS = 1000
# A cluster may have no room for executors, which only the task's own query reports.
MOST_SECONDS = 15.0
POLL_SECONDS = 0.05


def run_trial_query(
    task: LoadTask,
    spark: SparkSession,
    scratch: Path,
    offsets: Mapping[TopicPartition, int],
    stop: Event,
) -> None:
    """Returns once the first records from these offsets on have passed through Python workers;
    after MOST_SECONDS; or when `stop` is set. An error is left to the task's own query to
    report."""
    is_over = Event()

    def read(frame: DataFrame, _: int) -> None:
        if is_over.is_set():
            return
        frame.sparkSession.sparkContext.setLocalProperty(POOL, task.task_id)
        # Spark logs what this raises, and it does so where the query is stopped.
        with suppress(Exception):
            map_in_arrow(frame.drop(*same_in_all(offsets)), no_outcome).collect()
        is_over.set()

    with suppress(Exception), fresh_checkpoint(scratch, offsets) as checkpoint:
        stream = kafka_stream(spark, task, offsets, RECORDS)
        writer = stream.writeStream.foreachBatch(read)
        query = writer.option("checkpointLocation", checkpoint.as_uri()).start()
        try:
            until = monotonic() + MOST_SECONDS
            while query.isActive and not stop.is_set() and monotonic() < until:
                if is_over.wait(POLL_SECONDS):
                    break
        finally:
            query.stop()


# From here on: in an executor's Python worker.


def no_outcome(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Reads everything, and returns nothing."""
    for _ in batches:
        pass
    return iter(())
