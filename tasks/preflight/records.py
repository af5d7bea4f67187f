"""Reads the newest records of a consumer task's topics for what they say about source tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from cdcbus.consumer.config import LoadTask
from cdcbus.consumer.offsets.topic_logs import TopicLogs, partitions_of
from cdcbus.plugins.contracts import Converter
from cdcbus.plugins.converters.auto import form_of
from cdcbus.plugins.errors import ConfigError, ConversionError
from cdcbus.plugins.positions import TopicPartition
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Column, Op, RowChange, TableId
from cdcbus.tasks.preflight.record_times import RecordTimes
from cdcbus.tasks.preflight.result import ANSWER_SECONDS, CheckResult, error, ok, warning

# Enough to see most tables, few enough to be read within a probe.
RECORDS, RECORDS_PER_PARTITION = 1000, 10


class Seen(NamedTuple):
    """A column, the newest record that has it, and whether a record with it is still to be
    applied."""

    column: Column
    record: str
    is_ahead: bool


@dataclass(slots=True)
class Sample:
    """A source table as the newest records show it: columns by name, the newest record's key, and
    whether a row was inserted."""

    columns: dict[str, Seen] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    has_insert: bool = False

    @property
    def source_columns(self) -> list[Column]:
        return [seen.column for seen in self.columns.values()]

    def add(self, change: RowChange, record: str, is_ahead: bool) -> None:
        """Adds a row change of a record. Only columns that the row has count: a record may describe
        more columns than it sends."""
        sent = {*(change.before or ()), *(change.after or ())}
        for column in change.table.columns:
            if column.name in sent:
                known = self.columns.get(column.name)
                # One record that is still to be applied is enough to need the column.
                is_needed = is_ahead or (known is not None and known.is_ahead)
                self.columns[column.name] = Seen(column, record, is_needed)
        self.key = change.table.key
        self.has_insert |= change.op is Op.INSERT


def check_records(
    task: LoadTask,
    topic: str,
    converter: Converter,
    starts: Mapping[TopicPartition, int],
    samples: dict[TableId, Sample],
) -> Iterator[CheckResult]:
    """Reads the newest records of a topic into `samples`, and checks them. `starts`: the offsets
    where the task would begin; a partition without one counts as unread."""
    subject = f"records of {topic}"
    count = 0
    unreadable = False
    with TopicLogs(task, ANSWER_SECONDS) as logs:
        partitions = partitions_of(task, logs, topic)
        records = logs.newest(partitions, max(RECORDS_PER_PARTITION, RECORDS // len(partitions)))
    times = RecordTimes()
    for partition, offset, value, came_ms, _ in records:
        # A tombstone, which holds no row.
        if value is None:
            continue
        record = f"{partition}@{offset}"
        is_ahead = offset >= starts.get(partition, 0)
        try:
            changes = converter.from_bytes(value)
        except ConversionError as cause:
            # Further ones are likely to have the same cause.
            if not unreadable:
                form = other_form(value, task.time_zone)
                yield describe_unreadable(subject, record, is_ahead, cause, form)
            unreadable = True
            continue
        count += 1
        for change in changes:
            times.add(change, came_ms)
            if task.wants(change.table.id):
                samples.setdefault(change.table.id, Sample()).add(change, record, is_ahead)
    if not unreadable and count:
        yield ok(subject, f"the newest {count} can be read")
    elif not unreadable:
        yield ok(subject, "none yet")
    yield from times.results(topic, task.converter, task.time_zone)


def describe_unreadable(
    subject: str, record: str, is_ahead: bool, cause: ConversionError, form: str = ""
) -> CheckResult:
    """An error, or only a warning where the task starts after the record. `form`: the converter
    that can read the record."""
    found = f"record {record}: {cause}"
    remedy = "Check that consumer.converter names the format of the topic's records."
    if form:
        remedy = f"Set consumer.converter={form}, or auto where the topic holds several formats."
    if is_ahead:
        return error(subject, found, remedy)
    return warning(subject, f"{found}; it is before the start", remedy)


def other_form(value: bytes, time_zone: str) -> str:
    """The built-in converter that can read a record that the task's own cannot; empty: none."""
    with suppress(ConversionError, ConfigError, ValueError):
        make_converter("auto", time_zone).from_bytes(value)
        return form_of(value)
    return ""
