"""On the path of a task's process: each batch that executors could have is a backlog, and the tail
gear stands still until Spark is up."""

import sys
from collections.abc import Mapping

# An executor has the same path, and finds there the package that it was sent.
if not any("pyspark" in word for word in sys.orig_argv):
    from cdcbus.consumer.batch import batch_size
    from cdcbus.consumer.batch.spark_beside import NO_OFFSETS, SparkBeside
    from cdcbus.plugins.positions import TopicPartition

    _start = SparkBeside.start

    def start_and_wait(
        self: SparkBeside, partitions: int, offsets: Mapping[TopicPartition, int] = NO_OFFSETS
    ) -> None:
        _start(self, partitions, offsets)
        self._session.exception()

    batch_size.BACKLOG_BATCHES = 1
    SparkBeside.start = start_and_wait  # type: ignore[method-assign]
