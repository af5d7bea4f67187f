"""How many records a batch has, so that it fits into memory whatever the size of its rows."""

from __future__ import annotations

import logging

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

LOG = logging.getLogger(__name__)
BATCH_BYTES = 32 << 20  # of values; on their way to the target each is held several times, by Spark and by Python
MOST_BYTES = 2 * BATCH_BYTES  # beyond which not even one batch is fetched
FIRST_RECORDS = 1_000
FEW_RECORDS = 32


class BatchSize:
    """Learned from the batches as they come: a full one of small records makes the next ones larger, too many bytes make them smaller.

    `records`: so many a batch has at most, never more than `most`. A query is told once, at its start: it is to be started again when this
    changes.
    """

    def __init__(self, task_id: str, most: int, batch_bytes: int = BATCH_BYTES) -> None:
        self._task_id, self._most, self._batch_bytes = task_id, most, batch_bytes
        self.records, self._steps = min(most, FIRST_RECORDS), most

    def learn(self, count: int, bytes_: int, is_too_large: bool = False) -> bool:
        """Whether `records` has changed after a batch of so many offsets and bytes, or after one of which as much was looked at."""
        fitting = min(self._most, max(1, self._batch_bytes * count // max(1, bytes_)))
        is_full = count >= 0.9 * self.records  # Spark gives each lane a part, rounded down
        if is_too_large or bytes_ > 2 * self._batch_bytes:
            records = min(fitting, max(1, self.records // 2))
            self._steps = 4  # more large ones may follow soon
        elif is_full and (fitting >= 4 * self.records or fitting == self._most):
            records = min(fitting, self.records * self._steps)
        else:
            return False
        is_new = records != self.records
        if is_new:
            LOG.info("task %s: records of %d bytes, batches of %d from now on", self._task_id, bytes_ // max(1, count), records)
        self.records = records
        return is_new


def fetch(frame: DataFrame, count: int, size: BatchSize) -> pa.Table | None:
    """The records of a micro-batch of `count` offsets. None, and `size` has learned of it, where they need too much memory: then nothing
    but their sizes has come."""
    if count <= FEW_RECORDS:
        return frame.toArrow()
    longest = 1 << (max(1, MOST_BYTES // count).bit_length() - 1)  # a power of two, as Spark compiles each expression that is new to it
    value = f"IF(length(value) <= {longest}, value, NULL) AS value"
    records = frame.selectExpr("topic", "partition", "offset", value, "kafka_ms", "length(value) AS bytes").toArrow()
    sizes = records.column("bytes")
    if (pc.max(sizes).as_py() or 0) <= longest:
        return records.drop_columns("bytes")
    if (bytes_ := pc.sum(sizes).as_py()) <= MOST_BYTES:
        return frame.toArrow()
    size.learn(count, bytes_, is_too_large=True)
    return None
