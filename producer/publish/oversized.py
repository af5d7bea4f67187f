"""Records that are too large for Kafka: which row they belong to, and their dead letters."""

from __future__ import annotations

from hashlib import sha256
from typing import NamedTuple

from cdcbus.plugins.kafka.record_key import Record


class LargeRecord(NamedTuple):
    """Identifies a record that Kafka may refuse, the same each time it is made. `pos` is where its
    event starts, `row` the number of the event's first row in the transaction, `number` the
    record's number in the event."""

    topic: str
    table: str
    key_columns: tuple[str, ...]
    file: str
    pos: int
    row: int
    number: int

    def __str__(self) -> str:
        columns, row = ", ".join(self.key_columns) or "none", self.row + self.number
        return (
            f"table {self.table} (key columns: {columns}), row {row} of its transaction, event "
            f"at {self.file}:{self.pos}"
        )


def dead_letter(task_id: str, record: LargeRecord, key: bytes, size_bytes: int) -> Record:
    """The record for the dead-letter topic: an empty value, a key that names task, place in the
    binlog and row, so that a letter sent twice counts once, and headers with the record's key and
    everything else known about it."""
    headers = {
        "reason": f"a record of {size_bytes} bytes is too large for topic {record.topic}",
        "topic": record.topic,
        "table": record.table,
        "position": f"{record.file}:{record.pos}",
        "row": str(record.row + record.number),
        "bytes": str(size_bytes),
    }
    # Another server's binlog has other rows at the same place, as has one that was reset. Rows
    # without a key are told apart by their size, which may vary with the epoch.
    which = b"\n".join((record.table.encode(), key or str(size_bytes).encode()))
    place = (
        f"{record.topic}/{record.file}:{record.pos}/{record.row}/{record.number}/"
        f"{sha256(which).hexdigest()[:12]}"
    )
    texts = {f"cdcbus.{name}": text.encode() for name, text in headers.items()}
    return {
        "key": f"{task_id}\n{place}".encode(),
        "value": b"",
        "headers": {**texts, "cdcbus.key": key},
    }
