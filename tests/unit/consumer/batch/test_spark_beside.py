"""Spark beside a task: started once, when it is asked for, and ended with the task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from cdcbus.consumer.batch import executor_batch, spark_beside, trial_query
from cdcbus.consumer.batch.spark_beside import SparkBeside
from cdcbus.consumer.config import LoadTask, TopicConfig
from cdcbus.plugins.contracts import JdbcTarget
from cdcbus.plugins.error_policy import NO_THREAD
from cdcbus.plugins.errors import CdcError, ConfigError, SparkUnavailable
from cdcbus.plugins.positions import TopicPartition
from tests.support.processes.no_threads import without_threads
from tests.support.waiting import wait_until

ONE = TopicPartition("orders", 0)
TASK = LoadTask("7", TopicConfig("", ()), "canalRow", "JdbcBatch", JdbcTarget(""))


class Sessions:
    """`held`: none is there before it is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.held = Event()
        self.error: Exception | None = None
        self.opened = self.closed = 0
        self.warmed: list[int] = []
        monkeypatch.setattr(
            executor_batch, "warm_up", lambda _, partitions: self.warmed.append(partitions)
        )
        self.tried: list[object] = []
        self.during_trial: Callable[[], None] = lambda: None
        monkeypatch.setattr(trial_query, "run_trial_query", self._try)
        monkeypatch.setattr(spark_beside, "class_path", list)
        monkeypatch.setattr(spark_beside, "java", Path)

    def _try(self, task: LoadTask, spark: object, scratch: Path, offsets: object, _: Event) -> None:
        assert (task, spark, scratch) == (TASK, "session", Path("scratch"))
        self.tried.append(offsets)
        self.during_trial()

    @contextmanager
    def open(self, task: LoadTask, stop: Event) -> Iterator[Any]:
        assert task is TASK
        self.opened += 1
        assert self.held.wait(60)
        if self.error:
            raise self.error
        try:
            yield "session", Path("scratch")
        finally:
            self.closed += 1


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> Sessions:
    return Sessions(monkeypatch)


def test_a_task_that_never_asks_for_it_has_none(sessions: Sessions) -> None:
    with SparkBeside(TASK, sessions.open, Event()) as spark:
        assert not spark.is_ready
    assert (sessions.opened, sessions.closed) == (0, 0)


def test_it_starts_once_while_the_task_goes_on_and_ends_with_it(sessions: Sessions) -> None:
    with SparkBeside(TASK, sessions.open, Event()) as spark:
        spark.start(3)
        spark.start(3)
        assert not spark.is_ready
        sessions.held.set()
        wait_until(lambda: spark.is_ready, "it", 60)
        spark.start(3)
        session: Any = spark.session
        assert session == ("session", Path("scratch"))
        assert (sessions.opened, sessions.closed, sessions.warmed) == (1, 0, [3])
    assert (sessions.opened, sessions.closed) == (1, 1)


def test_a_query_is_tried_before_it_counts_as_up_where_one_will_read(sessions: Sessions) -> None:
    sessions.held.set()
    were_ready: list[bool] = []
    with SparkBeside(TASK, sessions.open, Event()) as spark:
        sessions.during_trial = lambda: were_ready.append(spark.is_ready)
        spark.start(1, {ONE: 7})
        assert spark.session
        assert (sessions.tried, were_ready) == ([{ONE: 7}], [False])
    with SparkBeside(TASK, sessions.open, Event()) as spark:
        spark.start(1)
        assert spark.session
    assert sessions.tried == [{ONE: 7}]


def test_one_that_is_just_starting_when_the_task_ends_is_ended_as_well(sessions: Sessions) -> None:
    with SparkBeside(TASK, sessions.open, Event()) as spark:
        spark.start(1)
        sessions.held.set()
    assert (sessions.opened, sessions.closed) == (1, 1)


def test_why_it_did_not_start_is_raised_to_who_asks_for_it(sessions: Sessions) -> None:
    sessions.error = CdcError("no room")
    sessions.held.set()
    with SparkBeside(TASK, sessions.open, Event()) as spark:
        spark.start(1)
        wait_until(lambda: spark.is_ready, "it", 60)
        with pytest.raises(CdcError, match="no room"):
            _ = spark.session
    assert sessions.closed == 0


@pytest.mark.parametrize(
    "error", [SparkUnavailable("all masters are unresponsive"), RuntimeError(NO_THREAD)], ids=repr
)
def test_a_start_that_fails_for_what_may_pass_is_tried_anew_for_the_next_backlog(
    sessions: Sessions, error: Exception
) -> None:
    """The task is: each of its attempts would get the error of the first start, for ever."""
    sessions.error = error
    sessions.held.set()
    with SparkBeside(TASK, sessions.open, Event()) as spark:
        spark.start(1)
        wait_until(lambda: spark.is_ready, "it", 60)
        with pytest.raises(type(error), match=str(error)):
            _ = spark.session
        assert not spark.is_ready
        sessions.error = None
        spark.start(1)
        assert spark.session
        assert (sessions.opened, sessions.closed) == (2, 0)
    assert sessions.closed == 1


def test_a_session_that_cannot_be_warmed_up_is_closed_before_the_next_one_is_opened(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise RuntimeError(NO_THREAD)

    sessions.held.set()
    with SparkBeside(TASK, sessions.open, Event()) as spark:
        with monkeypatch.context() as patch:
            patch.setattr(executor_batch, "warm_up", refuse)
            spark.start(1)
            with pytest.raises(RuntimeError, match=NO_THREAD):
                _ = spark.session
        assert (sessions.opened, sessions.closed) == (1, 1)
        spark.start(1)
        assert spark.session
        assert (sessions.opened, sessions.closed) == (2, 1)
    assert sessions.closed == 2


def test_what_it_lacks_is_told_before_the_first_backlog(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> Path:
        raise ConfigError("there is no Java on the PATH")

    monkeypatch.setattr(spark_beside, "class_path", list)
    monkeypatch.setattr(spark_beside, "java", missing)
    with pytest.raises(ConfigError, match="no Java"):
        SparkBeside(TASK, None, Event())


def test_a_start_without_a_thread_is_tried_again_and_not_waited_for(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions.held.set()
    with monkeypatch.context() as patch, SparkBeside(TASK, sessions.open, Event()) as spark:
        without_threads(patch, "spark-start")
        with pytest.raises(SparkUnavailable, match="task 7: no thread is left to start Spark"):
            spark.start(3)
    with SparkBeside(TASK, sessions.open, Event()) as spark:
        spark.start(3)
    assert (sessions.opened, sessions.closed) == (1, 1)
