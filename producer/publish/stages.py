"""Measures how long rows take through a fetch task: committed at the source, read, acknowledged by
Kafka. Measured per batch of the binlog, never per row."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from cdcbus.plugins.latency import Latency
from cdcbus.producer.source.row_events import Batch

_SECOND_US = 1_000_000


class _Sent(NamedTuple):
    """Rows that were read together. `records`: the number of records sent in total, including
    theirs; `commits`: when their first and last transactions were committed, in epoch
    microseconds."""

    read_at: float
    rows: int
    records: int
    commits: tuple[int, ...]


class Stages:
    """Latencies of rows of transactions whose end has been read. `sent`, `acknowledged` and
    `forget` are called on one thread.

    `read`: from the commit to the reading; `to_kafka`: from there to the acknowledgement;
    `published`: both. Rows committed before this object was made count for `to_kafka` only: they
    waited for the task's start. `skew_seconds`: how far the source's clock is ahead; can be set on
    any thread. Commit times in whole seconds give latencies in whole seconds, rounded up, an upper
    bound.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._begun_us = clock, int(clock() * _SECOND_US)
        self.read, self.to_kafka, self.published = Latency(), Latency(), Latency()
        self.skew_seconds = 0.0
        self._waiting: deque[_Sent] = deque()

    def now(self) -> float:
        return self._clock()

    def sent(self, batch: Batch, read_at: float, rows: int, records: int) -> None:
        """Notes the closed transactions of a batch that was read at `read_at`: they have `rows` row
        changes, and `records` records were sent in total, including theirs."""
        if not rows or not batch.closed:
            return
        commits = self._commits(batch)
        # Only the first and the last commit are looked at: each stands for half of the rows.
        for commit_us in commits:
            self.read.record(self._since(commit_us, read_at), rows / len(commits))
        self._waiting.append(_Sent(read_at, rows, records, commits))

    def acknowledged(self, records: int) -> None:
        """Notes the number of sent records that have been acknowledged. Records of several
        partitions count as if acknowledged in the order of sending."""
        if not self._waiting:
            return
        now = self._clock()
        while self._waiting and self._waiting[0].records <= records:
            sent = self._waiting.popleft()
            self.to_kafka.record(now - sent.read_at, sent.rows)
            for commit_us in sent.commits:
                self.published.record(self._since(commit_us, now), sent.rows / len(sent.commits))

    def forget(self) -> None:
        """Drops the rows that were sent and not acknowledged: they are read again."""
        self._waiting.clear()

    def _commits(self, batch: Batch) -> tuple[int, ...]:
        first, last = batch.closed[0].origin.commit_us, batch.closed[-1].origin.commit_us
        if last % _SECOND_US == 0 and batch.edge is not None:
            # such a server's rows have the time when their statement began
            last = max(last, batch.edge.timestamp_ms * 1000)
        return tuple(commit_us for commit_us in {first, last} if commit_us >= self._begun_us)

    def _since(self, commit_us: int, then: float) -> float:
        # Never negative, however far the clocks of source and task are apart.
        seconds = max(0.0, then - commit_us / _SECOND_US + self.skew_seconds)
        if commit_us % _SECOND_US:
            return seconds
        return float(math.ceil(seconds))
