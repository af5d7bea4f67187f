"""maxwellJson: the rows that Maxwell's daemon publishes, read only.

`insert`, `bootstrap-insert`, `update` and `delete` are rows; bootstrap marks, DDL and heartbeats
hold none. `old` holds the former values of columns that an update changed. Maxwell names no types:
a SET or JSON array is read as JSON text, and a binary column stays the base64 text that Maxwell
writes, so columns are marked `Unclear`; a BIT is a number. A record holds the columns that the
source logged, and shows no others. Maxwell must run with `output_nulls=true` (its default), else
NULL looks like a missing column. The format is described on Maxwell's page "Data format".
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from cdcbus.plugins.converters.json_cells import (
    are_names,
    cells,
    parsed,
    time_us,
    whole_number,
)
from cdcbus.plugins.converters.read_only import ReadOnly
from cdcbus.plugins.errors import ConversionError
from cdcbus.plugins.rowchange import Column, Op, Origin, Row, RowChange, Table, TableId, Unclear

_OPS = {
    "insert": Op.INSERT,
    "bootstrap-insert": Op.INSERT,
    "update": Op.UPDATE,
    "delete": Op.DELETE,
}
_WITHOUT_ROWS = {
    *("bootstrap-start", "bootstrap-complete", "heartbeat", "control"),
    *("database-create", "database-alter", "database-drop"),
    *("table-create", "table-alter", "table-drop"),
}


class MaxwellJson(ReadOnly):
    """The `maxwellJson` converter."""

    NAME = "maxwellJson"

    def from_bytes(self, value: bytes) -> list[RowChange]:
        """The row as one change. Raises ConversionError."""
        try:
            return parsed(value, read)
        except ValueError as error:
            raise ConversionError("not a maxwellJson record: not JSON") from error


def read(message: Any) -> list[RowChange]:
    """The row of a parsed message. Raises ConversionError."""
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        raise ConversionError(
            "not a maxwellJson record: an object with the keys database, table, type and data was "
            "expected"
        )
    kind = message["type"]
    if kind in _WITHOUT_ROWS:
        return []
    if kind not in _OPS:
        raise ConversionError("maxwellJson record whose type is none of Maxwell's")
    op = _OPS[kind]
    schema = message.get("database")
    name = message.get("table")
    if not isinstance(schema, str) or not isinstance(name, str):
        raise ConversionError("maxwellJson record without database and table")
    if "encrypted" in message:
        raise ConversionError(
            f"maxwellJson record of {schema}.{name} is encrypted: run Maxwell with encrypt=none"
        )
    data = message.get("data")
    old = message.get("old")
    is_old_row = old is None or isinstance(old, dict)
    if not isinstance(data, dict) or not data or not is_old_row:
        raise ConversionError(
            f"maxwellJson record of {schema}.{name}: data and old are not objects of columns"
        )
    row = cells(data)
    before: Row | None = None
    after: Row | None = row
    if op is Op.UPDATE:
        # Without `old` the former row is unknown.
        before = {} if old is None else {**row, **cells(old)}
    elif op is Op.DELETE:
        before = row
        after = None
    table = _table(TableId(schema, name), tuple(row), _key(message, schema, name))
    number = whole_number(message, "xoffset")
    # Maxwell writes `commit` only into the last row of a transaction.
    is_last = message.get("commit") is True
    return [RowChange(table, op, before, after, _origin(message), number, is_last)]


@lru_cache(maxsize=10_000)
def _table(name: TableId, columns: tuple[str, ...], key: tuple[str, ...]) -> Table:
    """One object per table and shape, as plans for a table are cached by its identity."""
    described = tuple(Column(column, unclear=Unclear.BYTES) for column in columns)
    return Table(name, described, key, is_described=False, has_old_rows=False)


def _key(message: Mapping[str, Any], schema: str, name: str) -> tuple[str, ...]:
    names = message.get("primary_key_columns") or []
    if not are_names(names):
        raise ConversionError(
            f"maxwellJson record of {schema}.{name}: primary_key_columns is not a list of names"
        )
    return tuple(names)


def _origin(message: Mapping[str, Any]) -> Origin:
    """The origin of a message: `ts` is in seconds; `position` is `file:position`."""
    file, _, pos = str(message.get("position") or "").rpartition(":")
    if not pos.isascii() or not pos.isdigit() or len(pos) >= 20:
        pos = "0"
    return Origin(
        file=file,
        pos=int(pos),
        gtid=str(message.get("gtid") or ""),
        server_id=whole_number(message, "server_id"),
        commit_us=time_us(message, "ts", 1_000_000),
    )
