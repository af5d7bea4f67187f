"""Row changes of a topic for people and for scripts, with cell values."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from rich.text import Text

from cdcbus.plugins.dates import utc_text
from cdcbus.plugins.kafka.topic_log import KafkaRecord
from cdcbus.plugins.rowchange import Cell, Op, Row, RowChange
from cdcbus.tasks.config.diagnostics import printable

PLAIN: Final = re.compile(r"[\w.:+-]+")
STYLES: Final = {Op.INSERT: "green", Op.UPDATE: "yellow", Op.DELETE: "red", Op.TRUNCATE: "bold red"}


def utc(epoch_ms: int) -> str:
    """A time as ISO text in UTC."""
    return utc_text(epoch_ms, "milliseconds", "T", "Z")


def as_fields(record: KafkaRecord, change: RowChange) -> dict[str, Any]:
    """A row change for `--json`."""
    committed = key = None
    if change.origin.commit_ms:
        committed = utc(change.origin.commit_ms)
    if record.key is not None:
        key = record.key.decode("utf-8", "replace")
    return {
        "partition": record.partition,
        "offset": record.offset,
        "time": utc(record.time_ms),
        "committed": committed,
        "key": key,
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
            text.append_text(_name(name)).append_text(_cell(cell))
        return text
    # The key comes first, then the columns in the record's order.
    for name in dict.fromkeys([*change.table.key, *after]):
        if name not in after:
            continue
        # A cell whose value before is not known may have changed, so it is shown.
        is_unknown = name not in before
        is_changed = not is_unknown and before[name] != after[name]
        if is_changed or is_unknown or name in change.table.key:
            text.append_text(_name(name))
            if is_changed:
                text.append_text(_cell(before[name])).append("→", "not dim")
            text.append_text(_cell(after[name]))
    return text


def _name(column: str) -> Text:
    return Text.assemble(" ", (f"{printable(column)}=", "cyan not dim"))


def is_wanted(
    record: KafkaRecord,
    change: RowChange,
    tables: Collection[str],
    key: str | None,
    ops: Collection[str],
) -> bool:
    """Whether a row matches a filter: `tables` are patterns of SCHEMA.TABLE or TABLE with * and ?,
    any case; `ops` lower case; empty: any."""
    if tables and not any(_is_of(change, pattern.lower()) for pattern in tables):
        return False
    if ops and change.op.lower() not in ops:
        return False
    return key is None or has_key(record, change, key)


def _is_of(change: RowChange, pattern: str) -> bool:
    name = change.table.id
    return fnmatchcase(str(name).lower(), pattern) or fnmatchcase(name.table.lower(), pattern)


def has_key(record: KafkaRecord, change: RowChange, wanted: str) -> bool:
    """Whether a row has this key: the record's key, with or without the `_` at its end, or the
    cells of the key columns joined by `_`."""
    if record.key is not None and record.key.decode("utf-8", "replace") in (wanted, f"{wanted}_"):
        return True
    names = change.table.key
    if not names:
        return False
    rows = filter(None, (change.before, change.after))
    return any(_joined(names, row) == wanted for row in rows)


def _joined(names: Sequence[str], row: Row) -> str:
    return "_".join(row.get(name) or "" for name in names)


def _cell(cell: Cell) -> Text:
    if cell is None:
        return Text("NULL", style="magenta not dim")
    shown = printable(cell)
    # Quoted where it would not be clear where the cell ends, or whether it is NULL.
    if not PLAIN.fullmatch(shown) or shown == "NULL":
        shown = f"'{shown}'"
    return Text(shown, style="not dim")


def key_text(record: KafkaRecord) -> str:
    """The record's key, as `printable`; empty where it has none."""
    if record.key is None:
        return ""
    return printable(record.key.decode("utf-8", "replace"))
