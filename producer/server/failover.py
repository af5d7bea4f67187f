"""The addresses of a source, of which one is read: the next one's turn comes when this one has
failed too often, or refuses."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from cdcbus.plugins.errors import SourceRefused, SourceUnavailable
from cdcbus.producer.config import FetchTask

LOG = logging.getLogger(__name__)
FAILURES = 3  # in a row, without work done in between
PAUSE_SECONDS = 2.0  # after the first of them; ten times as long after ten


def pause_seconds(failures: int) -> float:
    """How long to wait before the next attempt, by the number of failures in a row before this
    one: longer and longer, then from the beginning again."""
    return (failures % 10 + 1) * PAUSE_SECONDS


class Addresses:
    """Which address is tried, one after the other, round and round. `done` counts work: a
    failure after some is the first again."""

    def __init__(self, task: FetchTask, done: Callable[[], int]) -> None:
        self._task, self.done = task, done
        self._failures = 0
        self._refused: set[tuple[str, int]] = set()  # without work done in between

    @contextmanager
    def trying(self) -> Iterator[FetchTask]:
        """The task with one address, the one whose turn it is; counts when what is done with it
        ends because the source is away. One that refuses the task is as good as away, until all
        do: raises SourceUnavailable."""
        before = self.done()
        source = self._task.source
        try:
            yield replace(self._task, source=replace(source, addresses=source.addresses[:1]))
        except (SourceUnavailable, SourceRefused) as error:
            if self.done() > before:
                self._failures = 0
                self._refused.clear()
            self._failures += 1
            if isinstance(error, SourceRefused):
                self._refused.add(source.addresses[0])
                if len(self._refused) == len(source.addresses):
                    raise
                self._next()
                raise SourceUnavailable(str(error)) from error
            if self._failures >= FAILURES:
                self._next()
            raise

    def first(self, attempt: Callable[[FetchTask], None]) -> None:
        """Does something at the first address where it can be done; raises what it raises at the
        last one when it can be done at none."""
        for left in reversed(range(len(self._task.source.addresses))):
            try:
                with self.trying() as task:
                    attempt(task)
                return
            except SourceUnavailable as error:
                if not left:
                    raise
                LOG.warning("%s", error)
                if self._failures:  # else its turn has come already
                    self._next()

    def _next(self) -> None:
        self._failures = 0
        here, *others = self._task.source.addresses
        if others:
            self._task = replace(
                self._task, source=replace(self._task.source, addresses=(*others, here))
            )
            LOG.warning(
                "task %s: trying source %s:%d in place of %s:%d",
                self._task.task_id,
                *others[0],
                *here,
            )
