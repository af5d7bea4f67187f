"""The records of a small batch, brought to the driver.

A Spark job takes some 40 ms, however few records it is for: planning, scheduling, a task. So a few
records of few lanes are read without one: the driver's JVM computes the partitions of the batch
itself, as a task would, and writes them to a file, as py4j takes 41 ms to return 30 KB.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, wait
from pathlib import Path
from queue import SimpleQueue
from threading import Event
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import InheritableThread
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from cdcbus.consumer.batch.batch_size import BATCH_BYTES, BatchSize

MOST_BYTES = 2 * BATCH_BYTES  # of values, beyond which not even one batch is fetched
HERE_RECORDS = 512  # for more there may not be the room, if they are large
HERE_LANES = 3  # for more a job is faster
FEW_RECORDS = 32  # they have room in memory whatever their size
LOOK_SECONDS = 0.1  # whether the task is to end
LENGTH_BYTES = 4  # of a length, which Spark writes before each chunk


class Fetcher:
    """Fetches the batches of one query, one after the other.

    What is read here is read on a thread of its own: where Kafka does not answer that may last for
    minutes, and who is to end leaves it behind. What it writes even then nobody reads: each fetcher
    has a file of its own.
    """

    def __init__(self, size: BatchSize, scratch: Path) -> None:
        self._size, self._file = size, scratch / f"records-{uuid4()}"
        self._asked = SimpleQueue[tuple[_Rows, int, Future[pa.Table | None]] | None]()
        self._reader: _Reader | None = None

    def fetch(self, frame: DataFrame, count: int, ended: Event) -> pa.Table | None:
        """The records of a micro-batch of `count` offsets, in offset order in each lane. None
        when `ended` is set before they are here, and where they need too much memory: then the
        batch size has learned of it."""
        rows = _Rows(frame) if count <= HERE_RECORDS else None
        if rows is None or len(rows.partitions) > HERE_LANES:
            return self._collect(frame, count)
        if self._reader is None:
            self._reader = _Reader(frame)
            InheritableThread(
                self._read_all, args=(self._reader,), name="read", daemon=True
            ).start()
        records = Future[pa.Table | None]()
        self._asked.put((rows, count, records))
        while not wait([records], LOOK_SECONDS).done:
            if ended.is_set():
                return None
        return records.result()

    def close(self) -> None:
        """Nothing is fetched any more."""
        self._asked.put(None)

    def _read_all(self, reader: _Reader) -> None:
        while (asked := self._asked.get()) is not None:
            rows, count, records = asked
            try:
                reader.write(rows, self._file)
                records.set_result(self._written(reader.schema, count))
            except Exception as error:
                records.set_exception(error)
            finally:
                self._file.unlink(missing_ok=True)  # before the system has brought it to a disk

    def _written(self, schema: pa.Schema, count: int) -> pa.Table | None:
        bytes_ = self._file.stat().st_size
        if bytes_ > MOST_BYTES:
            self._size.learn(count, bytes_, is_too_large=True)
            return None
        return pa.Table.from_batches(
            [pa.ipc.read_record_batch(chunk, schema) for chunk in _chunks(self._file)], schema
        )

    def _collect(self, frame: DataFrame, count: int) -> pa.Table | None:
        """By a job. Nothing but their sizes comes first, where the records may need too much
        memory."""
        if count <= FEW_RECORDS:
            return frame.toArrow()
        # a power of two, as Spark compiles each expression that is new to it
        longest = 1 << (max(1, MOST_BYTES // count).bit_length() - 1)
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


class _Rows:
    """What Spark's source gives of a micro-batch: each of the `partitions` of the `rdd` is a
    lane that may have records."""

    def __init__(self, frame: DataFrame) -> None:
        self.rdd: Any = frame._jdf.queryExecution().logical().rdd()
        self.partitions: list[Any] = list(self.rdd.partitions())


class _Reader:
    """Computes the partitions of micro-batches as their tasks would, on the thread that asks."""

    def __init__(self, frame: DataFrame) -> None:
        """`frame`: any batch of the query. Each name here costs a question to the JVM, so none
        is looked up with a batch."""
        java: Any = frame.sparkSession._jvm
        self.schema = to_arrow_schema(frame.schema)
        self._java_schema, self._no_error = frame._jdf.schema(), java.scala.Option.empty()
        self._contexts = _object(java.org.apache.spark, "TaskContext")
        self._arrow = _object(java.org.apache.spark.sql.execution.arrow, "ArrowConverters")
        self._file_stream, self._data_stream = (
            java.java.io.FileOutputStream,
            java.java.io.DataOutputStream,
        )
        self._write = java.PythonRDD.writeIteratorToStream

    def write(self, rows: _Rows, file: Path) -> None:
        """FEW_RECORDS at once. Spark's reader of a lane is given back when its task is said to
        be completed."""
        stream = self._data_stream(self._file_stream(str(file)))
        try:
            for partition in rows.partitions:
                context = self._contexts.empty()
                self._contexts.setTaskContext(context)
                try:
                    found = rows.rdd.iterator(partition, context)
                    chunks = self._arrow.toBatchIterator(
                        found, self._java_schema, FEW_RECORDS, "UTC", False, False, context
                    )
                    self._write(chunks, stream)
                finally:
                    context.markTaskCompleted(self._no_error)
                    self._contexts.unset()
        finally:
            stream.close()


def _chunks(file: Path) -> Iterator[pa.Buffer]:
    """Each is preceded by its length. Read by itself each begins at a multiple of 8 in memory,
    as Arrow wants it for numbers: of others it complains on stderr, with every batch."""
    with file.open("rb") as stream:
        while length := stream.read(LENGTH_BYTES):
            yield pa.py_buffer(stream.read(int.from_bytes(length)))


def _object(package: Any, name: str) -> Any:
    """A Scala object."""
    return getattr(getattr(package, name + "$"), "MODULE$")
