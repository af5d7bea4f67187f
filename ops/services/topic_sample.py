"""The tables and formats that the records of a topic hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from cdcbus.plugins.converters.auto import form_of
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.kafka.topic_log import KafkaRecord
from cdcbus.plugins.registry import make_converter
from cdcbus.plugins.rowchange import Op, Table, TableId


@dataclass(slots=True)
class SampledTable:
    """A table in a topic's records: `table` as the newest record describes it."""

    table: Table
    formats: set[str] = field(default_factory=set)
    ops: Counter[Op] = field(default_factory=Counter)


@dataclass(slots=True)
class TopicSample:
    """What records hold. `reason`: why the first of the unreadable ones cannot be read."""

    tables: dict[TableId, SampledTable] = field(default_factory=dict)
    unreadable: int = 0
    reason: str = ""


def sample_of(records: Iterable[KafkaRecord], converter_name: str) -> TopicSample:
    """The tables of records, oldest first. Raises ConfigError for an unknown converter."""
    converter = make_converter(converter_name)
    sample = TopicSample()
    for record in records:
        if record.value is None:
            # A tombstone names no table.
            continue
        try:
            changes = converter.from_bytes(record.value)
        except ConversionError as error:
            sample.unreadable += 1
            sample.reason = sample.reason or f"{record.partition}@{record.offset}: {error}"
            continue
        for change in changes:
            known = sample.tables.setdefault(change.table.id, SampledTable(change.table))
            known.ops[change.op] += 1
            known.formats.add(_format(record.value, converter_name))
            if change.op is not Op.TRUNCATE:  # a TRUNCATE names no columns
                known.table = change.table
    return sample


def _format(value: bytes, converter_name: str) -> str:
    try:
        return form_of(value)
    except ValueError:  # a format of another package
        return converter_name
