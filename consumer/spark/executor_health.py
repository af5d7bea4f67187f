"""Reports a cluster that gives a task no executors: Spark itself waits silently, for room or for
executors that do not start."""

from __future__ import annotations

import time
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from cdcbus.consumer.spark.session import has_executors
from cdcbus.plugins.task_status import TaskStatus

PATIENCE_SECONDS = 30.0


class ExecutorWatch:
    """Watches one query."""

    def __init__(self, status: TaskStatus, spark: SparkSession, query: StreamingQuery) -> None:
        self._status = status
        self._context = spark.sparkContext
        self._is_cluster = has_executors(spark)
        if self._is_cluster:
            # Answers from memory, even after Spark has ended.
            self._tracker: Any = self._context._jsc.sc().statusTracker()
            self._jobs = str(query.runId)
        self._since: float | None = None
        self._is_logged = False

    def look(self) -> None:
        """Reports a job of the query that has waited for PATIENCE_SECONDS without an executor, and
        then the return of one. Must be called about every second."""
        if not self._is_cluster:
            return
        # The driver is listed as well.
        if len(self._tracker.getExecutorInfos()) > 1:
            if self._is_logged:
                self._status.resumed("executors are available again")
            self._since = None
            self._is_logged = False
        elif self._is_logged:
            return
        elif not self._has_job():
            # An idle application may have given its executors back.
            self._since = None
        elif self._since is None:
            self._since = time.monotonic()
        elif time.monotonic() - self._since >= PATIENCE_SECONDS:
            self._status.waiting(
                f"for executors: spark.master={self._context.master} has given application "
                f"{self._context.applicationId} none for "
                f"{PATIENCE_SECONDS:g} s; look there for room, and for why they do not start"
            )
            self._is_logged = True

    def _has_job(self) -> bool:
        active = set(self._tracker.getActiveJobIds())
        return not active.isdisjoint(self._tracker.getJobIdsForGroup(self._jobs))
