"""Selects the row changes of a record that a task applies, and passes them through its event
processor."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.records.batch_report import BatchReport, Beat
from cdcbus.consumer.transform.heartbeat import read_beat
from cdcbus.plugins.contracts import Converter
from cdcbus.plugins.rowchange import RowChange
from cdcbus.plugins.transform.processor import Processor


class ChangeFilter:
    """The filter and the event processor of one task. Thread-safe."""

    def __init__(self, task: LoadTask, converter: Converter, process: Processor | None) -> None:
        self._task, self._converter, self._process = task, converter, process
        self.table = cache(task.wants)
        """Whether rows of this source table are applied."""

    def changes(self, value: bytes, report: BatchReport, came_ms: int = 0) -> Iterator[RowChange]:
        """Yields the row changes of a record, in order; heartbeats among them are only noted in the
        report. `came_ms`: when the record arrived in Kafka, 0 where that is unknown. Raises
        DataError."""
        for change in self._converter.from_bytes(value):
            report.committed(change.origin.commit_ms, change.origin.commit_ms)
            if not self.table(change.table.id):
                if self._task.is_heartbeat(change.table.id) and (beat := read_beat(change)):
                    source, written = beat
                    report.beat(source, Beat(came_ms / 1000, written))
            elif change.op in self._task.skipped_operations:
                continue
            elif self._process is None:
                yield change
            else:
                yield from self._process(change)
