"""Row changes of a topic for a person's eyes, and for scripts. Shows cell values: whoever asks
for them wants to see them."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any, Final

from rich.text import Text

from cdcbus.ops.services.topics import KafkaRecord
from cdcbus.plugins.rowchange import Cell, Op, Row, RowChange

PLAIN: Final = re.compile(r"[\w.:+-]+")
STYLES: Final = {Op.INSERT: "green", Op.UPDATE: "yellow", Op.DELETE: "red", Op.TRUNCATE: "bold red"}


def utc(epoch_ms: int) -> str:
    """A time as ISO text in UTC."""
    return (
        datetime.fromtimestamp(epoch_ms / 1000, UTC)
        .isoformat(timespec="milliseconds")
        .replace("+00:00", "Z")
    )


def as_fields(record: KafkaRecord, change: RowChange) -> dict[str, Any]:
    """A row change for `--json`."""
    return {
        "partition": record.partition,
        "offset": record.offset,
        "time": utc(record.time_ms),
        "committed": utc(change.origin.commit_ms) if change.origin.commit_ms else None,
        "key": None if record.key is None else record.key.decode("utf-8", "replace"),
        "op": change.op,
        "table": str(change.table.id),
        "before": change.before,
        "after": change.after,
    }


def line(record: KafkaRecord, change: RowChange) -> Text:
    """A row change as one line: an update shows its key and what it changed."""
    text = Text(f"{utc(record.time_ms)} {record.partition}@{record.offset} ", style="dim")
    text.append(f"{change.op.value:<8}", style=f"{STYLES[change.op]} not dim")
    text.append(f" {printable(str(change.table.id))}", style="bold not dim")
    before, after = change.before or {}, change.after or {}
    if change.op is not Op.UPDATE:
        for name, cell in (after or before).items():
            text.append_text(
                Text.assemble(" ", (f"{printable(name)}=", "cyan not dim"), _cell(cell))
            )
        return text
    for name in dict.fromkeys([*change.table.key, *after]):
        is_changed = name in before and name in after and before[name] != after[name]
        if name in after and (is_changed or name in change.table.key or name not in before):
            text.append_text(Text.assemble(" ", (f"{printable(name)}=", "cyan not dim")))
            text.append_text(
                Text.assemble(_cell(before[name]), ("→", "not dim")) if is_changed else Text()
            )
            text.append_text(_cell(after[name]))
    return text


def is_wanted(
    record: KafkaRecord,
    change: RowChange,
    tables: Collection[str],
    key: str | None,
    ops: Collection[str],
) -> bool:
    """Whether a row is asked for: `tables` are patterns of SCHEMA.TABLE or TABLE with * and ?,
    any case; `ops` lower case; empty: any."""
    names = (str(change.table.id).lower(), change.table.id.table.lower())
    if tables and not any(
        fnmatchcase(each, pattern.lower()) for pattern in tables for each in names
    ):
        return False
    return (not ops or change.op.lower() in ops) and (key is None or has_key(record, change, key))


def has_key(record: KafkaRecord, change: RowChange, wanted: str) -> bool:
    """Whether a row has this key: the record's key, with or without the `_` at its end, or the
    key columns' cells joined by `_`."""
    if record.key is not None and record.key.decode("utf-8", "replace") in (wanted, f"{wanted}_"):
        return True
    return any(_key(change, row) == wanted for row in (change.before, change.after) if row)


def _key(change: RowChange, row: Row) -> str | None:
    names = change.table.key
    return "_".join(row.get(name) or "" for name in names) if names else None


def _cell(cell: Cell) -> Text:
    if cell is None:
        return Text("NULL", style="magenta not dim")
    shown = printable(cell)
    return Text(
        shown if PLAIN.fullmatch(shown) and shown != "NULL" else f"'{shown}'", style="not dim"
    )


def printable(text: str) -> str:
    """Text whose control characters are spelled out, so that no value plays with the terminal."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
