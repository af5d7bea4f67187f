"""Records that are larger than Kafka takes: which row they are of, what is left of them as a
dead letter."""

from __future__ import annotations

from typing import NamedTuple

from cdcbus.plugins.kafka.record_key import Record


class LargeRecord(NamedTuple):
    """A record that may be refused, the same each time it is made. `pos` is where its event
    starts, `row` its event's first row in the transaction, `number` which record of the event it
    is."""

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
    """What goes to the dead-letter topic: an empty value under a key that names task and place
    in the binlog, so that a letter that is put twice counts once; in headers the record's key
    and all else that is known of it."""
    headers = {
        "reason": f"a record of {size_bytes} bytes is too large for topic {record.topic}",
        "topic": record.topic,
        "table": record.table,
        "position": f"{record.file}:{record.pos}",
        "row": str(record.row + record.number),
        "bytes": str(size_bytes),
    }
    place = f"{record.topic}/{record.file}:{record.pos}/{record.row}/{record.number}"
    texts = {f"cdcbus.{name}": text.encode() for name, text in headers.items()}
    return {
        "key": f"{task_id}\n{place}".encode(),
        "value": b"",
        "headers": {**texts, "cdcbus.key": key},
    }
