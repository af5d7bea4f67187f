"""On the path of a task's process: each batch that executors could have is a backlog, and the tail
gear stands still until Spark is up."""

import sys

# An executor has the same path, and finds there the package that it was sent.
if not any("pyspark" in word for word in sys.orig_argv):
    from cdcbus.consumer.batch import batch_size
    from cdcbus.consumer.batch.spark_beside import SparkBeside

    _start = SparkBeside.start

    def start_and_wait(self: SparkBeside, partitions: int) -> None:
        _start(self, partitions)
        self._session.exception()

    batch_size.BACKLOG_BATCHES = 1
    SparkBeside.start = start_and_wait  # type: ignore[method-assign]
