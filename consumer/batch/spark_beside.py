"""Starts Spark beside a task that is already reading: the start takes seconds, and a task without a
backlog never needs Spark."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import TYPE_CHECKING

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.jvm.class_path import class_path
from cdcbus.consumer.jvm.maven import java
from cdcbus.plugins.error_policy import Action, policy_of
from cdcbus.plugins.errors import SparkUnavailable
from cdcbus.plugins.log_context import TASK_AT_WORK
from cdcbus.plugins.positions import TopicPartition

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from cdcbus.consumer.spark.session import OpenSpark

LOG = logging.getLogger(__name__)
NO_OFFSETS: Mapping[TopicPartition, int] = {}


class SparkBeside:
    """At most one Spark session for a task. A context manager, which closes it."""

    def __init__(self, task: LoadTask, open_spark: OpenSpark | None, stop: Event) -> None:
        """`open_spark` opens the session of a Spark application; None: the task starts its own.
        Raises ConfigError when Java or the Kafka connector is missing."""
        # Now rather than at the first backlog, which may come at night.
        java()
        class_path()
        self._task, self._open_spark, self._stop = task, open_spark, stop
        self._opened = ExitStack()
        self._session: Future[tuple[SparkSession, Path]] = Future()
        self._is_asked_for = False

    def __enter__(self) -> SparkBeside:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the session; waits for a start in progress."""
        if self._is_asked_for and self._session.exception() is None:
            self._opened.__exit__(kind, error, trace)

    def start(self, partitions: int, offsets: Mapping[TopicPartition, int] = NO_OFFSETS) -> None:
        """Starts Spark unless it has been started. Returns immediately. `partitions`: the number
        that will be read; `offsets`: where reading has come, if a query will read on from there.
        Raises SparkUnavailable where this process may have no more threads."""
        if self._is_asked_for:
            return
        arguments = partitions, dict(offsets)
        thread = Thread(target=self._start, args=arguments, name="spark-start", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            raise SparkUnavailable(
                f"task {self._task.task_id}: no thread is left to start Spark; check the limits of "
                "threads and memory of its process"
            ) from error
        # Only now: the end of the task waits for a start that was asked for.
        self._is_asked_for = True

    @property
    def is_ready(self) -> bool:
        """Whether `session` returns, or raises, without waiting."""
        return self._session.done()

    @property
    def session(self) -> tuple[SparkSession, Path]:
        """The session, and an empty folder for checkpoints. Waits for the start, and raises why it
        failed; where a task tries again after such an error, the next `start` does, too."""
        try:
            return self._session.result()
        except Exception as error:
            if policy_of(error).action is Action.RETRY:
                self._session = Future()
                self._is_asked_for = False
            raise

    def _start(self, partitions: int, offsets: Mapping[TopicPartition, int]) -> None:
        TASK_AT_WORK.set(self._task.task_id)
        try:
            # Imported on this thread, as PySpark takes a while to import, too.
            from cdcbus.consumer.batch.executor_batch import warm_up
            from cdcbus.consumer.batch.trial_query import run_trial_query
            from cdcbus.consumer.spark.session import spark_session

            with ExitStack() as opened:
                opening = (self._open_spark or spark_session)(self._task, self._stop)
                spark, scratch = opened.enter_context(opening)
                warm_up(spark, partitions)
                if offsets:
                    run_trial_query(self._task, spark, scratch, offsets, self._stop)
                # What fails before that is closed, as the next start opens another one.
                self._opened = opened.pop_all()
            LOG.info("task %s: Spark is up", self._task.task_id)
        except BaseException as error:
            self._session.set_exception(error)
        else:
            self._session.set_result((spark, scratch))
