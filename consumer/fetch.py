"""The records of a small batch, brought to the driver.

A Spark job takes some 40 ms, however few records it is for: planning, scheduling, a task. So a few records of few lanes are read without
one: the driver's JVM computes the partitions of the batch itself, as a task would.
"""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Future, wait
from contextlib import closing
from queue import SimpleQueue
from threading import Event
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import InheritableThread
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from cdcbus.consumer.batch_size import BatchSize

MOST_BYTES = 64 << 20  # of values, beyond which not even one batch is fetched
HERE_RECORDS, HERE_LANES = 512, 3  # for more a job is faster
FEW_RECORDS = 32  # they have room in memory whatever their size
LOOK_SECONDS = 0.1


class Fetcher:
    """Fetches the batches of one query, one after the other.

    What is read here is read on a thread of its own: where Kafka does not answer that may last for minutes, and who is to end leaves it
    behind.
    """

    def __init__(self, size: BatchSize) -> None:
        self._size = size
        self._asked = SimpleQueue[tuple[DataFrame, Future[pa.Table | None]] | None]()
        self._has_thread = False

    def fetch(self, frame: DataFrame, count: int, ended: Event) -> pa.Table | None:
        """The records of a micro-batch of `count` offsets, in offset order in each lane. None when `ended` is set before they are here, and
        where they need too much memory: then the batch size has learned of it."""
        if count > HERE_RECORDS or _rdd(frame).getNumPartitions() > HERE_LANES:
            return self._collect(frame, count)
        if not self._has_thread:
            self._has_thread = True
            InheritableThread(self._read_all, args=(frame,), name="read", daemon=True).start()
        records = Future[pa.Table | None]()
        self._asked.put((frame, records))
        while not wait([records], LOOK_SECONDS).done:
            if ended.is_set():
                return None
        return records.result()

    def close(self) -> None:
        """Nothing is fetched any more."""
        self._asked.put(None)

    def _read_all(self, first: DataFrame) -> None:
        reader = _Reader(first)
        while (asked := self._asked.get()) is not None:
            frame, records = asked
            try:
                records.set_result(self._read(reader, frame))
            except Exception as error:
                records.set_exception(error)

    def _read(self, reader: _Reader, frame: DataFrame) -> pa.Table | None:
        chunks, bytes_ = list[pa.RecordBatch](), 0
        with closing(reader.chunks(frame)) as found:
            for chunk in found:
                chunks.append(chunk)
                bytes_ += chunk.column("value").nbytes
                if bytes_ > MOST_BYTES:
                    self._size.learn(sum(map(len, chunks)), bytes_, is_too_large=True)
                    return None
        return pa.Table.from_batches(chunks, reader.schema)

    def _collect(self, frame: DataFrame, count: int) -> pa.Table | None:
        """By a job. Nothing but their sizes comes first, where the records may need too much memory."""
        if count <= FEW_RECORDS:
            return frame.toArrow()
        longest = 1 << (max(1, MOST_BYTES // count).bit_length() - 1)  # a power of two, as Spark compiles each expression that is new to it
        value = f"IF(length(value) <= {longest}, value, NULL) AS value"
        others = [name for name in frame.columns if name != "value"]
        records = frame.selectExpr(*others, value, "length(value) AS bytes").toArrow()
        sizes = records.column("bytes")
        if (pc.max(sizes).as_py() or 0) <= longest:
            return records.drop_columns("bytes")
        if (bytes_ := pc.sum(sizes).as_py()) <= MOST_BYTES:
            return frame.toArrow()
        self._size.learn(count, bytes_, is_too_large=True)
        return None


def _rdd(frame: DataFrame) -> Any:
    """What a micro-batch is: the rows of each Spark partition, one lane's each, none of a lane without records."""
    return frame._jdf.queryExecution().logical().rdd()


class _Reader:
    """Computes the partitions of micro-batches as their tasks would, on the thread that asks."""

    def __init__(self, frame: DataFrame) -> None:
        """`frame`: any batch of the query."""
        java: Any = frame.sparkSession._jvm
        self.schema = to_arrow_schema(frame.schema)
        self._java_schema, self._no_error = frame._jdf.schema(), java.scala.Option.empty()
        self._contexts = _object(java.org.apache.spark, "TaskContext")
        self._arrow = _object(java.org.apache.spark.sql.execution.arrow, "ArrowConverters")

    def chunks(self, frame: DataFrame) -> Generator[pa.RecordBatch]:
        """The rows, FEW_RECORDS at once. Spark's reader of a lane is given back when its task is said to be completed."""
        rdd = _rdd(frame)
        for partition in rdd.partitions():
            context = self._contexts.empty()
            self._contexts.setTaskContext(context)
            try:
                rows = rdd.iterator(partition, context)
                chunks = self._arrow.toBatchIterator(rows, self._java_schema, FEW_RECORDS, "UTC", False, False, context)
                while chunks.hasNext():
                    yield pa.ipc.read_record_batch(pa.py_buffer(chunks.next()), self.schema)
            finally:
                context.markTaskCompleted(self._no_error)
                self._contexts.unset()


def _object(package: Any, name: str) -> Any:
    """A Scala object."""
    return getattr(getattr(package, name + "$"), "MODULE$")
