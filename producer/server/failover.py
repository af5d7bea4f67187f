"""Failover between the addresses of a source: one is read until it fails too often, refuses, or
lacks what was read from another one; then the next."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from cdcbus.plugins.errors import SourceBehind, SourceRefused, SourceUnavailable
from cdcbus.producer.config import FetchTask

LOG = logging.getLogger(__name__)
FAILURES = 3  # in a row, without progress in between
PAUSE_SECONDS = 2.0  # after the first failure; ten times as long after the tenth


def pause_seconds(failures: int) -> float:
    """The wait before the next attempt, by the number of consecutive failures before this one: it
    grows for ten failures, then starts over."""
    return (failures % 10 + 1) * PAUSE_SECONDS


class Addresses:
    """Tries the addresses of a source round-robin. `done` counts progress: a failure after some
    progress counts as the first again."""

    def __init__(self, task: FetchTask, done: Callable[[], int]) -> None:
        self._task, self.done = task, done
        self._failures = 0
        self._refused: set[tuple[str, int]] = set()  # without progress in between
        # Of one of these that is only behind, and may catch up.
        self._behind: SourceBehind | None = None

    @contextmanager
    def trying(self) -> Iterator[FetchTask]:
        """Yields the task with the current address alone; counts a failure if the block ends as the
        source is unavailable. An address that refuses the task, or is behind another one that was
        read, counts as unavailable and raises SourceUnavailable, until all do so: then the error
        itself is raised, SourceBehind if there was one, as that address may catch up."""
        before = self.done()
        source = self._task.source
        try:
            yield replace(self._task, source=replace(source, addresses=source.addresses[:1]))
        except (SourceUnavailable, SourceRefused, SourceBehind) as error:
            if self.done() > before:
                self._failures = 0
                self._refused.clear()
                self._behind = None
            self._failures += 1
            if not isinstance(error, SourceUnavailable):
                self._refused.add(source.addresses[0])
                if isinstance(error, SourceBehind):
                    self._behind = error
                # None is left that could take the task.
                if len(self._refused) == len(source.addresses):
                    if self._behind not in (None, error):
                        raise self._behind from error
                    raise
                self._next()
                raise SourceUnavailable(str(error)) from error
            if self._failures >= FAILURES:
                self._next()
            raise

    def first(self, attempt: Callable[[FetchTask], None]) -> None:
        """Makes the attempt at each address until one succeeds; raises the last address's error if
        none does."""
        for left in reversed(range(len(self._task.source.addresses))):
            try:
                with self.trying() as task:
                    attempt(task)
                return
            except SourceUnavailable as error:
                if not left:
                    raise
                LOG.warning("%s", error)
                if self._failures:  # else the next address is current already
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
