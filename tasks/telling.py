"""A running task tells ZooKeeper how far it is: its `stat` node, every few seconds and when its state changes."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from threading import Event, Thread
from typing import Any

from cdcbus.consumer.task import LoadTask
from cdcbus.plugins import policy
from cdcbus.plugins.errors import CdcError
from cdcbus.producer.task import FetchTask
from cdcbus.tasks.json_nodes import now
from cdcbus.tasks.lag import Lag, lag_meter
from cdcbus.tasks.task_nodes import Stat, State, TaskNodes

TELL_SECONDS = 5.0
LOOK_SECONDS = 0.5
LOG = logging.getLogger(__name__)
_RUNS = ("cdcbus.producer.run", "cdcbus.consumer.run")


class _Ear(logging.Handler):
    """What the task says in the log of its own state: that it reads, or that it tries again, and why."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.state, self.reason = State.STARTING, ""

    def emit(self, record: logging.LogRecord) -> None:
        if record.name == policy.__name__ and record.levelno >= logging.WARNING:
            self.state, self.reason = State.RETRYING, record.getMessage()
        elif record.name in _RUNS and record.levelno == logging.INFO:
            self.state, self.reason = State.WORKING, ""


class Teller:
    """Called with a task's progress; tells ZooKeeper of it on a thread of its own, which never holds the task up."""

    def __init__(self, task: FetchTask | LoadTask, nodes: TaskNodes, node_id: str) -> None:
        self._task, self._nodes, self._node_id = task, nodes, node_id
        self._ear = _Ear()
        self._progress: Any = None
        self._over = Event()

    def __call__(self, progress: Any) -> None:
        self._progress = progress

    @contextmanager
    def telling(self, stop: Event) -> Iterator[None]:
        """As long as the block lasts; at its end the task is STOPPED if `stop` is set, else DONE, or ERROR if it raises."""
        logger = logging.getLogger("cdcbus")
        logger.addHandler(self._ear)
        thread = Thread(target=self._tell_on, name="telling", daemon=True)
        thread.start()
        last = Stat(State.STOPPED)
        try:
            yield
            last = Stat(State.STOPPED if stop.is_set() else State.DONE)
        except CdcError as error:
            last = Stat(State.ERROR, str(error))
            raise
        finally:
            logger.removeHandler(self._ear)
            self._over.set()
            thread.join()
            self._ear.state, self._ear.reason = last.state, last.reason
            self._tell(0.0, Lag())

    def _tell_on(self) -> None:
        measure, told, told_at, rows = lag_meter(self._task), State.NEW, 0.0, 0
        while not self._over.wait(LOOK_SECONDS):
            seconds = time.monotonic() - told_at
            if self._ear.state is not told or seconds >= TELL_SECONDS:
                done = self._done()
                rate = (done - rows) / seconds if told_at else 0.0
                told, told_at, rows = self._ear.state, time.monotonic(), done
                self._tell(rate, Lag() if self._progress is None else measure(self._progress))

    def _done(self) -> int:
        return 0 if self._progress is None else int(self._progress.done)

    def _tell(self, rows_per_second: float, lag: Lag) -> None:
        stat = Stat(
            self._ear.state,
            self._ear.reason,
            now(),
            self._node_id,
            os.getpid(),
            self._done(),
            round(rows_per_second, 1),
            lag.records,
            None if lag.seconds is None else round(lag.seconds, 3),
            f"{datetime.fromtimestamp(lag.last_row_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}" if lag.last_row_ms else "",
        )
        try:
            self._nodes.put_stat(self._task.task_id, stat)
        except CdcError as error:
            LOG.debug("task %s: %s", self._task.task_id, error)


def both(*reports: Callable[[Any], None]) -> Callable[[Any], None]:
    """One report of several."""

    def report(progress: Any) -> None:
        for each in reports:
            each(progress)

    return report
